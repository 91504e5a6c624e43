"""The first screen: what a table is good for and what it is not, in words from its figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from heterofedsyn import drawing
from heterofedsyn._words import count, percent
from heterofedsyn.hub.release import Release
from heterofedsyn.report.blocks import Block, Folded, Marked, Points, Section, Table, Text, Warn
from heterofedsyn.report.chances import in_thousand, most_right
from heterofedsyn.report.heat import both
from heterofedsyn.report.privacy import SIMULATED
from heterofedsyn.report.purpose import purpose_of
from heterofedsyn.report.verdicts import (
    MOST_GOOD,
    MOST_ROUGH,
    Verdict,
    Word,
    careful,
    column_verdicts,
    trusted_pairs,
)
from heterofedsyn.schema import Clique

MOST_NAMED = 6
"""Pairs, or columns without any, that are named on the first screen."""

_TONES = {Word.GOOD: "good", Word.ROUGH: "rough", Word.NOT_ALONE: "poor"}


def summary_section(release: Release) -> Section:
    """Verdicts, pairs to trust, what was not measured, and the guarantee in one line."""
    verdicts = column_verdicts(release)
    blocks: list[Block] = [Warn(SIMULATED)] if release.privacy.simulated_noise else []
    trusted = trusted_pairs(release)
    blocks.append(Points(tuple(_points(release, verdicts, trusted))))
    if len(trusted) > MOST_NAMED:
        blocks.append(Folded(_trusted(trusted)))
    for word in Word:
        own = [verdict for verdict in verdicts if verdict.word is word]
        if own:
            mark = f"{word.capitalize()}: {len(own)} of {count(len(verdicts), 'column')}"
            items = tuple((verdict.name, verdict.reason) for verdict in own)
            blocks.append(Marked(_TONES[word], mark, items))
    blocks.append(
        Text(
            "The verdict on a column follows from published noise alone. “Off” is how many rows "
            "noise is expected to put into the wrong bar of the pictures below: good up to "
            f"{percent(MOST_GOOD)}, rough up to {percent(MOST_ROUGH)}, beyond that not to be used "
            "alone. Within a bin of the schema numbers are spread evenly, whatever they were."
        )
    )
    return Section("verdicts", "What this table is good for", tuple(blocks))


def _trusted(trusted: Mapping[Clique, float]) -> Table:
    rows = tuple((both(pair), percent(noise)) for pair, noise in trusted.items())
    head = ("pair", "rows that noise puts into a wrong cell")
    return Table(f"All {count(len(trusted), 'pair')} that can be trusted", head, rows)


def _points(
    release: Release, verdicts: Sequence[Verdict], trusted: Mapping[Clique, float]
) -> list[tuple[str, str]]:
    measured = [*release.model.pairs]
    points = purpose_of(release)
    points.append(("Good for", _good_for(verdicts, trusted)))
    points.append(("Not good for", _not_good_for(release)))
    points.append(("Be careful with", careful(verdicts)))
    points.append(("Not measured", _not_measured(release, measured)))
    points.append(("Guarantee", _guarantee(release)))
    return points


def _good_for(verdicts: Sequence[Verdict], trusted: Mapping[Clique, float]) -> str:
    good = sum(verdict.word is Word.GOOD for verdict in verdicts)
    rough = sum(verdict.word is Word.ROUGH for verdict in verdicts)
    words = [
        f"Shares and averages of single columns: {good} of {len(verdicts)} are good, {rough} rough."
        if good + rough
        else "No column is good or rough by itself: try out programs on it, and quote nothing."
    ]
    if trusted:
        named = "; ".join(both(pair) for pair in [*trusted][:MOST_NAMED])
        more = len(trusted) - MOST_NAMED
        words.append(
            f"How two columns go together: {count(len(trusted), 'pair')} can be trusted, first of "
            f"all {named}{f' and {more:,} more' if more > 0 else ''}."
        )
    else:
        words.append("No pair of columns can be trusted.")
    words.append("Trying out programs and questions before asking for the real rows.")
    return " ".join(words)


def _not_good_for(release: Release) -> str:
    together = sum(len(targets.triples) for targets in release.model.targets)
    told = f" and from {count(together, 'table')} of three columns" if together else ""
    return (
        "Finding or describing single people: every row is invented. Groups of fewer than about "
        f"{_drowned(release):,} rows: noise is as large as they are. Questions about three or "
        f"more columns at once: only what follows from pairs{told} is in the table."
    )


def _drowned(release: Release) -> int:
    """Rows that two standard errors of a value make up, in a column in the middle."""
    errors = [
        float(np.median(release.accuracy((name,)).standard_error))
        for name in release.schema.domain.names
    ]
    return round_up(2 * float(np.median(errors)))


def round_up(rows: float) -> int:
    """A number of rows with two digits, never below.

    >>> round_up(0.3), round_up(7.2), round_up(123.0), round_up(4_560.0)
    (1, 8, 130, 4600)
    """
    unit: int = 10 ** max(0, math.floor(math.log10(max(rows, 1.0))) - 1)
    return max(1, math.ceil(rows / unit) * unit)


def _not_measured(release: Release, measured: Sequence[Clique]) -> str:
    every = len(release.schema.domain.pairs())
    if not every:
        return "There is one column, so there are no pairs."
    missing = every - len(measured)
    if not missing:
        return f"All {count(every, 'pair')} of columns were measured together."
    seen = {name for pair in measured for name in pair}
    alone = [name for name in release.schema.domain.names if name not in seen]
    words = (
        f"{missing:,} of {count(every, 'pair')} of columns: there the table holds only what "
        "follows from the others, which may be nothing."
    )
    if alone:
        named = ", ".join(drawing.short(name, 40) for name in alone[:MOST_NAMED])
        more = len(alone) - MOST_NAMED
        words += (
            f" In no pair, and so independent of all others: {named}"
            f"{f' and {more:,} more' if more > 0 else ''}."
        )
    return words


def _guarantee(release: Release) -> str:
    statement = release.privacy
    if statement.simulated_noise:
        return "None, since the noise can be undone: not to be published if the people are real."
    unit = statement.whom
    return (
        f"Epsilon {statement.epsilon:g} for every {unit}: who wants to know whether one {unit} is "
        f"in it, and knows everything else, guesses right {in_thousand(most_right(statement.rho))}"
        ". All files of the release, report.html among them, may be published."
    )
