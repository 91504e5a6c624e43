"""What rules mean for codes: which rows can be, which cells of a table cannot, what follows.

Thresholds of rules cut bins, so that every code lies wholly inside or outside of every condition of
a `never`; whether an `order` is kept inside of bins is decided where values are drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from heterofedsyn._arrays import Codes, Floats, Integers
from heterofedsyn.errors import SchemaError
from heterofedsyn.schema.binned import BinnedColumn
from heterofedsyn.schema.columns import Column, Reading
from heterofedsyn.schema.domain import Clique, Domain
from heterofedsyn.schema.possible import NoRow, Search, alike
from heterofedsyn.schema.rules import Determines, Never, Order, Rule

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Forbidden:
    """Codes that are never found together, by the places of their columns."""

    rule: int
    masks: dict[int, Mask]

    @property
    def places(self) -> tuple[int, ...]:
        """The columns it speaks of."""
        return tuple(self.masks)

    def broken(self, codes: Codes) -> Mask:
        """For every row whether it has them all."""
        (first, mask), *others = self.masks.items()
        found: Mask = mask[codes[first]]
        for place, mask in others:
            found &= mask[codes[place]]
        return found


@dataclass(frozen=True, eq=False)
class Before:
    """Two columns of which the first is never greater.

    Attributes:
        first: for every code of the first column its least number.
        last: for every code of the second its greatest.
    """

    rule: int
    places: tuple[int, int]
    first: NDArray[np.float64 | np.int64]
    last: NDArray[np.float64 | np.int64]

    def broken(self, codes: Codes) -> Mask:
        """For every row whether no numbers in its bins would be in order."""
        one, other = self.places
        found: Mask = self.first[codes[one]] > self.last[codes[other]]
        return found


@dataclass(frozen=True, eq=False)
class Rulebook:
    """The rules of a schema, for the columns that are measured.

    Attributes:
        nevers: also those about columns that others determine.
        orders: of every two columns of which one comes before the other, perhaps by a third.
        derived: the columns that are not measured, each after the one it follows from.
    """

    domain: Domain
    rules: tuple[Rule, ...]
    nevers: tuple[Forbidden, ...]
    orders: tuple[Before, ...]
    derived: tuple[tuple[Determines, Integers], ...]

    @classmethod
    def of(cls, columns: Sequence[Column], rules: Sequence[Rule], measured: Domain) -> Rulebook:
        """Of columns whose bins are cut as the rules need it.

        Raises:
            SchemaError: if rules contradict each other, so that no row is possible.
        """
        known = {column.name: column for column in columns}
        derived = tuple((rule, rule.codes(known)) for rule in _determined(rules))
        nevers, orders = [], []
        for number, rule in enumerate(rules, start=1):
            if isinstance(rule, Never):
                nevers.append(_forbidden(number, rule, known, measured, derived))
            elif isinstance(rule, Order):
                orders += _befores(number, rule, known, measured)
        book = cls(measured, tuple(rules), tuple(nevers), _closed(orders), derived)
        book._check()
        return book

    def __bool__(self) -> bool:
        return bool(self.nevers or self.orders)

    @property
    def _laws(self) -> tuple[Forbidden | Before, ...]:
        return *self.nevers, *self.orders

    def broken(self, codes: Codes) -> dict[int, Mask]:
        """For every rule that could be broken, which rows of codes break it."""
        found: dict[int, Mask] = {}
        for law in self._laws:
            mask = law.broken(codes)
            found[law.rule] = found[law.rule] | mask if law.rule in found else mask
        return found

    def any_broken(self, codes: Codes) -> Mask:
        """For every row of codes whether it breaks a rule."""
        found = np.zeros(codes.shape[1], np.bool_)
        for law in self._laws:
            found |= law.broken(codes)
        return found

    @cached_property
    def pairs(self) -> tuple[Clique, ...]:
        """Pairs of columns that rules tie together: both ends of a never, neighbours in order."""
        names = self.domain.names
        tied = [tuple(law.masks) for law in self.nevers if len(law.masks) == 2]
        for rule in self.rules:
            if isinstance(rule, Order):
                places = [self.domain.index(name) for name in rule.columns]
                tied += pairwise(places)
        return tuple(dict.fromkeys(self.domain.clique(*(names[i] for i in two)) for two in tied))

    def places(self, rule: int) -> tuple[int, ...]:
        """The places of the measured columns that a rule speaks of."""
        laws = [law for law in self._laws if law.rule == rule]
        return tuple(dict.fromkeys(place for law in laws for place in law.places))

    @cached_property
    def components(self) -> tuple[tuple[int, ...], ...]:
        """Places of columns that rules tie together, directly or by others."""
        parts: list[set[int]] = []
        for law in self._laws:
            own = set(law.places)
            for part in [part for part in parts if part & own]:
                parts.remove(part)
                own |= part
            parts.append(own)
        return tuple(tuple(sorted(part)) for part in parts)

    def never_alone(self, name: str) -> Mask | None:
        """The codes that a column never has, whatever the others hold; None if there are none."""
        place = self.domain.index(name)
        masks = [law.masks[place] for law in self.nevers if {*law.masks} == {place}]
        return np.logical_or.reduce(masks) if masks else None

    def impossible(self, first: str, second: str, rows: Integers, columns: Integers) -> Mask | None:
        """The cells of a table of two columns that no row is ever in; None if there are none.

        Args:
            rows: the group of each code of the first column.
            columns: likewise of the second.
        """
        places = self.domain.index(first), self.domain.index(second)
        groups = (rows, columns)
        never = np.zeros((int(rows.max()) + 1, int(columns.max()) + 1), np.bool_)
        for law in self.nevers:
            if {*law.masks} <= {*places}:
                one, other = (
                    _wholly(law.masks[place], own) if place in law.masks else ...
                    for place, own in zip(places, groups, strict=True)
                )
                never |= (np.True_ if one is ... else one[:, None]) & (
                    np.True_ if other is ... else other[None, :]
                )
        for order in self.orders:
            if order.places == places:
                never |= _least(order.first, rows)[:, None] > _most(order.last, columns)[None, :]
            elif order.places == places[::-1]:
                never |= _most(order.last, rows)[:, None] < _least(order.first, columns)[None, :]
        return never if never.any() else None

    def classes(self, name: str) -> Integers:
        """For every code of a column a number; codes with the same are alike for every never."""
        place = self.domain.index(name)
        masks = [law.masks[place] for law in self.nevers if place in law.masks]
        if not masks:
            return np.zeros(self.domain.size(name), np.int64)
        return alike(masks)

    def levels(self, name: str) -> tuple[Integers, ...]:
        """What a column determines: for every code a group, with the fewest groups first."""
        maps = {name: np.arange(self.domain.size(name))}
        for rule, codes in self.derived:
            if rule.source in maps:
                maps[rule.target] = codes[maps[rule.source]]
        groups = [
            np.unique(codes, return_inverse=True)[1] for n, codes in maps.items() if n != name
        ]
        return tuple(sorted(groups, key=lambda own: int(own.max())))

    def possible(self, weights: Mapping[int, Floats], rng: np.random.Generator) -> dict[int, int]:
        """Codes of all columns that rules speak of, which break none.

        Args:
            weights: by place, how likely each code should be.
        """
        try:
            return Search(self.domain.sizes, self.nevers, self.orders, weights, rng).run()
        except NoRow:
            return self._some_row

    @cached_property
    def _some_row(self) -> dict[int, int]:
        return Search(self.domain.sizes, self.nevers, self.orders).run()

    def _check(self) -> None:
        """Refuse rules that leave no row."""
        try:
            _ = self._some_row
        except NoRow as error:
            for number in range(1, len(self.rules) + 1):
                fewer = replace(
                    self,
                    nevers=tuple(law for law in self.nevers if law.rule != number),
                    orders=tuple(law for law in self.orders if law.rule != number),
                )
                try:
                    _ = fewer._some_row
                except NoRow:
                    continue
                raise SchemaError(
                    f"rule {number} ({self.rules[number - 1].words}) {error}; mend or remove it"
                ) from None
            raise SchemaError(f"the rules together: {error}; mend or remove some") from None

    def contradicted(self, readings: Mapping[str, Reading], fits: Mask) -> dict[int, Mask]:
        """For every rule which rows of a table break it, down to their very values.

        Args:
            readings: of all columns that are read.
            fits: rows whose cells all fit; the others break no rule.
        """
        codes = [readings[name].codes for name in self.domain.names]
        follows = {rule.target: codes for rule, codes in self.derived}
        found = {law.rule: fits & law.broken(codes) for law in self.nevers}  # type: ignore[arg-type]
        for number, rule in enumerate(self.rules, start=1):
            if isinstance(rule, Order):
                found[number] = fits & _disordered([readings[name] for name in rule.columns])
            elif isinstance(rule, Determines):
                source, target = readings[rule.source], readings[rule.target]
                other = follows[rule.target][source.codes] != target.codes
                found[number] = fits & other & ~source.missing & ~target.missing
        return found


def _disordered(readings: Sequence[Reading]) -> Mask:
    """Rows in which a number is less than one before it."""
    found = np.zeros(readings[0].codes.size, np.bool_)
    greatest = None
    for reading in readings:
        numbers = reading.numbers
        assert numbers is not None
        if greatest is None:
            greatest, known = numbers.copy(), ~reading.missing
            continue
        found |= known & ~reading.missing & (numbers < greatest)
        take = ~reading.missing & (~known | (numbers > greatest))
        greatest = np.where(take, numbers, greatest)
        known = known | ~reading.missing
    return found


def _determined(rules: Sequence[Rule]) -> list[Determines]:
    """The rules that determine columns, each after those that its source follows from."""
    waiting = [rule for rule in rules if isinstance(rule, Determines)]
    targets = [rule.target for rule in waiting]
    for target in targets:
        if targets.count(target) > 1:
            raise SchemaError(f"column {target!r} is determined by two rules; remove one")
    ordered: list[Determines] = []
    while waiting:
        left = {rule.target for rule in waiting}
        ready = [rule for rule in waiting if rule.source not in left]
        if not ready:
            raise SchemaError(f"{waiting[0].words}, and in a circle back; remove one of the rules")
        ordered += ready
        waiting = [rule for rule in waiting if rule not in ready]
    return ordered


def _forbidden(
    number: int,
    rule: Never,
    columns: Mapping[str, Column],
    domain: Domain,
    derived: Sequence[tuple[Determines, Integers]],
) -> Forbidden:
    """A never in terms of measured columns: a condition on a derived one is one on its source."""
    above = {own.target: (own.source, codes) for own, codes in derived}
    masks: dict[int, Mask] = {}
    for name, condition in rule.conditions:
        mask, at = condition.mask(columns[name], f"rule {number}: column {name!r}"), name
        while at in above:
            at, codes = above[at]
            mask = mask[codes]
        place = domain.index(at)
        masks[place] = masks[place] & mask if place in masks else mask
    return Forbidden(number, masks)


def _befores(
    number: int, rule: Order, columns: Mapping[str, Column], domain: Domain
) -> list[Before]:
    laws = []
    for i, one in enumerate(rule.columns):
        for other in rule.columns[i + 1 :]:
            first, _ = _ends(columns[one])
            _, last = _ends(columns[other])
            places = domain.index(one), domain.index(other)
            laws.append(Before(number, places, first, last))
    return laws


def _ends(column: Column) -> tuple[NDArray[np.float64 | np.int64], ...]:
    """The least and the greatest number of every code; a missing value is in order with all."""
    assert isinstance(column, BinnedColumn)
    first, last = column.grid.spans
    if not column.nullable:
        return first, last
    if first.dtype == np.int64:
        limits = np.iinfo(np.int64)
        return np.append(first, limits.min), np.append(last, limits.max)
    return np.append(first, -np.inf), np.append(last, np.inf)


def _closed(orders: Sequence[Before]) -> tuple[Before, ...]:
    """These and what follows from them: a before b and b before c is a before c."""
    laws = {law.places: law for law in reversed(orders)}
    middles = {place for places in laws for place in places}
    for middle in middles:
        ending = [law for law in laws.values() if law.places[1] == middle]
        starting = [law for law in laws.values() if law.places[0] == middle]
        for before, after in product(ending, starting):
            ends = before.places[0], after.places[1]
            if ends not in laws and ends[0] != ends[1]:
                laws[ends] = Before(before.rule, ends, before.first, after.last)
    for (one, other), law in laws.items():
        if (other, one) in laws:
            raise SchemaError(
                f"rule {law.rule}: the columns come before each other in a circle; "
                "remove one of the rules"
            )
    return tuple(laws.values())


def _wholly(mask: Mask, groups: Integers) -> Mask:
    """The groups all of whose codes are in the mask."""
    outside = np.bincount(groups, ~mask, minlength=int(groups.max()) + 1)
    whole: Mask = outside == 0
    return whole


def _least(values: NDArray[np.float64 | np.int64], groups: Integers) -> NDArray[np.float64]:
    ends = np.full(int(groups.max()) + 1, np.inf)
    np.minimum.at(ends, groups, values)
    return ends


def _most(values: NDArray[np.float64 | np.int64], groups: Integers) -> NDArray[np.float64]:
    ends = np.full(int(groups.max()) + 1, -np.inf)
    np.maximum.at(ends, groups, values)
    return ends
