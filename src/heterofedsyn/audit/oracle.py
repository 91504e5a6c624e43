"""An independent opinion: what statistics, prices and guarantees must be, reckoned anew.

Counts are counted from the codes in plain numpy, prices are fractions and decimals of fifty digits.
Nothing of it is shared with the code that is checked; only the matrices of sketches are the
software's own: they are public randomness, and their rows are measured here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np

from heterofedsyn._arrays import Integers
from heterofedsyn.marginals import Dependence, Flat, Grouped, Haar, Sketched, Statistic, Total
from heterofedsyn.privacy.trust import SecureAggregation, Trust
from heterofedsyn.schema import Domain, EncodedTable

LAST_DIGITS = Decimal("1e-35")
"""More than this page errs by, relative to a result; far less than a rounding to a float."""

_UNITS = 1024
_DIGITS = 50
_PI = "3.14159265358979323846264338327950288419716939937510"


def exact(statistic: Statistic, table: EncodedTable) -> Integers:
    """The integers before noise."""
    domain = table.domain
    codes = {name: table.codes[domain.index(name)].astype(np.int64) for name in domain.names}
    match statistic:
        case Total():
            return np.array([table.rows], dtype=np.int64)
        case Flat():
            return _counts([codes[name] for name in statistic.attributes], _shape(statistic, table))
        case Grouped():
            maps = [np.array(groups, dtype=np.int64) for groups in statistic.groups]
            merged = [m[codes[name]] for m, name in zip(maps, statistic.attributes, strict=True)]
            return _counts(merged, tuple(int(m.max()) + 1 for m in maps))
        case Haar():
            size = domain.size(statistic.attributes[0])
            width = 1 << (math.ceil(math.log2(size)) if size > 1 else 0)
            node = width >> statistic.level  # leaves under a node
            place = codes[statistic.attributes[0]]
            differences = np.zeros(1 << statistic.level, dtype=np.int64)
            np.add.at(differences, place // node, np.where(place % node < node // 2, 1, -1))
            return differences
        case Sketched():
            joint = _counts(
                [codes[name] for name in statistic.attributes], _shape(statistic, table)
            )
            matrix = statistic.sketch(domain).matrix.astype(np.int64)
            return np.asarray((joint[:, None] * matrix).sum(axis=0), dtype=np.int64)
        case Dependence():
            shape = _shape(statistic, table)
            joint = _counts([codes[name] for name in statistic.attributes], shape).reshape(shape)
            alone = np.outer(joint.sum(axis=1), joint.sum(axis=0))
            apart = Fraction(int(np.abs(table.rows * joint - alone).sum()), max(1, table.rows))
            return np.array([math.floor(_UNITS * apart + Fraction(1, 2))], dtype=np.int64)


def integers(statistic: Statistic, domain: Domain) -> int:
    """How many integers must leave, whatever the rows are: every cell, zeros too."""
    match statistic:
        case Total() | Dependence():
            return 1
        case Flat():
            return math.prod(domain.size(name) for name in statistic.attributes)
        case Grouped():
            return math.prod(max(groups) + 1 for groups in statistic.groups)
        case Haar():
            return int(2**statistic.level)
        case Sketched():
            return statistic.width


def furthest(statistic: Statistic, domain: Domain) -> int:
    """The square of how far one record can move the integers (L2), exactly."""
    match statistic:
        case Sketched():
            return int(squared_rows(statistic, domain).max())
        case Dependence():
            return (4 * _UNITS + 1) ** 2
        case _:
            return 1


def moved(statistic: Statistic, domain: Domain, rows: int) -> tuple[int, int]:
    """How many integers so many rows can move at most, and how far in all (L1)."""
    match statistic:
        case Sketched():
            matrix = statistic.sketch(domain).matrix.astype(np.int64)
            many = int((matrix != 0).sum(axis=1).max())
            return (statistic.width if rows > 1 else many), rows * int(np.abs(matrix).sum(1).max())
        case Dependence():
            return 1, rows * (4 * _UNITS + 1)
        case _:
            return min(rows, integers(statistic, domain)), rows


def squared_rows(statistic: Sketched, domain: Domain) -> Integers:
    """The squared lengths of a sketch's rows, one per cell."""
    matrix = statistic.sketch(domain).matrix.astype(np.int64)
    return np.asarray((matrix * matrix).sum(axis=1), dtype=np.int64)


def _shape(statistic: Statistic, table: EncodedTable) -> tuple[int, ...]:
    return tuple(table.domain.size(name) for name in statistic.attributes)


def _counts(columns: list[Integers], shape: tuple[int, ...]) -> Integers:
    cells = np.ravel_multi_index(tuple(columns), shape)
    return np.bincount(cells, minlength=math.prod(shape)).astype(np.int64)


def epsilon_of(rho: float, delta: float, conversion: str) -> Decimal:
    """The epsilon that a rho means at this delta, to more digits than any float; MATH section 1."""
    with localcontext(Context(prec=_DIGITS)):
        amount, spread = Decimal(rho), -Decimal(delta).ln()
        if conversion == "paper":
            return amount + 2 * (amount * spread).sqrt()

        def at(log_order: Decimal) -> Decimal:
            order = 1 + log_order.exp()
            tail = (spread - order.ln()) / (order - 1)
            return order * amount + tail + (1 - 1 / order).ln()

        middle = (spread / amount).ln() / 2
        return max(Decimal(0), _least(at, middle - 12, middle + 12))


def _least(at: Callable[[Decimal], Decimal], low: Decimal, high: Decimal) -> Decimal:
    """The minimum of a function with one valley, by its values at two points and two more."""
    golden = (Decimal(5).sqrt() - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = at(left), at(right)
    for _ in range(110):  # to 21 digits of the place, and so to 40 of the minimum
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = at(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = at(right)
    return min(at_left, at_right)


def rounded_up(exact: Fraction) -> float:
    """The least float that is not below a fraction."""
    near = exact.numerator / exact.denominator
    return near if Fraction(near) >= exact else math.nextafter(near, math.inf)


def shares(trust: Trust) -> int:
    """How many sites' noise protects a record for sure; MATH section 1."""
    return trust.quorum - trust.colluding if isinstance(trust, SecureAggregation) else 1


def price_of(
    squared: Fraction, sigma: float, moved: int, trust: Trust, l1: int | None = None
) -> Fraction:
    """What a move of this squared length costs under a trust model, rounded up; MATH section 1.

    Args:
        squared: how far the integers move together (L2), squared.
        sigma: the noise that one site adds.
        moved: how many integers move at most.
        trust: who sees what; under secure aggregation the noise of those counts who are in every
            sum and tell nobody.
        l1: how far they move in all, if that is known.
    """
    sure = shares(trust)
    price = squared / (2 * sure * Fraction(sigma) ** 2)
    if sure == 1:
        return price
    with localcontext(Context(prec=_DIGITS)):
        variance, pi = Decimal(sigma) * Decimal(sigma), Decimal(_PI)
        steps = ((-2 * pi * pi * variance * k / (k + 1)).exp() for k in range(1, sure))
        tau = 10 * sum(steps, Decimal(0))
        scale = (sure * variance).sqrt()
        root = (Decimal(squared.numerator) / squared.denominator).sqrt() / scale
        bounds = [tau * moved, ((root + Decimal(moved).sqrt() * tau) ** 2 - root * root) / 2]
        if l1 is not None:
            bounds.append(l1 / scale * tau + tau * tau * moved / 2)
        # What cancels in the second bound is made good, too.
        slack = min(bounds) * (1 + LAST_DIGITS) + root * root * Decimal("1e-45")
    return price + Fraction(slack)
