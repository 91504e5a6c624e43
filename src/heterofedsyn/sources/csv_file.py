"""CSV files; every column is read as text, which the schema turns into values."""

from __future__ import annotations

import codecs
import gzip
import os
import re
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from heterofedsyn._words import NO_TEXT
from heterofedsyn.errors import DataError, UsageError
from heterofedsyn.sources._csv_lines import MOST_LINE_BYTES, Lines
from heterofedsyn.sources.dialect import Dialect
from heterofedsyn.sources.remedies import foreign_text, mend_cells, separator_in
from heterofedsyn.sources.source import Source, check_names

_BLOCK_BYTES = MOST_LINE_BYTES
"""Of the file, parsed at once; a row may reach into a second block. pyarrow reads 32 ahead."""

_MARK = "heterofedsyn-mark"
codecs.register_error(_MARK, lambda error: (NO_TEXT, error.end))  # type: ignore[attr-defined]

_RAGGED = re.compile(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")
_TROUBLES = (pa.ArrowException, OSError)
_BAD_TEXT = re.compile(r"(?:Row #(\d+): )?CSV conversion error to string: invalid UTF8")


@dataclass(frozen=True)
class CsvSource(Source):
    """A CSV file with a header; empty cells are empty text."""

    has_dialects: ClassVar[bool] = True

    path: Path
    header: tuple[str, ...]
    multiline: bool = False
    """Whether a cell in quotes may hold line breaks; else every line is a row."""
    say: Callable[[str], None] | None = None
    """Hears of rows that are left out because they cannot be read; else these are refused."""
    dialect: Dialect = Dialect()

    @classmethod
    def open(
        cls, path: Path, *, multiline: bool = False, dialect: Dialect = Dialect()
    ) -> CsvSource:
        """The file, after reading its header."""
        if multiline and not dialect.quote:
            raise UsageError(f"{path}: cells that hold line breaks are in quotes; say which")
        lines = None if multiline else Lines(dialect.delimiter, dialect.quote)
        try:
            # Only the header is looked at; whoever reads the rows hears what is wrong with them.
            mark = _Skipping(dialect.encoding).mark
            with _reader(path, dialect, {}, lines, mark, lambda row: "skip") as reader:
                names = reader.schema.names
        except _TROUBLES as error:
            names, trouble = [], _explain(path, dialect, error, 0)
        if lines is not None and lines.header_is_bad:
            names, trouble = [], f"the header, {lines.trouble}"
        if not names:
            raise DataError(f"{path}: {trouble}") from None
        if any(NO_TEXT in name for name in names):
            header = dialect.delimiter.join(names)
            raise DataError(f"{path}: the header {foreign_text(path, dialect, header)}")
        if len(names) == 1 and (other := separator_in(names[0], dialect)):
            raise DataError(f"{path}: found one column, {other}")
        source = cls(path, check_names(str(path), names), multiline, dialect=dialect)
        dialect.check(str(path), names)
        return source

    @property
    def name(self) -> str:
        """The path."""
        return str(self.path)

    @property
    def columns(self) -> tuple[str, ...]:
        """The header."""
        return self.header

    def check(self, columns: Collection[str]) -> None:
        """Refuses to go on without these columns; a first row without any is not repeated."""
        if columns and not {*columns} & {*self.header}:
            other = separator_in(self.dialect.delimiter.join(self.header), self.dialect)
            raise DataError(
                f"{self.path}: none of the {len(columns)} columns asked for is in its first row"
                f"{f', {other}' if other else '; put their names there'}"
            )
        super().check(columns)

    def forgiving(self, say: Callable[[str], None]) -> CsvSource:
        """The same file; rows with other than the header's cells, or no text, are left out."""
        return replace(self, say=say)

    def _batches(self, columns: Collection[str]) -> Iterator[pa.RecordBatch]:
        return self._whole_file(columns) if self.multiline else self._lines(columns)

    def _lines(self, columns: Collection[str]) -> Iterator[pa.RecordBatch]:
        """The rows of a file whose lines are read one by one."""
        rows, skipping = 1, _Skipping(self.dialect.encoding)  # the header is a row
        lines = Lines(self.dialect.delimiter, self.dialect.quote)
        kinds = dict.fromkeys(columns, pa.string())
        how = (self._mark(skipping), None if self.say is None else skipping.unfit)
        try:
            with _reader(self.path, self.dialect, kinds, lines, *how) as reader:
                for batch in reader:
                    rows += batch.num_rows
                    self._check(lines)
                    yield self._readable(batch, skipping, rows)
        except _TROUBLES as error:
            trouble = _explain(self.path, self.dialect, error, rows + skipping.unfitting)
            # A row is counted wrongly after a line that was taken out: name that line instead.
            said = lines.trouble if self.say is None and lines.unreadable else trouble
            raise DataError(f"{self.path}: {said}") from None
        self._check(lines)
        self._tell(skipping.rows + lines.unreadable)

    def _check(self, lines: Lines) -> None:
        """Refuses the first line that cannot be read by itself, unless such lines are left out."""
        if self.say is None and lines.unreadable:
            raise DataError(f"{self.path}: {lines.trouble}")

    def _mark(self, skipping: _Skipping) -> Callable[[bytes], bytes] | None:
        """What turns the file into UTF-8, with marks; pyarrow itself names a row that is not."""
        return None if self.say is None and self.dialect.encoding == "utf-8" else skipping.mark

    def _readable(self, batch: pa.RecordBatch, skipping: _Skipping, rows: int) -> pa.RecordBatch:
        """The rows that are text, of a batch that ends with this row."""
        if self.say is not None:
            return skipping.readable(batch)
        if self._mark(skipping) is not None and batch.columns:
            place = pc.index(_is_marked(batch), True).as_py()
            if place >= 0:
                row = _row(str(rows - batch.num_rows + place + 1))
                raise DataError(f"{self.path}: {row} {foreign_text(self.path, self.dialect)}")
        return batch

    def _tell(self, rows: int) -> None:
        if self.say is not None and rows:
            self.say(f"{self.path}: {rows:,} rows cannot be read and are left out")

    def _whole_file(self, columns: Collection[str]) -> Iterator[pa.RecordBatch]:
        """The rows of a file whose cells may hold line breaks."""
        rows, last, skipping = 1, b"", _Skipping(self.dialect.encoding)
        how = (self._mark(skipping), None if self.say is None else skipping.unfit_or_refused)
        # The last cell of the file shows whether a quote was left open, whatever its bytes.
        kinds = {self.header[-1]: pa.binary()} | dict.fromkeys(columns, pa.string())
        try:
            with _reader(self.path, self.dialect, kinds, None, *how) as reader:
                for batch in reader:
                    if batch.num_rows:
                        rows += batch.num_rows
                        last = batch.column(self.header[-1])[-1].cast(pa.binary()).as_py()
                        wanted = batch.select(list(columns))
                        yield self._readable(wanted, skipping, rows)
            # An open quote in the last row takes no other row with it, unless it spans lines.
            if rows > 1 and (self.say is None or _spans_lines(last)) and self._is_open(last):
                raise DataError(
                    f"{self.path}: {_row(str(rows + skipping.unfitting))} has a quote that is not "
                    "closed, so that it runs to the end of the file; close it"
                )
        except _TROUBLES as error:
            known = rows + skipping.unfitting
            trouble = _explain(self.path, self.dialect, error, known)
            raise DataError(f"{self.path}: {trouble}") from None
        self._tell(skipping.rows)

    def _is_open(self, cell: bytes) -> bool:
        """Whether the file ends with its last cell after an opening quote, and no closing one."""
        delimiter, quote = self.dialect.delimiter.encode(), self.dialect.quote.encode()
        before = delimiter if len(self.header) > 1 else b"\r\n"
        if cell and not cell.strip(b"\r\n") and before != delimiter:  # may be a line's end
            return False
        opened = _marked(quote + cell.replace(quote, quote * 2))
        tail = _marked(_last_bytes(self.path, self.dialect.encoding, 1 + len(opened)))
        return tail.endswith(opened) and tail[: -len(opened)][-1:] in before


class _Skipping:
    """Leaves out rows that cannot be read; whether one can be depends on it alone."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.unfitting = 0
        """Rows with too many or too few cells."""
        self._illegible = 0
        self._decoder = codecs.getincrementaldecoder(encoding)(_MARK)

    @property
    def rows(self) -> int:
        """How many were left out."""
        return self.unfitting + self._illegible

    def mark(self, block: bytes) -> bytes:
        """A block of the file with a mark for every byte that is no text."""
        return self._decoder.decode(block, final=not block).encode()

    def unfit(self, row: Any) -> str:
        """What to do about a row with another number of cells."""
        self.unfitting += 1
        return "skip"

    def unfit_or_refused(self, row: Any) -> str:
        """The same where a row may span lines."""
        if _spans_lines(row.text.encode()):
            return "error"  # its quote may have taken other rows
        return self.unfit(row)

    def readable(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch without a mark.

        They are looked for in every batch: whoever waits must not see whether there are any.
        """
        kept = batch.filter(pc.invert(_is_marked(batch)))
        self._illegible += batch.num_rows - kept.num_rows
        return kept


def _is_marked(batch: pa.RecordBatch) -> pa.BooleanArray:
    return reduce(pc.or_, (pc.match_substring(column, NO_TEXT) for column in batch.columns))


def _spans_lines(text: bytes) -> bool:
    return len(text.rstrip(b"\r\n").splitlines()) > 1


def _marked(data: bytes) -> bytes:
    return data.decode(errors=_MARK).encode()


def _last_bytes(path: Path, encoding: str, many: int) -> bytes:
    """The end of the file, in UTF-8."""
    if not _is_packed(path) and encoding == "utf-8":
        with path.open("rb") as file:
            file.seek(-min(many, path.stat().st_size), os.SEEK_END)
            return file.read()
    tail, mark = b"", _Skipping(encoding).mark
    with gzip.open(path) if _is_packed(path) else path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            tail = (tail + mark(block))[-many:]
    return tail


def _is_packed(path: Path) -> bool:
    return path.name.lower().endswith(".gz")


def _reader(
    path: Path,
    dialect: Dialect,
    kinds: dict[str, pa.DataType],
    lines: Lines | None,
    mark: Callable[[bytes], bytes] | None,
    unfit: Callable[[Any], str] | None,
) -> csv.CSVStreamingReader:
    stream = pa.input_stream(path, compression="gzip" if _is_packed(path) else None)
    for change in (mark, lines):
        stream = stream if change is None else pa.TransformInputStream(stream, change)
    return csv.open_csv(
        stream,
        # Without threads pyarrow knows the number of a row that it cannot read.
        read_options=csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
        parse_options=csv.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char=dialect.quote or False,
            newlines_in_values=lines is None,
            invalid_row_handler=unfit,
        ),
        convert_options=csv.ConvertOptions(
            column_types=kinds,
            include_columns=list(kinds),
            strings_can_be_null=False,
        ),
    )


