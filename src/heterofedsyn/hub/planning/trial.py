"""Studies on invented columns: how far noise of a known size moves what a study would find.

The noise of a study is public, only the shapes of its columns are not. So plausible shapes are
drawn, exactly the planned noise is added to the planned statistics, and they are rebuilt as in a
study, except that pairs start from independence and values within groups are independent. Nothing
here has ever seen a row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from heterofedsyn._arrays import Floats, Integers
from heterofedsyn.hub.methods.wavetree import Mode, WaveTree, waved
from heterofedsyn.marginals.statistics import Flat, Haar, Total, haar_differences
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.schema import Column, IntegerColumn, NumberColumn, Schema
from heterofedsyn.synthesis import Denoising, Measurement, Targets
from heterofedsyn.synthesis.consistency import norm_sub
from heterofedsyn.synthesis.denoise import FLOOR, SMALLEST_TOTAL, fitted_pair
from heterofedsyn.synthesis.grid import grouped

STUDIES = 20
"""Invented studies per forecast, so that every column has each shape below as often as said."""

MOST_COLUMNS = 24
SOME_COLUMNS = 12
"""Schemas of more columns take turns: so many of them in one invented study."""

MOST_WORK = 60_000
"""Values of all columns in all invented studies, after which there are fewer studies."""

FEWEST_STUDIES = 5

PAIRS = 3
"""Pairs looked at in one invented study."""

FROM_ZERO = "pile " * 8 + "skewed " * 6 + "uneven " * 2 + "bell " * 1 + "heaps " * 3
ELSEWHERE = "pile " * 1 + "skewed " * 5 + "uneven " * 6 + "bell " * 5 + "heaps " * 3
"""How often ordered columns have which shape: amounts and counts start at 0 and pile up there,
ages and sizes do not. Fitted to public tables; `test_forecast` says to which."""

BLOCKS = 16
"""A dependent pair shares one of so many stretches of equal mass."""

STRONG = 0.9
"""Share of rows in which the two columns of a dependent pair go together."""

MOST_VALUES = 128
"""Values of a column whose cells are looked at one by one; of more, a weighted part."""


@dataclass(frozen=True)
class Ladder:
    """How one mode would measure: the noise on the sum over sites of every part."""

    mode: Mode
    parts: tuple[tuple[Flat | Haar, float], ...]
    pairs: int
    pair_sigma: float

    @cached_property
    def by_name(self) -> dict[str, list[tuple[Flat | Haar, float]]]:
        """The parts of every attribute, in their order."""
        found: dict[str, list[tuple[Flat | Haar, float]]] = {}
        for part in self.parts:
            found.setdefault(part[0].attributes[0], []).append(part)
        return found


@dataclass(frozen=True, eq=False)
class Trial:
    """What one invented study found.

    Attributes:
        errors: total variation of the 1-way of every column that was looked at.
        groups: groups of every column that was looked at; none if no pair is measured.
        loose: total variation of pairs of columns that do not depend on each other.
        close: the same of pairs that depend strongly, measured if the mode measures pairs.
    """

    errors: dict[str, float]
    groups: dict[str, int]
    loose: tuple[float, ...]
    close: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Bench:
    """Everything invented studies share.

    Attributes:
        schema: the public schema, on whose grid errors are told.
        encoding: the schema by which sites encode.
        total_sigma: noise on the sum over sites of the number of rows.
    """

    method: WaveTree
    schema: Schema
    encoding: Schema
    rows: int
    total_sigma: float
    seed: int

    @property
    def together(self) -> int:
        """How many columns one invented study has."""
        columns = len(self.encoding.columns)
        return columns if columns <= MOST_COLUMNS else SOME_COLUMNS

    def run(self, first_totals: Sequence[float], ladders: Sequence[Ladder]) -> Iterator[Trial]:
        """An invented study for every first noisy total and the way to measure it leads to."""
        columns = self.encoding.columns
        draw = np.random.default_rng([self.seed, 1])
        turns = draw.permutation(len(columns))
        kinds = [draw.permutation(usual_shapes(column)) for column in columns]
        slopes = [draw.permutation(STUDIES) * 2 / STUDIES for _ in columns]
        many = self.together
        for number, (total, ladder) in enumerate(zip(first_totals, ladders, strict=True)):
            # Shapes and noise have streams of their own: another budget meets the same columns.
            invent = np.random.default_rng([self.seed, 2, number])
            places = np.sort(turns[(number * many + np.arange(many)) % len(columns)])
            turn = number % STUDIES
            shapes = {
                columns[place].name: shape(
                    columns[place], str(kinds[place][turn]), float(slopes[place][turn]), invent
                )
                for place in places
            }
            rng = np.random.default_rng([self.seed, 3, number])
            yield self._study(total, ladder, shapes, invent, rng)

    def _study(
        self,
        first_total: float,
        ladder: Ladder,
        shapes: dict[str, Floats],
        invent: np.random.Generator,
        rng: np.random.Generator,
    ) -> Trial:
        method, names = self.method, list(shapes)
        counts = {name: invent.multinomial(self.rows, shapes[name]) for name in names}
        known = [Measurement(Total(), Noisy(np.array([first_total]), self.total_sigma**2))]
        for name in names:
            for statistic, sigma in ladder.by_name[name]:
                exact = _exact(statistic, counts[name])
                noisy = exact + sigma * rng.standard_normal(exact.size)
                known.append(Measurement(statistic, Noisy(noisy, sigma**2)))
        columns = tuple(self.encoding.column(name) for name in names)
        looked_at = Schema(columns)
        denoising = Denoising(method.spread, method.calm, method.edge)
        targets = Targets(looked_at, tuple(known), denoising)
        total = max(SMALLEST_TOTAL, targets.total)
        values, precision = denoising.one_ways(targets)
        # Without pairs a column is one group, refined by its 1-way.
        grid = {name: np.zeros(values[name].size, np.int64) for name in names}
        singles = {name: np.array([total]) for name in names}
        if ladder.pairs:
            resolution = min(method.finest, ladder.mode.resolution(total))
            grid = method.grid(looked_at, values, total, resolution)
            usual = float(np.mean([groups.max() + 1 for groups in grid.values()]))
            for name in names:
                weight = self._pairs_of(name, ladder) / (ladder.pair_sigma**2 * usual)
                own = grouped(values[name], grid[name])
                seen = grouped(counts[name].astype(np.float64), grid[name])
                seen += rng.standard_normal(own.size) / math.sqrt(weight)
                mean = (own * precision[name] + seen * weight) / (precision[name] + weight)
                settled = norm_sub(mean + (total - mean.sum()) / mean.size, total)
                singles[name] = np.maximum(settled, FLOOR)
        finished = _Finished(self, ladder, shapes, values, singles, grid, total)
        made = max(1, round(total))
        errors = {
            name: _distance(
                self.merged(name, counts[name] / self.rows),
                self.merged(name, _allocated(finished.single(name), made, rng) / made),
            )
            for name in names
        }
        chosen = finished.choose(invent)
        return Trial(
            errors,
            {name: int(groups.max()) + 1 for name, groups in grid.items()} if ladder.pairs else {},
            tuple(finished.pair(first, second, 0.0, invent, rng) for first, second in chosen),
            tuple(finished.pair(first, second, STRONG, invent, rng) for first, second in chosen),
        )

    def _pairs_of(self, name: str, ladder: Ladder) -> float:
        """About how many measured pairs an attribute is in."""
        columns, label = len(self.encoding.columns), self.encoding.label
        if label is None:
            return max(1.0, 2 * ladder.pairs / columns)
        if name == label:
            return columns - 1.0
        return max(1.0, (2 * ladder.pairs - (columns - 1)) / (columns - 1))

    def merged(self, name: str, counts: Floats) -> Floats:
        """Counts (or rows of them) on the public schema's grid: an added atom joins its bin."""
        if self.encoding.column(name).size == self.schema.column(name).size:
            return counts
        joined: Floats = np.concatenate([counts[:1] + counts[1:2], counts[2:]])
        return joined


