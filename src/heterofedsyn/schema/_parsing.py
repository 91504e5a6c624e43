"""Arrow arrays read as one kind of value; what a row holds alone decides how it is read."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from heterofedsyn._arrays import Integers, arrow_of, arrow_text, float_text, numpy_of
from heterofedsyn._words import NO_TEXT
from heterofedsyn.schema._truth import NO, YES

Mask = NDArray[np.bool_]

_DAY = 86_400
_LIMITS = np.iinfo(np.int64)
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DIGITS = 18  # any integer of so many digits fits into 64 bits
_SIGNED = r"^[+-]?[0-9]{1,38}$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$|^[+-]?(?i:inf|infinity)$|^(?i:nan)$"
_WHOLE_DECIMAL = r"^(-?(?:0|[1-9][0-9]*))\.0*$"
_TRAILING_ZEROS = r"^(-?(?:0|[1-9][0-9]*)\.[0-9]*[1-9])0+$"
_SCIENTIFIC = r"^-?[0-9](?:\.[0-9]+)?[eE][+-][0-9]{1,3}$"
_FRACTION = r"(?:\.0+|(\.[0-9]*[1-9])0+)$"
_UTF8 = (
    r"^(?:[\x00-\x7f]|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]"
    r"|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]"
    r"|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2})*$"
)
"""Bytes that are text (RFC 3629); Arrow matches bytes, not letters, in binary arrays."""
_ISO = (
    r"^(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
    r"(?:[Tt ](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,][0-9]+)?)?"
    r"(?:[Zz]| ?(?P<sign>[+-])(?P<ahead>[0-9]{2})(?::?(?P<past>[0-9]{2}))?)?)?$"
)


@dataclass(frozen=True, eq=False)
class Cells:
    """Values of one kind; `read` marks those that were of that kind, `missing` the nulls."""

    values: NDArray[Any]
    missing: Mask
    read: Mask

    def replace(self, values: NDArray[Any]) -> Cells:
        """Other values at the same places."""
        return Cells(values, self.missing, self.read)


def is_text(kind: pa.DataType) -> bool:
    """Whether an array of this type holds text."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def plain(array: pa.Array) -> pa.Array:
    """The same array in a type that every Arrow function takes.

    Short floats become what their text says: 0.7 of 32 bits is 0.7, not 0.699999988.
    """
    if pa.types.is_string_view(array.type):
        return array.cast(pa.large_string())
    if pa.types.is_float16(array.type):
        return _halves().take(array.view(pa.uint16()))
    if pa.types.is_float32(array.type):
        return array.cast(pa.string()).cast(pa.float64())
    if pa.types.is_decimal(array.type) and array.type.scale < 0:
        roomy = array.type.precision - array.type.scale <= 76
        return array.cast(pa.decimal256(76, 0) if roomy else pa.float64())
    if pa.types.is_decimal(array.type) and array.type.bit_width < 128:
        return array.cast(pa.decimal128(38, array.type.scale))
    return array


@cache
def _halves() -> pa.Array:
    """Every float of 16 bits by its bits: Arrow's own text of them is that of wider ones."""
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    return pa.array([float(str(half)) for half in every])


def one(value: str | float, kind: pa.DataType) -> pa.Scalar:
    """A value as Arrow functions take it; see `_arrays.arrow_of` on why it is not left to them."""
    array = arrow_text([value]) if isinstance(value, str) else arrow_of(np.array([value]))
    return array.cast(kind)[0]


def filled(array: pa.Array, value: str | float) -> pa.Array:
    """The same array with a value where it is null."""
    return pc.coalesce(array, one(value, array.type))


def mask(array: pa.Array) -> Mask:
    """A boolean array as numpy; null is false."""
    known: Mask = numpy_of(filled(array, False))
    return known


def numbers(array: pa.Array) -> Cells:
    """Real numbers as float64; NaN and empty text are missing."""
    if is_text(array.type):
        return _numbers_of_text(pc.ascii_trim_whitespace(array))
    if not _is_numeric(array.type):
        return nothing(array)
    if pa.types.is_decimal(array.type):
        array = array.cast(pa.string())  # else the last bit would depend on the scale
    values = numpy_of(filled(array.cast(pa.float64(), safe=False), np.nan))
    missing = np.isnan(values)
    return Cells(np.where(missing, 0.0, values), missing, ~missing)


def whole_numbers(array: pa.Array) -> Cells:
    """Whole numbers as int64; those beyond 64 bits become the nearest that fits."""
    kind = array.type
    if is_text(kind):
        return _whole_numbers_of_text(pc.ascii_trim_whitespace(array))
    if pa.types.is_integer(kind):
        missing = mask(array.is_null())
        values = numpy_of(filled(array, 0))
        if pa.types.is_uint64(kind):
            values = np.minimum(values, np.uint64(_LIMITS.max))
        return Cells(values.astype(np.int64, copy=False), missing, ~missing)
    if pa.types.is_decimal(kind):
        return _whole_decimals(array)
    cells = numbers(array)
    whole = cells.read & (np.floor(cells.values) == cells.values)
    return Cells(to_int64(cells.values), cells.missing, whole)


