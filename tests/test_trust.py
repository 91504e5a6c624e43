"""Trust models: what one site adds, what the sum has, and what is refused."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn.errors import PrivacyRefusal, UsageError
from heterofedsyn.privacy.budget import Budget, sigma_for
from heterofedsyn.privacy.trust import Local, SecureAggregation, trust_model


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


@given(st.integers(2, 40), st.floats(2.0, 5.0), st.integers(1, 10**6))
def test_the_sum_of_shares_costs_at_most_the_budget_with_its_slack(
    sites: int, share: float, integers: int
) -> None:
    budget = Budget(1 / (2 * sites * share**2))
    try:
        sigma = SecureAggregation(sites).site_sigma(1.0, budget, integers)
    except PrivacyRefusal:
        return
    steps = range(1, sites)
    slack = 10 * sum(math.exp(-2 * math.pi**2 * sigma**2 * k / (k + 1)) for k in steps)
    assert 1 / (2 * sites * sigma**2) + slack * integers / 4 <= budget.rho


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
