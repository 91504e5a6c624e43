"""A first schema from a table that its owner declares public, to be read and corrected by hand."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING, Any

from heterofedsyn.errors import SchemaError
from heterofedsyn.schema._checks import SECOND
from heterofedsyn.schema.binned import DatetimeColumn, IntegerColumn, NumberColumn
from heterofedsyn.schema.columns import BooleanColumn, CategoricalColumn, Column
from heterofedsyn.schema.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

MOST_VALUES = 1_000
_KINDS = ("integer", "number", "boolean", "datetime", "categorical")  # the first that holds wins
_LARGEST = 2**61
_LEADING_ZERO = r"^\s*[+-]?0[0-9]"
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class _Seen:
    """What a column has held, read as one kind: the ends of its range, or its categories."""

    missing: bool = False
    values: frozenset[Any] = frozenset()

    def merge(self, other: _Seen, kind: str) -> _Seen:
        values = self.values | other.values
        if kind != "categorical" and values:
            values = frozenset({min(values), max(values)})
        return _Seen(self.missing or other.missing, frozenset(sorted(values)[: MOST_VALUES + 1]))


def draft(batches: Iterable[pa.RecordBatch]) -> Schema:
    """A schema that the rows fit: types, ranges and values are taken from the rows themselves.

    What it says is as public as the rows are: use it on public data only, or replace every
    range and list of values by what is publicly known.
    """
    seen: dict[str, dict[str, _Seen]] = {}
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            before, now = seen.get(name, dict.fromkeys(_KINDS, _Seen())), _look(array)
            both = [kind for kind in before if kind in now]
            seen[name] = {kind: before[kind].merge(now[kind], kind) for kind in both}
    if not rows:
        raise SchemaError("there are no rows to draft a schema from; pass a table with rows")
    problems = {name: problem for name, kinds in seen.items() if (problem := _problem(kinds))}
    if problems:
        listed = ", ".join(f"column {name!r} {problem}" for name, problem in problems.items())
        raise SchemaError(
            f"cannot draft a schema: {listed}; leave such columns (names, identifiers) out of "
            "the table, or write their entries by hand"
        )
    return Schema(tuple(_column(name, kinds) for name, kinds in seen.items()))


def _look(array: pa.Array) -> dict[str, _Seen]:
    """What one batch holds, for every kind that all its values could be."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from heterofedsyn.schema import _parsing

    if isinstance(array, pa.DictionaryArray):
        array = _parsing.plain(array.dictionary).take(array.indices)
    array = _parsing.plain(array)
    if array.null_count == len(array):
        return dict.fromkeys(_KINDS, _Seen(missing=len(array) > 0))
    readers = {
        "integer": _parsing.whole_numbers,
        "number": _parsing.numbers,
        "boolean": _parsing.booleans,
        "datetime": _parsing.seconds,
    }
    text = _parsing.is_text(array.type)
    if pa.types.is_boolean(array.type):
        readers = {"boolean": _parsing.booleans}
    elif text and pc.any(pc.match_substring_regex(array, pattern=_LEADING_ZERO)).as_py():
        readers = {"datetime": _parsing.seconds}  # 00420 is a name made of digits, not a number
    kinds = {}
    for kind, read in readers.items():
        cells = read(array)
        if (cells.read | cells.missing).all():
            values = cells.values[cells.read & (abs(cells.values) < math.inf)]
            ends = {values.min().item(), values.max().item()} if len(values) else ()
            kinds[kind] = _Seen(bool(cells.missing.any()), frozenset(ends))
    if text:
        words = array.filter(~_parsing.is_empty(array)).unique()[: MOST_VALUES + 1]
        missing = bool(_parsing.is_empty(array).any())
        kinds["categorical"] = _Seen(missing, frozenset(words.to_pylist()))
    return kinds


def _problem(kinds: dict[str, _Seen]) -> str | None:
    """Why no entry can be written for a column, if so."""
    if not kinds:
        return "has a type that no column can hold, or mixes types"
    kind, seen = _best(kinds)
    if not seen.values:
        return "holds no values"
    if kind == "categorical" and len(seen.values) > MOST_VALUES:
        return f"has more than {MOST_VALUES:,} distinct texts"
    return None


def _best(kinds: dict[str, _Seen]) -> tuple[str, _Seen]:
    """The most telling kind that holds for all rows."""
    kind = next(kind for kind in _KINDS if kind in kinds)
    if kind == "integer" and any(abs(end) >= _LARGEST for end in kinds[kind].values):
        kind = "number"
    return kind, kinds[kind]


def _column(name: str, kinds: dict[str, _Seen]) -> Column:
    kind, seen = _best(kinds)
    if kind == "boolean":
        return BooleanColumn(name, nullable=seen.missing)
    if kind == "categorical":
        return CategoricalColumn(name, tuple(sorted(seen.values)), nullable=seen.missing)
    low, high = min(seen.values), max(seen.values)
    if kind == "integer":
        return IntegerColumn(name, low, high, nullable=seen.missing)
    if kind == "datetime":
        return DatetimeColumn(name, _moment(low), _moment(high), nullable=seen.missing)
    return NumberColumn(name, *_outwards(low, high), nullable=seen.missing)


def _moment(second: int) -> datetime:
    """The moment of a second since 1970, or the nearest that a date can say."""
    first, last = ((end - _EPOCH) // SECOND for end in (datetime.min, datetime.max))
    return _EPOCH + min(max(second, first), last) * SECOND


def _outwards(low: float, high: float) -> tuple[float, float]:
    """The range widened to round numbers, by at most a hundredth of itself at each end."""
    if low == high:
        return low, high
    step = Decimal(1).scaleb(math.floor(math.log10(high - low)) - 2)
    floor = Decimal(repr(low)).quantize(step, ROUND_FLOOR)
    ceiling = Decimal(repr(high)).quantize(step, ROUND_CEILING)
    return float(floor), float(ceiling)
