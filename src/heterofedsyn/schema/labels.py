"""Values, bins and groups of them as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta

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
    labels = []
    for group in range(int(own.max()) + 1):
        codes = np.flatnonzero(own[:known] == group)
        words = [_label(column, codes)] if codes.size else []
        if column.nullable and own[-1] == group:
            words.append(MISSING)
        labels.append(" or ".join(words))
    return tuple(labels)


def _label(column: Column, codes: Integers) -> str:
    if not isinstance(column, BinnedColumn):
        words = words_of(column)
        named = [words[int(code)] for code in codes[:MOST_NAMED]]
        more = codes.size - len(named)
        return ", ".join(named) + (f" and {more:,} more" if more else "")
    if np.diff(codes).max(initial=1) > 1:
        return f"{codes.size:,} stretches between {' and '.join(_ends(column, codes))}"
    low, high = _ends(column, codes)
    return low if low == high else f"{low} to {high}"


def _ends(column: BinnedColumn, codes: Integers) -> tuple[str, str]:
    """The smallest and the largest value of some codes; atoms of others do not count."""
    grid, unit = column.grid, unit_of(column)
    firsts, lasts = grid.spans
    low, high = firsts[codes].min(), lasts[codes].max()
    atoms = grid.layout.atom_of_code[codes]
    others = {*grid.atoms.tolist()} - {*grid.atoms[atoms[atoms >= 0]].tolist()}
    above = below = ""
    if is_whole(column):
        while low in others:  # every bin has a value that is no atom
            low += 1
        while high in others:
            high -= 1
    else:
        above, below = "above " * (low in others), "below " * (high in others)
    return (
        above + value_text(column, float(low) * unit),
        below + value_text(column, float(high) * unit),
    )


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