def booleans(array: pa.Array) -> Cells:
    """Truth values as 0 and 1: the numbers, and the usual words for them in many languages."""
    if pa.types.is_boolean(array.type):
        missing = mask(array.is_null())
        return Cells(mask(array).astype(np.int64), missing, ~missing)
    if not is_text(array.type):
        return _zeros_and_ones(numbers(array))
    text = pc.ascii_lower(pc.ascii_trim_whitespace(array))
    cells = _zeros_and_ones(_numbers_of_text(text))
    places = positions(text, YES + NO)
    spelt, true = places >= 0, (places >= 0) & (places < len(YES))
    return Cells(np.where(true, 1, cells.values), cells.missing, cells.read | spelt)


def seconds(array: pa.Array) -> Cells:
    """Moments as seconds since 1970 in UTC, parts of a second cut off; dates are midnights."""
    kind = array.type
    if is_text(kind):
        return _seconds_of_text(pc.ascii_trim_whitespace(array))
    if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return nothing(array)
    missing = mask(array.is_null())
    if pa.types.is_date32(kind):
        days = numpy_of(filled(array.cast(pa.int32()), 0))
        return Cells(days.astype(np.int64) * _DAY, missing, ~missing)
    ticks = numpy_of(filled(array.cast(pa.int64()), 0))
    unit = kind.unit if pa.types.is_timestamp(kind) else "ms"
    return Cells(ticks // _PER_SECOND[unit], missing, ~missing)


def days(array: pa.Array) -> Cells:
    """Days since 1970, of moments that of UTC; a time of day is cut off."""
    cells = seconds(array)
    return cells.replace(cells.values // _DAY)


def has_words(kind: pa.DataType) -> bool:
    """Whether values of this type can be told apart by a text."""
    known = pa.types.is_boolean(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    return is_text(kind) or _is_numeric(kind) or bool(known)


def words(array: pa.Array) -> pa.Array:
    """The text of each value; `True` is "True", 2.0 is "2", and NaN is null.

    The type has no part in it: 1.50 of two places is "1.5", as it is of one place or as a float. A
    moment has as many digits after the second as it needs; one with a zone is written in UTC.
    """
    if is_text(array.type):
        return array
    if pa.types.is_boolean(array.type):
        return pc.if_else(array, "True", "False")
    if pa.types.is_timestamp(array.type):
        text = array.cast(pa.timestamp(array.type.unit)).cast(pa.string())  # of a zone: in UTC
        text = pc.replace_substring_regex(text, pattern=_FRACTION, replacement=r"\1")
        return text if array.type.tz is None else pc.binary_join_element_wise(text, "+00:00", "")
    if pa.types.is_decimal(array.type):
        return number_form(_rewritten(array.cast(pa.string()), lambda text: f"{Decimal(text):f}"))
    if not pa.types.is_floating(array.type):
        return array.cast(pa.string())
    values = array.cast(pa.float64())
    values = pc.if_else(pc.is_nan(values), None, values)
    whole = pc.and_(pc.equal(pc.floor(values), values), pc.less(pc.abs(values), 2.0**63))
    integers = pc.if_else(whole, values, 0.0).cast(pa.int64())
    return pc.if_else(whole, integers.cast(pa.string()), number_form(values.cast(pa.string())))


def integer_form(text: pa.Array) -> pa.Array:
    """Whole decimals without their point: "2.0" is "2"; other text as it is."""
    return pc.replace_substring_regex(text, pattern=_WHOLE_DECIMAL, replacement=r"\1")


def number_form(text: pa.Array) -> pa.Array:
    """Numbers in one spelling: "2.0" is "2", "1.50" is "1.5", "1e-07" is "0.0000001".

    Other text is as it is, so "1e5", "007" and "+1" too: codes look like this, and no number that
    a program writes does.
    """
    text = integer_form(text)
    text = pc.replace_substring_regex(text, pattern=_TRAILING_ZEROS, replacement=r"\1")
    negative = pc.equal(text, one("-0", text.type))
    return _rewritten(pc.if_else(negative, one("0", text.type), text), _without_exponent)


def _rewritten(text: pa.Array, rewrite: Callable[[str], str]) -> pa.Array:
    """The same texts, those with an exponent in another form."""
    scientific = filled(pc.match_substring_regex(text, pattern=_SCIENTIFIC), False)
    spelt = pc.filter(text, scientific).dictionary_encode()
    entries = arrow_text([rewrite(entry) for entry in spelt.dictionary.to_pylist()])
    entries = entries.cast(text.type)
    return pc.replace_with_mask(text, scientific, entries.take(spelt.indices))


def _without_exponent(text: str) -> str:
    number = float(text)
    return float_text(number) if math.isfinite(number) else text


def only_text(array: pa.Array) -> pa.Array:
    """The same texts; null where the bytes are no text, which not every reader looks at."""
    is_utf8 = pc.match_substring_regex(array.cast(pa.large_binary()), pattern=_UTF8)
    return pc.if_else(is_utf8, array, pa.nulls(1, array.type)[0])


def no_values(text: pa.Array) -> Mask:
    """Where a reader found what is no value of a table."""
    return mask(pc.match_substring(text, NO_TEXT))


def positions(text: pa.Array, among: tuple[str, ...]) -> Integers:
    """Where each text stands in a list, -1 where it does not."""
    indices = pc.index_in(text, value_set=arrow_text(among).cast(text.type))
    places: Integers = numpy_of(filled(indices, -1)).astype(np.int64)
    return places


def nothing(array: pa.Array) -> Cells:
    """Nothing but nulls was read: the array holds another kind of value."""
    missing = mask(array.is_null())
    return Cells(np.zeros(len(array), np.int64), missing, np.zeros(len(array), np.bool_))


def is_empty(text: pa.Array) -> Mask:
    """Whether each text is null or empty."""
    length = pc.binary_length(text)
    return mask(filled(pc.equal(length, one(0, length.type)), True))


def _is_numeric(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def to_int64(values: NDArray[np.float64]) -> Integers:
    """Whole floats as integers; those beyond 64 bits become the nearest that fits."""
    high, low = values >= 2.0**63, values < -(2.0**63)
    inside = np.where(high | low, 0.0, values).astype(np.int64)
    return np.where(high, _LIMITS.max, np.where(low, _LIMITS.min, inside))


def _zeros_and_ones(cells: Cells) -> Cells:
    one, zero = cells.values == 1, cells.values == 0
    return Cells(one.astype(np.int64), cells.missing, cells.read & (one | zero))


def _whole_decimals(array: pa.Array) -> Cells:
    kind = array.type
    if kind.precision == kind.scale:  # no place before the point, so no room for `trunc`
        cells = numbers(array)
        return Cells(to_int64(cells.values), cells.missing, cells.read & (cells.values == 0))
    missing = mask(array.is_null())
    whole = mask(pc.equal(pc.trunc(array), array))
    rounded = numbers(array).values
    values = to_int64(rounded)
    exact = np.abs(rounded) < 2.0**63
    kept = pc.if_else(arrow_of(exact & whole), array, pa.nulls(1, kind)[0]).cast(pa.int64())
    values = np.where(exact & whole, numpy_of(filled(kept, 0)), values)
    return Cells(values, missing, whole)


def _numbers_of_text(text: pa.Array) -> Cells:
    numeric = filled(pc.match_substring_regex(text, pattern=_NUMBER), False)
    values = numpy_of(pc.if_else(numeric, text, one("0", text.type)).cast(pa.float64()))
    missing = is_empty(text) | np.isnan(values)
    return Cells(np.where(missing, 0.0, values), missing, mask(numeric) & ~missing)


def _whole_numbers_of_text(text: pa.Array) -> Cells:
    length = pc.binary_length(text)
    is_short = pc.less_equal(length, one(_DIGITS, length.type))
    short = filled(pc.and_(pc.ascii_is_decimal(text), is_short), False)
    values = numpy_of(pc.if_else(short, text, one("0", text.type)).cast(pa.int64()))
    missing, read = is_empty(text), mask(short)
    # Also if there are none: whether a row is written in another way must not show in the time.
    rest = np.flatnonzero(~read & ~missing)
    values = values.copy()
    others = text.take(arrow_of(rest))
    signed = pc.match_substring_regex(others, pattern=_SIGNED)
    exact = _whole_decimals(
        pc.if_else(signed, others, one("0", others.type)).cast(pa.decimal128(38, 0))
    )
    real = _numbers_of_text(others)
    plain = mask(signed)
    values[rest] = np.where(plain, exact.values, to_int64(real.values))
    read[rest] = plain | (real.read & (np.floor(real.values) == real.values))
    missing[rest] = real.missing
    return Cells(values, missing, read)


def _seconds_of_text(text: pa.Array) -> Cells:
    fields = pc.extract_regex(text, pattern=_ISO)
    matched = mask(fields.is_valid())
    year, month, day, hour, minute, second, ahead, past = (
        _field(fields, name)
        for name in ("year", "month", "day", "hour", "minute", "second", "ahead", "past")
    )
    sign = pc.struct_field(fields, "sign")
    behind = mask(pc.equal(sign, one("-", sign.type)))
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    first = months.astype("datetime64[D]").astype(np.int64)
    length = (months + 1).astype("datetime64[D]").astype(np.int64) - first
    valid = matched & (month >= 1) & (month <= 12) & (day >= 1) & (day <= length)
    valid &= (hour < 24) & (minute < 60) & (second < 60) & (ahead < 24) & (past < 60)
    zone = np.where(behind, -1, 1) * (ahead * 60 + past) * 60
    moments = (first + day - 1) * _DAY + hour * 3600 + minute * 60 + second - zone
    return Cells(moments, is_empty(text), valid)


def _field(fields: pa.StructArray, name: str) -> Integers:
    digits = filled(pc.struct_field(fields, name), "0")
    digits = pc.if_else(pc.equal(digits, one("", digits.type)), one("0", digits.type), digits)
    values: Integers = numpy_of(digits.cast(pa.int64()))
    return values
