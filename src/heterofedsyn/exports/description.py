"""What every export says of a release, all of it from the release alone.

Names, values and rules are a stranger's words: a writer says how it quotes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from heterofedsyn._words import count, percent
from heterofedsyn.errors import UsageError
from heterofedsyn.hub.release import Release
from heterofedsyn.hub.release.sampling import is_formula
from heterofedsyn.schema import BooleanColumn, CategoricalColumn, Clique, Column, KeyColumn
from heterofedsyn.schema.labels import words_of
from heterofedsyn.schema.rules import Determines

Quote: TypeAlias = Callable[[str], str]
"""A stranger's words as a writer shows them."""

MOST_VALUES, MOST_PAIRS = 200, 6
"""That are listed; those after them are counted."""

_LISTED = BooleanColumn | CategoricalColumn

RESPELT = (
    "In synthetic.csv an apostrophe stands before names and values that a spreadsheet would take "
    "for formulas; synthetic.parquet has them as they are."
)


@dataclass(frozen=True)
class ColumnFacts:
    """What is published about one column.

    Attributes:
        kind: its type in the schema.
        ends: the first and the last value of its range, or None.
        values: those that are listed, in their order.
        prefix: of the identifiers of a key, which makes them text; None if they are numbers.
        ordered: whether listed values have an order.
        follows: the column that its value follows from, or None.
        partners: the columns that it was measured together with.
        error: one standard error of the share of a typical value, or bin of a range; None for a
            key; every other column is measured by itself, or follows from one that is.
    """

    name: str
    kind: str
    ends: tuple[str, str] | None
    values: tuple[str, ...]
    nullable: bool
    prefix: str | None
    ordered: bool
    rules: tuple[str, ...]
    follows: str | None
    partners: tuple[str, ...]
    error: float | None

    def allowed(self, quote: Quote) -> str:
        """What a cell may hold, in words."""
        if self.kind == "key":
            return "invented: it tells nothing"
        if self.ends is not None:
            said = " to ".join(self.ends)
        else:
            said = listed([quote(value) for value in self.values], "value")
        return said + (", or missing" if self.nullable else "")

    def trust(self) -> str:
        """How far a share of the column can be off, in words."""
        return "not measured" if self.error is None else f"{percent(self.error)} of all rows"


def column_facts(release: Release) -> tuple[ColumnFacts, ...]:
    """Every column of the schema, in its order."""
    schema = release.schema
    pairs, _ = split_pairs(release)
    partners: dict[str, list[str]] = {column.name: [] for column in schema.columns}
    for first, second in pairs:
        partners[first].append(second)
        partners[second].append(first)
    follows = {rule.target: rule.source for rule in schema.rules if isinstance(rule, Determines)}
    return tuple(
        ColumnFacts(
            name=column.name,
            kind=column.kind,
            ends=_ends(column),
            values=_values(column),
            nullable=column.nullable,
            prefix=column.prefix if isinstance(column, KeyColumn) else None,
            ordered=column.ordered,
            rules=tuple(rule.words for rule in schema.rules if column.name in rule.columns),
            follows=follows.get(column.name),
            partners=tuple(partners[column.name]),
            error=_error(release, schema.rulebook.source_of(column.name)),
        )
        for column in schema.columns
    )


def split_pairs(release: Release) -> tuple[list[Clique], list[Clique]]:
    """Pairs of columns that were measured together, and those that were not."""
    measured = {*release.model.pairs}
    every = list(release.schema.domain.pairs())
    return [p for p in every if p in measured], [p for p in every if p not in measured]


def title(release: Release) -> str:
    """What the table is called."""
    return release.run.said_about.title or f"Synthetic table {release.run.study[:12]}"


def unit_of_privacy(release: Release, quote: Quote) -> str:
    """Whom the guarantee protects, and what of theirs."""
    column, whom = release.privacy.unit_column, release.privacy.whom
    return whom if column is None else f"{whom} (all rows with one value of {quote(column)})"


def guarantee(release: Release, quote: Quote) -> str:
    """The promise in one sentence, and whether it holds."""
    privacy = release.privacy
    if privacy.simulated_noise:
        return (
            "NO GUARANTEE: the noise came from a seed, for research; whoever has the seed can undo "
            "it."
        )
    return (
        f"Differential privacy for every {unit_of_privacy(release, quote)}: epsilon "
        f"{privacy.epsilon:g}, delta {privacy.delta:g} (rho {privacy.rho:.4g} of zero-concentrated "
        f"differential privacy), trust model {word(privacy.trust, quote)}."
    )


