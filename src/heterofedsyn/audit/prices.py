"""The arithmetic of prices, checked in fractions: every rounding must go against us."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Context, Decimal, localcontext
from fractions import Fraction

from heterofedsyn._arrays import stream
from heterofedsyn.audit.effort import Effort
from heterofedsyn.audit.findings import Finding, require
from heterofedsyn.errors import PrivacyRefusal
from heterofedsyn.privacy.budget import Budget, Conversion, together
from heterofedsyn.privacy.trust import Local, SecureAggregation, Trust

_DIGITS = 50
LAST_DIGITS = Decimal("1e-35")
"""More than this page errs by, relative to a result; far less than a rounding to a float."""

_PI = "3.14159265358979323846264338327950288419716939937510"

_LEAST_SHARE = 2
"""Sigma below which a site may not be asked for its share of the noise."""


def splits(effort: Effort, seed: int) -> Iterator[Finding]:
    """Parts of a budget are together never more than the whole, nor sums less than their parts."""
    rng = stream(seed, "splits")
    for _ in range(effort.prices):
        whole = Budget(float(10 ** rng.uniform(-7, 1)))
        exact = Fraction(whole.rho)
        parts = whole.split(*rng.uniform(0.01, 1, rng.integers(1, 30)).tolist())
        even = whole.evenly(int(rng.integers(1, 60)))
        share = float(rng.random())
        for found in (parts, even):
            spent = sum((Fraction(part.rho) for part in found), Fraction(0))
            require(spent <= exact, f"{len(found)} parts of rho {whole.rho} add up to more")
            require(Fraction(together(found).rho) >= spent, "a sum of prices was rounded down")
        require(
            Fraction(whole.part(share).rho) <= exact * Fraction(share),
            f"the share {share} of rho {whole.rho} is more than that",
        )
        require(whole.part(whole.share(parts[0])) <= parts[0], "a share of a part is more than it")
    yield Finding("splits of a budget", True, f"{effort.prices:,} random budgets, none exceeded")


def conversions(effort: Effort, seed: int) -> Iterator[Finding]:
    """A plan's epsilon and delta are kept by its rho, by a second computation."""
    rng = stream(seed, "conversions")
    closest = Decimal(0)
    for _ in range(max(10, effort.prices // 100)):
        epsilon, delta = float(10 ** rng.uniform(-1.5, 1.5)), float(10 ** rng.uniform(-12, -4))
        for conversion in Conversion:
            budget = Budget.of(epsilon=epsilon, delta=delta, conversion=conversion)
            exact = epsilon_of(budget.rho, delta, conversion) * (1 - LAST_DIGITS)
            require(
                exact <= Decimal(epsilon),
                f"epsilon {epsilon} was promised, but rho {budget.rho} means {exact:.20g} "
                f"({conversion})",
            )
            stated = budget.epsilon(delta, conversion)
            require(
                exact <= Decimal(stated),
                f"rho {budget.rho} is said to mean epsilon {stated}, it means {exact:.20g} "
                f"({conversion})",
            )
            closest = max(closest, exact / Decimal(epsilon))
    yield Finding(
        "rho keeps epsilon and delta", True, f"at most 1 - {1 - closest:.1e} of epsilon, none above"
    )


def epsilon_of(rho: float, delta: float, conversion: str) -> Decimal:
    """The epsilon that a rho means at this delta, to more digits than any float; MATH section 1."""
    with localcontext(Context(prec=_DIGITS)):
        amount, spread = Decimal(rho), -Decimal(delta).ln()
        if conversion == Conversion.PAPER:
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


def calibrations(effort: Effort, seed: int) -> Iterator[Finding]:
    """The recorded sigma costs at most what is charged: variances are rounded up, never down."""
    rng = stream(seed, "calibrations")
    closest = Fraction(0)
    for i in range(effort.prices):
        root = math.sqrt(int(rng.integers(1, 10**6)))
        sensitivity = (1.0, math.nextafter(root, math.inf), float(rng.integers(1, 50)))[i % 3]
        budget = Budget(float(10 ** rng.uniform(-6, -1)))
        sites = int(rng.integers(2, 12))
        trusts: tuple[Trust, ...] = (Local(sites), SecureAggregation(sites))
        for trust in trusts:
            shared = isinstance(trust, SecureAggregation)
            share = sensitivity / math.sqrt(2 * budget.rho * (sites if shared else 1))
            try:
                sigma = trust.site_sigma(sensitivity, budget, 100)
            except PrivacyRefusal:
                require(
                    shared and share < _LEAST_SHARE * (1 + 1e-9),
                    f"noise of sigma {share} a site was refused as too little",
                )
                continue
            require(
                not shared or sigma >= _LEAST_SHARE,
                f"a site adds noise of sigma {sigma} only, hidden in a sum",
            )
            price = price_of(Fraction(sensitivity) ** 2, sigma, 100, trust)
            require(
                price <= Fraction(budget.rho),
                f"sigma {sigma} costs more than the rho {budget.rho} that is charged",
            )
            closest = max(closest, price / Fraction(budget.rho))
    yield Finding(
        "variances are rounded up",
        True,
        f"{effort.prices:,} calibrations, 1 - {float(1 - closest):.1e} of the charge at most",
    )


def price_of(
    squared: Fraction, sigma: float, moved: int, trust: Trust, l1: int | None = None
) -> Fraction:
    """What a move of this squared length costs under a trust model, rounded up; MATH section 1.

    Args:
        squared: how far the integers move together (L2), squared.
        sigma: the noise that one site adds.
        moved: how many integers move at most.
        trust: who sees what; under secure aggregation every site's noise counts.
        l1: how far they move in all, if that is known.
    """
    shares = trust.sites if isinstance(trust, SecureAggregation) else 1
    price = squared / (2 * shares * Fraction(sigma) ** 2)
    if shares == 1:
        return price
    with localcontext(Context(prec=_DIGITS)):
        variance, pi = Decimal(sigma) * Decimal(sigma), Decimal(_PI)
        steps = ((-2 * pi * pi * variance * k / (k + 1)).exp() for k in range(1, shares))
        tau = 10 * sum(steps, Decimal(0))
        scale = (shares * variance).sqrt()
        root = (Decimal(squared.numerator) / squared.denominator).sqrt() / scale
        bounds = [tau * moved, ((root + Decimal(moved).sqrt() * tau) ** 2 - root * root) / 2]
        if l1 is not None:
            bounds.append(l1 / scale * tau + tau * tau * moved / 2)
        # What cancels in the second bound is made good, too.
        slack = min(bounds) * (1 + LAST_DIGITS) + root * root * Decimal("1e-45")
    return price + Fraction(slack)