def _explain(path: Path, dialect: Dialect, error: Exception, rows: int) -> str:
    """Our own words for pyarrow's errors, which quote the row; so many rows were read before."""
    message = str(error)
    if match := _RAGGED.search(message):
        row, expected, cells = match.groups()
        mend = mend_cells(dialect, int(cells) - int(expected))
        return f"{_row(row)} has {cells} cells but the header has {expected}; {mend}"
    if match := _BAD_TEXT.search(message):
        return f"{_row(match.group(1))} {foreign_text(path, dialect)}"
    if "Empty CSV" in message:
        return "the file is empty, or its header does not end with a line break; add a header"
    if "straddling" in message:
        after = f" after row {rows} (the header is row 1)" if rows else ""
        return f"a row{after} is too long to be read; look for a quote that is not closed"
    if isinstance(error, FileNotFoundError):
        return "the file is gone; check the path"
    if isinstance(error, PermissionError):
        return "reading it is not permitted; ask for access"
    if isinstance(error, OSError):
        whole = f" after line {_whole_lines(path)}" if _is_packed(path) else ""
        return f"the file is damaged or cut short{whole}; make it again"
    return "not a readable CSV file; save it again as CSV in UTF-8"


def _whole_lines(path: Path) -> int:
    """How many lines of a packed file can be read before it breaks off."""
    lines = 0
    with suppress(OSError, EOFError, zlib.error), gzip.open(path) as file:
        while block := file.read1(_BLOCK_BYTES):
            lines += block.count(b"\n")
    return lines


def _row(number: str | None) -> str:
    return f"row {number} (the header is row 1)" if number else "a row"
