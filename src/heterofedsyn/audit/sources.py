"""One table in every kind of source: a row counts as the same from all, alone and among others."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from heterofedsyn.schema import Encoded, Schema, encode
from heterofedsyn.schema.table import columns_of
from heterofedsyn.sources import open_source
from heterofedsyn.sources._cells import texts

Columns: TypeAlias = Mapping[str, Sequence[object]]
"""The cells of a table by column, as Python objects."""

Store: TypeAlias = Callable[[Columns, Path], object]
"""Puts a table into a folder, if it needs one, and gives what `open_source` takes."""


def encode_through(
    kind: str,
    columns: Columns,
    schema: Schema,
    folder: Path,
    *,
    unit: str | None = None,
    max_rows_per_unit: int = 1,
) -> Encoded:
    """What a schema makes of some cells that are put into one kind of source and read from there.

    Args:
        kind: one of `STORES`; rows that cannot be read are left out, as an agent does.
        folder: an empty one, for files.
    """
    source = open_source(STORES[kind](columns, folder)).forgiving(lambda line: None)
    batches = source.batches(columns_of(schema, unit))
    return encode(schema, batches, unit, max_rows_per_unit)


def written(columns: Columns) -> pa.Table:
    """A table of texts, as a CSV file would hold them."""
    return pa.table({name: texts(list(cells)) for name, cells in columns.items()})


def _csv(columns: Columns, folder: Path) -> str:
    table = written(columns)
    with (folder / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(table.column_names)
        lines.writerows(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return str(folder / "rows.csv")


def _packed(columns: Columns, folder: Path) -> str:
    content = Path(_csv(columns, folder)).read_bytes()
    (folder / "rows.csv.gz").write_bytes(gzip.compress(content, 1))
    return str(folder / "rows.csv.gz")


def _parquet(columns: Columns, folder: Path) -> str:
    pq.write_table(written(columns), folder / "rows.parquet", row_group_size=7)
    return str(folder / "rows.parquet")


def _folder(columns: Columns, folder: Path) -> str:
    table = written(columns)
    for start in range(0, max(table.num_rows, 1), 9):
        pq.write_table(table.slice(start, 9), folder / f"{start:06}.parquet")
    return str(folder)


def _arrow(columns: Columns, folder: Path) -> pa.Table:
    return pa.Table.from_batches(written(columns).to_batches(max_chunksize=5))


def _stream(columns: Columns, folder: Path) -> pa.RecordBatchReader:
    return written(columns).to_reader(max_chunksize=3)


def _pandas(columns: Columns, folder: Path) -> object:
    import pandas as pd

    return pd.DataFrame(
        {name: pd.Series([*cells], dtype=object) for name, cells in columns.items()}
    )


def _polars(columns: Columns, folder: Path) -> object:
    import polars as pl

    return pl.DataFrame([pl.Series(name, [*c], dtype=pl.Object) for name, c in columns.items()])


def _duckdb(columns: Columns, folder: Path) -> str:
    import duckdb

    place = folder / "rows.duckdb"
    with duckdb.connect(str(place)) as connection:
        connection.register("given", written(columns))
        connection.sql("CREATE TABLE rows AS SELECT * FROM given")
    return f"{place}#rows"


STORES: dict[str, Store] = {
    "csv": _csv,
    "csv.gz": _packed,
    "parquet": _parquet,
    "folder": _folder,
    "arrow": _arrow,
    "stream": _stream,
    "pandas": _pandas,
    "polars": _polars,
    "duckdb": _duckdb,
}
"""Kinds of sources by name; frames of pandas and polars hold cells as they are, others as text."""
