"""Cells of any spelling, rewritten into the one that a schema reads.

Every cell goes through the same steps, whatever it or another one holds: time must not tell how
many are odd. What is no number in the given spelling becomes one that no schema reads: with
decimal commas "1.5" is neither 1.5 nor 15.
"""

from __future__ import annotations

import re
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from heterofedsyn._words import NO_TEXT
from heterofedsyn.sources._date_format import MONTHS, pattern_of
from heterofedsyn.sources.dialect import Spelling

NUMBERS = ("integer", "number")
DATES = ("date", "datetime")

_SPACES = "[ \u00a0\u202f]"
"""People who write a blank between digits mean any of these."""


def rewritten(array: pa.Array, kind: str, spelling: Spelling) -> pa.Array:
    """The same values in the spelling of schemas: 1234.5, 2025-12-31, null."""
    if isinstance(array, pa.DictionaryArray):
        words = rewritten(array.dictionary, kind, spelling)
        return pa.DictionaryArray.from_arrays(array.indices, words)
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        return _without_numbers(array, spelling.null) if spelling.null else array
    if spelling.null:
        words = pa.array(spelling.null, array.type)
        missing = pc.is_in(pc.ascii_trim_whitespace(array), value_set=words)
        array = pc.if_else(missing, pa.scalar(None, array.type), array)
    if kind in NUMBERS and not spelling.plain_numbers:
        return _numbers(array, spelling)
    if kind in DATES and spelling.date:
        return _dates(array, spelling.date)
    return array


@cache
def number_pattern(decimal: str, thousands: str) -> str:
    """What a number looks like, blanks around it aside; nothing and words for no number too."""
    point, whole = re.escape(decimal), "[0-9]+"
    if thousands:
        mark = _between(thousands)  # in India, groups of two come before that of three
        whole = f"(?:[0-9]+|[0-9]{{1,3}}(?:{mark}[0-9]{{2,3}})*{mark}[0-9]{{3}})"
    return (
        rf"^(?:[+-]?(?:{whole}(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][+-]?[0-9]+)?"
        r"|[+-]?(?i:inf|infinity)|(?i:nan)|)$"
    )


def _between(thousands: str) -> str:
    return _SPACES if thousands.isspace() else re.escape(thousands)


def _numbers(text: pa.Array, spelling: Spelling) -> pa.Array:
    text = pc.ascii_trim_whitespace(text)
    pattern = number_pattern(spelling.decimal, spelling.thousands)
    well = pc.match_substring_regex(text, pattern=pattern)
    if spelling.thousands:
        between = _between(spelling.thousands)
        text = pc.replace_substring_regex(text, pattern=between, replacement="")
    text = pc.replace_substring(text, pattern=spelling.decimal, replacement=".")
    return pc.if_else(well, text, pa.scalar(NO_TEXT, text.type))


def _without_numbers(array: pa.Array, null: tuple[str, ...]) -> pa.Array:
    """Numbers of a typed column, null where they stand for no value."""
    kind = array.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return array
    words = [word for word in null if re.fullmatch(number_pattern(".", ""), word)]
    values = pa.array([float(word) for word in words], pa.float64())
    missing = pc.is_in(array.cast(pa.float64(), safe=False), value_set=values)
    return pc.if_else(missing, pa.scalar(None, kind), array)


def _dates(text: pa.Array, layout: str) -> pa.Array:
    """Dates of one layout in ISO 8601; other text as it is."""
    parts = pc.extract_regex(pc.ascii_trim_whitespace(text), pattern=pattern_of(layout))
    names = {field.name for field in parts.type}
    nothing = pa.scalar("", text.type)

    def part(name: str) -> pa.Array:
        return pc.struct_field(parts, name).cast(text.type)

    if "short" in names:
        late = pc.less(part("short"), pa.scalar("69", text.type))
        year = _joined(pc.if_else(late, "20", "19").cast(text.type), part("short"))
    else:
        year = part("year")
    iso = _joined(year, "-", _month(parts, names, text.type), "-", _two(part("day")))
    hour = _hour(parts, names)
    if hour is not None:
        second = _two(part("second")) if "second" in names else pa.scalar("00", text.type)
        zone = part("zone") if "zone" in names else nothing
        time = _joined(" ", hour.cast(text.type), ":", _two(part("minute")), ":", second, zone)
        iso = pc.if_else(pc.equal(part("minute"), nothing), iso, _joined(iso, time))
    return pc.coalesce(iso, text)


def _month(parts: pa.StructArray, names: set[str], kind: pa.DataType) -> pa.Array:
    if "month" in names:
        return _two(pc.struct_field(parts, "month").cast(kind))
    named = pc.ascii_lower(pc.struct_field(parts, "named"))
    number = pc.add(pc.index_in(named, value_set=pa.array(MONTHS, named.type)), 1)
    return _two(number.cast(kind))


def _hour(parts: pa.StructArray, names: set[str]) -> pa.Array | None:
    """The hour in two digits, also where a day has two halves; None if there is no time at all."""
    if "clock" not in names:
        return _two(pc.struct_field(parts, "hour")) if "hour" in names else None
    clock = pc.struct_field(parts, "clock").cast(pa.int64())
    half = pc.ascii_lower(pc.struct_field(parts, "half"))
    hour = pc.add(
        pc.if_else(pc.equal(clock, 12), 0, clock),
        pc.multiply(pc.starts_with(half, "p").cast(pa.int64()), 12),
    )
    sound = pc.and_(pc.greater_equal(clock, 1), pc.less_equal(clock, 12))
    return _two(pc.if_else(sound, hour, 99).cast(pa.string()))


def _two(digits: pa.Array) -> pa.Array:
    """Numbers of two digits; nothing at all where a part is not there becomes zeros."""
    return pc.utf8_lpad(digits, width=2, padding="0")


def _joined(*texts: pa.Array | pa.Scalar | str) -> pa.Array:
    return pc.binary_join_element_wise(*texts, "")
