"""A table as the metrics see it: whatever it holds, every cell has a code and a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from heterofedsyn._arrays import Floats, Integers, frozen
from heterofedsyn.errors import DataError
from heterofedsyn.evaluation.binning import coarse, coarse_column, is_numeric, span
from heterofedsyn.schema import (
    Column,
    DateColumn,
    DatetimeColumn,
    Domain,
    EncodedTable,
    IntegerColumn,
    Schema,
)
from heterofedsyn.schema.table import columns_of
from heterofedsyn.sources import check_apart, open_source

if TYPE_CHECKING:
    import pyarrow as pa

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in the terms of a public schema.

    A cell that the schema does not know (a value that is not listed, text for a number, a null
    where none is allowed, or all of a column that is absent) is *foreign*: it has a code of its
    own, one past the last, and no value.

    Attributes:
        values: one row per column: numbers clamped to the range, seconds, days, codes of
            categories; NaN for nulls and foreign cells.
        fine: codes on the schema's own grid.
        wide: codes on at most 20 equal bins a column.
        remarks: what had to be done to the table, for whoever may see its rows.
    """

    schema: Schema
    values: Floats
    fine: EncodedTable
    wide: EncodedTable
    remarks: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        """How many rows there are."""
        return self.fine.rows

    @cached_property
    def foreign(self) -> Mask:
        """For every column and row, whether the schema does not know the cell."""
        sizes = np.array(self.schema.domain.sizes)
        unknown: Mask = self.fine.codes == sizes[:, None]
        return unknown

    def take(self, places: Integers) -> Rows:
        """The rows at these places, in their order."""
        return replace(
            self,
            values=frozen(np.take(self.values, places, axis=1)),
            fine=self.fine.take(places),
            wide=self.wide.take(places),
        )


def read_synthetic(schema: Schema, table: object) -> Rows:
    """All rows of a synthetic table; what is wrong with it counts against it, and is said."""
    return _read(schema, table, {column.name for column in schema.columns}, "synthetic")


def read_real(schema: Schema, table: object, whose: str = "real") -> Rows:
    """The rows of a real table that fit the schema; the others are left out, and counted.

    Raises:
        UsageError: one of several tables is given twice.
        DataError: a column is missing, or no row fits.
    """
    rows = _read(schema, table, set(), whose)
    fits = ~rows.foreign.any(axis=0)
    if fits.all():
        return rows
    counts = zip(schema.domain.names, rows.foreign.sum(axis=1), strict=True)
    where = ", ".join(f"{name}: {many:,}" for name, many in counts if many)
    remark = f"{np.count_nonzero(~fits):,} {whose} rows do not fit the schema ({where}): left out"
    if not fits.any():
        raise DataError(f"none of the {whose} rows fits the schema ({where}); check the schema")
    return replace(rows.take(np.flatnonzero(fits)), remarks=(remark,))


def _read(schema: Schema, table: object, optional: set[str], whose: str) -> Rows:
    parts = table if isinstance(table, list | tuple) else [table]
    check_apart(parts)
    batches: list[pa.RecordBatch] = []
    absent: set[str] = set()
    for part in parts:
        source = open_source(part)
        absent |= optional - set(source.columns)
        kinds = columns_of(schema, None)
        batches += source.batches({n: kind for n, kind in kinds.items() if n not in absent})
    if not sum(batch.num_rows for batch in batches):
        where = f"{parts[0]}: " if isinstance(parts[0], str | Path) else ""
        raise DataError(f"{where}the {whose} table has no rows; nothing can be compared")
    read = [_column(column, batches, column.name in absent) for column in schema.columns]
    return Rows(
        schema,
        frozen(np.stack([cells.values for cells in read])),
        _encoded(schema, [cells.fine for cells in read]),
        _encoded(coarse(schema), [cells.wide for cells in read]),
        tuple(
            f"column {column.name!r}: {remark}"
            for column, cells in zip(schema.columns, read, strict=True)
            for remark in cells.remarks(column)
        ),
    )


@dataclass(frozen=True, eq=False)
class _Cells:
    """One column of all batches."""

    values: Floats
    fine: Integers
    wide: Integers
    outside: int = 0
    absent: bool = False

    def remarks(self, column: Column) -> list[str]:
        if self.absent:
            return ["absent, so all that is said about it counts as wrong"]
        said = []
        if foreign := np.count_nonzero(self.fine == column.size):
            said.append(f"{foreign:,} cells hold what the schema does not list")
        if self.outside:
            said.append(f"{self.outside:,} numbers lie outside the range: moved to its end")
        return said


def _column(column: Column, batches: Sequence[pa.RecordBatch], absent: bool) -> _Cells:
    grids = (column, coarse_column(column))
    if absent:
        many = sum(batch.num_rows for batch in batches)
        fine, wide = (np.full(many, grid.size, np.int64) for grid in grids)
        return _Cells(np.full(many, np.nan), fine, wide, absent=True)
    arrays = [batch.column(column.name) for batch in batches]
    fine, wide = (np.concatenate([_codes(grid, array) for array in arrays]) for grid in grids)
    if not is_numeric(column):
        null = column.size - column.nullable
        return _Cells(np.where(fine >= null, np.nan, fine), fine, wide)
    raw = np.concatenate([_numbers(column, array) for array in arrays])
    raw[fine == column.size] = np.nan
    values = np.clip(raw, *span(column))
    return _Cells(values, fine, wide, int(np.count_nonzero(np.abs(raw - values) > 0)))


def _codes(column: Column, array: pa.Array) -> Integers:
    codes, fits = column.encode(array)
    return np.where(fits, codes, column.size)


def _numbers(column: Column, array: pa.Array) -> Floats:
    """Numbers and moments as they stand; NaN where there is none."""
    import pyarrow as pa

    from heterofedsyn.schema import _parsing

    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    array = _parsing.plain(array)
    if isinstance(column, IntegerColumn):
        cells = _parsing.whole_numbers(array)
    elif isinstance(column, DatetimeColumn):
        cells = _parsing.seconds(array)
    elif isinstance(column, DateColumn):
        cells = _parsing.days(array)
    else:
        cells = _parsing.numbers(array)
    return np.where(cells.read & ~cells.missing, cells.values.astype(np.float64), np.nan)


def _encoded(schema: Schema, codes: Sequence[Integers]) -> EncodedTable:
    domain = schema.domain
    roomy = Domain(domain.names, tuple(size + 1 for size in domain.sizes))
    return EncodedTable.from_codes(roomy, np.stack(codes))
