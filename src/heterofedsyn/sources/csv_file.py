"""CSV files; every column is read as text, which the schema turns into values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from heterofedsyn.errors import DataError
from heterofedsyn.sources.source import Source, check_names

_BLOCK_BYTES = 4 << 20
_RAGGED = re.compile(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")
_BAD_TEXT = re.compile(r"(?:Row #(\d+): )?CSV conversion error to string: invalid UTF8")


@dataclass(frozen=True)
class CsvSource(Source):
    """A CSV file with a header, in UTF-8; empty cells are empty text."""

    path: Path
    header: tuple[str, ...]

    @classmethod
    def open(cls, path: Path) -> CsvSource:
        """The file, after reading its header."""
        with _one_line(path), _reader(path) as reader:
            names = reader.schema.names
        if len(names) == 1 and (other := re.search(r"[;\t|]", names[0])):
            raise DataError(
                f"{path}: found one column, whose cells seem to be separated by "
                f"{other.group()!r}; save the file with commas"
            )
        return cls(path, check_names(str(path), names))

    @property
    def name(self) -> str:
        """The path."""
        return str(self.path)

    @property
    def columns(self) -> tuple[str, ...]:
        """The header."""
        return self.header

    def _batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with _one_line(self.path), _reader(self.path, columns) as reader:
            yield from reader


def _reader(path: Path, columns: Sequence[str] = ()) -> csv.CSVStreamingReader:
    return csv.open_csv(
        path,
        # Without threads pyarrow knows the number of a row that it cannot read.
        read_options=csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types={column: pa.string() for column in columns},
            include_columns=list(columns),
            strings_can_be_null=False,
        ),
    )


@contextmanager
def _one_line(path: Path) -> Iterator[None]:
    """Turns pyarrow's errors, which quote the row, into a line that does not."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: {_explain(error)}") from None


def _explain(error: Exception) -> str:
    message = str(error)
    if found := _RAGGED.search(message):
        row, expected, cells = found.groups()
        return (
            f"{_row(row)} has {cells} cells but the header has {expected}; "
            "add the missing commas, or put cells that hold commas in quotes"
        )
    if isinstance(error, UnicodeDecodeError):
        return "the header is not UTF-8; save the file as UTF-8"
    if found := _BAD_TEXT.search(message):
        return f"{_row(found.group(1))} is not UTF-8; save the file as UTF-8"
    if "Empty CSV" in message:
        return "the file is empty, or its header does not end with a line break; add a header"
    if "straddling" in message:
        return f"a row is longer than {_BLOCK_BYTES:,} bytes; look for a quote that is not closed"
    if isinstance(error, PermissionError):
        return "reading it is not permitted; ask for access"
    if isinstance(error, OSError):
        return "the file is damaged or cut short; make it again"
    return "not a readable CSV file; save it again as CSV in UTF-8"


def _row(number: str | None) -> str:
    return f"row {number} (the header is row 1)" if number else "a row"
