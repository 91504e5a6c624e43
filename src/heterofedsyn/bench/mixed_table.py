"""A large made-up table with columns of every kind, for timing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from heterofedsyn.schema import (
    BooleanColumn,
    CategoricalColumn,
    Column,
    DatetimeColumn,
    IntegerColumn,
    NumberColumn,
    Schema,
)

if TYPE_CHECKING:
    import pyarrow as pa

SET = 20
"""Columns that are made together; a wider table has several such sets."""

LABEL = "flag-0"

_CATEGORIES = (2, 3, 5, 8, 12, 16, 24, 32, 50)
_INTEGERS = 5
_NUMBERS = 4
_BATCH = 250_000


def mixed_schema(sets: int = 1) -> Schema:
    """The schema of a table with so many sets of columns."""
    columns = [column for number in range(sets) for column in _set(number)]
    return Schema(tuple(columns), label=LABEL, task="binary_classification")


def mixed_batches(
    rows: int, sets: int = 1, seed: int | np.random.Generator = 0
) -> Iterator[pa.RecordBatch]:
    """Rows whose columns all lean on one hidden number."""
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    for start in range(0, rows, _BATCH):
        many = min(_BATCH, rows - start)
        hidden = rng.normal(size=many)
        made: dict[str, pa.Array] = {}
        for number in range(sets):
            for column in _set(number):
                made[column.name] = _draw(column, hidden + rng.normal(size=many))
        yield pa.record_batch(made)


def write_mixed(path: Path, rows: int, sets: int = 1, kind: str | None = None) -> Path:
    """The table as a CSV or Parquet file, by the ending of its name unless `kind` is given."""
    import pyarrow.parquet as pq
    from pyarrow import csv

    batches = mixed_batches(rows, sets)
    first = next(batches)
    if (kind or path.suffix) == ".csv":
        with csv.CSVWriter(path, first.schema) as text:
            for batch in chain([first], batches):
                text.write(batch)
    else:
        with pq.ParquetWriter(path, first.schema) as file:
            for batch in chain([first], batches):
                file.write(batch)
    return path


def _set(number: int) -> Iterator[Column]:
    for size in _CATEGORIES:
        values = tuple(f"value {i:02}" for i in range(size))
        yield CategoricalColumn(f"category-{size}-{number}", values)
    for i in range(_INTEGERS):
        yield IntegerColumn(f"integer-{i}-{number}", 0, 99)
    for i in range(_NUMBERS):
        yield NumberColumn(f"number-{i}-{number}", -5.0, 5.0, bins=32)
    yield BooleanColumn(f"flag-{number}")
    yield DatetimeColumn(f"when-{number}", datetime(2020, 1, 1), datetime(2023, 12, 31), bins=48)


def _draw(column: Column, leaning: np.ndarray[tuple[int], np.dtype[np.float64]]) -> pa.Array:
    """Values of one column that follow a number of about -4 to 4."""
    import pyarrow as pa

    share = np.clip((leaning + 4) / 8, 0, 1 - 1e-9)
    match column:
        case CategoricalColumn(values=values):
            return pa.array(values).take(pa.array((share * len(values)).astype(np.int64)))
        case IntegerColumn():
            return pa.array((share * 100).astype(np.int64))
        case NumberColumn():
            return pa.array(np.round(leaning, 3))
        case BooleanColumn():
            return pa.array(leaning > 0.5)
        case _:
            return pa.array((1.5778e9 + share * 1.26e8).astype(np.int64)).cast(pa.timestamp("s"))
