"""Conditions of rules: some values of one column, and the codes that stand for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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

    def settled(self, column: Column, what: str) -> Condition:
        """The same in the one form that values of the column have: 5.0 is 5 among integers."""
        if not isinstance(column, BinnedColumn):
            return self
        values = tuple(column.settled(value, what) for value in self.values)
        ends = tuple((end, column.settled(value, f"{what}: {end}")) for end, value in self.ends)
        return Condition(values, ends, self.missing)

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

    def numbers(self, column: BinnedColumn, what: str) -> list[int | float]:
        """The values, in the unit of the column."""
        return [column.number(value, what) for value in self.values]

    def interval(self, column: BinnedColumn, what: str) -> tuple[float, float]:
        """From where to where the ends reach, in the unit of the column; the second is outside."""
        low, stop = -np.inf, np.inf
        for end, value in self.ends:
            number = column.number(value, f"{what}: {end}")
            if end in ("above", "to"):
                number = column.grid.after(number)
            if end in ("above", "from"):
                low = max(low, number)
            else:
                stop = min(stop, number)
        return low, stop

    def cuts(self, column: BinnedColumn, what: str) -> list[float]:
        """Where the condition begins or ends to hold."""
        after = column.grid.after
        alone = self.numbers(column, what)
        ends = self.interval(column, what) if self.ends else ()
        return [*alone, *(after(number) for number in alone), *ends]

    def mask(self, column: Column, what: str) -> Mask:
        """For every code of the column, whether the condition holds.

        Raises:
            SchemaError: if it names what the column does not have, or holds for nothing.
        """
        holds = np.zeros(column.size, np.bool_)
        if isinstance(column, BinnedColumn):
            grid = column.grid
            if self.ends:
                holds[: grid.layout.size] |= grid.codes_in(*self.interval(column, what))
            alone = self.numbers(column, what)
            if not all(grid.low <= number <= grid.high for number in alone):
                raise SchemaError(f"{what} {self.words} is not all in its range; mend the rule")
            holds[grid.encode(np.array(alone, grid.edges.dtype))] = True
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
            raise SchemaError(f"{what} {self.words} is no value of it; mend the rule or the values")
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
