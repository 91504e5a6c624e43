"""What rules mean for codes: which rows can be, which cells of a table cannot, what follows.

Thresholds of rules cut bins, so that every code lies wholly inside or outside of every condition of
a `never`; whether an `order` is kept inside of bins is decided where values are drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from heterofedsyn._arrays import Codes, Floats, Integers
from heterofedsyn._words import count
from heterofedsyn.errors import SchemaError
from heterofedsyn.schema.columns import Column, Reading
from heterofedsyn.schema.domain import Clique, Domain
from heterofedsyn.schema.laws import (
    Before,
    Forbidden,
    befores,
    check_orders,
    closed,
    forbidden,
)
from heterofedsyn.schema.possible import FEW_TRIES, MOST_TRIES, NoRow, Search, TooHard, alike
from heterofedsyn.schema.rules import Determines, Never, Order, Rule

Mask = NDArray[np.bool_]

MOST_NAMED_CODES = 2**26
"""Of all columns of all nevers: a byte each is held in memory."""

MOST_NAMED = 50
"""Rules among which those that contradict each other are looked for."""


@dataclass(frozen=True, eq=False)
class Rulebook:
    """The rules of a schema, for the columns that are measured.

    Attributes:
        nevers: also those about columns that others determine.
        orders: of every two columns of which one comes before the other, perhaps by a third.
        derived: the columns that are not measured, each after the one it follows from.
        said: by rule and name the codes of a never, also of columns that are not measured.
    """

    domain: Domain
    rules: tuple[Rule, ...]
    nevers: tuple[Forbidden, ...]
    orders: tuple[Before, ...]
    derived: tuple[tuple[Determines, Integers], ...]
    said: dict[int, dict[str, Mask]]

    @classmethod
    def of(cls, columns: Sequence[Column], rules: Sequence[Rule], domain: Domain) -> Rulebook:
        """Of columns whose bins are cut as the rules need it.

        Raises:
            SchemaError: if rules contradict each other, so that no row is possible.
        """
        known = {column.name: column for column in columns}
        derived = tuple((rule, rule.codes(known)) for rule in _determined(rules))
        said = _said(rules, known)
        nevers = tuple(forbidden(n, masks, domain, derived) for n, masks in said.items())
        orders: list[Before] = []
        for number, rule in enumerate(rules, start=1):
            if isinstance(rule, Order):
                check_orders(len(orders) + len(rule.columns) * (len(rule.columns) - 1) // 2)
                orders += befores(number, rule, known, domain)
        nulls = {i: known[n].size - 1 for i, n in enumerate(domain.names) if known[n].nullable}
        book = cls(domain, tuple(rules), nevers, closed(orders, nulls), derived, said)
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
            if order.middles:
                continue
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

    def source_of(self, name: str) -> str:
        """The column that another follows from, over however many rules; itself if from none."""
        sources = {rule.target: rule.source for rule, _ in self.derived}
        while name in sources:
            name = sources[name]
        return name

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
            laws = self.domain.sizes, self.nevers, self.orders
            return Search(*laws, FEW_TRIES, weights, rng).run()
        except NoRow:
            return self._some_row

    @cached_property
    def _some_row(self) -> dict[int, int]:
        return self._search(MOST_TRIES).run()

    def _search(self, tries: int) -> Search:
        return Search(self.domain.sizes, self.nevers, self.orders, tries)

    def _check(self) -> None:
        """Refuse rules that leave no row, and name those that it takes."""
        try:
            _ = self._some_row
        except TooHard:
            raise SchemaError(
                f"the {count(len(self.rules), 'rule')} make it too hard to find a possible row; "
                "say it with fewer"
            ) from None
        except NoRow:
            needed = {law.rule for law in self._laws}
            for number in sorted(needed) if len(needed) <= MOST_NAMED else ():
                try:
                    _ = self._only(needed - {number})._some_row
                except TooHard:
                    continue
                except NoRow:
                    needed.remove(number)
            said = " and ".join(f"{n} ({self.rules[n - 1].words})" for n in sorted(needed)[:5])
            one, more = len(needed) == 1, " and others" if len(needed) > 5 else ""
            raise SchemaError(
                f"rule{'' if one else 's'} {said}{more} leave{'s' if one else ''} no possible row; "
                f"mend or remove {'it' if one else 'one of them'}"
            ) from None

    def _only(self, rules: set[int]) -> Rulebook:
        """The same with some of the rules alone."""
        return replace(
            self,
            nevers=tuple(law for law in self.nevers if law.rule in rules),
            orders=tuple(law for law in self.orders if law.rule in rules),
        )

    def contradicted(self, readings: Mapping[str, Reading], fits: Mask) -> dict[int, Mask]:
        """For every rule which rows of a table break it, down to their very values.

        Args:
            readings: of all columns that are read.
            fits: rows whose cells all fit; the others break no rule.
        """
        codes = [readings[name].codes for name in self.domain.names]
        follows = {rule.target: codes for rule, codes in self.derived}
        found = {law.rule: fits & law.broken(codes) for law in self.nevers}
        for number, masks in self.said.items():
            own = [mask[readings[name].codes] for name, mask in masks.items()]
            found[number] = found[number] | np.logical_and.reduce([fits, *own])
        for number, rule in enumerate(self.rules, start=1):
            if isinstance(rule, Order):
                found[number] = fits & _out_of_order([readings[name] for name in rule.columns])
            elif isinstance(rule, Determines):
                source, target = readings[rule.source], readings[rule.target]
                other = follows[rule.target][source.codes] != target.codes
                found[number] = fits & other & ~source.missing & ~target.missing
        return found


def _said(rules: Sequence[Rule], columns: Mapping[str, Column]) -> dict[int, dict[str, Mask]]:
    """By rule and name the codes of every never."""
    said: dict[int, dict[str, Mask]] = {}
    held = 0
    for number, rule in enumerate(rules, start=1):
        if isinstance(rule, Never):
            held += sum(columns[name].size for name in rule.columns)
            if held > MOST_NAMED_CODES:
                raise SchemaError(
                    f"rule {number} and those before it speak of columns with more than "
                    f"{MOST_NAMED_CODES:,} codes in all; use fewer rules or bins"
                )
            said[number] = {
                name: condition.mask(columns[name], f"rule {number}: column {name!r}")
                for name, condition in rule.conditions
            }
    return said


def _out_of_order(readings: Sequence[Reading]) -> Mask:
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
