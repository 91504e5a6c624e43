"""The arithmetic of prices, checked in fractions: every rounding must go against us."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from heterofedsyn._arrays import stream
from heterofedsyn.bench.audit.effort import Effort
from heterofedsyn.bench.audit.findings import Finding, require
from heterofedsyn.privacy.budget import Budget, Conversion, together
from heterofedsyn.privacy.noise import Calibration
from heterofedsyn.privacy.trust import Local, SecureAggregation, Trust

_ORDERS = 1 + np.exp(np.linspace(-12, 12, 200_001))


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
    closest = 0.0
    for _ in range(max(10, effort.prices // 100)):
        epsilon, delta = float(10 ** rng.uniform(-1.5, 1.5)), float(10 ** rng.uniform(-12, -4))
        for conversion in Conversion:
            rho = Budget.of(epsilon=epsilon, delta=delta, conversion=conversion).rho
            found = epsilon_of(rho, delta, conversion)
            require(
                found <= epsilon * (1 + 1e-6),
                f"epsilon {epsilon} was promised, but rho {rho} means {found} ({conversion})",
            )
            closest = max(closest, found / epsilon)
    yield Finding("rho keeps epsilon and delta", True, f"at most {closest:.7f} of epsilon")


def epsilon_of(rho: float, delta: float, conversion: str) -> float:
    """The epsilon that a rho means at this delta; MATH section 1."""
    if conversion == Conversion.PAPER:
        return rho + 2 * math.sqrt(rho * math.log(1 / delta))
    orders = _ORDERS
    return float(
        np.min(orders * rho + np.log(1 / (orders * delta)) / (orders - 1) + np.log1p(-1 / orders))
    )


def calibrations(effort: Effort, seed: int) -> Iterator[Finding]:
    """The recorded sigma costs at most what is charged: variances are rounded up, never down."""
    rng = stream(seed, "calibrations")
    closest = Fraction(0)
    for i in range(effort.prices):
        root = math.sqrt(int(rng.integers(1, 10**6)))
        sensitivity = (1.0, math.nextafter(root, math.inf), float(rng.integers(1, 50)))[i % 3]
        budget = Budget(float(10 ** rng.uniform(-6, -1)))
        sites = int(rng.integers(2, 12))
        trusts: tuple[Trust, ...] = (Local(sites),)
        if budget.rho < 0.01:
            trusts += (SecureAggregation(sites),)
        for trust in trusts:
            found = Calibration.of(sensitivity, budget, 100, trust)
            price = price_of(Fraction(sensitivity) ** 2, found.sigma, 100, trust)
            require(
                price <= Fraction(found.budget.rho) <= Fraction(budget.rho),
                f"sigma {found.sigma} costs more than the rho {budget.rho} that is charged",
            )
            closest = max(closest, price / Fraction(budget.rho))
    yield Finding(
        "variances are rounded up",
        True,
        f"{effort.prices:,} calibrations, 1 - {float(1 - closest):.1e} of the charge at most",
    )


def price_of(squared: Fraction, sigma: float, integers: int, trust: Trust) -> Fraction:
    """What a move of this squared length costs under a trust model, exactly; MATH section 1."""
    shares = trust.sites if isinstance(trust, SecureAggregation) else 1
    slack = 10 * math.fsum(
        math.exp(-2 * math.pi**2 * sigma**2 * k / (k + 1)) for k in range(1, shares)
    )
    return squared / (2 * shares * Fraction(sigma) ** 2) + Fraction(slack) * integers / 4
