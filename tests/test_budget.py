"""Amounts of privacy: conversions agree with others, and parts never exceed the whole."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import dp_accounting
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn.errors import PrivacyRefusal, UsageError
from heterofedsyn.privacy.budget import Budget, sigma_for, together

rhos = st.floats(1e-6, 10)
deltas = st.sampled_from([1e-12, 1e-9, 1e-6, 1e-3])
epsilons = st.floats(0.01, 20)
weights_of_parts = st.just(0.0) | st.floats(1e-6, 1e3)


def gaussian_of(sigma: float) -> Any:
    """OpenDP's discrete Gaussian on integers."""
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    return dp.m.make_gaussian(*space, scale=sigma)


def opendp_epsilon(rho: float, delta: float) -> float:
    gaussian = gaussian_of(math.sqrt(1 / (2 * rho)))
    to_approximate: Any = dp.c.make_zCDP_to_approxDP(gaussian)
    return float(to_approximate.map(1.0).epsilon(delta))


@given(rhos, deltas)
def test_the_tight_conversion_is_opendps(rho: float, delta: float) -> None:
    theirs = opendp_epsilon(rho, delta)
    assert Budget(rho).epsilon(delta) == pytest.approx(theirs, rel=1e-6)


@given(rhos, deltas)
def test_no_conversion_promises_more_than_dp_accounting_allows(rho: float, delta: float) -> None:
    # The exact epsilon of a Gaussian of this rho is a lower bound for every conversion from zCDP.
    orders = [1 + 10**exponent for exponent in [x / 10 for x in range(-20, 60)]]
    accountant = dp_accounting.rdp.RdpAccountant(orders)
    accountant.compose(dp_accounting.GaussianDpEvent(math.sqrt(1 / (2 * rho))))
    by_renyi = accountant.get_epsilon(delta)
    exact = dp_accounting.get_epsilon_gaussian(math.sqrt(1 / (2 * rho)), delta)
    tight, paper = (Budget(rho).epsilon(delta, kind) for kind in ("tight", "paper"))
    assert exact <= tight * (1 + 1e-9) <= paper * (1 + 2e-9)
    assert tight == pytest.approx(by_renyi, rel=2e-2)


@given(epsilons, deltas, st.sampled_from(["tight", "paper"]))
def test_a_budget_keeps_its_promise_and_wastes_nothing(
    epsilon: float, delta: float, conversion: str
) -> None:
    budget = Budget.of(epsilon=epsilon, delta=delta, conversion=conversion)
    assert budget.epsilon(delta, conversion) <= epsilon
    assert Budget(budget.rho * (1 + 1e-9)).epsilon(delta, conversion) > epsilon * (1 - 1e-9)


@pytest.mark.parametrize(
    ("epsilon", "paper", "tight"),
    [(0.2, 0.000480, 0.000675), (1, 0.01178, 0.01497), (5, 0.2699, 0.3117)],
)
def test_known_figures_at_delta_1e9(epsilon: float, paper: float, tight: float) -> None:
    figures = {"paper": paper, "tight": tight}
    for conversion, rho in figures.items():
        budget = Budget.of(epsilon=epsilon, delta=1e-9, conversion=conversion)
        assert budget.rho == pytest.approx(rho, rel=1.1e-3)


@given(rhos, st.lists(weights_of_parts, min_size=1, max_size=60).filter(any))
def test_shares_never_exceed_the_whole(rho: float, weights: list[float]) -> None:
    whole = Budget(rho)
    parts = whole.split(*weights)
    assert sum(Fraction(part.rho) for part in parts) <= Fraction(rho)
    assert together(parts) <= whole
    for part, weight in zip(parts, weights, strict=True):
        assert part.rho == pytest.approx(rho * weight / sum(weights), rel=1e-12)
        share = whole.share(part)
        assert whole.part(share).rho <= part.rho


@given(rhos, st.floats(1e-3, 1e4))
def test_sigma_never_costs_more_than_its_budget(rho: float, sensitivity: float) -> None:
    sigma = sigma_for(sensitivity, Budget(rho))
    price = Fraction(sensitivity) ** 2 / (2 * Fraction(sigma) ** 2)
    assert price <= Fraction(rho)
    assert float(price) == pytest.approx(rho, rel=1e-9)
    assert gaussian_of(sigma).map(sensitivity) <= rho


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, 101.0])
def test_an_epsilon_out_of_range_is_refused(epsilon: float) -> None:
    with pytest.raises(UsageError, match="epsilon"):
        Budget.of(epsilon=epsilon, delta=1e-9)


@pytest.mark.parametrize("delta", [0.0, -1e-9, 1.0, math.nan])
def test_a_delta_out_of_range_is_refused(delta: float) -> None:
    with pytest.raises(UsageError, match="delta"):
        Budget.of(epsilon=1.0, delta=delta)


def test_a_budget_too_small_to_measure_anything_is_refused() -> None:
    with pytest.raises(PrivacyRefusal, match="raise epsilon"):
        sigma_for(1.0, Budget(1e-16))
