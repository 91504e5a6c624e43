"""How a table of text is written: what stands between cells, in numbers and dates, for no value.

A location says it after a question mark: `raw.csv?delimiter=;&decimal=,&date=%d.%m.%Y&null=NA`.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import unquote

from heterofedsyn.errors import UsageError, did_you_mean
from heterofedsyn.sources._date_format import pattern_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import pyarrow as pa

OF_FILES = ("delimiter", "quote", "encoding")
"""What is said of a whole file; the rest is said of cells, for one column too."""

OF_CELLS = ("decimal", "thousands", "date", "null")

_NAMED = {"tab": "\t", "space": " "}
_ROWWISE = re.compile(
    r"ascii|big5|cp\d+|euc_jp|gb\w+|iso8859-\d+|koi8-[rtu]|kz1048|mac-\w+|shift_jis|"
    r"utf-8(?:-sig)?"
)
"""Encodings in which no byte of a line has a say in how the next line is read.

Where every letter has two bytes or four, a stray one would shift all that follow.
"""


@dataclass(frozen=True)
class Spelling:
    """How cells are written.

    Attributes:
        decimal: what stands before the fraction of a number.
        thousands: what stands between groups of its digits; nothing if they stand together.
        date: the order of day, month and year; nothing for ISO 8601, which is read anyway.
        null: what stands for no value, besides empty cells.
    """

    decimal: str = "."
    thousands: str = ""
    date: str = ""
    null: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("decimal", "thousands"):
            mark = getattr(self, name)
            if len(mark) > 1 or mark.isalnum() or mark in tuple("+-"):
                raise UsageError(f"{name}= takes one character that is in no number; write it once")
        if not self.decimal:
            raise UsageError("decimal= is empty; write decimal=, or leave it out")
        if self.decimal == self.thousands:
            other = "," if self.decimal == "." else "."
            raise UsageError(
                f"decimal and thousands are both {self.decimal!r}; write decimal={other} or "
                f"thousands={other} too"
            )
        if self.date:
            pattern_of(self.date)

    @property
    def plain_numbers(self) -> bool:
        """Whether numbers are written as they are read without a word."""
        return (self.decimal, self.thousands) == (".", "")


@dataclass(frozen=True)
class Dialect:
    """How a table of text is written.

    Attributes:
        delimiter: what stands between cells.
        quote: what stands around cells that hold it; nothing if quotes mean nothing.
        encoding: what the bytes mean.
        cells: how cells are written.
        columns: how those of some columns are, in the order in which they were named.
    """

    delimiter: str = ","
    quote: str = '"'
    encoding: str = "utf-8"
    cells: Spelling = Spelling()
    columns: Mapping[str, Spelling] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name, mark in (("delimiter", self.delimiter), ("quote", self.quote)):
            fine = len(mark) == 1 and mark.isascii() and not mark.isalnum() and mark not in "\r\n"
            if not fine and not (name == "quote" and not mark):
                raise UsageError(f"{name}= takes one character, no letter or digit; write one")
        if self.delimiter == self.quote:
            raise UsageError("delimiter and quote are the same; they must differ")
        object.__setattr__(self, "encoding", _encoding(self.encoding))

    @classmethod
    def parse(cls, name: str, options: str) -> Dialect:
        """What stands after the question mark of a location; values are not repeated.

        Args:
            name: what messages call the location.

        Raises:
            UsageError: an option is unknown, or they contradict each other.
        """
        try:
            return cls._of(list(_split(options)))
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from None

    @classmethod
    def _of(cls, given: list[tuple[str, str, str]]) -> Dialect:
        whole = {key: _one(key, value) for key, _, value in given if key in OF_FILES}
        said: dict[str, dict[str, str]] = {"": {}}
        for key, column, value in given:
            if key in OF_CELLS:
                said.setdefault(column, {})[key] = value
        cells = _spelling(Spelling(), said.pop(""))
        columns = {column: _spelling(cells, options) for column, options in said.items()}
        return cls(**whole, cells=cells, columns=columns)

    def of(self, column: str) -> Spelling:
        """How the cells of one column are written."""
        return self.columns.get(column, self.cells)

    def check(self, name: str, columns: Collection[str]) -> None:
        """Refuses options for columns that are not there; those that are there are not repeated.

        Raises:
            UsageError: naming one.
        """
        for column in self.columns:
            if column not in columns:
                raise UsageError(
                    f"{name}: there is no column {column!r}, of which an option speaks; check its "
                    "spelling"
                )

    @property
    def plain_cells(self) -> bool:
        """Whether all cells are read as they are."""
        return self.cells == Spelling() and not self.columns

    @property
    def plain_file(self) -> bool:
        """Whether nothing is said of the file as a whole."""
        return replace(self, cells=Spelling(), columns={}) == Dialect()

    def rewritten(self, array: pa.Array, kind: str, column: str) -> pa.Array:
        """Cells in the one spelling that a schema reads; each by itself.

        Args:
            kind: that of the schema's column; with an empty one only missing values are told.
        """
        from heterofedsyn.sources._spelling import rewritten

        return rewritten(array, kind, self.of(column))


def written(key: str, new: str | tuple[str, ...], column: str = "") -> str:
    """An option as a location says it.

    >>> written("null", ("NA", "a,b"), "ward")
    'null.ward=NA,a%2Cb'
    """
    value = ",".join(map(_escaped, new)) if isinstance(new, tuple) else new
    name = {text: name for name, text in _NAMED.items()}.get(value, value)
    return f"{key}{f'.{_escaped(column)}' if column else ''}={name}"


def _escaped(text: str) -> str:
    return re.sub("[%&=,]", lambda letter: f"%{ord(letter[0]):02X}", text)


def _split(options: str) -> Iterator[tuple[str, str, str]]:
    """Option, column and value as written; the column is empty where all are meant."""
    seen = set()
    for part in options.split("&"):
        word, equals, value = part.partition("=")
        key, dot, column = word.partition(".")
        if key not in OF_FILES + OF_CELLS:
            raise UsageError(
                f"unknown option {key!r}; {did_you_mean(key, OF_FILES + OF_CELLS)} "
                "(an & that belongs to a value is written %26)"
            )
        if not equals:
            raise UsageError(f"{key} has no value; write {key}=...")
        if dot and key in OF_FILES:
            raise UsageError(f"{key}= is said of the whole file; leave the column out")
        column = _decoded(key, column)
        if dot and not column:
            raise UsageError(f"{key}. names no column; write {key}.COLUMN=..., or {key}=...")
        if (key, column) in seen:
            raise UsageError(f"{key}= is given twice; write it once")
        seen.add((key, column))
        yield key, column, value


def _spelling(usual: Spelling, said: dict[str, str]) -> Spelling:
    words = {key: _one(key, value) for key, value in said.items() if key != "null"}
    null = [_decoded("null", word) for word in said["null"].split(",")] if "null" in said else []
    return replace(usual, **words, null=(*usual.null, *filter(None, map(str.strip, null))))


def _one(key: str, value: str) -> str:
    text = _decoded(key, value)
    if key == "quote" and text == "none":
        return ""
    return _NAMED.get(text, text)


def _decoded(key: str, text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise UsageError(f"{key}= holds % codes that are no UTF-8; mend them") from None


def _encoding(name: str) -> str:
    """The name of an encoding that Python gives it."""
    try:
        known = codecs.lookup(name).name
    except (LookupError, ValueError):
        raise UsageError(
            "encoding= names none that is known; cp1252 is that of Windows, latin-1 another; write "
            "one of them for the file, or save it as UTF-8"
        ) from None
    if not _ROWWISE.fullmatch(known):
        raise UsageError(
            f"encoding={known}: such a file cannot be read row by row; save it as UTF-8"
        )
    return known