@dataclass(frozen=True, eq=False)
class _Finished:
    """An invented study after its 1-ways, ready for pairs."""

    bench: Bench
    ladder: Ladder
    shapes: Mapping[str, Floats]
    values: Mapping[str, Floats]
    singles: Mapping[str, Floats]
    grid: Mapping[str, Integers]
    total: float
    sides: dict[str, _Side] = field(default_factory=dict)

    def single(self, name: str) -> Floats:
        """The final 1-way: groups refined to values."""
        refined: Floats = self.singles[name][self.grid[name]] * self._within(name)
        return refined

    def choose(self, invent: np.random.Generator) -> list[tuple[str, str]]:
        """Some pairs of the columns that were looked at."""
        names = list(self.shapes)
        every = [(a, b) for place, a in enumerate(names) for b in names[place + 1 :]]
        some = invent.permutation(len(every))[:PAIRS]
        return [every[place] for place in some]

    def pair(
        self,
        first: str,
        second: str,
        bond: float,
        invent: np.random.Generator,
        rng: np.random.Generator,
    ) -> float:
        """Total variation of a pair that depends with this strength."""
        rows, made = self.bench.rows, max(1, round(self.total))
        sides = [self._side(name, invent) for name in (first, second)]
        share = _joint(bond, *sides)
        whole = all(side.whole for side in sides)
        truth = _drawn(share, rows, invent, whole=whole) / rows
        table = self._fitted(first, second, bond, sides, rng)
        guess = table[np.ix_(self.grid[first][sides[0].places], self.grid[second][sides[1].places])]
        guess = guess * np.outer(
            self._within(first)[sides[0].places], self._within(second)[sides[1].places]
        )
        found = _drawn(guess / self.total, made, rng, whole=whole) / made
        apart = (truth - found) * np.outer(sides[0].weights, sides[1].weights)
        for name, side in zip((first, second), sides, strict=True):
            # Turned over twice: each side is merged along its rows.
            apart = (self.bench.merged(name, apart) if side.whole else apart).T
        return min(1.0, 0.5 * float(np.abs(apart).sum()))

    def _fitted(
        self, first: str, second: str, bond: float, sides: list[_Side], rng: np.random.Generator
    ) -> Floats:
        """The pair on the grid as a study would rebuild it, or its independence."""
        one, other = self.singles[first], self.singles[second]
        independent = np.outer(one, other) / self.total
        if not self.ladder.pairs or min(one.size, other.size) < 2:
            return independent
        belongs = [
            self.grid[n][:, None] == np.arange(self.singles[n].size) for n in (first, second)
        ]
        if bond:
            shares = [side.blocks @ inside for side, inside in zip(sides, belongs, strict=True)]
            exact = bond * shares[0].T @ shares[1] / BLOCKS
        else:
            exact = np.zeros((one.size, other.size))
        parts = [side.shape @ inside for side, inside in zip(sides, belongs, strict=True)]
        exact += (1 - bond) * np.outer(*parts)
        counts = _drawn(exact, self.bench.rows, rng, whole=True)
        sigma = self.ladder.pair_sigma
        noisy = Noisy(counts + sigma * rng.standard_normal(counts.shape), sigma**2)
        return fitted_pair(noisy, one, other, self.total)

    def _side(self, name: str, invent: np.random.Generator) -> _Side:
        """A column as one side of a pair; the same in all pairs of this study."""
        if name not in self.sides:
            self.sides[name] = _Side.of(self.shapes[name], invent)
        return self.sides[name]

    def _within(self, name: str) -> Floats:
        """The share of every value in its group."""
        weights = self.values[name] + 1e-9
        shares: Floats = weights / grouped(weights, self.grid[name])[self.grid[name]]
        return shares


