"""Tables that are already in memory or arrive as an Arrow stream."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from heterofedsyn.errors import DataError, UsageError
from heterofedsyn.sources.source import BATCH_ROWS, Source, check_names

_MIXED = re.compile(r"Conversion failed for column (.+) with type")
_ACCEPTED = "a path, a pandas, polars or Spark data frame, or any table with an Arrow stream"


def open_object(table: object) -> Source:
    """A source for a data frame, an Arrow table or anything that offers an Arrow stream."""
    kind = f"{type(table).__module__.partition('.')[0]} {type(table).__name__}"
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if isinstance(table, pa.Table):
        return FrameSource(kind, check_names(kind, table.column_names), table.select)
    if _is(table, "pandas", "DataFrame"):
        return _open_pandas(table, kind)
    if _is(table, "polars", "DataFrame") or _is(table, "polars", "LazyFrame"):
        return _open_polars(table, kind)
    if _is(table, "pyspark", "DataFrame"):
        from heterofedsyn.sources.spark import SparkSource

        return SparkSource.of(table)
    if not hasattr(table, "__arrow_c_stream__"):
        raise UsageError(
            f"cannot read rows from an object of type {type(table).__name__}; pass {_ACCEPTED}"
        )
    try:
        reader = pa.RecordBatchReader.from_stream(table)
    except (pa.ArrowException, TypeError, ValueError):
        raise UsageError(f"{kind}: not a table of columns; pass {_ACCEPTED}") from None
    return StreamSource(kind, reader)


@dataclass(frozen=True, eq=False)
class FrameSource(Source):
    """A table that can be read again; `select` gives some of its columns as an Arrow table."""

    kind: str
    header: tuple[str, ...]
    select: Callable[[list[str]], pa.Table]

    @property
    def name(self) -> str:
        """The kind of table."""
        return self.kind

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, as text."""
        return self.header

    def _batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from self.select(list(columns)).to_batches(max_chunksize=BATCH_ROWS)


class StreamSource(Source):
    """An Arrow stream, which can be read once."""

    def __init__(self, kind: str, reader: pa.RecordBatchReader) -> None:
        self._kind = kind
        self._columns = check_names(kind, reader.schema.names)
        self._reader: pa.RecordBatchReader | None = reader

    @property
    def name(self) -> str:
        """The kind of stream."""
        return self._kind

    @property
    def columns(self) -> tuple[str, ...]:
        """The names in the stream's schema."""
        return self._columns

    def _batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        if self._reader is None:
            raise UsageError(
                f"{self.name}: a stream can be read only once; pass a table, a file or a new stream"
            )
        reader, self._reader = self._reader, None
        return _selected(reader, columns, self.name)


def _selected(
    reader: pa.RecordBatchReader, columns: Sequence[str], name: str
) -> Iterator[pa.RecordBatch]:
    try:
        for batch in reader:
            yield batch.select(list(columns))
    except (pa.ArrowException, OSError):
        raise DataError(f"{name}: the stream broke off; open it again") from None


def _open_pandas(frame: Any, kind: str) -> Source:
    header = check_names(kind, [str(column) for column in frame.columns])

    def select(columns: list[str]) -> pa.Table:
        some = frame.iloc[:, [header.index(column) for column in columns]]
        try:
            table = pa.Table.from_pandas(some, preserve_index=False)
        except pa.ArrowException as error:
            mixed = _MIXED.search(str(error))
            column = f"column {mixed.group(1)!r}" if mixed else "a column"
            raise DataError(
                f"{kind}: {column} mixes kinds of values; convert it first, say with .astype(str)"
            ) from None
        return table.rename_columns(columns)

    return FrameSource(kind, header, select)


def _open_polars(frame: Any, kind: str) -> Source:
    def select(columns: list[str]) -> pa.Table:
        with _quiet(kind):
            return pa.table(frame.lazy().select(columns).collect())

    with _quiet(kind):
        header = tuple(frame.collect_schema().names())
    return FrameSource(kind, header, select)


@contextmanager
def _quiet(kind: str) -> Iterator[None]:
    """Turns an error of a lazy query, which may quote a row, into a line that does not."""
    try:
        yield
    except Exception as error:
        raise DataError(
            f"{kind}: its columns could not be computed ({type(error).__name__}); "
            "collect it yourself to see why"
        ) from None


def _is(table: object, package: str, name: str) -> bool:
    """Whether an object is of a class of that package, without importing the package."""
    return any(
        kind.__name__ == name and kind.__module__.partition(".")[0] == package
        for kind in type(table).__mro__
    )
