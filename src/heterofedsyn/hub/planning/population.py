"""Invented tables: what rows might look like, as counts that answer any question of a study.

Every row has one of a few hidden classes. A column that is tied to them follows its row's class,
any other ignores it, so that the counts of every pair are known without a single row; there may
be 10^12 of them. Nothing here has ever seen data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from heterofedsyn._arrays import Floats, Integers
from heterofedsyn.hub.methods.grouping import waved
from heterofedsyn.marginals.counts import Counts, Side, View
from heterofedsyn.schema import Column, IntegerColumn, NumberColumn, Schema

TURNS = 20
"""Invented tables after which every column had each shape below as often as said."""

FROM_ZERO = "pile " * 8 + "skewed " * 6 + "uneven " * 2 + "bell " * 1 + "heaps " * 3
ELSEWHERE = "pile " * 1 + "skewed " * 5 + "uneven " * 6 + "bell " * 5 + "heaps " * 3
"""How often ordered columns have which shape: amounts and counts start at 0 and pile up there,
ages and sizes do not. Fitted to public tables; `test_forecast` says to which."""

CLASSES = 16
"""A tied column lies in one of so many stretches of equal mass, by its row's class."""

STRONG = 0.9
"""Share of rows in which two tied columns go together."""


@dataclass(frozen=True, eq=False)
class Population:
    """The rows of one invented table.

    Attributes:
        classes: how many rows each class has.
        counts: for every column how many rows of each class have each value.
        tied: the columns that depend on each other.
    """

    schema: Schema
    classes: Integers
    counts: Mapping[str, Integers]
    tied: frozenset[str]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.classes.sum())

    def __add__(self, other: Population) -> Population:
        """The rows of both; the same columns are tied."""
        counts = {name: own + other.counts[name] for name, own in self.counts.items()}
        return Population(self.schema, self.classes + other.classes, counts, self.tied)

    def single(self, name: str) -> Integers:
        """How many rows have each value."""
        values: Integers = self.counts[name].sum(axis=0)
        return values

    def expected(self, first: Integers, *others: Integers) -> Floats:
        """The counts of columns, given those of each by class; within one they go apart."""
        many = np.maximum(self.classes, 1)[:, None]
        table: Floats = first / many
        for other in others[:-1]:
            table = (table[:, :, None] * (other / many)[:, None, :]).reshape(len(table), -1)
        joint: Floats = table.T @ others[-1].astype(np.float64)
        return joint.reshape(*(side.shape[1] for side in (first, *others)))


@dataclass(frozen=True, eq=False)
class Likeness:
    """How rows are distributed; populations of any size can be drawn.

    Attributes:
        shapes: the distribution of every column in each class.
    """

    schema: Schema
    shapes: Mapping[str, Floats]
    tied: frozenset[str]

    def draw(self, rows: int, rng: np.random.Generator) -> Population:
        """So many rows."""
        classes = rng.multinomial(rows, np.full(CLASSES, 1 / CLASSES))
        counts = {name: rng.multinomial(classes, shares) for name, shares in self.shapes.items()}
        return Population(self.schema, classes, counts, self.tied)


class Invented(Counts):
    """The exact counts of a population, as a site would count them; nothing is kept."""

    def __init__(self, population: Population, rng: np.random.Generator) -> None:
        super().__init__(population.schema.domain, population.rows)
        self._population, self._rng = population, rng
        self._sides: dict[Side, Integers] = {}

    def of(self, view: View) -> Integers:
        """The counts of a view: those of one column as drawn, those of more drawn anew."""
        sides = [self._side(side) for side in view]
        if len(sides) == 1:
            values: Integers = sides[0].sum(axis=0)
            return values
        return scattered(self._population.expected(*sides), self._rng).ravel()

    def _count(self, views: Sequence[View]) -> list[Integers]:
        return [self.of(view) for view in views]

    def _side(self, side: Side) -> Integers:
        if side not in self._sides:
            name, groups = side
            counts = self._population.counts[name]
            self._sides[side] = counts if groups is None else _merged(counts, groups)
        return self._sides[side]


def scattered(expected: Floats, rng: np.random.Generator) -> Integers:
    """A table of counts around the expected ones, with (nearly) their sums along every side."""
    apart = rng.poisson(expected) - expected
    for own in reversed(range(expected.ndim)):
        axis = tuple(other for other in range(expected.ndim) if other != own)
        sums = np.maximum(expected.sum(axis=axis, keepdims=True), 1e-300)
        apart -= expected * (apart.sum(axis=axis, keepdims=True) / sums)
    counts: Integers = np.rint(np.maximum(expected + apart, 0)).astype(np.int64)
    return counts


