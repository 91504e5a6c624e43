"""A data dictionary in Markdown: what each column holds, and how far to trust it."""

from __future__ import annotations

from heterofedsyn.exports.description import (
    ColumnFacts,
    column_facts,
    guarantee,
    limits,
    listed,
    origin,
    title,
)
from heterofedsyn.exports.quoting import code
from heterofedsyn.hub.release import Release

HEAD = ("column", "type", "range or values", "rules", "measured with", "standard error")


def dictionary(release: Release) -> str:
    """One page about the columns of a release."""
    said = release.run.said_about
    lines = [f"# {code(title(release)) if said.title else title(release)}", ""]
    lines += [f"- {name}: {code(text)}" for name, text in said.said if name != "title"]
    lines += ["", origin(release, code), "", guarantee(release, code), ""]
    lines += ["## Columns", "", _row(HEAD), _row(["---"] * len(HEAD))]
    lines += [_row(_cells(facts)) for facts in column_facts(release)]
    lines += [
        "",
        "The standard error is that of the share of one typical value, or bin of a range, as a "
        "part of all rows, from the noise alone: two in three shares are within one of it, 19 in "
        "20 within two.",
        "",
        "## What to be careful with",
        "",
        *(f"- {line}" for line in limits(release, code)),
    ]
    return "\n".join(lines) + "\n"


def _cells(facts: ColumnFacts) -> list[str]:
    follows = "" if facts.follows is None else f"follows from {code(facts.follows)}"
    return [
        code(facts.name),
        facts.kind,
        facts.allowed(code),
        "; ".join(map(code, facts.rules)),
        follows or (listed([code(name) for name in facts.partners], "column")),
        facts.trust(),
    ]


def _row(cells: list[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"
