"""Which bars stand for the values of an attribute, and what is written beside them."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from heterofedsyn._arrays import Floats, Integers
from heterofedsyn._words import count
from heterofedsyn.evaluation.binning import Numeric
from heterofedsyn.hub.release import Release
from heterofedsyn.schema import BooleanColumn, CategoricalColumn, Column, DatetimeColumn
from heterofedsyn.schema.labels import (
    is_whole,
    number_of,
    unit_of,
    value_text,
    words_of,
)
from heterofedsyn.synthesis.grid import grouped

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
        words = words_of(column)
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


@dataclass(frozen=True, eq=False)
class Bars:
    """The bars of one attribute: their shares of all rows, and the standard errors of these."""

    display: Display
    shares: Floats
    errors: Floats


def bars_of(release: Release, name: str) -> Bars:
    """The bars of an attribute as the model knows it."""
    counts = released_counts(release, name)
    display = Display.of(release.schema.column(name), counts)
    errors = release.accuracy((name,), groups=display.groups.tolist()).standard_error
    total = total_of(release)
    return Bars(display, grouped(counts, display.groups) / total, errors / total)


def released_counts(release: Release, name: str) -> Floats:
    """An attribute's counts after the noise was dealt with, over all populations."""
    counts = [targets.estimates.fitted(name) for targets in release.model.targets]
    return np.asarray(np.sum(counts, axis=0), np.float64)


def total_of(release: Release) -> float:
    """How many rows the model tells of."""
    return sum(targets.estimates.total for targets in release.model.targets)


def _span(column: Numeric, low: float, high: float) -> str:
    """What a bar stands for."""
    end = high - unit_of(column) if is_whole(column) else high
    if end <= low and not isinstance(column, DatetimeColumn):
        return value_text(column, low)
    return f"{value_text(column, low)} to {value_text(column, end)}"


def describe(column: Column) -> str:
    """The kind of a column and what it may hold."""
    if isinstance(column, Numeric):
        low, high = (value_text(column, number_of(v)) for v in (column.min, column.max))
        bins, declared = column.grid.layout.bins, column.bins or 1
        cut = f" ({declared:,} in the schema, cut by its rules)" if bins != declared else ""
        return f"{column.kind}, {low} to {high} in {count(bins, 'bin')}{cut}"
    ordered = "ordered, " if isinstance(column, CategoricalColumn) and column.ordered else ""
    return f"{column.kind}, {ordered}{count(len(words_of(column)), 'value')}"
