"""What a column of public rows has held, batch by batch, in memory that does not grow with rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from heterofedsyn._words import NO_VALUE
from heterofedsyn.schema._missing_codes import Tails

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = ("integer", "number", "boolean", "date", "datetime", "categorical")
"""What a column may be; the first that holds for all its rows wins."""

MOST_TRACKED = 200_000
"""Values of a column that are all different, after which it is believed that they always are."""

MOST_VALUES = 20_000
"""Of a categorical column."""

MARKS = (",", ".", " ", "\u00a0", "\u202f", "'", "\u2019")
"""What may stand in numbers besides digits."""

_DAY = 86_400
_PROBED = 100
_MOST_DECIMALS = 6
_LEADING_ZERO = r"^\s*[+-]?0[0-9]"
_FRACTION = r"^\s*[+-]?[0-9]*\.(?P<digits>[0-9]+)\s*$"


@dataclass(frozen=True, eq=False)
class Way:
    """One way in which cells may be written.

    Attributes:
        kinds: what cells may be read as in this way.
        options: what the location needs so that they are.
        read: the cells as a schema reads them, given their kind and column.
    """

    kinds: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    read: Callable[[pa.Array, str, str], pa.Array]


AS_IT_IS = Way(KINDS, (), lambda array, kind, column: array)


@dataclass(frozen=True)
class Held:
    """All rows so far, read as one kind: the ends of their range, and how they were written."""

    low: float = math.inf
    high: float = -math.inf
    missing: bool = False
    decimals: int = 0
    nulls: frozenset[str] = frozenset()
    tails: Tails = field(default=Tails(), compare=False)

    @property
    def empty(self) -> bool:
        """Whether there was no value."""
        return self.low > self.high

    def merge(self, other: Held) -> Held:
        """Both."""
        return Held(
            min(self.low, other.low),
            max(self.high, other.high),
            self.missing or other.missing,
            max(self.decimals, other.decimals),
            self.nulls | other.nulls,
            self.tails.merge(other.tails),
        )


class Seen:
    """What one column has held."""

    def __init__(self, name: str, ways: Iterable[Way]) -> None:
        self.name = name
        self.rows = 0
        self.known = 0
        self.repeats = False
        self.letters = 0
        self.blanks = 0
        self.values: pa.Array | None = None
        self.readings: dict[tuple[str, Way], Held] = {
            (kind, way): Held() for kind in KINDS for way in ways if kind in way.kinds
        }
        self._tracked = True

    @property
    def all_differ(self) -> bool:
        """Whether no value was there twice."""
        return not self.repeats and self.known > 1

    @property
    def is_text(self) -> bool:
        """Whether its values were texts in all batches."""
        return any(kind == "categorical" for kind, _ in self.readings)

    def add(self, array: pa.Array) -> None:
        """Look at one batch."""
        array = flat(array)
        self.rows += len(array)
        if array.null_count == len(array):
            missing = Held(missing=len(array) > 0)
            self.readings = {key: before.merge(missing) for key, before in self.readings.items()}
            return
        now = self._look(array)
        self.readings = {
            key: before.merge(now[key]) for key, before in self.readings.items() if key in now
        }
        self._track(array)

    def of(self, kind: str) -> list[tuple[Way, Held]]:
        """The ways in which all rows can be read as this kind, the likeliest first."""
        return [(way, reading) for (known, way), reading in self.readings.items() if known == kind]

    def _look(self, array: pa.Array) -> dict[tuple[str, Way], Held]:
        """What a batch holds, for every kind and way in which all of it can be read."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from heterofedsyn.schema import _parsing

        text = _parsing.is_text(array.type)
        zeros = text and pc.any(pc.match_substring_regex(array, pattern=_LEADING_ZERO)).as_py()
        plain, nulls = without_nulls(array) if text else (array, frozenset())
        batch = _Batch(self.name, plain)
        found: dict[tuple[str, Way], Held] = {}
        for kind, way in self.readings:
            if kind == "categorical":
                if text:
                    missing = bool(_parsing.is_empty(array).any())
                    found[kind, way] = Held(0, 1, missing)
                continue
            if pa.types.is_boolean(array.type) and kind != "boolean":
                continue
            if zeros and kind in ("integer", "number", "boolean"):
                continue  # 00420 is a name made of digits, not a number
            reading = batch.read(kind, way)
            if reading is not None:
                found[kind, way] = reading.merge(Held(nulls=nulls))
        return found

    def _track(self, array: pa.Array) -> None:
        """Whether values repeat, and of texts which there are, up to a limit."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from heterofedsyn.schema import _parsing

        text = _parsing.is_text(array.type)
        values = array.filter(pa.array(~_parsing.is_empty(array))) if text else array.drop_null()
        self.known += len(values)
        if text and len(values):
            self.letters += pc.sum(pc.utf8_length(values)).as_py()
            self.blanks += pc.sum(pc.count_substring(values, " ")).as_py()
        if not self._tracked or not _parsing.has_words(array.type):
            self._tracked = False
            return
        values = values.cast(pa.string()) if text else _parsing.words(values)
        before = 0 if self.values is None else len(self.values)
        both = values if self.values is None else pa.concat_arrays([self.values, values])
        unique = both.unique()
        self.repeats = self.repeats or len(unique) < before + len(values)
        self.values = unique
        most = MOST_VALUES if self.repeats else MOST_TRACKED
        if len(unique) > most or (self.repeats and not self.is_text):
            self._tracked = False
            self.values = unique[: most + 1]


def flat(array: pa.Array) -> pa.Array:
    """The same values without a dictionary, in a type that every Arrow function takes."""
    import pyarrow as pa

    from heterofedsyn.schema import _parsing

    if isinstance(array, pa.DictionaryArray):
        return _parsing.plain(array.dictionary).take(array.indices)
    return _parsing.plain(array)


class _Batch:
    """Cells of one column, each way of reading them tried no more often than need be."""

    def __init__(self, name: str, array: pa.Array) -> None:
        import pyarrow.compute as pc

        from heterofedsyn.schema import _parsing

        self._name = name
        self._array = array
        self._some = array[:_PROBED]
        self._text = _parsing.is_text(array.type)
        self._as_said: dict[str, Held | None] = {}
        self._dates: dict[Way, bool] = {}
        self._wordy, self._marks = False, set()
        if self._text:
            digits = pc.match_substring_regex(_known(self._some), pattern="[0-9]")
            self._wordy = not pc.all(digits).as_py()
            self._marks = {
                mark for mark in MARKS if pc.any(pc.match_substring(array, mark)).as_py()
            }

    def read(self, kind: str, way: Way) -> Held | None:
        """All cells as one kind, or nothing if one of them is of another."""
        if not way.options:
            self._as_said[kind] = self._tried(kind, way)
            return self._as_said[kind]
        if not self._text or self._wordy:
            return None
        as_said = self._as_said.get(kind)
        if kind in ("date", "datetime"):
            # Where dates are read anyway, no option for them is looked for.
            known = as_said is not None and not as_said.empty
            return None if known else self._tried(kind, way)
        options = dict(way.options)
        same = not self._marks or (self._marks == {"."} and "decimal" not in options)
        return as_said if same else self._tried(kind, way)

    def _tried(self, kind: str, way: Way) -> Held | None:
        if kind in ("date", "datetime"):  # both are read alike
            if way not in self._dates:
                self._dates[way] = self._in_this_way(self._some, "datetime", way) is not None
            if not self._dates[way]:
                return None
        elif self._text and self._in_this_way(self._some, kind, way) is None:
            return None
        return self._in_this_way(self._array, kind, way)

    def _in_this_way(self, array: pa.Array, kind: str, way: Way) -> Held | None:
        return _read(way.read(array, kind, self._name), kind)


def _known(text: pa.Array) -> pa.Array:
    import pyarrow as pa

    from heterofedsyn.schema import _parsing

    return text.filter(pa.array(~_parsing.is_empty(text)))


def without_nulls(text: pa.Array) -> tuple[pa.Array, frozenset[str]]:
    """The same texts, null where a word stands for no value; and these words."""
    import pyarrow as pa
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(text)
    words = pa.array(NO_VALUE, text.type)
    missing = pc.is_in(trimmed, value_set=words)
    if not pc.any(missing).as_py():
        return text, frozenset()
    return pc.if_else(missing, None, text), frozenset(trimmed.filter(missing).unique().to_pylist())


def _read(array: pa.Array, kind: str) -> Held | None:
    """All values as one kind, or nothing if one of them is of another."""
    from heterofedsyn.schema import _parsing

    read: Callable[[pa.Array], Any] = {
        "integer": _parsing.whole_numbers,
        "number": _parsing.numbers,
        "boolean": _parsing.booleans,
    }.get(kind, _parsing.seconds)
    cells = read(array)
    if not (cells.read | cells.missing).all():
        return None
    values = cells.values[cells.read & (np.abs(cells.values) < math.inf)]
    missing = bool(cells.missing.any())
    if not len(values):
        return Held(missing=missing)
    if kind == "date" and (values % _DAY).any():
        return None
    low, high = values.min().item(), values.max().item()
    places = _decimals(array) if kind == "number" else 0
    tails = Tails.of(values) if kind in ("integer", "number") else Tails()
    return Held(low, high, missing, places, tails=tails)


def _decimals(array: pa.Array) -> int:
    """The most digits after a decimal point; one too many where that is not told."""
    import pyarrow.compute as pc

    from heterofedsyn.schema import _parsing

    text = array if _parsing.is_text(array.type) else _parsing.words(array)
    odd = pc.match_substring_regex(text, pattern=r"[eE]|(?i:inf)")
    if pc.any(odd).as_py():
        return _MOST_DECIMALS + 1
    digits = pc.struct_field(pc.extract_regex(text, pattern=_FRACTION), "digits")
    most = pc.max(pc.utf8_length(digits)).as_py()
    return int(most or 0)


def told_decimals(reading: Held) -> int | None:
    """The decimals of a column, if its rows were written with few enough."""
    return reading.decimals if 0 < reading.decimals <= _MOST_DECIMALS else None
