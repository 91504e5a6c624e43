"""Parquet: one file, or many as one table."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from heterofedsyn.errors import DataError
from heterofedsyn.sources.dialect import Dialect
from heterofedsyn.sources.source import BATCH_ROWS, Source, check_names

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_BUFFER_BYTES = 1 << 20
_DICTIONARY_BYTES = 1 << 21
_DAMAGED = "not a Parquet file, or damaged or cut short; make it again"


@dataclass(frozen=True)
class ParquetSource(Source):
    """Parquet files, one after the other; the first says which columns there are.

    Text that repeats is read as dictionaries, so that each distinct value is seen once.
    """

    has_dialects: ClassVar[bool] = True

    text: str
    paths: tuple[Path, ...]
    root: Path
    header: tuple[str, ...]
    dialect: Dialect = Dialect()

    @classmethod
    def open(cls, text: str, paths: Sequence[Path], root: Path | None = None) -> ParquetSource:
        """The files, after reading the footer of the first.

        Folders below the root that are named like `year=2025` are columns of text.
        """
        first = paths[0]
        root = first.parent if root is None else root
        with _one_line(first):
            names = pq.read_schema(first).names
        names += [name for name in _in_folders(first, root) if name not in names]
        return cls(text, tuple(paths), root, check_names(str(first), names))

    @property
    def name(self) -> str:
        """The path, folder or glob."""
        return self.text

    @property
    def columns(self) -> tuple[str, ...]:
        """The names in the first footer, and those in the names of its folders."""
        return self.header

    def _batches(self, columns: Collection[str]) -> Iterator[pa.RecordBatch]:
        for path in self.paths:
            with _one_line(path):
                schema = pq.read_schema(path)
            check_names(str(path), schema.names)
            outside = _in_folders(path, self.root)
            for column in columns:
                if column not in schema.names and column not in outside:
                    raise DataError(
                        f"{path}: no column {column!r}, which {self.paths[0].name} has; "
                        "files read together need the same columns"
                    )
            inside = [column for column in columns if column in schema.names]
            for batch in _batches_of(path, schema, inside):
                arrays = [
                    batch.column(column) if column in inside else _same(outside[column], batch)
                    for column in columns
                ]
                yield pa.record_batch(arrays, list(columns))


def _in_folders(path: Path, root: Path) -> dict[str, str | None]:
    """What the names of a file's folders say, as Hive and Spark write them."""
    pairs = [folder.partition("=") for folder in path.relative_to(root).parts[:-1]]
    return {
        unquote(key): None if value == _NO_VALUE else unquote(value)
        for key, equals, value in pairs
        if equals
    }


def _same(text: str | None, batch: pa.RecordBatch) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), batch.num_rows).dictionary_encode()


def _batches_of(path: Path, schema: pa.Schema, columns: list[str]) -> Iterator[pa.RecordBatch]:
    texts = [name for name in columns if _is_text(schema.field(name).type)]
    with _one_line(path):
        footer = pq.read_metadata(path)
        # A small buffer instead of whole row groups: memory does not grow with their size.
        file = pq.ParquetFile(
            path,
            metadata=footer,
            read_dictionary=_repeating(footer, texts),
            pre_buffer=False,
            buffer_size=_BUFFER_BYTES,
            page_checksum_verification=True,
        )
    with closing(file):
        batches = file.iter_batches(BATCH_ROWS, columns=columns)
        done = 0
        while True:
            try:
                batch = next(batches, None)
            except (pa.ArrowException, OSError):
                group = _damaged_group(file, columns, done)
                many = file.metadata.num_row_groups
                raise DataError(
                    f"{path}: row group {group} of {many} is damaged or cut short; make it again"
                ) from None
            if batch is None:
                return
            done += batch.num_rows
            yield batch


def _repeating(footer: pq.FileMetaData, texts: list[str]) -> list[str]:
    """Those columns of text that the file holds as dictionaries, to be read as such.

    Where values hardly repeat, a dictionary would grow with the row group. A number of two bytes
    for each value is all that one of any use to a schema takes, beside the dictionary itself.
    """
    place = {footer.schema.column(i).path: i for i in range(footer.num_columns)} if texts else {}

    def is_small(name: str, group: int) -> bool:
        chunk = footer.row_group(group).column(place[name])
        return bool(chunk.total_uncompressed_size <= 2 * chunk.num_values + _DICTIONARY_BYTES)

    groups = range(footer.num_row_groups)
    return [name for name in texts if all(is_small(name, group) for group in groups)]


def _damaged_group(file: pq.ParquetFile, columns: list[str], done: int) -> int:
    """Which row group cannot be read, counted from 1, when so many rows could be."""
    before = 0
    last: int = file.metadata.num_row_groups
    for group in range(last):
        before += file.metadata.row_group(group).num_rows
        if before <= done:
            continue
        try:
            for _ in file.iter_batches(BATCH_ROWS, row_groups=[group], columns=columns):
                pass
        except (pa.ArrowException, OSError):
            return group + 1
    return last


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


@contextmanager
def _one_line(path: Path) -> Iterator[None]:
    """Turns pyarrow's errors on a file's footer into one line."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: the file is gone; check the path") from None
    except PermissionError:
        raise DataError(f"{path}: reading it is not permitted; ask for access") from None
    except (pa.ArrowException, OSError):
        raise DataError(f"{path}: {_DAMAGED}") from None
