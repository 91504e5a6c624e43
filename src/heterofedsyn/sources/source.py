"""What a source of rows is, and how one is opened."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from heterofedsyn.errors import DataError, did_you_mean
from heterofedsyn.sources.dialect import Dialect
from heterofedsyn.sources.location import Location, parse

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 131_072


class Source(ABC):
    """A table that can be read batch by batch; rows are read when `batches` is iterated."""

    has_dialects: ClassVar[bool] = False
    """Whether its location can say how its texts are written."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What messages call the source: a path, a database, or the kind of object."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The names of all columns, in order."""

    @property
    def dialect(self) -> Dialect:
        """How its texts are written."""
        return Dialect()

    @abstractmethod
    def _batches(self, columns: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        """Batches of columns that are known to exist, by name, with the kind of each."""

    def batches(self, columns: Collection[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows, with only the named columns and in that order; all columns when none are named.

        Args:
            columns: names, or the kind of each by name. By its kind a cell is rewritten from the
                source's dialect into the spelling that a schema reads; without one, only what
                stands for no value is.

        Raises:
            DataError: a column is missing, or the rows cannot be read.
        """
        names = self.columns if columns is None else tuple(columns)
        kinds = columns if isinstance(columns, Mapping) else dict.fromkeys(names, "")
        self.check(kinds)
        batches = self._batches(kinds)
        return batches if self.dialect.plain_cells else self._respelt(batches, kinds)

    def rewritten(self, array: pa.Array, kind: str, column: str) -> pa.Array:
        """Cells of one column as a schema reads them, if they are of this kind."""
        return self.dialect.rewritten(array, kind, column)

    def _respelt(
        self, batches: Iterator[pa.RecordBatch], kinds: Mapping[str, str]
    ) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            columns = zip(batch.columns, kinds.items(), strict=True)
            arrays = [self.rewritten(array, kind, name) for array, (name, kind) in columns]
            yield pa.record_batch(arrays, [*kinds])

    def forgiving(self, say: Callable[[str], None]) -> Source:
        """The same rows, except that one which cannot be read is left out like one that misfits.

        Args:
            say: hears how many rows were left out, for the owner's eyes.
        """
        return self

    def check(self, columns: Collection[str]) -> None:
        """Refuses to go on without these columns.

        Raises:
            DataError: a column is missing.
        """
        there = dict.fromkeys(self.columns)
        for column in columns:
            if column not in there:
                raise DataError(
                    f"{self.name}: no column {column!r} among its {len(there)}; "
                    f"{did_you_mean(column, tuple(there))}"
                )


def open_source(table: object) -> Source:
    """A source for a location (a path or a database), a data frame or an Arrow stream.

    Raises:
        DataError: a file is missing, empty or damaged, or a database does not give the rows.
        UsageError: it is not a table, or of a kind that cannot be read.
    """
    if isinstance(table, Source):
        return table
    if isinstance(table, str | os.PathLike):
        location = parse(os.fsdecode(table))
        return OPENERS[location.kind](location)
    from heterofedsyn.sources import memory

    return memory.open_object(table)


def _open_file(location: Location) -> Source:
    from heterofedsyn.sources.data_files import open_file

    return open_file(location.place, multiline=location.multiline, dialect=location.dialect)


def _open_duckdb(location: Location) -> Source:
    from heterofedsyn.sources.duckdb_query import DuckdbSource

    return DuckdbSource.open(location)


def _open_postgresql(location: Location) -> Source:
    from heterofedsyn.sources.postgresql_query import PostgresqlSource

    return PostgresqlSource.open(location)


def _open_spark(location: Location) -> Source:
    from heterofedsyn.sources.spark_table import SparkSource

    return SparkSource.open(location)


OPENERS: dict[str, Callable[[Location], Source]] = {
    "duckdb": _open_duckdb,
    "file": _open_file,
    "postgresql": _open_postgresql,
    "spark": _open_spark,
}
"""What opens each kind of location; `sources.location` tells the kinds apart."""


def check_names(source: str, columns: Sequence[str]) -> tuple[str, ...]:
    """The names of a table's columns, each of them once.

    They are not repeated: in a file without a header they are the values of a row.
    """
    place: dict[str, int] = {}
    for number, column in enumerate(columns, 1):
        if place.setdefault(column, number) < number:
            raise DataError(
                f"{source}: its columns {place[column]} and {number} have the same name; rename one"
            )
    return tuple(columns)
