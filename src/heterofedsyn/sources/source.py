"""What a source of rows is, and how one is opened."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from heterofedsyn.errors import DataError, UsageError, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 131_072
SPARK = "spark:"


class Source(ABC):
    """A table that can be read batch by batch; rows are read when `batches` is iterated."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What messages call the source: a path, or the kind of object."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The names of all columns, in order."""

    @abstractmethod
    def _batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Batches of columns that are known to exist."""

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows, with only the named columns and in that order; all columns when none are named.

        Raises:
            DataError: a column is missing, or the rows cannot be read.
        """
        wanted = self.columns if columns is None else tuple(dict.fromkeys(columns))
        self.check(wanted)
        return self._batches(wanted)

    def check(self, columns: Sequence[str]) -> None:
        """Refuses to go on without these columns.

        Raises:
            DataError: a column is missing.
        """
        for column in columns:
            if column not in self.columns:
                raise DataError(
                    f"{self.name}: no column {column!r} among its {len(self.columns)}; "
                    f"{did_you_mean(column, self.columns)}"
                )


def open_source(table: object) -> Source:
    """A source for a path (.csv, .csv.gz, .parquet), `spark:TABLE`, a data frame or a stream.

    Raises:
        DataError: the file is missing, empty or damaged.
        UsageError: it is not a table, or of a kind that cannot be read.
    """
    if isinstance(table, Source):
        return table
    if isinstance(table, str) and table.startswith(SPARK):
        from heterofedsyn.sources.spark import SparkSource

        return SparkSource.open(table.removeprefix(SPARK))
    if isinstance(table, str | os.PathLike):
        return _open_file(Path(table))
    from heterofedsyn.sources import memory

    return memory.open_object(table)


def _open_file(path: Path) -> Source:
    if path.is_dir():
        raise UsageError(f"{path}: a folder; name one .csv or .parquet file in it")
    if not path.exists():
        raise DataError(f"{path}: there is no such file; check the path")
    name = path.name.lower()
    if name.endswith((".csv", ".csv.gz")):
        from heterofedsyn.sources.csv_file import CsvSource

        return CsvSource.open(path)
    if name.endswith((".parquet", ".pq")):
        from heterofedsyn.sources.parquet_file import ParquetSource

        return ParquetSource.open(path)
    raise UsageError(f"{path}: cannot read this kind of file; use .csv, .csv.gz or .parquet")


def check_names(source: str, columns: Sequence[str]) -> tuple[str, ...]:
    """The names of a table's columns, each of them once."""
    for column in columns:
        if columns.count(column) > 1:
            raise DataError(f"{source}: two columns are named {column!r}; rename one of them")
    return tuple(columns)
