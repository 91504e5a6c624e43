"""Amounts of privacy in rho (zero-concentrated differential privacy) and what they mean."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

from heterofedsyn.errors import PrivacyRefusal, UsageError, did_you_mean

LARGEST_SIGMA = 1e7
"""Noise beyond this buries every count of a table that people could own."""

LARGE_DELTA = 0.01
"""From here on delta alone lets so much through that nobody should promise it by accident."""

_SLACK = 1e-12
"""Relative widening of sigma, so that no later rounding can lift the price above the charge."""

_DIGITS = 60
"""Of a conversion. Decimal rounds each operation correctly, `ln` and `sqrt` too."""

_ERROR = Decimal("1e-50")
"""More than a dozen roundings to that many digits can add up to, relative to the terms."""


class Conversion(StrEnum):
    """How an amount in rho is stated as (epsilon, delta); MATH section 1."""

    TIGHT = "tight"
    PAPER = "paper"


@dataclass(frozen=True, order=True)
class Budget:
    """An amount of rho-zCDP.

    >>> whole = Budget.of(epsilon=1.0, delta=1e-9)
    >>> round(whole.rho, 5), round(whole.epsilon(1e-9), 6)
    (0.01497, 1.0)
    >>> [round(part.rho / whole.rho, 2) for part in whole.split(1, 3)]
    [0.25, 0.75]
    """

    rho: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.rho) and self.rho >= 0):
            raise UsageError(f"a budget must be a finite rho of at least 0, not {self.rho}")

    @classmethod
    def of(cls, *, epsilon: float, delta: float, conversion: str = Conversion.TIGHT) -> Budget:
        """The largest budget that still guarantees (epsilon, delta)."""
        if not (math.isfinite(epsilon) and 0 < epsilon <= 100):
            raise UsageError(f"epsilon must be above 0 and at most 100, not {epsilon}; 1 is usual")
        _check_delta(delta)
        rho = _largest_rho(epsilon, delta, _conversion(conversion))
        if rho <= 0:
            raise PrivacyRefusal(f"epsilon ({epsilon}) is too small to measure anything; raise it")
        return cls(rho)

    def epsilon(self, delta: float, conversion: str = Conversion.TIGHT) -> float:
        """The epsilon guaranteed at this delta, rounded up."""
        _check_delta(delta)
        return epsilon_of(self.rho, delta, _conversion(conversion))

    def split(self, *weights: float) -> tuple[Budget, ...]:
        """Parts in proportion to the weights; together never more than the whole, exactly."""
        if not weights or min(weights) < 0 or not sum(weights) > 0:
            raise UsageError("a budget is split by weights of at least 0, not all of them 0")
        exact = [Fraction(weight) for weight in weights]
        unit = Fraction(self.rho) / sum(exact)
        return tuple(Budget(_round_down(weight * unit)) for weight in exact)

    def evenly(self, parts: int) -> tuple[Budget, ...]:
        """So many equal parts."""
        return self.split(*[1.0] * parts)

    def part(self, share: float) -> Budget:
        """A share of this budget, rounded down."""
        return Budget(_round_down(Fraction(self.rho) * Fraction(share)))

    def less(self, rho: float) -> Budget:
        """What is left of this budget without so much of it, rounded down."""
        return Budget(_round_down(Fraction(self.rho) - Fraction(rho)))

    def times(self, factor: float) -> Budget:
        """So many times this budget, rounded up."""
        return Budget(_round_up(Fraction(self.rho) * Fraction(factor)))

    def share(self, part: Budget) -> float:
        """Which share of this budget a part is, rounded down."""
        return _round_down(Fraction(part.rho) / Fraction(self.rho))


def together(parts: Iterable[Budget], before: Fraction = Fraction(0)) -> Budget:
    """What several releases cost jointly, and with what was spent before, rounded up once."""
    return Budget(_round_up(sum((Fraction(part.rho) for part in parts), before)))


def epsilon_of(rho: float, delta: float, conversion: Conversion) -> float:
    """The epsilon that rho-zCDP guarantees at delta, never less than the formula; MATH section 1.

    `tight` is Canonne, Kamath and Steinke (2020): for every order alpha > 1,
    epsilon = alpha rho + [ln(1/delta) + alpha ln(1 - 1/alpha) - ln(alpha - 1)] / (alpha - 1).
    """
    if rho == 0:
        return 0.0
    if conversion is Conversion.PAPER:
        with _digits(_DIGITS):
            spread = -Decimal(delta).ln()
            return _outwards(Decimal(rho), 2 * (Decimal(rho) * spread).sqrt())
    return max(0.0, _epsilon_at(_best_order(rho, delta), rho, delta))


def _epsilon_at(less: float, rho: float, delta: float) -> float:
    """The tight bound at the order 1 + less, rounded up."""
    beyond = Decimal(less)
    # 1 + 1 / less must keep all digits of the small part.
    with _digits(_DIGITS + max(0, beyond.adjusted())):
        alpha = 1 + beyond
        terms = (-Decimal(delta).ln(), -alpha * (1 + 1 / beyond).ln(), -beyond.ln())
        return _outwards(alpha * Decimal(rho), *(term / beyond for term in terms))


def _best_order(rho: float, delta: float) -> float:
    """Nearly the best order, less 1. Any order is valid: plain floats may look for it."""
    spread = -math.log(delta)

    def at(log_order: float) -> float:
        less = math.exp(log_order)
        alpha = 1 + less
        return alpha * rho + (spread - alpha * math.log1p(1 / less) - log_order) / less

    # The best order lies near sqrt(ln(1/delta) / rho); a search that stops early, or errs by a
    # rounding, is only a little pessimistic.
    centre = 0.5 * (math.log(max(spread, 1e-3)) - math.log(rho))
    low, high = centre - 12, centre + 12
    for _ in range(120):
        left, right = low + (high - low) * 0.382, low + (high - low) * 0.618
        if at(left) <= at(right):
            high = right
        else:
            low = left
    return math.exp((low + high) / 2)


def _digits(precision: int) -> AbstractContextManager[Context]:
    """Decimal arithmetic of so many digits, whatever the caller's own is set to."""
    return localcontext(Context(prec=precision, rounding=ROUND_HALF_EVEN))


