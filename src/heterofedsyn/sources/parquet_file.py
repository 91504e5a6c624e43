"""Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from heterofedsyn.errors import DataError
from heterofedsyn.sources.source import BATCH_ROWS, Source, check_names


@dataclass(frozen=True)
class ParquetSource(Source):
    """A Parquet file; text is read as dictionaries, so that each distinct value is seen once."""

    path: Path
    schema: pa.Schema

    @classmethod
    def open(cls, path: Path) -> ParquetSource:
        """The file, after reading its footer."""
        with _one_line(path):
            schema = pq.read_schema(path)
        check_names(str(path), schema.names)
        return cls(path, schema)

    @property
    def name(self) -> str:
        """The path."""
        return str(self.path)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names in the footer."""
        return tuple(self.schema.names)

    def _batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        texts = [name for name in columns if _is_text(self.schema.field(name).type)]
        with _one_line(self.path), pq.ParquetFile(self.path, read_dictionary=texts) as file:
            for batch in file.iter_batches(BATCH_ROWS, columns=list(columns)):
                yield batch.select(list(columns))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


@contextmanager
def _one_line(path: Path) -> Iterator[None]:
    """Turns pyarrow's errors into one line."""
    try:
        yield
    except PermissionError:
        raise DataError(f"{path}: reading it is not permitted; ask for access") from None
    except (pa.ArrowException, OSError):
        raise DataError(
            f"{path}: not a Parquet file, or damaged or cut short; make it again"
        ) from None
