"""How the cells of a public file may be written: what a draft tries."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from heterofedsyn.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from heterofedsyn.schema._seen import Way
    from heterofedsyn.schema.outline import Options
    from heterofedsyn.sources import Source

_LOOKED_AT = 2**20


def ways_of(source: Source) -> tuple[Way, ...]:
    """As the location says, and where it says nothing, in any common way."""
    from heterofedsyn.schema._seen import KINDS, Way
    from heterofedsyn.sources._date_format import LAYOUTS
    from heterofedsyn.sources.guesses import MARKS

    as_said = Way(KINDS, (), source.rewritten)
    if not source.has_dialects:
        return (as_said,)
    marks = [*MARKS[1:]]
    if source.dialect.delimiter == ",":  # then one in a number is seldom a decimal one
        marks.sort(key=lambda pair: pair != (".", ","))
    others = [
        *((("integer", "number"), _number_options(*pair)) for pair in marks),
        *((("date", "datetime"), {"date": layout}) for layout in LAYOUTS),
    ]
    ways = [as_said]
    for kinds, options in others:
        ways.append(Way(kinds, tuple(options.items()), _reader(source, options)))
    return tuple(ways)


def _number_options(decimal: str, thousands: str) -> dict[str, str]:
    """What a location has to say of these marks."""
    from heterofedsyn.sources.dialect import Spelling

    said, usual = {"decimal": decimal, "thousands": thousands}, Spelling()
    return {key: mark for key, mark in said.items() if mark != getattr(usual, key)}


def _reader(source: Source, options: dict[str, str]) -> Callable[[pa.Array, str, str], pa.Array]:
    from heterofedsyn.sources.dialect import Dialect

    def read(array: pa.Array, kind: str, column: str) -> pa.Array:
        said = source.dialect.of(column)
        if said.date if "date" in options else not said.plain_numbers:
            return source.rewritten(array, kind, column)  # it is said already
        cells = replace(
            said,
            decimal=options.get("decimal", said.decimal),
            thousands=options.get("thousands", said.thousands),
            date=options.get("date", said.date),
        )
        return Dialect(cells=cells).rewritten(array, kind, column)

    return read


def guessed_file(place: Path) -> Options:
    """What the location of a CSV file must say of the file itself, as it looks."""
    from heterofedsyn.schema.outline import option
    from heterofedsyn.sources.remedies import is_wide

    start = _start(place)
    if is_wide(start):
        return {}  # which is refused with a remedy when it is read
    options: dict[tuple[str, str], tuple[str, ...]] = {}
    encoding = "utf-8"
    try:
        start[: start.rfind(b"\n") + 1].decode("utf-8")
    except UnicodeDecodeError:
        encoding = "cp1252"
    header = start.decode(encoding, errors="replace").partition("\n")[0]
    counts = {mark: header.count(mark) for mark in (",", ";", "\t", "|")}
    mark = max(counts, key=counts.__getitem__)
    if mark != "," and counts[mark] > 0:
        options |= option("delimiter", mark)
    if encoding != "utf-8":
        options |= option("encoding", encoding)
    return options


def _start(place: Path) -> bytes:
    try:
        if place.name.lower().endswith(".gz"):
            with gzip.open(place) as file:
                return file.read(_LOOKED_AT)
        with place.open("rb") as plain:
            return plain.read(_LOOKED_AT)
    except (OSError, EOFError) as error:
        raise UsageError(f"cannot read {place}: {type(error).__name__}; check the path") from None
