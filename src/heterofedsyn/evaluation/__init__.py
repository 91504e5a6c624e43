"""How close a synthetic table is to a real one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from heterofedsyn._arrays import Floats
from heterofedsyn.evaluation.queries import (
    RangeQueries,
    cut_to,
    range_query_error,
    seeded_queries,
    table_values,
)
from heterofedsyn.evaluation.tvd import TotalVariation, coarse, rows_of, total_variation
from heterofedsyn.evaluation.wasserstein import histogram_wasserstein, mean_over_pairs
from heterofedsyn.schema import Schema, encode

__all__ = [
    "RangeQueries",
    "Scores",
    "TotalVariation",
    "coarse",
    "histogram_wasserstein",
    "range_query_error",
    "score",
    "total_variation",
]


@dataclass(frozen=True)
class Scores:
    """How far a synthetic table is from a real one; 0 everywhere for equal tables.

    Attributes:
        tvd: on the schema's grid.
        tvd_20: on at most 20 equal bins a column.
        train: query error with one condition, with two, and so on, against the real table.
        test: the same against test rows and as many synthetic ones, or None without a test table.
        histogram: Wasserstein distance, or None without two numeric columns.
    """

    tvd: TotalVariation
    tvd_20: TotalVariation
    train: tuple[float, ...]
    test: tuple[float, ...] | None
    histogram: float | None

    @classmethod
    def of(
        cls, schema: Schema, real: object, synthetic: object, test: object = None, seed: int = 0
    ) -> Scores:
        """The scores of a synthetic table; `seed` draws the queries and cuts the table to test."""
        grid = coarse(schema)
        truth, made = rows_of(schema, real), rows_of(schema, synthetic)
        on_schema, on_grid = (
            (encode(to, truth).table, encode(to, made).table) for to in (schema, grid)
        )
        asked = [seeded_queries(schema, ways, seed=seed) for ways in _ways(schema)]
        values = table_values(schema, made)

        def errors(against: Floats, of: Floats) -> tuple[float, ...]:
            return tuple(queries.error(against, of) for queries in asked)

        held_out = None
        if test is not None:
            unseen = table_values(schema, rows_of(schema, test))
            held_out = errors(unseen, cut_to(values, unseen.shape[1], seed))
        return cls(
            tvd=total_variation(*on_schema),
            tvd_20=total_variation(*on_grid),
            train=errors(table_values(schema, truth), values),
            test=held_out,
            histogram=mean_over_pairs(grid, *on_grid),
        )

    def to_dict(self) -> dict[str, Any]:
        """The scores by name, ready for JSON."""
        query = {"train": _by_ways(self.train)}
        if self.test is not None:
            query["test"] = _by_ways(self.test)
        return {
            "tvd": {
                "one_way": self.tvd.one_way,
                "two_way": self.tvd.two_way,
                "one_way_20": self.tvd_20.one_way,
                "two_way_20": self.tvd_20.two_way,
            },
            "query": query,
            "fidelity": {"histogram": self.histogram},
        }


def score(
    schema: Schema, real: object, synthetic: object, test: object = None, seed: int = 0
) -> dict[str, Any]:
    """All scores of a synthetic table by name; those against test only when it is given."""
    return Scores.of(schema, real, synthetic, test, seed).to_dict()


def _ways(schema: Schema) -> range:
    """A query has up to three conditions, each on another column."""
    return range(1, min(3, len(schema.columns)) + 1)


def _by_ways(errors: tuple[float, ...]) -> dict[str, float]:
    return {f"{ways}_way": error for ways, error in enumerate(errors, start=1)}
