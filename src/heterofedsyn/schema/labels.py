"""Values, bins and groups of them as people read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from itertools import pairwise

import numpy as np

from heterofedsyn._arrays import Integers
from heterofedsyn.schema.binned import (
    BinnedColumn,
    DateColumn,
    DatetimeColumn,
    IntegerColumn,
    NumberColumn,
)
from heterofedsyn.schema.columns import CategoricalColumn, Column

MISSING = "missing"

MOST_NAMED = 3
"""Categories of one group that are named; more are counted."""


def labels_of(column: Column, groups: Integers | None = None) -> tuple[str, ...]:
    """What every value of a column stands for, or every group of values.

    >>> labels_of(IntegerColumn("age", 0, 99, bins=4, nullable=True))
    ('0 to 24', '25 to 49', '50 to 74', '75 to 99', 'missing')
    >>> labels_of(IntegerColumn("stays", 0, 9, bins=2, atoms=(0,)))
    ('0', '1 to 4', '5 to 9')
    >>> labels_of(CategoricalColumn("ward", values=("a", "b", "c")), np.array([0, 1, 1]))
    ('a', 'b, c')
    """
    known = column.size - column.nullable
    own = np.arange(column.size) if groups is None else groups
    order = np.argsort(own[:known], kind="stable")
    ends = np.searchsorted(own[:known][order], np.arange(int(own.max()) + 2))
    label = _stretches(column) if isinstance(column, BinnedColumn) else _names(words_of(column))
    labels = [label(order[first:last]) if first < last else "" for first, last in pairwise(ends)]
    if column.nullable:
        with_missing = int(own[-1])
        labels[with_missing] = " or ".join(filter(None, (labels[with_missing], MISSING)))
    return tuple(labels)


def _names(words: Sequence[str]) -> Callable[[Integers], str]:
    """What some categories are called."""

    def label(codes: Integers) -> str:
        named = [words[int(code)] for code in codes[:MOST_NAMED]]
        more = codes.size - len(named)
        return ", ".join(named) + (f" and {more:,} more" if more else "")

    return label


def _stretches(column: BinnedColumn) -> Callable[[Integers], str]:
    """From where to where some codes of a range go; atoms that are not among them do not count."""
    grid, unit = column.grid, unit_of(column)
    firsts, lasts = grid.spans
    atoms = frozenset(grid.atoms.tolist())
    is_atom = grid.layout.atom_of_code >= 0

    def label(codes: Integers) -> str:
        low, high = firsts[codes].min(), lasts[codes].max()
        here = {*firsts[codes[is_atom[codes]]].tolist()}
        above = below = ""
        if is_whole(column):
            while low in atoms and low not in here:  # every bin has a value that is no atom
                low += 1
            while high in atoms and high not in here:
                high -= 1
        else:
            above = "above " * (low in atoms and low not in here)
            below = "below " * (high in atoms and high not in here)
        ends = (
            above + value_text(column, float(low) * unit),
            below + value_text(column, float(high) * unit),
        )
        if np.diff(codes).max(initial=1) > 1:
            return f"{codes.size:,} stretches between {' and '.join(ends)}"
        return ends[0] if ends[0] == ends[1] else " to ".join(ends)

    return label


def words_of(column: Column) -> Sequence[str]:
    """The values of a column that has no range."""
    return column.values if isinstance(column, CategoricalColumn) else ("false", "true")


def value_text(column: BinnedColumn, value: float) -> str:
    """A value of a range as people write it."""
    if isinstance(column, DatetimeColumn | DateColumn):
        whole_days = isinstance(column, DateColumn) or (column.max - column.min).days > 3
        return moment_of(column, value).strftime("%Y-%m-%d" if whole_days else "%Y-%m-%d %H:%M")
    return f"{value:,.0f}" if isinstance(column, IntegerColumn) else f"{value:,.8g}"


def unit_of(column: Column) -> float:
    """What one unit of the column's grid stands for."""
    return 1 / column.scale if isinstance(column, NumberColumn) else 1.0


def is_whole(column: BinnedColumn) -> bool:
    """Whether there is nothing between two neighbouring values."""
    return not isinstance(column, NumberColumn) or column.decimals is not None


def moment_of(column: DatetimeColumn | DateColumn, value: float) -> datetime:
    """The moment of a number on the column's scale."""
    start = datetime(1970, 1, 1)
    if isinstance(column, DateColumn):
        return start + timedelta(days=value)
    return start + timedelta(seconds=value)


def number_of(value: float | date) -> float:
    """A moment as seconds since 1970, a date as days, a number as it is."""
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1)) / timedelta(seconds=1)
    if isinstance(value, date):
        return float((value - date(1970, 1, 1)).days)
    return float(value)
