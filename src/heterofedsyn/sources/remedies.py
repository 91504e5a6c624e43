"""What to write into a location, for a file that looks like another dialect.

For the owner of the rows, never for who asks an agent: it depends on rows, though no value of one
is repeated.
"""

from __future__ import annotations

import codecs
import gzip
import zlib
from pathlib import Path

from heterofedsyn.sources.dialect import Dialect

_SEPARATORS = {";": ";", "\t": "tab", "|": "|", ",": ","}
_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)


def separator_in(header: str, dialect: Dialect) -> str | None:
    """What seems to stand between the cells of a header, if it is not what should, and a remedy."""
    mark = _separator(header, dialect)
    if mark is None:
        return None
    return (
        f"whose cells seem to be separated by {mark!r}; "
        f"{_say(dialect, delimiter=_SEPARATORS[mark])}, or save the file with "
        f"{_NAMES.get(dialect.delimiter, 'its delimiter')}"
    )


def foreign_text(path: Path, dialect: Dialect, header: str = "") -> str:
    """That bytes are no text in the encoding that is given, and which one it may be.

    Args:
        header: all of it, if it is the header that is no text.
    """
    if dialect.encoding != "utf-8":
        return f"is not {dialect.encoding}; mend the encoding of the location, or save it as UTF-8"
    if is_wide(_start(path)):
        return "is UTF-16 or UTF-32, and not UTF-8: it cannot be read row by row; save it as UTF-8"
    options, mark = {"encoding": "cp1252"}, _separator(header, dialect)
    if mark is not None:
        options["delimiter"] = _SEPARATORS[mark]
    said = f"{_say(dialect, **options)} (cp1252 is that of Windows)"
    return f"is not UTF-8; {said}, or save the file as UTF-8"


def is_wide(start: bytes) -> bool:
    """Whether a file that begins so says that every letter has two bytes or four."""
    return start.startswith(_WIDE)


def _separator(header: str, dialect: Dialect) -> str | None:
    """What there is more of in a header than of what should stand between its cells."""
    counts = {mark: header.count(mark) for mark in _SEPARATORS}
    mark = max(counts, key=counts.__getitem__)
    return mark if counts[mark] > header.count(dialect.delimiter) else None


def _say(dialect: Dialect, **options: str) -> str:
    """How to say something of a whole file."""
    said = "&".join(f"{key}={value}" for key, value in options.items())
    if any(getattr(dialect, key) != getattr(Dialect(), key) for key in options):
        return f"write {said} into the location"
    return f"add {'?' if dialect == Dialect() else '&'}{said} to the location"


def mend_cells(dialect: Dialect, surplus: int) -> str:
    """What to do about a row that has so many cells more than the header."""
    marks = _NAMES.get(dialect.delimiter, "delimiters")
    quotes = f"put cells that hold {marks} in quotes, or close a quote"
    if surplus > 0 and dialect.delimiter == ",":
        quotes += "; numbers with decimal commas need quotes too"
    return f"add the missing {marks}, {quotes}"


def _start(path: Path) -> bytes:
    packed = path.name.lower().endswith(".gz")
    try:
        with gzip.open(path) if packed else path.open("rb") as file:
            return bytes(file.read(4))
    except (OSError, EOFError, zlib.error):
        return b""
