"""Range queries: which part of the rows satisfies a few random conditions at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heterofedsyn._arrays import Floats, Integers, frozen, stream
from heterofedsyn.errors import UsageError
from heterofedsyn.evaluation.binning import is_numeric, span
from heterofedsyn.evaluation.rows import Mask, read_real, read_synthetic
from heterofedsyn.schema import Schema


@dataclass(frozen=True, eq=False)
class RangeQueries:
    """Queries that ask for low <= value <= high in a few attributes each.

    One row per query and one entry per condition: the attribute's place in the schema and the ends
    of the interval, on the scale of `Rows.values`. A condition on a category has low = high.
    """

    places: Integers
    low: Floats
    high: Floats

    def __post_init__(self) -> None:
        for array in (self.places, self.low, self.high):
            frozen(array)

    @classmethod
    def draw(
        cls, schema: Schema, ways: int, queries: int, rng: np.random.Generator
    ) -> RangeQueries:
        """Random queries on so many attributes each; they depend on the public schema only.

        Attributes are drawn without replacement, a category uniformly from its values; an interval
        begins uniformly in the range and ends uniformly between there and the end of the range.
        """
        width = len(schema.columns)
        if not 1 <= ways <= width:
            raise UsageError(f"ways ({ways}) must be from 1 to {width}, the number of columns")
        if queries < 1:
            raise UsageError(f"queries ({queries}) must be at least 1")
        places = np.argsort(rng.random((queries, width)), axis=1)[:, :ways]
        first, second = rng.random((2, queries, ways))
        bottom, top = np.array([span(column) for column in schema.columns]).T[:, places]
        interval = np.array([is_numeric(column) for column in schema.columns])[places]
        low = np.minimum(bottom + first * (top - bottom), top)
        high = np.minimum(low + second * (top - low), top)
        category = np.floor(first * (top + 1))
        return cls(places, np.where(interval, low, category), np.where(interval, high, category))

    def answer(self, values: Floats) -> Floats:
        """For each query the part of the rows that satisfies all its conditions; of none, 0."""
        counts = np.empty(len(self.places), np.int64)
        for query, (places, low, high) in enumerate(
            zip(self.places, self.low, self.high, strict=True)
        ):
            held = _within(values[places[0]], low[0], high[0])
            for i in range(1, len(places)):
                held &= _within(values[places[i]], low[i], high[i])
            counts[query] = np.count_nonzero(held)
        return np.divide(counts, max(1, values.shape[1]))

    def error(self, real: Floats, synthetic: Floats) -> float:
        """The mean absolute difference between the answers of two tables."""
        return float(np.abs(self.answer(real) - self.answer(synthetic)).mean())


def range_query_error(
    schema: Schema,
    real: object,
    synthetic: object,
    ways: int = 2,
    queries: int = 1000,
    seed: int = 0,
    cut: bool = False,
) -> float:
    """Mean error of seeded random range queries asked of the synthetic table instead of the real.

    Args:
        ways: conditions per query.
        cut: asks as many synthetic rows as there are real ones: the first of a seeded shuffle.
    """
    truth, made = read_real(schema, real).values, read_synthetic(schema, synthetic).values
    if cut:
        made = cut_to(made, truth.shape[1], seed)
    return seeded_queries(schema, ways, queries, seed).error(truth, made)


def seeded_queries(schema: Schema, ways: int, queries: int = 1000, seed: int = 0) -> RangeQueries:
    """The queries of a seed: the same for every table and on every machine."""
    return RangeQueries.draw(schema, ways, queries, stream(seed, f"{ways}-way queries"))


def cut_to(values: Floats, rows: int, seed: int = 0) -> Floats:
    """The first rows of a seeded shuffle, or all when there are fewer."""
    order = stream(seed, "cut").permutation(values.shape[1])
    return values[:, order[:rows]]


def _within(values: Floats, low: float, high: float) -> Mask:
    held: Mask = values >= low
    held &= values <= high
    return held
