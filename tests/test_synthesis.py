"""From noisy marginals to rows: totals are kept, targets are approached, nothing is NaN."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Generator

from heterofedsyn._arrays import Codes, Floats
from heterofedsyn.hub.release.accuracy import accuracy_of
from heterofedsyn.marginals import Flat, Grouped, Haar, TableCounts, Total, count_pairs
from heterofedsyn.marginals.statistics import haar_levels
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.schema import Clique, Domain, EncodedTable
from heterofedsyn.synthesis import (
    REBUILDS,
    SYNTHESIZERS,
    Consistency,
    Denoising,
    Gum,
    Measured,
    Measurement,
    Targets,
)
from heterofedsyn.synthesis.allocation import allocate
from heterofedsyn.synthesis.consistency import norm_sub
from heterofedsyn.synthesis.gum import run_pass
from support import as_schema, dependent_table

DOMAIN = Domain(("a", "b", "c", "d"), (4, 6, 3, 5))


def targets_of(table: EncodedTable, sigma: float, seed: int, pairs: int = 3) -> Targets:
    """Noisy marginals of a table: all 1-ways and the first few pairs."""
    rng = np.random.default_rng(seed)
    cliques = [*table.domain.singles(), *table.domain.pairs()[:pairs]]
    measurements = []
    for clique in cliques:
        shape = table.domain.shape(clique)
        exact = np.zeros(shape)
        np.add.at(exact, tuple(table.codes[table.domain.index(name)] for name in clique), 1)
        values = np.rint(exact + rng.normal(0, sigma, shape)) if sigma else exact
        measurements.append(Measurement(Flat(clique), Noisy(values.ravel(), max(sigma, 1e-9) ** 2)))
    return Targets(as_schema(table.domain), tuple(measurements), Consistency())


@given(st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=50), st.floats(1e-3, 1e6))
def test_norm_sub_keeps_the_total_and_leaves_nothing_negative(
    values: list[float], total: float
) -> None:
    fixed = norm_sub(np.array(values), total)
    assert fixed.min() >= 0
    assert fixed.sum() == pytest.approx(total)
    assert values[int(fixed.argmax())] == pytest.approx(max(values), abs=1e-6)


@given(st.integers(0, 2**32), st.floats(0, 1e5), st.integers(0, 500), st.integers(0, 6))
@settings(max_examples=60)
def test_consistency_keeps_totals_and_non_negativity(
    seed: int, sigma: float, rows: int, pairs: int
) -> None:
    targets = targets_of(dependent_table(DOMAIN, rows, seed), sigma, seed, pairs)
    consistent = targets.estimates
    assert consistent.total >= 1
    for table in [*consistent.singles.values(), *consistent.pairs.values()]:
        assert np.isfinite(table).all()
        assert table.min() >= 0
        assert table.sum() == pytest.approx(consistent.total)


def test_without_noise_consistency_changes_nothing_and_tables_agree() -> None:
    table = dependent_table(DOMAIN, 1_000)
    targets = targets_of(table, 0.0, seed=0, pairs=6)
    estimates = targets.estimates
    for name, found in estimates.singles.items():
        assert np.allclose(found, targets.marginals[(name,)].values)
    for pair, found in estimates.pairs.items():
        assert np.allclose(found, targets.marginals[pair].values)


def test_agreement_uses_what_is_known_better() -> None:
    domain = Domain(("a", "b"), (2, 2))
    good, bad = Noisy(np.array([60.0, 40.0]), 1.0), Noisy(np.array([10.0, 20.0, 30.0, 40.0]), 1e6)
    other = Noisy(np.array([50.0, 50.0]), 1.0)
    targets = Targets(
        as_schema(domain),
        (
            Measurement(Flat(("a",)), good),
            Measurement(Flat(("b",)), other),
            Measurement(Flat(("a", "b")), bad),
        ),
        Consistency(),
    )
    joint = targets.estimates.pairs["a", "b"]
    assert joint.sum(axis=1) == pytest.approx([60, 40], rel=1e-3)
    assert joint.sum(axis=0) == pytest.approx([50, 50], rel=1e-3)


def test_a_pair_measured_twice_is_combined_by_inverse_variance() -> None:
    first, second = Noisy(np.array([0.0, 0.0]), 1.0), Noisy(np.array([4.0, 8.0]), 3.0)
    both = first.combine(second)
    assert both.values == pytest.approx([1.0, 2.0])
    assert both.variance == pytest.approx(0.75)


HALVES = {"a": (0, 0, 1, 1), "b": (0, 0, 0, 1, 1, 2)}
ASKED: dict[str, tuple[Measured, ...]] = {
    "consistency": (
        Total(),
        *(Flat(single) for single in DOMAIN.singles()),
        *(Flat(pair) for pair in (("a", "b"), ("b", "d"))),
    ),
    "denoising": (
        Total(),
        Flat(("a",)),
        *(Haar(("b",), level) for level in range(haar_levels(6))),
        *(Flat((name,)) for name in ("c", "d")),
        Grouped(("a", "b"), (HALVES["a"], HALVES["b"])),
        Grouped(("b", "c"), (HALVES["b"], (0, 1, 2))),
    ),
}
"""For every rebuild, one statistic of each kind that it understands."""


def measured(statistics: tuple[Measured, ...], variance: float, seed: int) -> list[Measurement]:
    """Noisy answers about one table."""
    counts = TableCounts(dependent_table(DOMAIN, 500))
    rng = np.random.default_rng(seed)
    return [
        Measurement(
            statistic,
            Noisy(
                np.asarray(statistic.exact(counts).values, dtype=np.float64)
                + rng.normal(0, variance**0.5, statistic.integers(DOMAIN)),
                variance,
            ),
        )
        for statistic in statistics
    ]


@pytest.mark.parametrize("rebuild", sorted(REBUILDS))
class TestWhatIsMeasuredTwice:
    """It is known better, by inverse variance, whatever becomes of it."""

    def both(self, rebuild: str) -> tuple[Targets, Targets]:
        """All that was measured twice as it is, and each with the mean of its two answers."""
        first, second = measured(ASKED[rebuild], 30.0, 1), measured(ASKED[rebuild], 90.0, 2)
        means = [
            Measurement(one.statistic, one.noisy.combine(other.noisy))
            for one, other in zip(first, second, strict=True)
        ]
        schema, kind = as_schema(DOMAIN, label="d"), REBUILDS[rebuild]()
        twice = Targets(schema, (*first, *second), kind)
        twice.rebuild.check(twice)
        return twice, Targets(schema, tuple(means), kind)

    def test_is_estimated_from_the_mean_of_both(self, rebuild: str) -> None:
        twice, once = self.both(rebuild)
        assert twice.total == pytest.approx(once.total)
        assert twice.pairs == once.pairs
        for name in DOMAIN.names:
            assert twice.estimates.values[name] == pytest.approx(once.estimates.values[name])
            assert twice.estimates.singles[name] == pytest.approx(once.estimates.singles[name])
        for pair in once.pairs:
            assert twice.estimates.pairs[pair] == pytest.approx(once.estimates.pairs[pair])

    def test_has_the_stated_error_of_the_mean_of_both(self, rebuild: str) -> None:
        twice, once = self.both(rebuild)
        for clique in [(), *DOMAIN.singles(), *once.pairs]:
            stated, wanted = (accuracy_of([t], clique, None, 1.0) for t in (twice, once))
            assert stated.standard_error == pytest.approx(wanted.standard_error)

    @pytest.mark.thorough
    @pytest.mark.parametrize("synthesizer", sorted(SYNTHESIZERS))
    def test_gives_the_rows_of_the_mean_of_both(self, rebuild: str, synthesizer: str) -> None:
        made = [
            SYNTHESIZERS[synthesizer]().synthesize(targets, 200, np.random.default_rng(4))
            for targets in self.both(rebuild)
        ]
        assert np.array_equal(made[0].codes, made[1].codes)


def test_of_counts_and_differences_the_one_is_used_whose_error_is_stated() -> None:
    flat = Targets(
        as_schema(DOMAIN),
        tuple(measured((*ASKED["denoising"][:2], Flat(("b",)), *ASKED["denoising"][5:7]), 30, 1)),
        Denoising(),
    )
    both = flat.with_measured(tuple(measured(ASKED["denoising"][2:5], 9_000, 2)))
    assert both.estimates.values["b"] == pytest.approx(flat.estimates.values["b"])
    stated, wanted = (accuracy_of([t], "b", None, 1.0) for t in (both, flat))
    assert stated.standard_error == pytest.approx(wanted.standard_error)


@given(
    st.lists(st.floats(0, 100), min_size=1, max_size=30), st.integers(1, 500), st.integers(0, 99)
)
def test_an_allocation_is_within_the_rounding_of_its_weights(
    weights: list[float], rows: int, seed: int
) -> None:
    codes = allocate(np.array(weights), rows, np.random.default_rng(seed))
    counts = np.bincount(codes, minlength=len(weights))
    assert counts.sum() == rows
    if sum(weights) > 0:
        assert (counts >= np.floor(np.array(weights) / sum(weights) * rows * (1 - 1e-9))).all()


@pytest.mark.thorough
@given(st.integers(0, 2**32), st.integers(1, 400), st.floats(0, 30))
@settings(max_examples=40)
def test_gum_lowers_the_error_of_its_targets(seed: int, rows: int, sigma: float) -> None:
    table = dependent_table(DOMAIN, 400, seed)
    targets = targets_of(table, sigma, seed)
    estimates = targets.estimates
    wanted = {pair: t * (rows / estimates.total) for pair, t in estimates.pairs.items()}

    def error(passes: int) -> float:
        made = Gum(passes).synthesize(targets, rows, np.random.default_rng(seed))
        found = count_pairs(made, list(wanted))
        return sum(float(np.abs(wanted[m.clique].ravel() - m.counts).sum()) for m in found)

    rounding = sum(min(rows, table.size) for table in wanted.values())
    assert error(30) <= error(0) + rounding


def test_gum_comes_close_to_consistent_targets() -> None:
    table = dependent_table(DOMAIN, 20_000)
    targets = targets_of(table, 0.0, seed=0)
    made = Gum(50).synthesize(targets, 20_000, np.random.default_rng(0))
    pairs = list(targets.pairs)
    for real, found in zip(count_pairs(table, pairs), count_pairs(made, pairs), strict=True):
        assert np.abs(real.counts - found.counts).sum() / 20_000 < 0.01


def test_a_pass_moves_whole_records_and_keeps_their_number() -> None:
    table = dependent_table(DOMAIN, 1_000)
    codes = table.codes.copy()
    wanted: dict[Clique, Floats] = {("a", "b"): np.full((4, 6), 1_000 / 24)}
    run_pass(DOMAIN, codes, wanted, 0, np.random.default_rng(0))
    EncodedTable.from_codes(DOMAIN, codes)
    before = np.abs(count_pairs(table, [("a", "b")])[0].counts - 1_000 / 24).sum()
    after = np.abs(count_pairs(EncodedTable(DOMAIN, codes), [("a", "b")])[0].counts - 1_000 / 24)
    assert after.sum() < before / 2


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(SYNTHESIZERS))
@pytest.mark.parametrize("sigma", [0.0, 5.0, 1e4])
@pytest.mark.parametrize("rows", [1, 7, 500])
class TestEverySynthesizer:
    """What a synthesizer must keep, whatever its name."""

    def test_gives_the_rows_asked_for_within_the_domain(
        self, name: str, sigma: float, rows: int
    ) -> None:
        targets = targets_of(dependent_table(DOMAIN, 300), sigma, seed=3)
        made = SYNTHESIZERS[name]().synthesize(targets, rows, np.random.default_rng(1))
        assert made.rows == rows
        assert made.domain == DOMAIN
        EncodedTable.from_codes(DOMAIN, made.codes)

    def test_the_same_seed_gives_the_same_rows(self, name: str, sigma: float, rows: int) -> None:
        targets = targets_of(dependent_table(DOMAIN, 300), sigma, seed=3)
        made = [
            SYNTHESIZERS[name]().synthesize(targets, rows, np.random.default_rng(1))
            for _ in range(2)
        ]
        assert np.array_equal(made[0].codes, made[1].codes)

    def test_isolated_attributes_keep_their_own_marginal(
        self, name: str, sigma: float, rows: int
    ) -> None:
        targets = targets_of(dependent_table(DOMAIN, 300), sigma, seed=3, pairs=1)
        made = SYNTHESIZERS[name]().synthesize(targets, rows, np.random.default_rng(1))
        wanted = targets.estimates.singles["d"]
        counts = np.bincount(made.codes[3], minlength=5)
        assert (np.abs(counts - wanted / wanted.sum() * rows) <= 5).all()


# THE STEP OF GUM, PLAINLY


def plain_pass(codes: Codes, wanted: dict[tuple[int, int], Floats], rng: Generator) -> None:
    """MATH section 5.6 word by word: a pass with alpha = 1, copying half of the moved records."""

    def counted(pair: tuple[int, int]) -> Floats:
        table = np.zeros(wanted[pair].shape)
        np.add.at(table, (codes[pair[0]], codes[pair[1]]), 1)
        return table

    for pair in sorted(wanted, key=lambda pair: -np.abs(wanted[pair] - counted(pair)).sum()):
        counts = counted(pair)
        gap = wanted[pair] - counts
        gains = np.where(gap > 0, np.where(counts > 0, np.minimum(gap, counts), gap), 0)
        low, high = 0.0, 1.0
        for _ in range(60):
            beta = (low + high) / 2
            gives = np.where(gap < 0, np.minimum(-gap, beta * counts), 0)
            low, high = (low, beta) if gives.sum() >= gains.sum() else (beta, high)
        members = {
            cell: np.flatnonzero((codes[pair[0]] == cell[0]) & (codes[pair[1]] == cell[1]))
            for cell in np.ndindex(counts.shape)
        }

        def rounded(expected: float) -> int:
            return int(expected + rng.random())

        moving = [
            row
            for cell, rows in members.items()
            for row in rng.permutation(rows)[: rounded(float(gives[cell]))]
        ]
        rng.shuffle(moving)
        for cell, rows in members.items():
            for _ in range(rounded(float(gains[cell]))):
                if not moving:
                    break
                row = moving.pop()
                if rows.size and rng.random() < 0.5:
                    codes[:, row] = codes[:, rng.choice(rows)]
                else:
                    codes[pair[0], row], codes[pair[1], row] = cell


@pytest.mark.thorough
@pytest.mark.parametrize("passes", [1, 5])
def test_gum_ends_as_near_its_targets_as_the_plain_formulation(passes: int) -> None:
    table = dependent_table(DOMAIN, 2_000)
    pairs = list(DOMAIN.pairs())
    found = count_pairs(table, pairs)
    wanted: dict[Clique, Floats] = {
        m.clique: m.counts.astype(np.float64).reshape(DOMAIN.shape(m.clique)) for m in found
    }
    placed = {(DOMAIN.index(a), DOMAIN.index(b)): wanted[a, b] for a, b in wanted}

    def error(codes: Codes) -> float:
        made = count_pairs(EncodedTable(DOMAIN, codes), pairs)
        return sum(float(np.abs(wanted[m.clique].ravel() - m.counts).sum()) for m in made)

    ours, plain = [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        start = np.stack([rng.permutation(column) for column in table.codes])
        fast, slow = start.copy(), start.copy()
        for turn in range(passes):
            # Only even passes copy half of the records.
            run_pass(DOMAIN, fast, wanted, 2 * turn, rng)
            plain_pass(slow, placed, rng)
        ours.append(error(fast))
        plain.append(error(slow))
        assert ours[-1] < error(start) / 2
    apart = np.array(ours) - np.array(plain)
    assert abs(apart.mean()) < 4 * apart.std(ddof=1) / np.sqrt(apart.size)
