"""CSV files; every column is read as text, which the schema turns into values."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from heterofedsyn.errors import DataError
from heterofedsyn.sources.source import Source, check_names

_BLOCK_BYTES = 2 << 20
"""Of the file, parsed at once; also the longest row. pyarrow reads up to 32 blocks ahead."""

_RAGGED = re.compile(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")
_TROUBLES = (pa.ArrowException, OSError, UnicodeDecodeError)
_BAD_TEXT = re.compile(r"(?:Row #(\d+): )?CSV conversion error to string: invalid UTF8")


@dataclass(frozen=True)
class CsvSource(Source):
    """A CSV file with a header, in UTF-8; empty cells are empty text."""

    path: Path
    header: tuple[str, ...]
    say: Callable[[str], None] | None = None
    """Hears of rows that are left out because they cannot be read; else these are refused."""

    @classmethod
    def open(cls, path: Path) -> CsvSource:
        """The file, after reading its header."""
        try:
            # Only the header is looked at; whoever reads the rows hears what is wrong with them.
            with _reader(path, {}, lambda row: "skip") as reader:
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

    def forgiving(self, say: Callable[[str], None]) -> CsvSource:
        """The same file; rows with other than the header's cells, or not in UTF-8, are left out."""
        return replace(self, say=say)

    def _batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return self._strictly(columns) if self.say is None else self._readable(columns, self.say)

    def _readable(
        self, columns: Sequence[str], say: Callable[[str], None]
    ) -> Iterator[pa.RecordBatch]:
        """Rows that can be read; whether one can be depends on it alone."""
        left_out = 0

        def leave_out(row: object) -> str:
            nonlocal left_out
            left_out += 1
            return "skip"

        rows = 1  # the header is a row
        try:
            with _reader(self.path, dict.fromkeys(columns, pa.binary()), leave_out) as reader:
                for batch in reader:
                    rows += batch.num_rows
                    texts = _decoded(batch)
                    left_out += batch.num_rows - texts.num_rows
                    yield texts
        except _TROUBLES as error:
            raise DataError(f"{self.path}: {_explain(error, rows)}") from None
        if left_out:
            say(f"{self.path}: {left_out:,} rows cannot be read and are left out")

    def _strictly(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        rows, last = 1, pa.scalar("")  # the header is a row
        # The last cell of the file shows whether a quote was left open, whatever its bytes.
        kinds = {self.header[-1]: pa.binary()} | dict.fromkeys(columns, pa.string())
        try:
            with _reader(self.path, kinds) as reader:
                for batch in reader:
                    if batch.num_rows:
                        rows += batch.num_rows
                        last = batch.column(self.header[-1])[-1]
                        yield batch.select(list(columns))
            before = b"," if len(self.header) > 1 else b"\r\n"
            if rows > 1 and _is_open(self.path, last.cast(pa.binary()).as_py(), before):
                raise DataError(
                    f"{self.path}: {_row(str(rows))} has a quote that is not closed, so that it "
                    "runs to the end of the file; close it"
                )
        except _TROUBLES as error:
            raise DataError(f"{self.path}: {_explain(error, rows)}") from None


def _is_open(path: Path, cell: bytes, before: bytes) -> bool:
    """Whether a file ends with its last cell after an opening quote, and no closing one."""
    if cell and not cell.strip(b"\r\n") and before != b",":  # its end may be the end of a line
        return False
    opened = b'"' + cell.replace(b'"', b'""')
    tail = _last_bytes(path, 1 + len(opened))
    return tail[:1] in before and tail[1:] == opened


def _last_bytes(path: Path, many: int) -> bytes:
    if not _is_packed(path):
        with path.open("rb") as file:
            file.seek(-min(many, path.stat().st_size), os.SEEK_END)
            return file.read()
    tail = b""
    with gzip.open(path) as file:
        while block := file.read(_BLOCK_BYTES):
            tail = (tail + block)[-many:]
    return tail


def _is_packed(path: Path) -> bool:
    return path.name.lower().endswith(".gz")


def _decoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of a batch of bytes whose cells are all UTF-8, as text."""
    try:
        return _as_text(batch)
    except pa.ArrowInvalid:
        cells = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        return _as_text(batch.filter(pa.array([all(map(_is_utf8, row)) for row in cells])))


def _as_text(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch([c.cast(pa.string()) for c in batch.columns], batch.schema.names)


def _is_utf8(cell: bytes) -> bool:
    try:
        cell.decode()
    except UnicodeDecodeError:
        return False
    return True


def _reader(
    path: Path,
    kinds: dict[str, pa.DataType],
    unreadable: Callable[[object], str] | None = None,
) -> csv.CSVStreamingReader:
    return csv.open_csv(
        pa.input_stream(path, compression="gzip" if _is_packed(path) else None),
        # Without threads pyarrow knows the number of a row that it cannot read.
        read_options=csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
        parse_options=csv.ParseOptions(newlines_in_values=True, invalid_row_handler=unreadable),
        convert_options=csv.ConvertOptions(
            column_types=kinds,
            include_columns=list(kinds),
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
