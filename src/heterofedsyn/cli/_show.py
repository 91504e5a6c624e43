"""How commands talk to people: progress on stderr, tables and JSON on stdout."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from heterofedsyn._words import Pace, count
from heterofedsyn.simulate.run import RoundReport

if TYPE_CHECKING:
    from heterofedsyn.hub.statement import PrivacyStatement


def note(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr, flush=True)


def show_round(report: RoundReport) -> None:
    """One finished round as a line of progress."""
    sent = list(report.sent.values())
    who = f"each of {len(sent)} sites" if len(sent) > 1 else next(iter(report.sent))
    note(
        f"  round {report.number + 1}: {report.label}, {count(report.parts, 'release')} "
        f"from {who}, {size(sum(sent))}"
    )


def pace(doing: str) -> Pace:
    """A line on stderr every few seconds while something long is going on."""
    return Pace(lambda text: note(f"{doing}: {text}"))


def size(many: int) -> str:
    """Bytes for people.

    >>> size(1_234_567)
    '1.2 MB'
    """
    if many < 1_000:
        return f"{many} B"
    return f"{many / 1e3:.1f} kB" if many < 1e6 else f"{many / 1e6:.1f} MB"


def show_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on stdout; the first column is text, the others are figures."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", header_style="bold")
    for place, name in enumerate(head):
        justify: Literal["left", "right"] = "left" if place == 0 else "right"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=place > 0)
    for row in rows:
        table.add_row(*row)
    # Names of columns are shown as they are: [this] is no colour.
    width = None if sys.stdout.isatty() else 100
    Console(width=width, markup=False, emoji=False, highlight=False).print(table)


def guarantee(privacy: PrivacyStatement) -> str:
    """The promise in one sentence."""
    return (
        f"epsilon {privacy.epsilon:g}, delta {privacy.delta:g} for every "
        f"{protected(privacy.unit_column)} "
        f"(rho {privacy.rho:.4g}, trust {privacy.trust})"
    )


def protected(unit: str | None) -> str:
    """Whom a guarantee protects, given the column that tells people apart."""
    return "record" if unit is None else f"person ({unit})"
