"""CSV files; every column is read as text, which the schema turns into values."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from heterofedsyn.errors import DataError
from heterofedsyn.sources.source import Source, check_names

_BLOCK_BYTES = 4 << 20
_RAGGED = re.compile(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")
_TROUBLES = (pa.ArrowException, OSError, UnicodeDecodeError)
_BAD_TEXT = re.compile(r"(?:Row #(\d+): )?CSV conversion error to string: invalid UTF8")


@dataclass(frozen=True)
class CsvSource(Source):
    """A CSV file with a header, in UTF-8; empty cells are empty text."""

    path: Path
    header: tuple[str, ...]

    @classmethod
    def open(cls, path: Path) -> CsvSource:
        """The file, after reading its header."""
        try:
            with _reader(path) as reader:
                names = reader.schema.names
        except _TROUBLES as error:
            raise DataError(f"{path}: {_explain(error, 0)}") from None
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
        rows, last = 1, ""  # the header is a row
        try:
            # The last cell of the file shows whether a quote was left open.
            with _reader(self.path, list(dict.fromkeys([*columns, self.header[-1]]))) as reader:
                for batch in reader:
                    if batch.num_rows:
                        rows += batch.num_rows
                        last = batch.column(batch.schema.get_field_index(self.header[-1]))[
                            -1
                        ].as_py()
                        yield batch.select(list(columns))
            if re.search(r"[\r\n]", last) and not _ends_in_closed_quote(self.path):
                raise DataError(
                    f"{self.path}: {_row(str(rows))} has a quote that is not closed, so that it "
                    "runs to the end of the file; close it"
                )
        except _TROUBLES as error:
            raise DataError(f"{self.path}: {_explain(error, rows)}") from None


def _ends_in_closed_quote(path: Path) -> bool:
    """Whether the file's last cell ends with a quote that closes it: a pair only stands for one."""
    tail = b""
    with gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            tail = (tail + block)[-_BLOCK_BYTES:]
    text = tail.rstrip(b"\r\n")
    return (len(text) - len(text.rstrip(b'"'))) % 2 == 1


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


def _explain(error: Exception, rows: int) -> str:
    """Our own words for pyarrow's errors, which quote the row; so many rows were read before."""
    message = str(error)
    if found := _RAGGED.search(message):
        row, expected, cells = found.groups()
        return (
            f"{_row(row)} has {cells} cells but the header has {expected}; "
            "add the missing commas, put cells that hold commas in quotes, or close a quote"
        )
    if isinstance(error, UnicodeDecodeError):
        return "the header is not UTF-8; save the file as UTF-8"
    if found := _BAD_TEXT.search(message):
        return f"{_row(found.group(1))} is not UTF-8; save the file as UTF-8"
    if "Empty CSV" in message:
        return "the file is empty, or its header does not end with a line break; add a header"
    if "straddling" in message:
        return (
            f"a row{_after(rows)} is longer than {_BLOCK_BYTES:,} bytes; "
            "look for a quote that is not closed"
        )
    if isinstance(error, FileNotFoundError):
        return "the file is gone; check the path"
    if isinstance(error, PermissionError):
        return "reading it is not permitted; ask for access"
    if isinstance(error, OSError):
        return f"the file is damaged or cut short{_after(rows)}; make it again"
    return "not a readable CSV file; save it again as CSV in UTF-8"


def _after(rows: int) -> str:
    return f" after row {rows} (the header is row 1)" if rows else ""


def _row(number: str | None) -> str:
    return f"row {number} (the header is row 1)" if number else "a row"
