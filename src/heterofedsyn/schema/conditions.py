"""Conditions of rules: some values of one column, and the codes that stand for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heterofedsyn._arrays import Floats, Integers
from heterofedsyn._toml import Inline
from heterofedsyn.errors import SchemaError
from heterofedsyn.schema import _checks
from heterofedsyn.schema.binned import BinnedColumn
from heterofedsyn.schema.columns import CategoricalColumn, Column

Mask = NDArray[np.bool_]

_ENDS = ("above", "below", "from", "to")


@dataclass(frozen=True)
class Condition:
    """Some values of one column.

    Attributes:
        values: these, or none if a range is meant.
        ends: of the range, by the words above, below, from and to.
        missing: whether a missing value is meant too.
    """

    values: tuple[Any, ...] = ()
    ends: tuple[tuple[str, Any], ...] = ()
    missing: bool = False

    @classmethod
    def of(cls, given: object, what: str) -> Condition:
        """What a schema file says: a value, a list of them, or a table of ends."""
        if not isinstance(given, Mapping):
            values = tuple(given) if isinstance(given, list | tuple) else (given,)
            if not values:
                raise SchemaError(f"{what} lists no value; list at least one")
            return cls(values)
        known = ("values", *_ENDS, "missing")
        for key in given:
            if key not in known:
                raise SchemaError(f"{what} has the unknown key {key!r}; {_checks.hint(key, known)}")
        _checks.flag(given.get("missing", False), f"{what}: missing")
        values = _checks.listed(given.get("values", ()), f"{what}: values")
        ends = tuple((end, given[end]) for end in _ENDS if end in given)
        condition = cls(values, ends, given.get("missing", False))
        if condition == cls():
            raise SchemaError(f"{what} says nothing; give a value, or one of {', '.join(known)}")
        if values and ends:
            raise SchemaError(f"{what} has both values and ends of a range; use two rules")
        return condition

    @property
    def settings(self) -> Any:
        """The same as a schema file says it."""
        if self.ends or self.missing:
            listed = {"values": list(self.values)} if self.values else {}
            missing = {"missing": True} if self.missing else {}
            return Inline(listed | dict(self.ends) | missing)
        return list(self.values) if len(self.values) > 1 else self.values[0]

    @property
    def words(self) -> str:
        """The same for people."""
        parts = [f"{end} {_said(value)}" for end, value in self.ends]
        if self.values:
            parts = [" or ".join(map(_said, self.values))]
        said = " and ".join(parts)
        if self.missing:
            said = f"{said} or missing" if said else "missing"
        return said

    def intervals(self, column: BinnedColumn, what: str) -> list[tuple[float, float]]:
        """Where the condition holds, in the unit of the column; the second end does not count."""
        after = column.grid.after
        if not self.ends and not self.values:
            return []
        if self.values:
            numbers = [column.number(value, what) for value in self.values]
            return [(number, after(number)) for number in numbers]  # type: ignore[arg-type]
        low, stop = -np.inf, np.inf
        for end, value in self.ends:
            number = column.number(value, f"{what}: {end}")
            if end in ("above", "to"):
                number = after(number)  # type: ignore[arg-type]
            if end in ("above", "from"):
                low = max(low, number)
            else:
                stop = min(stop, number)
        return [(low, stop)]

    def mask(self, column: Column, what: str) -> Mask:
        """For every code of the column, whether the condition holds.

        Raises:
            SchemaError: if it names what the column does not have, or holds for nothing.
        """
        holds = np.zeros(column.size, np.bool_)
        if isinstance(column, BinnedColumn):
            first = column.grid.spans[0]
            holds[: first.size] = self._ranged(column, first, what)
        elif isinstance(column, CategoricalColumn):
            holds[: len(column.values)] = self._listed(column, what)
        else:
            if self.ends or not all(isinstance(value, bool) for value in self.values):
                raise SchemaError(f"{what} must be true or false")
            holds[[int(value) for value in self.values]] = True
        if self.missing:
            if not column.nullable:
                raise SchemaError(f"{what} can never be missing; leave out missing = true")
            holds[-1] = True
        if not holds.any():
            raise SchemaError(f"{what} {self.words} is no value of it; mend the rule or the range")
        return holds

    def _ranged(self, column: BinnedColumn, first: Integers | Floats, what: str) -> Mask:
        intervals = self.intervals(column, what)
        if self.values:  # bins are cut at each, so it is the first of its code
            low, high = column.grid.low, column.grid.high
            starts = [start for start, _ in intervals if low <= start <= high]
            return np.isin(first, np.array(starts, first.dtype))
        holds = np.zeros(first.size, np.bool_)
        for start, stop in intervals:
            holds |= (first >= start) & (first < stop)
        return holds

    def _listed(self, column: CategoricalColumn, what: str) -> Mask:
        place = column.code_of

        def code(value: object) -> int:
            word = _checks.word(value, what)
            if word not in place:
                raise SchemaError(f"{what} has no value {word!r}; {_checks.hint(word, place)}")
            return place[word]

        if self.ends and not column.ordered:
            raise SchemaError(f"{what} has no order, so nothing is above or below; list the values")
        every = np.arange(len(place))
        holds = np.full(every.size, bool(self.ends))
        holds[[code(value) for value in self.values]] = True
        for end, value in self.ends:
            holds &= {
                "above": every > code(value),
                "below": every < code(value),
                "from": every >= code(value),
                "to": every <= code(value),
            }[end]
        return holds


def _said(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