def origin(release: Release, quote: Quote) -> str:
    """How the rows came about."""
    return (
        f"The rows are synthetic: no row is a record of anybody. {held(release)} counted, every "
        "count got discrete Gaussian noise before it was used, and rows were drawn from a model of "
        "the noisy counts (method "
        f"{word(release.run.method, quote)} of heterofedsyn "
        f"{word(release.run.version, quote)}). About "
        f"{count(release.run.noisy_total, 'record')} stand behind them; the exact number is "
        "private too."
    )


def held(release: Release) -> str:
    """Whose records were counted, with what a release does not know of them."""
    if release.run.pooled:
        return "The records of one pool, which one party holds, were"
    number = len(release.run.sites)
    if number == 1:
        return "The records of one site were"
    return (
        f"The records of {count(number, 'site')} (or of as many parts of one simulated study: a "
        "release does not tell them apart) were"
    )


def limits(release: Release, quote: Quote) -> list[str]:
    """What the table is not good for, from its own figures."""
    lines = []
    known = [
        (facts.error, facts.name) for facts in column_facts(release) if facts.error is not None
    ]
    if known:
        (least, _), (most, worst) = min(known), max(known)
        lines.append(
            "Noise: the share of one value, or one bin of a range, has a standard error between "
            f"{percent(least)} and {percent(most)} of all rows, the largest in {quote(worst)}; "
            "values that are rarer than twice that say little."
        )
    pairs, others = split_pairs(release)
    lines.append(
        f"{len(pairs):,} of {count(len(pairs) + len(others), 'pair')} of columns were measured "
        "together. What holds between other columns only follows from these, or is missing."
    )
    if others:
        names = [" with ".join(map(quote, pair)) for pair in others]
        lines.append(
            f"Not measured together: {listed(names, 'pair', MOST_PAIRS)}; the data dictionary says "
            "for each column with which others it was measured."
        )
    together = sum(len(targets.triples) for targets in release.model.targets)
    counted = f"but for {count(together, 'table')} with the label, " if together else ""
    lines.append(
        f"What holds between three or more columns at once was not measured, {counted}unless it is "
        "a rule of the schema or follows from pairs."
    )
    lines += spelling(release)
    remarks = release.run.remarks
    lines += [f"Whoever made the release remarks: {quote(remark)}." for remark in remarks]
    return lines


def vouched(release: Release, *names: str) -> tuple[str, str]:
    """The first of these files whose SHA-256 the model knows, and that SHA-256.

    Raises:
        UsageError: it knows none.
    """
    for name in names:
        if name in release.files:
            return name, release.files[name]
    raise UsageError(
        f"the model vouches for no {' or '.join(names)}, so no file can be described; save the "
        "release to a folder and load it from there"
    )


def spelling(release: Release) -> list[str]:
    """That `synthetic.csv` has other names or values than the schema, if it has."""
    changed = release.run.safe_csv is True and any(
        is_formula(text)
        for column in release.schema.columns
        for text in (column.name, getattr(column, "prefix", None) or "", *_values(column))
    )
    return [RESPELT] if changed else []


def check_spelling(release: Release) -> None:
    """Refuse to describe a CSV whose names or values are not spelt as in the schema.

    Raises:
        UsageError: the release was saved with `safe_csv`, which changed some of them.
    """
    if spelling(release):
        raise UsageError(
            "synthetic.csv was written with --safe-csv and has apostrophes before names or values "
            "that look like formulas, so it is not as the schema says; read synthetic.parquet, or "
            "write the release again: load(DIR).save(OTHER)"
        )


def word(text: str, quote: Quote) -> str:
    """A word that should be one of ours, quoted if it is not.

    >>> word("wavetree", repr), word("<b>", repr)
    ('wavetree', "'<b>'")
    """
    return text if re.fullmatch(r"[\w.+-]+", text, re.ASCII) else quote(text)


def listed(words: Sequence[str], noun: str, most: int = MOST_VALUES) -> str:
    """Words in a row; the last of very many are counted.

    >>> listed(["a", "b", "c"], "value", 2)
    'a, b and 1 value more'
    """
    rest = len(words) - most
    if rest > 0:
        return f"{', '.join(words[:most])} and {count(rest, noun)} more"
    return ", ".join(words) or "none"


def _ends(column: Column) -> tuple[str, str] | None:
    low, high = getattr(column, "min", None), getattr(column, "max", None)
    return None if low is None or high is None else (str(low), str(high))


def _values(column: Column) -> tuple[str, ...]:
    return tuple(words_of(column)) if isinstance(column, _LISTED) else ()


def _error(release: Release, name: str) -> float | None:
    if isinstance(release.schema.column(name), KeyColumn):
        return None
    return float(np.median(release.accuracy(name).fraction))