@dataclass(frozen=True, eq=False)
class _Side:
    """One column of a pair: the values that are looked at, and how many each stands for."""

    shape: Floats
    places: Integers
    weights: Floats

    @classmethod
    def of(cls, shape: Floats, invent: np.random.Generator) -> _Side:
        if shape.size <= MOST_VALUES:
            return cls(shape, np.arange(shape.size), np.ones(shape.size))
        falling = np.argsort(-shape, kind="stable")
        top, rest = falling[: MOST_VALUES // 2], falling[MOST_VALUES // 2 :]
        some = invent.permutation(rest)[: MOST_VALUES // 2]
        weights = np.concatenate([np.ones(top.size), np.full(some.size, rest.size / some.size)])
        return cls(shape, np.concatenate([top, some]), weights)

    @property
    def whole(self) -> bool:
        """Whether every value is looked at."""
        return self.shape.size <= MOST_VALUES

    @cached_property
    def blocks(self) -> Floats:
        """The distribution within each stretch of equal mass, one row each."""
        edges = np.concatenate([[0.0], np.cumsum(self.shape)])
        edges /= edges[-1]
        stretch = np.linspace(0, 1, BLOCKS + 1)
        low = np.maximum(edges[None, :-1], stretch[:-1, None])
        high = np.minimum(edges[None, 1:], stretch[1:, None])
        overlap: Floats = np.maximum(high - low, 0) * BLOCKS
        return overlap


def _joint(bond: float, one: _Side, other: _Side) -> Floats:
    """A pair that goes together with probability `bond`, by stretches of equal mass."""
    joint = (1 - bond) * np.outer(one.shape[one.places], other.shape[other.places])
    if bond:
        joint += bond * one.blocks[:, one.places].T @ other.blocks[:, other.places] / BLOCKS
    return joint


def studies(schema: Schema) -> int:
    """How many invented studies to run: fewer where each is long."""
    sizes = sorted((column.size for column in schema.columns), reverse=True)
    values = sum(sizes if len(sizes) <= MOST_COLUMNS else sizes[:SOME_COLUMNS])
    return max(FEWEST_STUDIES, min(STUDIES, MOST_WORK // values))


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
        zipf = rng.permutation((np.arange(size) + 1.0) ** -slope)
        return _scaled(zipf)
    at = (np.arange(size) + 0.5) / size
    centre, width = rng.uniform(0.2, 0.7), rng.uniform(0.08, 0.25)
    bell = np.exp(-0.5 * ((at - centre) / width) ** 2) + 1e-4
    mean, power = rng.uniform(0.08, 0.3), rng.uniform(1, 3)
    skewed = at ** (power - 1) * np.exp(-at * power / mean) + 1e-5
    bell, skewed = _scaled(bell), _scaled(skewed)
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


def _drawn(shares: Floats, rows: int, rng: np.random.Generator, *, whole: bool) -> Integers:
    """Rows over the cells of a table, or over those of a part of it."""
    if whole:
        return rng.multinomial(rows, _scaled(shares.ravel())).reshape(shares.shape)
    return rng.poisson(rows * shares)


def _scaled(mass: Floats) -> Floats:
    scaled: Floats = mass / mass.sum()
    return scaled


def _exact(statistic: Flat | Haar, counts: Integers) -> Integers:
    """The statistic of an invented column."""
    if isinstance(statistic, Flat):
        return counts
    return haar_differences(counts, statistic.level)


def _allocated(weights: Floats, rows: int, rng: np.random.Generator) -> Floats:
    """Whole rows in proportion to the weights, up to less than one row each."""
    expected = weights * (rows / weights.sum())
    counts: Floats = np.floor(expected + 1e-9)
    left = np.maximum(expected - counts, 0)
    rest = round(rows - counts.sum())
    if rest > 0 and left.sum() > 0:
        counts += rng.multinomial(rest, left / left.sum())
    return counts


def _distance(one: Floats, other: Floats) -> float:
    return 0.5 * float(np.abs(one - other).sum())
