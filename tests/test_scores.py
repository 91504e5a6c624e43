"""Dependence scores: unbiased whatever the sketch and the noise, and right about two hospitals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn.hub import make_method
from heterofedsyn.hub.methods.scores import Glimpse, root
from heterofedsyn.marginals import Dependence, Flat, Sketched, SketchKind, TableCounts
from heterofedsyn.marginals.statistics import UNITS_PER_COUNT
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.schema import Domain, EncodedTable
from heterofedsyn.simulate.run import run_study
from support import categories, make_plan

DOMAIN = Domain(("a", "b"), (5, 7))
PAIR = ("a", "b")


def joint(rows: int, seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    rng = np.random.default_rng(seed)
    base = rng.random(rows)
    a = (base * 5).astype(int)
    b = np.clip((base + 0.4 * rng.random(rows)) * 5, 0, 6).astype(int)
    table = np.zeros((5, 7))
    np.add.at(table, (a, b), 1)
    return table


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [*SketchKind, None])
@pytest.mark.parametrize("sigmas", [(3.0, 3.0, 3.0), (25.0, 4.0, 40.0), (2.0, 60.0, 10.0)])
def test_the_square_is_unbiased_for_a_fixed_divisor(
    kind: SketchKind | None, sigmas: tuple[float, float, float]
) -> None:
    table = joint(2_000, seed=1)
    n = table.sum()
    truth = float(((table - np.outer(table.sum(1), table.sum(0)) / n) ** 2).sum()) / n**2
    rng = np.random.default_rng(2)
    sigma_a, sigma_b, sigma_z = sigmas

    def noisy(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]], sigma: float) -> Noisy:
        return Noisy(values + rng.normal(0, sigma, values.shape), sigma**2)

    scores = []
    for seed in range(4_000):
        statistic = Flat(PAIR) if kind is None else Sketched(PAIR, 10, seed, kind)
        exact = table.ravel()
        if isinstance(statistic, Sketched):
            exact = exact @ statistic.sketch(DOMAIN).matrix
        glimpse = Glimpse.of(statistic, noisy(exact, sigma_z), DOMAIN, n)
        a, b = (noisy(table.sum(i), s).scaled(1 / n) for i, s in ((1, sigma_a), (0, sigma_b)))
        scores.append(glimpse.indif2(a, b))
    error = np.std(scores) / math.sqrt(len(scores))
    assert abs(np.mean(scores) - truth) < 4 * error


@given(st.integers(0, 2**32), st.floats(1e-6, 1e6), st.floats(1.0, 1e6), st.integers(0, 10**6))
def test_no_score_is_ever_nan_or_negative(seed: int, sigma: float, total: float, rows: int) -> None:
    rng = np.random.default_rng(seed)
    statistic = Sketched(PAIR, 10, seed)
    z = Noisy(rng.normal(rows, sigma, 10), sigma**2)
    a, b = (Noisy(rng.normal(rows, sigma, s), sigma**2).scaled(1 / total) for s in (5, 7))
    score = root(Glimpse.of(statistic, z, DOMAIN, total).indif2(a, b))
    assert math.isfinite(score)
    assert score >= 0


def hospital(cells: tuple[int, int, int, int]) -> EncodedTable:
    """Gender by age: counts of (male, teenager), (male, adult), (female, ...), (female, ...)."""
    codes = np.repeat([[0, 0, 1, 1], [0, 1, 0, 1]], cells, axis=1)
    return EncodedTable.from_codes(categories(2, 2).domain, codes)


OPPOSITE = hospital((1_000, 4_000, 4_000, 1_000)), hospital((4_000, 1_000, 1_000, 4_000))


def test_two_hospitals_with_opposite_dependence_have_none_together() -> None:
    def indif(table: EncodedTable) -> float:
        scaled = Dependence(("a0", "a1")).exact(TableCounts(table)).values[0] / UNITS_PER_COUNT
        return float(scaled) / table.rows

    assert [indif(table) for table in OPPOSITE] == pytest.approx([0.6, 0.6])
    assert indif(EncodedTable.concatenate(OPPOSITE)) == pytest.approx(0.0)


def test_the_hub_sees_that_the_dependence_cancels_where_each_hospital_would_not() -> None:
    schema = categories(2, 2)

    def score(*sites: EncodedTable) -> float | None:
        plan = make_plan(schema, [f"s{i}" for i in range(len(sites))], method="fedprivsyn")
        release = run_study(schema, plan, make_method("fedprivsyn"), sites, noise_seed=1)
        return release.run.pairs[0].score

    # The L2 distance of either hospital from independence is 2 * 0.15.
    assert [score(table) for table in OPPOSITE] == pytest.approx([0.3, 0.3], abs=0.02)
    assert score(*OPPOSITE) == pytest.approx(0.0, abs=0.02)