def invent(schema: Schema, many: int, seed: int) -> Iterator[Likeness]:
    """So many likely distributions; the first ones are the same however many are asked for."""
    columns = schema.measured
    draw = np.random.default_rng([seed, 1])
    kinds = [draw.permutation(usual_shapes(column)) for column in columns]
    slopes = [draw.permutation(TURNS) * 2 / TURNS for _ in columns]
    for number in range(many):
        rng = np.random.default_rng([seed, 2, number])
        turn = number % TURNS
        tied = _tied(schema.domain.names, number, rng)
        shapes = {}
        for place, column in enumerate(columns):
            shares = shape(column, str(kinds[place][turn]), float(slopes[place][turn]), rng)
            shapes[column.name] = by_class(shares, STRONG**0.5 if column.name in tied else 0.0)
        yield Likeness(schema, shapes, tied)


def _tied(names: Sequence[str], number: int, rng: np.random.Generator) -> frozenset[str]:
    """Half of the columns; of fewer than four all and none in turns, so that both are met."""
    order = rng.permutation(len(names))
    many = len(names) // 2 if len(names) > 3 else len(names) * (number % 2)
    return frozenset(names[place] for place in order[:many])


def by_class(shares: Floats, strength: float) -> Floats:
    """A column's distribution in each class: its own stretch with this probability, else any.

    Two columns so tied go together with the square of it: (1 - t^2) p q' + t^2 sum_k B_k C_k' / K.
    """
    edges = np.concatenate([[0.0], np.cumsum(shares)])
    edges /= edges[-1]
    stretch = np.linspace(0, 1, CLASSES + 1)
    low = np.maximum(edges[None, :-1], stretch[:-1, None])
    high = np.minimum(edges[None, 1:], stretch[1:, None])
    within = np.maximum(high - low, 0) * CLASSES
    mixed = (1 - strength) * shares + strength * within
    scaled: Floats = mixed / mixed.sum(axis=1, keepdims=True)
    return scaled


def usual_shapes(column: Column) -> list[str]:
    """Shapes that an ordered column may have, each as often as it is likely."""
    if isinstance(column, IntegerColumn | NumberColumn) and column.min == 0:
        return FROM_ZERO.split()
    return ELSEWHERE.split()


def shape(column: Column, kind: str, slope: float, rng: np.random.Generator) -> Floats:
    """A plausible distribution over a column's codes.

    Args:
        kind: one of `usual_shapes`, for columns whose values are in order.
        slope: exponent of Zipf's law, for the others.
    """
    size = column.size
    if not waved(column.ordered, size):
        return _scaled(rng.permutation((np.arange(size) + 1.0) ** -slope))
    at = (np.arange(size) + 0.5) / size
    centre, width = rng.uniform(0.2, 0.7), rng.uniform(0.08, 0.25)
    bell = _scaled(np.exp(-0.5 * ((at - centre) / width) ** 2) + 1e-4)
    mean, power = rng.uniform(0.08, 0.3), rng.uniform(1, 3)
    skewed = _scaled(at ** (power - 1) * np.exp(-at * power / mean) + 1e-5)
    if kind == "bell":
        return bell
    if kind == "skewed":
        return skewed
    if kind == "uneven":  # recorded more coarsely than binned
        mass = (bell if rng.random() < 0.5 else skewed) * rng.uniform(0.3, 1.7, size)
    elif kind == "heaps":  # round numbers
        places = rng.choice(size, max(2, size // 12), replace=False, p=bell)
        share = rng.uniform(0.3, 0.8)
        mass = (1 - share) * bell
        mass[places] += share * rng.dirichlet(np.full(places.size, 0.7))
    else:  # a pile at the minimum
        share = rng.uniform(0.4, 0.95)
        mass = (1 - share) * skewed
        mass[0] += share
    return _scaled(mass)


def _scaled(mass: Floats) -> Floats:
    scaled: Floats = mass / mass.sum()
    return scaled


def _merged(counts: Integers, groups: tuple[int, ...]) -> Integers:
    """Counts by class after merging values."""
    members = np.array(groups)
    merged = np.zeros((len(counts), int(members.max()) + 1), np.int64)
    np.add.at(merged.T, members, counts.T)
    return merged
