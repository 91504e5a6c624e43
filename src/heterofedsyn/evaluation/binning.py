"""The public schema as metrics use it: coarser grids, and which columns lie on a line."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeGuard

from heterofedsyn.errors import UsageError
from heterofedsyn.schema import (
    Column,
    DateColumn,
    DatetimeColumn,
    IntegerColumn,
    NumberColumn,
    Schema,
)

Numeric = IntegerColumn | NumberColumn | DatetimeColumn | DateColumn


def coarse(schema: Schema, bins: int = 20) -> Schema:
    """The same schema with at most so many equal bins a column, and no atoms.

    >>> age = {"name": "age", "type": "integer", "min": 17, "max": 90, "atoms": [17], "bins": 30}
    >>> coarse(Schema.of({"columns": [age]})).domain
    Domain(names=('age',), sizes=(20,))
    """
    if bins < 1:
        raise UsageError(f"bins ({bins}) must be at least 1")
    columns = tuple(coarse_column(column, bins) for column in schema.columns)
    return replace(schema, columns=columns)


def coarse_column(column: Column, bins: int = 20) -> Column:
    """One column of a coarser grid."""
    if not is_numeric(column):
        return column
    assert column.bins is not None
    fewer: dict[str, Any] = {"bins": min(bins, column.bins), "atoms": ()}
    return replace(column, **fewer)


def is_numeric(column: Column) -> TypeGuard[Numeric]:
    """Whether values lie on a line: a range has bins, and a condition on it is an interval."""
    return isinstance(column, Numeric)


def span(column: Column) -> tuple[float, float]:
    """The ends of a range, or the first and the last code of a value."""
    if isinstance(column, DatetimeColumn):
        start, second = datetime(1970, 1, 1), timedelta(seconds=1)
        return (column.min - start) / second, (column.max - start) / second
    if isinstance(column, DateColumn):
        return float(column.grid.low), float(column.grid.high)
    if isinstance(column, IntegerColumn | NumberColumn):
        return float(column.min), float(column.max)
    return 0.0, float(column.size - column.nullable - 1)
