"""What a rule means for codes: which are never together, and which column comes before another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from heterofedsyn._arrays import Codes, Integers
from heterofedsyn.errors import SchemaError
from heterofedsyn.schema.binned import BinnedColumn
from heterofedsyn.schema.columns import Column
from heterofedsyn.schema.domain import Domain
from heterofedsyn.schema.rules import Determines, Order

Mask = NDArray[np.bool_]
ByPlace: TypeAlias = Codes | Sequence[NDArray[Any]] | Mapping[int, NDArray[Any]]
"""Codes of rows, for every place in the domain or for those that matter."""

MOST_ORDERS = 2_000
"""Pairs of columns of which one comes before the other."""


@dataclass(frozen=True, eq=False)
class Forbidden:
    """Codes that are never found together, by the places of their columns."""

    rule: int
    masks: dict[int, Mask]

    @property
    def places(self) -> tuple[int, ...]:
        """The columns it speaks of."""
        return tuple(self.masks)

    def broken(self, codes: ByPlace) -> Mask:
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
        nulls: the codes of either for missing, beyond all codes if there is none.
        middles: columns by which it follows, and their codes for missing, with which it does not.
    """

    rule: int
    places: tuple[int, int]
    first: NDArray[np.float64 | np.int64]
    last: NDArray[np.float64 | np.int64]
    nulls: tuple[int, int]
    middles: tuple[tuple[int, int], ...] = ()

    def missing(self, codes: ByPlace) -> Mask:
        """For every row whether a value is missing, so that nothing is out of order."""
        either = zip(self.places, self.nulls, strict=True)
        masks = [codes[place] == null for place, null in (*either, *self.middles)]
        found: Mask = np.logical_or.reduce(masks)
        return found

    def broken(self, codes: ByPlace) -> Mask:
        """For every row whether no numbers in its bins would be in order."""
        one, other = self.places
        found: Mask = self.first[codes[one]] > self.last[codes[other]]
        for place, null in self.middles:
            found &= codes[place] != null
        return found


def forbidden(
    number: int,
    said: Mapping[str, Mask],
    domain: Domain,
    derived: Sequence[tuple[Determines, Integers]],
) -> Forbidden:
    """A never in terms of measured columns: a condition on a derived one is one on its source."""
    above = {own.target: (own.source, codes) for own, codes in derived}
    masks: dict[int, Mask] = {}
    for name, own_mask in said.items():
        mask, at = own_mask, name
        while at in above:
            at, codes = above[at]
            mask = mask[codes]
        place = domain.index(at)
        masks[place] = masks[place] & mask if place in masks else mask
    return Forbidden(number, masks)


def befores(
    number: int, rule: Order, columns: Mapping[str, Column], domain: Domain
) -> list[Before]:
    """Every two columns of an order."""
    places = [domain.index(name) for name in rule.columns]
    ends = [_ends(columns[name]) for name in rule.columns]
    nulls = [columns[name].size - columns[name].nullable for name in rule.columns]
    return [
        Before(number, (places[i], places[j]), ends[i][0], ends[j][1], (nulls[i], nulls[j]))
        for i in range(len(places))
        for j in range(i + 1, len(places))
    ]


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


def check_orders(pairs: int) -> None:
    """Refuse more pairs of columns than anybody needs, before they are made."""
    if pairs > MOST_ORDERS:
        raise SchemaError(
            f"orders put more than {MOST_ORDERS:,} pairs of columns in order; say it with fewer"
        )


def closed(orders: Sequence[Before], nulls: Mapping[int, int]) -> tuple[Before, ...]:
    """These and what follows: a before b and b before c is a before c, where b is not missing."""
    laws = {(law.places, law.middles): law for law in reversed(orders)}
    for middle in sorted({place for law in orders for place in law.places}):
        through = ((middle, nulls[middle]),) if middle in nulls else ()
        left = [law for law in laws.values() if law.places[1] == middle]
        right = [law for law in laws.values() if law.places[0] == middle]
        for before in left:
            for after in right:
                places = before.places[0], after.places[1]
                if places[0] == places[1]:
                    raise SchemaError(
                        f"rule {before.rule}: the columns come before each other in a circle; "
                        "remove one of the rules"
                    )
                middles = tuple(sorted({*before.middles, *through, *after.middles}))
                if (places, ()) not in laws:
                    own = before.nulls[0], after.nulls[1]
                    law = Before(before.rule, places, before.first, after.last, own, middles)
                    laws.setdefault((places, middles), law)
        check_orders(len(laws))
    return tuple(laws.values())
