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
    if pa.types.is_floating(kind):  # short floats are what their text says
        values = values.cast(kind).cast(pa.float64())
    missing = pc.is_in(array.cast(pa.float64(), safe=False), value_set=values)
    return pc.if_else(missing, pa.scalar(None, kind), array)


def _dates(text: pa.Array, layout: str) -> pa.Array:
    """Dates of one layout in ISO 8601; other text as it is."""
    found = pc.extract_regex(pc.ascii_trim_whitespace(text), pattern=pattern_of(layout))
    names = [field.name for field in found.type]
    parts = {name: pc.struct_field(found, name).cast(pa.string()) for name in names}
    iso = _joined(_year(parts), "-", _month(parts), "-", _two(parts["day"]))
    if "minute" in parts:
        second, zone = _two(parts["second"]) if "second" in parts else "00", parts.get("zone", "")
        time = _joined(" ", _hour(parts), ":", _two(parts["minute"]), ":", second, zone)
        iso = pc.if_else(pc.equal(parts["minute"], ""), iso, _joined(iso, time))
    return pc.coalesce(iso.cast(text.type), text)


def _year(parts: dict[str, pa.Array]) -> pa.Array:
    """The year in four digits; two of them are the years 1969 to 2068, as everywhere in C."""
    if "year" in parts:
        return parts["year"]
    return _joined(pc.if_else(pc.less(parts["short"], "69"), "20", "19"), parts["short"])


def _month(parts: dict[str, pa.Array]) -> pa.Array:
    if "month" in parts:
        return _two(parts["month"])
    place = pc.index_in(pc.ascii_lower(parts["named"]), value_set=pa.array(MONTHS))
    return _two(pc.add(place, 1).cast(pa.string()))


def _hour(parts: dict[str, pa.Array]) -> pa.Array:
    """The hour, also where a day has two halves of twelve; no hour at all if there is none such."""
    if "hour" in parts:
        return _two(parts["hour"])
    clock = parts["clock"].cast(pa.int64())
    late = pc.starts_with(parts["half"], "p", ignore_case=True).cast(pa.int64())
    hour = pc.add(pc.if_else(pc.equal(clock, 12), 0, clock), pc.multiply(late, 12))
    sound = pc.and_(pc.greater_equal(clock, 1), pc.less_equal(clock, 12))
    return _two(pc.if_else(sound, hour, 99).cast(pa.string()))


def _two(digits: pa.Array) -> pa.Array:
    """Two digits; zeros where there is none."""
    return pc.utf8_lpad(digits, width=2, padding="0")


def _joined(*texts: pa.Array | pa.Scalar | str) -> pa.Array:
    return pc.binary_join_element_wise(*texts, "")
