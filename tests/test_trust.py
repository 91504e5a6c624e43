"""Trust models: what one site adds, what the sum has, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heterofedsyn.errors import PrivacyRefusal, UsageError
from heterofedsyn.privacy import trust as trust_models
from heterofedsyn.privacy.budget import Budget, sigma_for
from heterofedsyn.privacy.trust import Local, SecureAggregation, trust_model

pytestmark = pytest.mark.sweep


@given(st.floats(1e-6, 1e-2), st.integers(1, 50), st.floats(1, 10))
def test_variance_factor_is_the_sum_over_sites_in_protecting_variances(
    rho: float, sites: int, sensitivity: float
) -> None:
    protecting = sigma_for(sensitivity, Budget(rho)) ** 2
    for trust in (Local(sites), SecureAggregation(sites), SecureAggregation(sites, sites // 3)):
        try:
            each = trust.site_sigma(sensitivity, Budget(rho), 10)
        except PrivacyRefusal:
            assert protecting / trust.alone_factor < 2.0**2 * (1 + 1e-9)
            continue
        assert sites * each**2 == pytest.approx(protecting * trust.variance_factor, rel=1e-9)


@given(st.floats(1e-6, 1e-2), st.integers(1, 50), st.floats(1, 10), st.integers(1, 10**6))
def test_under_local_trust_every_site_pays_for_its_own_records(
    rho: float, sites: int, sensitivity: float, integers: int
) -> None:
    trust, budget = Local(sites), Budget(rho)
    sigma = trust.site_sigma(sensitivity, budget, integers)
    assert sigma == Local(1).site_sigma(sensitivity, budget, 1), "however many others there are"
    assert sensitivity**2 / (2 * sigma**2) <= rho
    assert sigma == pytest.approx(sensitivity / math.sqrt(2 * rho), rel=1e-9)
    assert (trust.variance_factor, trust.alone_factor) == (sites, 1.0)


def least_slack(sites: int, sigma: float, l2: float, moved: int, l1: float) -> Any:
    """What a sum of shares costs beyond one Gaussian: the least of three; MATH section 1."""
    with mpmath.workdps(60):
        variance = mpmath.mpf(sigma) ** 2
        steps = [mpmath.mpf(k) / (k + 1) for k in range(1, sites)]
        tau = 10 * sum(mpmath.exp(-2 * mpmath.pi**2 * variance * step) for step in steps)
        long, wide = (mpmath.mpf(x) / mpmath.sqrt(sites * variance) for x in (l2, l1))
        # The three bounds less l2^2 / 2, multiplied out so that nothing cancels.
        return min(
            tau * moved,
            wide * tau + tau**2 * moved / 2,
            long * mpmath.sqrt(moved) * tau + tau**2 * moved / 2,
        )


def gaussian(sites: int, sigma: float, l2: float) -> Any:
    """The price of one Gaussian as wide as all shares together."""
    with mpmath.workdps(60):
        return mpmath.mpf(l2) ** 2 / (2 * sites * mpmath.mpf(sigma) ** 2)


moving = st.tuples(st.floats(1, 1e4), st.integers(1, 2**24), st.floats(0, 1)).map(
    # L1 is between L2 and what D integers of that L2 can reach.
    lambda drawn: (
        drawn[0],
        drawn[1],
        max(1.0, drawn[2] * math.sqrt(drawn[1])) * drawn[0] * (1 - 1e-9),
    )
)


@given(st.integers(2, 40), st.floats(0.5, 200), moving)
@example(2, 1e6, (1.0, 1, 1.0))  # where every exponential is 0 as a float
def test_the_slack_of_a_sum_is_the_least_of_three_bounds_rounded_up(
    sites: int, sigma: float, moves: tuple[float, int, float]
) -> None:
    with mpmath.workdps(60):
        exact = least_slack(sites, sigma, *moves)
        found = SecureAggregation(sites).slack(sigma, *moves)
        assert found >= exact
        assert found <= exact * (1 + mpmath.mpf("1e-8")) + mpmath.mpf("1e-290")


def test_sites_that_may_be_absent_lend_the_sum_no_noise() -> None:
    moves = (10.0, 100, 100.0)
    for absent in range(4):
        few, many = SecureAggregation(5 - absent), SecureAggregation(5, absent)
        assert many.slack(1.0, *moves) == few.slack(1.0, *moves)


@pytest.mark.parametrize("smallest", [0.6, 2.0])
@given(st.integers(2, 40), st.floats(0.6, 5.0), moving)
def test_the_sum_of_shares_costs_at_most_the_budget_with_its_slack(
    smallest: float, sites: int, share: float, moves: tuple[float, int, float]
) -> None:
    budget = Budget(moves[0] ** 2 / (2 * sites * share**2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trust_models, "SMALLEST_SHARE", smallest)
        try:
            sigma = SecureAggregation(sites).site_sigma(moves[0], budget, moves[1], moves[2])
        except PrivacyRefusal:
            return
    assert sigma >= smallest
    with mpmath.workdps(60):
        slack = least_slack(sites, sigma, *moves)
        assert gaussian(sites, sigma, moves[0]) + slack <= budget.rho


def renyi_of_a_sum(sites: int, sigma: float, shift: int, orders: list[float]) -> list[Any]:
    """The divergences, each over its order, of a sum of discrete Gaussians from itself, moved.

    The chance of s is exp(-s^2 / (2 n sigma^2)) times a weight that depends on s modulo n alone
    (of integers with sum s the squared length is s^2 / n and that of a point of a shifted lattice),
    so n values of the exact convolution tell all of it, out to the far tails of large orders.
    """
    one = 2 * mpmath.mpf(sigma) ** 2
    reach = math.ceil(18 * sigma)
    single = [mpmath.exp(-(x**2) / one) for x in range(-reach, reach + 1)]
    chances = single
    for _ in range(sites - 1):
        longer = [mpmath.mpf(0)] * (len(chances) + 2 * reach)
        for i, x in enumerate(chances):
            for j, y in enumerate(single):
                longer[i + j] += x * y
        chances = longer
    middle, both = len(chances) // 2, sites * one
    weights = [chances[middle + r] * mpmath.exp(r**2 / both) for r in range(sites)]
    # The same weights are found elsewhere.
    again = chances[middle + 2 * sites + 1] * mpmath.exp((2 * sites + 1) ** 2 / both)
    assert abs(again / weights[1 % sites] - 1) < mpmath.mpf("1e-50")
    width = math.ceil(18 * sigma * math.sqrt(sites))
    whole = sum(weights[s % sites] * mpmath.exp(-(s**2) / both) for s in range(-width, width + 1))
    found = []
    for order in map(mpmath.mpf, orders):
        factors = [
            weights[r] ** order * weights[(r - shift) % sites] ** (1 - order) for r in range(sites)
        ]
        peak = int((1 - order) * shift)
        moment = sum(
            factors[s % sites] * mpmath.exp(-(order * s**2 + (1 - order) * (s - shift) ** 2) / both)
            for s in range(peak - width, peak + width + 1)
        )
        found.append(mpmath.log(moment / whole) / (order - 1) / order)
    return found


@pytest.mark.parametrize("sigma", [0.8, 1.3, 2.0, 3.0])
@pytest.mark.parametrize("sites", [2, 3, 4, 5])
def test_an_exact_convolution_of_shares_costs_no_more_than_is_stated(
    sites: int, sigma: float
) -> None:
    orders = [1.05, 1.5, 2.0, 8.0, 64.0]
    with mpmath.workdps(60):
        for shift in (1, 2, 3):
            costs = renyi_of_a_sum(sites, sigma, shift, orders)
            # Independent integers, each moved as far: divergences add up.
            for moved in (1, 2, 16, 1000):
                l2 = math.nextafter(shift * math.sqrt(moved), math.inf)
                slack = SecureAggregation(sites).slack(sigma, l2, moved, float(shift * moved))
                assert moved * max(costs) <= gaussian(sites, sigma, l2) + slack


def test_a_share_below_sigma_2_is_refused() -> None:
    with pytest.raises(PrivacyRefusal, match=r"sigma 1\.9"):
        SecureAggregation(5).site_sigma(1.0, Budget(1 / (2 * 5 * 1.9**2)), 1)


def test_with_absent_sites_the_others_alone_protect() -> None:
    trust = SecureAggregation(sites=10, absent=4)
    sigma = trust.site_sigma(1.0, Budget(0.001), 1)
    assert 6 * sigma**2 == pytest.approx(1 / (2 * 0.001))
    assert trust.variance_factor == pytest.approx(10 / 6)
    with pytest.raises(UsageError, match="absent"):
        SecureAggregation(sites=3, absent=3)


def test_an_unknown_trust_model_is_refused_with_a_hint() -> None:
    with pytest.raises(UsageError, match="did you mean 'local'"):
        trust_model("locl", 3)
