"""Amounts of privacy: conversions agree with others, and parts never exceed the whole."""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Context, localcontext
from fractions import Fraction
from typing import Any

import dp_accounting
import mpmath
import opendp.prelude as dp
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heterofedsyn.errors import PrivacyRefusal, UsageError
from heterofedsyn.privacy.budget import Budget, Conversion, sigma_for, together

rhos = st.floats(1e-6, 10)
deltas = st.sampled_from([1e-12, 1e-9, 1e-6, 1e-3])
epsilons = st.floats(0.01, 20)
conversions = st.sampled_from(Conversion)
any_delta = st.floats(-300, -1e-3).map(lambda power: max(1e-300, 10**power)) | st.sampled_from(
    [1e-300, 1e-9, 0.5, math.nextafter(1, 0)]
)
any_rho = st.floats(-300, 3).map(lambda power: 10**power)
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


@pytest.mark.thorough
@given(rhos, deltas)
def test_the_tight_conversion_is_opendps(rho: float, delta: float) -> None:
    theirs = opendp_epsilon(rho, delta)
    assert Budget(rho).epsilon(delta) == pytest.approx(theirs, rel=1e-6)


@pytest.mark.thorough
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


def exact_epsilon(rho: float, delta: float, conversion: str) -> Any:
    """The formula of a conversion to 60 digits, by another library and another search."""
    with mpmath.workdps(60):
        spread, amount = -mpmath.log(mpmath.mpf(delta)), mpmath.mpf(rho)
        if conversion == Conversion.PAPER:
            return amount + 2 * mpmath.sqrt(amount * spread)

        def at(x: Any) -> Any:  # x = ln(alpha - 1)
            less = mpmath.exp(x)
            alpha = 1 + less
            return alpha * amount + (spread - alpha * mpmath.log1p(1 / less) - x) / less

        middle = mpmath.log(max(spread, mpmath.mpf("1e-3")) / amount) / 2
        ends, golden = [middle - 14, middle + 14], (mpmath.sqrt(5) - 1) / 2
        inner = [ends[1] - golden * 28, ends[0] + golden * 28]
        values = [at(x) for x in inner]
        for _ in range(140):  # to 28 digits of the order, and so to 56 of the minimum
            lower = 0 if values[0] <= values[1] else 1
            ends[1 - lower] = inner[1 - lower]
            width = golden * (ends[1] - ends[0])
            fresh = ends[1] - width if lower == 0 else ends[0] + width
            inner = [fresh, inner[0]] if lower == 0 else [inner[1], fresh]
            found = at(fresh)
            values = [found, values[0]] if lower == 0 else [values[1], found]
        return max(mpmath.mpf(0), min(values))


@pytest.mark.thorough
@given(any_rho, any_delta, conversions)
@example(5e-324, 1e-300, Conversion.TIGHT)
@example(1e300, 1e-9, Conversion.TIGHT)
@example(1e300, 1e-9, Conversion.PAPER)
def test_a_stated_epsilon_is_never_below_the_formula(
    rho: float, delta: float, conversion: Conversion
) -> None:
    stated = Budget(rho).epsilon(delta, conversion)
    exact = exact_epsilon(rho, delta, conversion)
    with mpmath.workdps(60):
        assert stated >= exact
        # Nor is more than a few roundings given away, where the terms do not cancel.
        assert stated <= exact * (1 + mpmath.mpf("1e-13")) or delta > 1e-9


@pytest.mark.thorough
@given(st.floats(-6, 2).map(lambda power: min(100.0, 10**power)), any_delta, conversions)
@example(1.0, 1e-9, Conversion.TIGHT)
@example(100.0, 1e-300, Conversion.PAPER)
@example(1e-6, math.nextafter(1, 0), Conversion.TIGHT)
def test_the_rho_of_an_epsilon_never_means_more_than_it_by_the_formula(
    epsilon: float, delta: float, conversion: Conversion
) -> None:
    budget = Budget.of(epsilon=epsilon, delta=delta, conversion=conversion)
    with mpmath.workdps(60):
        assert exact_epsilon(budget.rho, delta, conversion) <= epsilon
    assert budget.epsilon(delta, conversion) <= epsilon, "there and back again"
    larger = Budget(budget.rho * (1 + 1e-12))
    assert larger.epsilon(delta, conversion) > epsilon or larger.rho > epsilon, "nothing is wasted"


@pytest.mark.thorough
@given(any_rho, any_delta, conversions)
def test_an_epsilon_that_was_stated_buys_no_more_than_its_rho_means(
    rho: float, delta: float, conversion: Conversion
) -> None:
    stated = Budget(rho).epsilon(delta, conversion)
    if not 0 < stated <= 100:
        return
    again = Budget.of(epsilon=stated, delta=delta, conversion=conversion)
    assert again.epsilon(delta, conversion) <= stated
    assert again.rho == pytest.approx(rho, rel=1e-12) or delta > 1e-9


def test_a_conversion_does_not_depend_on_the_decimal_settings_of_the_caller() -> None:
    expected = [Budget(0.015).epsilon(1e-9, kind) for kind in Conversion]
    with localcontext(Context(prec=3, rounding=ROUND_FLOOR)):
        assert [Budget(0.015).epsilon(1e-9, kind) for kind in Conversion] == expected


@given(any_rho, st.integers(1, 10_000))
def test_a_multiple_of_a_budget_is_rounded_up(rho: float, times: int) -> None:
    found = Budget(rho).times(times).rho
    assert Fraction(found) >= Fraction(rho) * times
    assert math.nextafter(found, 0) < Fraction(rho) * times


@pytest.mark.thorough
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
    with pytest.raises(UsageError, match="delta"):
        Budget(0.1).epsilon(delta)


def test_a_budget_too_small_to_measure_anything_is_refused() -> None:
    with pytest.raises(PrivacyRefusal, match="raise epsilon"):
        sigma_for(1.0, Budget(1e-16))
