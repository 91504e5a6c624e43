"""A release in ten lines, for whoever prints it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from heterofedsyn._words import count

if TYPE_CHECKING:
    from heterofedsyn.hub.release.release import Release

MOST_LETTERS = 80
"""Of a list of names."""


def facts_of(release: Release) -> list[tuple[str, str]]:
    """What a release is, what it promises, and what to do with it, in pairs of words."""
    schema, run = release.schema, release.run
    measured = len(release.model.pairs)
    possible = len(schema.domain) * (len(schema.domain) - 1) // 2
    column = schema.label or schema.domain.names[0]
    facts = [
        ("release", f"a synthetic table, made with {run.method} (heterofedsyn {run.version})"),
        *((label.lower(), _cut(text)) for label, text in run.said_about.worded),
        ("rows", f"{run.noisy_total:,}, a noisy count; any number can be drawn"),
        ("columns", f"{len(schema.columns):,}: {_named([c.name for c in schema.columns])}"),
        ("sites", f"{len(run.sites):,}: {_named(run.sites)}"),
        ("guarantee", release.privacy.guarantee),
        (
            "pairs",
            f"{measured:,} of {count(possible, 'pair')} of columns measured together; others "
            "follow from these",
        ),
        ("rules", f"{len(schema.rules):,} that every row keeps" if schema.rules else "none"),
    ]
    if release.privacy.simulated_noise:
        facts.append(("noise", "SIMULATED, for research: anyone with the seed can undo it"))
    if run.remarks:
        facts.append(("remarks", f"{len(run.remarks):,}, in release.run.remarks"))
    facts.append(
        ("next", f"release.sample(1_000), release.accuracy({column!r}), release.ask('SELECT ...')")
    )
    return facts


def _named(names: Sequence[str]) -> str:
    """As many names as fit on a line."""
    return _cut(", ".join(names))


def _cut(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 4].rstrip(", ") + " ..."
