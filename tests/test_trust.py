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
from heterofedsyn.privacy.trust import (
    LEAST_SITES,
    SMALLEST_SHARE,
    Local,
    SecureAggregation,
    Trust,
    trust_model,
)

pytestmark = pytest.mark.sweep


def every(most: int) -> list[SecureAggregation]:
    """All there can be with up to so many sites."""
    return [
        SecureAggregation(sites, colluding, quorum)
        for sites in range(LEAST_SITES, most + 1)
        for colluding in range(1, sites - 1)
        for quorum in range((sites + colluding) // 2 + 1, sites + 1)
    ]


def with_noise_of(honest: int) -> SecureAggregation:
    """Secure aggregation in which so many sites surely add noise."""
    return SecureAggregation(honest + 1)


@given(st.floats(1e-6, 1e-2), st.integers(3, 50), st.floats(1, 10))
def test_variance_factor_is_the_sum_over_sites_in_protecting_variances(
    rho: float, sites: int, sensitivity: float
) -> None:
    protecting = sigma_for(sensitivity, Budget(rho)) ** 2
    many = max(1, sites // 3)
    fewest = (sites + many) // 2 + 1
    trusts: list[Trust] = [Local(sites), SecureAggregation(sites), SecureAggregation(sites, many)]
    for trust in (*trusts, SecureAggregation(sites, many, fewest)):
        try:
            each = trust.site_sigma(sensitivity, Budget(rho), 10)
        except PrivacyRefusal:
            assert protecting / trust.alone_factor < SMALLEST_SHARE**2 * (1 + 1e-9)
            continue
        ratio = sites * each**2 / (protecting * trust.variance_factor)
        assert 1 - 1e-9 <= ratio < 1.01
        # Of the smallest shares the slack is felt.
        assert each < 2 or ratio < 1 + 1e-9


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
        found = with_noise_of(sites).slack(sigma, *moves)
        assert found >= exact
        assert found <= exact * (1 + mpmath.mpf("1e-8")) + mpmath.mpf("1e-290")


def test_sites_that_may_collude_or_be_absent_lend_the_sum_no_noise() -> None:
    moves, budget = (10.0, 100, 100.0), Budget(0.01)
    for trust in every(9):
        few = with_noise_of(trust.quorum - trust.colluding)
        assert trust.slack(1.0, *moves) == few.slack(1.0, *moves)
        assert trust.site_sigma(moves[0], budget, *moves[1:]) == few.site_sigma(
            moves[0], budget, *moves[1:]
        )


@pytest.mark.parametrize("smallest", [0.6, SMALLEST_SHARE, 2.0])
@given(st.integers(2, 40), st.floats(0.6, 5.0), moving)
def test_the_sum_of_shares_costs_at_most_the_budget_with_its_slack(
    smallest: float, sites: int, share: float, moves: tuple[float, int, float]
) -> None:
    budget = Budget(moves[0] ** 2 / (2 * sites * share**2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trust_models, "SMALLEST_SHARE", smallest)
        try:
            sigma = with_noise_of(sites).site_sigma(moves[0], budget, moves[1], moves[2])
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
                slack = with_noise_of(sites).slack(sigma, l2, moved, float(shift * moved))
                assert moved * max(costs) <= gaussian(sites, sigma, l2) + slack


@pytest.mark.parametrize("share", [1.3005, 1.5, 2.5])
@pytest.mark.parametrize(
    ("sites", "colluding", "quorum"),
    [(3, 1, 3), (4, 1, 3), (4, 2, 4), (5, 1, 4), (5, 1, 5), (5, 2, 4), (5, 3, 5), (6, 2, 5)],
)
def test_an_exact_convolution_costs_no_more_than_its_budget_though_sites_collude(
    sites: int, colluding: int, quorum: int, share: float
) -> None:
    orders = [1.05, 1.5, 2.0, 8.0, 64.0]
    trust = SecureAggregation(sites, colluding, quorum)
    honest = quorum - colluding
    with mpmath.workdps(60):
        for shift, moved in ((1, 1), (2, 1), (1, 16), (3, 1000)):
            l2 = math.nextafter(shift * math.sqrt(moved), math.inf)
            budget = Budget(l2**2 / (2 * honest * share**2))
            sigma = trust.site_sigma(l2, budget, moved, float(shift * moved))
            assert sigma == pytest.approx(share, rel=1e-3)
            # What the colluding know of their own noise is taken off: so much is left for sure.
            assert moved * max(renyi_of_a_sum(honest, sigma, shift, orders)) <= budget.rho
            # Were all others honest, it would cost less still; if all collude, `alone_factor`.
            assert moved * max(renyi_of_a_sum(quorum, sigma, shift, orders)) < budget.rho
            alone = moved * max(renyi_of_a_sum(1, sigma, shift, orders))
            assert budget.rho < alone <= budget.rho * trust.alone_factor


def test_a_share_below_sigma_1_3_is_refused() -> None:
    with pytest.raises(PrivacyRefusal, match=r"sigma 1\.29"):
        SecureAggregation(5).site_sigma(1.0, Budget(1 / (2 * 4 * 1.29**2)), 1)
    assert SecureAggregation(5).site_sigma(1.0, Budget(1 / (2 * 4 * 1.301**2)), 1) > SMALLEST_SHARE


def test_the_honest_of_a_quorum_alone_protect() -> None:
    trust = SecureAggregation(sites=10, colluding=2, quorum=8)
    sigma = trust.site_sigma(1.0, Budget(0.001), 1)
    assert 6 * sigma**2 == pytest.approx(1 / (2 * 0.001))
    assert trust.variance_factor == pytest.approx(10 / 6)
    assert trust.alone_factor == 6


def test_two_sets_that_are_signed_share_an_honest_site_and_every_sum_hides_one_in_another() -> None:
    for trust in every(12):
        assert 2 * trust.signatures - trust.sites > trust.colluding
        assert trust.signatures <= trust.quorum
        assert trust.honest >= 2
        assert trust.shares > trust.colluding


@pytest.mark.parametrize(
    ("terms", "word"),
    [
        ((1,), "at least 3 sites"),
        ((2,), "at least 3 sites"),
        ((5, 0), r"colluding \(0\) must be in 1\.\.3"),
        ((5, 4), r"colluding \(4\) must be in 1\.\.3"),
        ((5, 1, 3), r"quorum \(3\) must be in 4\.\.5"),
        ((5, 1, 6), r"quorum \(6\) must be in 4\.\.5"),
    ],
)
def test_sums_that_would_not_hide_a_site_are_refused(terms: tuple[int, ...], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        SecureAggregation(*terms)


def test_an_unknown_trust_model_is_refused_with_a_hint() -> None:
    with pytest.raises(UsageError, match="did you mean 'local'"):
        trust_model("locl", 3)
