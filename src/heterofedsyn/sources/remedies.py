"""What to write into a location, for a file that looks like another dialect.

For the owner of the rows, never for who asks an agent: it depends on rows, though no value of one
is repeated.
"""

from __future__ import annotations

import codecs
from pathlib import Path

from heterofedsyn.sources.dialect import Dialect

_SEPARATORS = {";": ";", "\t": "tab", "|": "|", ",": ","}
_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def separator_in(header: str, dialect: Dialect) -> str | None:
    """What seems to stand between the cells of a header, if it is not what should, and a remedy."""
    counts = {mark: header.count(mark) for mark in _SEPARATORS if mark != dialect.delimiter}
    mark = max(counts, key=counts.__getitem__)
    if counts[mark] <= header.count(dialect.delimiter):
        return None
    return (
        f"whose cells seem to be separated by {mark!r}; "
        f"{say('delimiter', _SEPARATORS[mark], dialect)}, or save the file with "
        f"{_NAMES.get(dialect.delimiter, 'its delimiter')}"
    )


def foreign_text(path: Path, dialect: Dialect) -> str:
    """That bytes are no text in the encoding that is given, and which one it may be."""
    if dialect.encoding != "utf-8":
        return f"is not {dialect.encoding}; mend the encoding of the location, or save it as UTF-8"
    wide = _start(path) in _WIDE
    option = say("encoding", "utf-16" if wide else "cp1252", dialect)
    return f"is not UTF-8; {option}{'' if wide else ' (of Windows)'}, or save the file as UTF-8"


def say(key: str, value: str, dialect: Dialect) -> str:
    """How to say something of a whole file."""
    if getattr(dialect, key) != getattr(Dialect(), key):
        return f"write {key}={value} into the location"
    return f"add {'?' if dialect == Dialect() else '&'}{key}={value} to the location"


def mend_cells(dialect: Dialect, surplus: int) -> str:
    """What to do about a row that has so many cells more than the header."""
    marks = _NAMES.get(dialect.delimiter, "delimiters")
    quotes = f"put cells that hold {marks} in quotes, or close a quote"
    if surplus > 0 and dialect.delimiter == ",":
        quotes += "; numbers with decimal commas need quotes too"
    return f"add the missing {marks}, {quotes}"


def _start(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(2)
    except OSError:
        return b""
