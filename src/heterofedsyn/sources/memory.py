"""Tables that are already in memory or arrive as an Arrow stream."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from heterofedsyn.errors import DataError, UsageError
from heterofedsyn.sources._cells import texts
from heterofedsyn.sources.source import BATCH_ROWS, Source, check_names

_ACCEPTED = "a path, a pandas, polars or Spark data frame, or any table with an Arrow stream"


def open_object(table: object) -> Source:
    """A source for a data frame, an Arrow table or anything that offers an Arrow stream."""
    kind = f"{type(table).__module__.partition('.')[0]} {type(table).__name__}"
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if isinstance(table, pa.Table):
        return FrameSource(kind, check_names(kind, table.column_names), partial(_of_arrow, table))
    if _is(table, "pandas", "DataFrame"):
        return _open_pandas(table, kind)
    if _is(table, "polars", "DataFrame") or _is(table, "polars", "LazyFrame"):
        return _open_polars(table, kind)
    if _is(table, "duckdb", "DuckDBPyRelation"):
        from heterofedsyn.sources.duckdb_query import open_relation

        return open_relation(table, kind)
    if _is(table, "pyspark", "DataFrame"):
        from heterofedsyn.sources.spark_table import SparkSource

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
    """A table that can be read again; `read` gives some of its columns batch by batch."""

    kind: str
    header: tuple[str, ...]
    read: Callable[[list[str]], Iterator[pa.RecordBatch]]

    @property
    def name(self) -> str:
        """The kind of table."""
        return self.kind

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, as text."""
        return self.header

    def _batches(self, columns: Collection[str]) -> Iterator[pa.RecordBatch]:
        return self.read(list(columns))


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

    def _batches(self, columns: Collection[str]) -> Iterator[pa.RecordBatch]:
        if self._reader is None:
            raise UsageError(
                f"{self.name}: a stream can be read only once; pass a table, a file or a new stream"
            )
        reader, self._reader = self._reader, None
        return _selected(reader, columns, self.name)


def _selected(
    reader: pa.RecordBatchReader, columns: Collection[str], name: str
) -> Iterator[pa.RecordBatch]:
    try:
        for batch in reader:
            yield batch.select(list(columns))
    except (pa.ArrowException, OSError):
        raise DataError(f"{name}: the stream broke off; open it again") from None


def _of_arrow(table: pa.Table, columns: list[str]) -> Iterator[pa.RecordBatch]:
    yield from table.select(columns).to_batches(max_chunksize=BATCH_ROWS)


def _open_pandas(frame: Any, kind: str) -> Source:
    header = check_names(kind, [str(column) for column in frame.columns])

    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        some = frame.iloc[:, [header.index(column) for column in columns]].set_axis(columns, axis=1)
        for start in range(0, len(some), BATCH_ROWS):
            part = some.iloc[start : start + BATCH_ROWS]
            arrays = [_of_pandas(part.iloc[:, place], kind) for place in range(len(columns))]
            yield from pa.table(arrays, columns).combine_chunks().to_batches()

    return FrameSource(kind, header, read)


def _of_pandas(column: Any, kind: str) -> pa.Array | pa.ChunkedArray:
    """A column by its type; Python objects cell by cell, for their type is that of all rows."""
    if (loose := _loose_categories(column)) is not None:
        places = pa.array(column.cat.codes.to_numpy(), mask=column.isna().to_numpy())
        return pa.DictionaryArray.from_arrays(places, texts(loose))
    if str(column.dtype) == "object":
        return texts(column.tolist())
    try:
        return pa.array(column, from_pandas=True)
    except UnicodeEncodeError:  # text that is none, in a column of text
        return texts(column.tolist())
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise DataError(
            f"{kind}: column {str(column.name)!r} holds a kind of values that tables do not have; "
            "convert it first, say with .astype(str)"
        ) from None


def _loose_categories(column: Any) -> list[Any] | None:
    """The categories of a column, if they are Python objects."""
    categories = getattr(column.dtype, "categories", None)
    if categories is None or not hasattr(column, "cat") or str(categories.dtype) != "object":
        return None
    return list(categories)


def _open_polars(frame: Any, kind: str) -> Source:
    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        with _quiet(kind):
            for part in _parts(frame.lazy().select(columns)):
                yield from _of_polars(part).to_batches(max_chunksize=BATCH_ROWS)

    with _quiet(kind):
        header = tuple(frame.collect_schema().names())
    return FrameSource(kind, header, read)


def _of_polars(part: Any) -> pa.Table:
    """A frame by the types of its columns; Python objects cell by cell."""
    loose = [name for name, kind in part.schema.items() if str(kind) == "Object"]
    typed = pa.table(part.drop(loose)) if len(loose) < part.width else None
    return pa.table(
        {
            name: texts(part[name].to_list()) if name in loose or typed is None else typed[name]
            for name in part.columns
        }
    )


def _parts(query: Any) -> Iterator[Any]:
    """The rows of a lazy query as frames of bounded length, in order."""
    if not hasattr(query, "collect_batches"):  # before polars 1.34
        yield from query.collect(engine="streaming").iter_slices(BATCH_ROWS)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that this may change in polars
        parts = query.collect_batches(chunk_size=BATCH_ROWS)
    yield from parts


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
