"""Total variation distance between marginals, on the schema's grid or on a coarser one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from heterofedsyn.errors import UsageError
from heterofedsyn.marginals.counting import Marginal, count_pairs, count_single
from heterofedsyn.schema import (
    Column,
    DatetimeColumn,
    EncodedTable,
    IntegerColumn,
    NumberColumn,
    Schema,
)
from heterofedsyn.sources import open_source

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class TotalVariation:
    """Mean distance over all attributes and over all pairs; 0 is equal, 1 is disjoint."""

    one_way: float
    two_way: float


def total_variation(real: EncodedTable, synthetic: EncodedTable) -> TotalVariation:
    """How far two tables of one domain are apart."""
    if real.domain != synthetic.domain:
        raise UsageError("tables of different schemas cannot be compared")

    def singles(table: EncodedTable) -> list[Marginal]:
        return [count_single(table, name) for name in table.domain.names]

    def distance(first: Marginal, second: Marginal) -> float:
        apart = first.counts / max(1, real.rows) - second.counts / max(1, synthetic.rows)
        return 0.5 * float(np.abs(apart).sum())

    one_way = [distance(*both) for both in zip(singles(real), singles(synthetic), strict=True)]
    pairs = zip(count_pairs(real), count_pairs(synthetic), strict=True)
    two_way = [distance(*both) for both in pairs] or [0.0]
    return TotalVariation(float(np.mean(one_way)), float(np.mean(two_way)))


def coarse(schema: Schema, bins: int = 20) -> Schema:
    """The same schema with at most so many equal bins a column, and no atoms.

    >>> age = {"name": "age", "type": "integer", "min": 17, "max": 90, "atoms": [17], "bins": 30}
    >>> coarse(Schema.of({"columns": [age]})).domain
    Domain(names=('age',), sizes=(20,))
    """
    if bins < 1:
        raise UsageError(f"bins ({bins}) must be at least 1")

    def cut(column: Column) -> Column:
        if not is_numeric(column):
            return column
        assert column.bins is not None
        fewer: dict[str, Any] = {"bins": min(bins, column.bins), "atoms": ()}
        return replace(column, **fewer)

    return replace(schema, columns=tuple(cut(column) for column in schema.columns))


def is_numeric(column: Column) -> TypeGuard[IntegerColumn | NumberColumn | DatetimeColumn]:
    """Whether values lie on a line: a range has bins, and a condition on it is an interval."""
    return isinstance(column, (IntegerColumn, NumberColumn, DatetimeColumn))


def rows_of(schema: Schema, table: object) -> list[pa.RecordBatch]:
    """The schema's columns of an Arrow table, a data frame, a stream or a file."""
    return list(open_source(table).batches(schema.domain.names))
