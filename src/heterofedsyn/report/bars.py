"""Which bars stand for the values of an attribute, and what is written beside them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

import numpy as np

from heterofedsyn._arrays import Floats, Integers
from heterofedsyn._words import count
from heterofedsyn.evaluation.binning import Numeric
from heterofedsyn.schema import (
    BooleanColumn,
    CategoricalColumn,
    Column,
    DateColumn,
    DatetimeColumn,
    IntegerColumn,
    NumberColumn,
)

MOST_BARS = 24
"""Stretches of an ordered attribute that are drawn."""

MOST_CATEGORIES = 10
"""Categories that are drawn by themselves."""


@dataclass(frozen=True, eq=False)
class Display:
    """How the values of one attribute are put together for the eye.

    Attributes:
        groups: the bar of each value.
        labels: what each bar stands for.
        edges: ends of the bars on the attribute's own scale, without those for single values and
            missing ones; None for categories.
        single: whether the first bar is the minimum alone.
        missing: whether the last bar is missing values.
    """

    groups: Integers
    labels: tuple[str, ...]
    edges: Floats | None
    single: bool
    missing: bool

    @property
    def ranged(self) -> slice:
        """The bars that stand on the scale."""
        return slice(int(self.single), len(self.labels) - self.missing)

    @classmethod
    def of(cls, column: Column, counts: Floats) -> Display:
        """Equal stretches of a range; of categories the most frequent, and the rest together."""
        if isinstance(column, Numeric):
            return cls._stretches(column)
        words = _words(column)
        known = len(words)
        if known <= MOST_CATEGORIES + 1:
            kept = np.arange(known)
        else:
            kept = np.argsort(-counts[:known], kind="stable")[:MOST_CATEGORIES]
            kept = np.sort(kept) if column.ordered else kept
        if not column.ordered and not isinstance(column, BooleanColumn):
            kept = kept[np.argsort(-counts[kept], kind="stable")]
        groups = np.full(column.size, kept.size)
        groups[kept] = np.arange(kept.size)
        labels = [words[int(place)] for place in kept]
        if kept.size < known:
            labels.append(f"{known - kept.size:,} others")
        if column.nullable:
            groups[-1] = len(labels)
            labels.append("missing")
        return cls(groups, tuple(labels), None, False, column.nullable)

    @classmethod
    def _stretches(cls, column: Numeric) -> Display:
        layout = column.grid.layout
        bins = layout.bins
        per = math.ceil(bins / MOST_BARS)
        single = bool(column.atoms) and column.atoms[0] == column.min
        groups = layout.bin_of_code // per + single
        if single:
            groups[0] = 0
        starts = np.arange(0, bins, per)
        edges = column.grid.edges[np.append(starts, bins)] * unit_of(column)
        labels = [_span(column, low, high) for low, high in itertools.pairwise(edges)]
        if single:
            labels.insert(0, f"exactly {value_text(column, number_of(column.min))}")
        if column.nullable:
            groups = np.append(groups, len(labels))
            labels.append("missing")
        return cls(groups, tuple(labels), edges, single, column.nullable)


def value_text(column: Numeric, value: float) -> str:
    """A value of a range as people write it."""
    if isinstance(column, DatetimeColumn | DateColumn):
        whole_days = isinstance(column, DateColumn) or (column.max - column.min).days > 3
        return moment_of(column, value).strftime("%Y-%m-%d" if whole_days else "%Y-%m-%d %H:%M")
    return f"{value:,.0f}" if isinstance(column, IntegerColumn) else f"{value:,.8g}"


def unit_of(column: Column) -> float:
    """What one unit of the column's grid stands for."""
    return 1 / column.scale if isinstance(column, NumberColumn) else 1.0


def is_whole(column: Numeric) -> bool:
    """Whether there is nothing between two neighbouring values."""
    return not isinstance(column, NumberColumn) or column.decimals is not None


def moment_of(column: DatetimeColumn | DateColumn, value: float) -> datetime:
    """The moment of a number on the column's scale."""
    start = datetime(1970, 1, 1)
    if isinstance(column, DateColumn):
        return start + timedelta(days=value)
    return start + timedelta(seconds=value)


def _span(column: Numeric, low: float, high: float) -> str:
    """What a bar stands for."""
    end = high - unit_of(column) if is_whole(column) else high
    if end <= low and not isinstance(column, DatetimeColumn):
        return value_text(column, low)
    return f"{value_text(column, low)} to {value_text(column, end)}"


def number_of(value: float | date) -> float:
    """A moment as seconds since 1970, a date as days, a number as it is."""
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1)) / timedelta(seconds=1)
    if isinstance(value, date):
        return float((value - date(1970, 1, 1)).days)
    return float(value)


def _words(column: Column) -> Sequence[str]:
    return column.values if isinstance(column, CategoricalColumn) else ("false", "true")


def describe(column: Column) -> str:
    """The kind of a column and what it may hold."""
    if isinstance(column, Numeric):
        low, high = (value_text(column, number_of(v)) for v in (column.min, column.max))
        return f"{column.kind}, {low} to {high} in {count(column.bins or 1, 'bin')}"
    ordered = "ordered, " if isinstance(column, CategoricalColumn) and column.ordered else ""
    return f"{column.kind}, {ordered}{count(len(_words(column)), 'value')}"