def _outwards(*terms: Decimal) -> float:
    """A sum of terms that are off by less than `_ERROR` of each, rounded up."""
    return _round_up(Fraction(sum(terms) + _ERROR * sum(map(abs, terms))))


@lru_cache(maxsize=1024)
def _largest_rho(epsilon: float, delta: float, conversion: Conversion) -> float:
    low, high = 0.0, epsilon
    # Bisection ends on the side that keeps the promise: epsilon_of(low) <= epsilon.
    while (middle := (low + high) / 2) not in (low, high):
        if epsilon_of(middle, delta, conversion) <= epsilon:
            low = middle
        else:
            high = middle
    return low


def sigma_for(sensitivity: float, budget: Budget) -> float:
    """The noise at which a release of this L2 sensitivity costs at most the budget."""
    if budget.rho <= 0:
        raise PrivacyRefusal("nothing can be measured with a budget of 0; raise epsilon")
    sigma = sensitivity / math.sqrt(2 * budget.rho) * (1 + _SLACK)
    if sigma > LARGEST_SIGMA * sensitivity:
        raise PrivacyRefusal(
            f"the budget is too small to measure anything: rho={budget.rho:.3g} for one release "
            f"means noise of sigma {sigma / sensitivity:.3g} on every count; raise epsilon"
        )
    return sigma


def check_usual_delta(delta: float, *, allow_large: bool) -> None:
    """Refuse a delta that nobody means, unless it is allowed in so many words.

    Raises:
        PrivacyRefusal: saying what it would let through.
    """
    if delta >= LARGE_DELTA and not allow_large:
        raise PrivacyRefusal(
            f"delta {delta:g} would allow publishing {delta:.0%} of all records outright; take "
            "less than 1 / (all rows), 1e-9 is usual, or say that it is meant with "
            "--allow-large-delta (in Python allow_large_delta=True)"
        )


def large_delta(delta: float, rows: int) -> tuple[str, ...]:
    """What to say of a delta that protects nobody among so many rows, if it does not."""
    if delta * rows < 1:
        return ()
    return (
        f"delta {delta:g} is not below 1 / (number of rows): it would allow publishing somebody's "
        "record outright; take a smaller one",
    )


def _check_delta(delta: float) -> None:
    if not 1e-300 <= delta < 1:
        raise UsageError(
            f"delta must be above 0 and below 1, not {delta}; take less than 1 / (all rows)"
        )


def _conversion(name: str) -> Conversion:
    try:
        return Conversion(name)
    except ValueError:
        hint = did_you_mean(name, list(Conversion))
        raise UsageError(f"there is no conversion {name!r}; {hint}") from None


def _round_down(value: Fraction) -> float:
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)


def _round_up(value: Fraction) -> float:
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)
