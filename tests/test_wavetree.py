"""Wavetree: its parts keep their laws, and it degrades as it should with little to tell."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heterofedsyn._arrays import Codes, Floats, Integers
from heterofedsyn.bench.families import family
from heterofedsyn.evaluation import total_variation
from heterofedsyn.hub import Release, make_method
from heterofedsyn.hub.methods.attempts import Mode
from heterofedsyn.hub.methods.base import Later, Setting
from heterofedsyn.marginals import Flat, Haar, TableCounts
from heterofedsyn.marginals.statistics import haar_levels
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.schema import (
    BooleanColumn,
    CategoricalColumn,
    Clique,
    Column,
    DatetimeColumn,
    Domain,
    EncodedTable,
    IntegerColumn,
    NumberColumn,
    Schema,
    encode,
    with_atoms,
)
from heterofedsyn.simulate import FederatedSynthesizer
from heterofedsyn.simulate.run import run_study
from heterofedsyn.synthesis import Tree
from heterofedsyn.synthesis.allocation import allocate_within
from heterofedsyn.synthesis.copula import normal_base
from heterofedsyn.synthesis.denoise import double_centred, fitted_pair
from heterofedsyn.synthesis.forest import spanning_forest
from heterofedsyn.synthesis.grid import group_categories, group_ordered, grouped
from heterofedsyn.synthesis.haar import rebuild_haar
from heterofedsyn.synthesis.refine import refine
from heterofedsyn.synthesis.shrinkage import shrink
from support import categories, deal, dependent_table, make_plan

pytestmark = pytest.mark.sweep

PRIOR = (0.3, 0.7, 0.05)

counts_of_values = st.lists(st.integers(0, 5_000), min_size=2, max_size=70)


def differences(counts: Floats) -> list[Floats]:
    """The exact Haar levels of counts, as a site would compute them."""
    table = EncodedTable.from_codes(
        Domain(("a",), (counts.size,)),
        np.repeat(np.arange(counts.size), counts.astype(np.int64))[None, :],
    )
    exact = TableCounts(table)
    levels = range(haar_levels(counts.size))
    return [Haar(("a",), level).exact(exact).values.astype(np.float64) for level in levels]


# HAAR


@given(counts_of_values)
def test_reconstruction_is_exact_at_zero_noise(values: list[int]) -> None:
    counts = np.array(values, dtype=np.float64)
    ladder = [Noisy(level, 1e-12) for level in differences(counts)]
    rebuilt = rebuild_haar(ladder, np.ones_like(counts), float(counts.sum()), PRIOR)
    assert np.allclose(rebuilt, counts, atol=1e-3)


@pytest.mark.thorough
@given(
    counts_of_values,
    st.floats(1e-6, 1e6),
    st.floats(20, 1e7),
    st.integers(0, 2**32),
)
@settings(max_examples=300)
def test_no_rebuilt_count_is_negative_or_nan_and_totals_agree(
    values: list[int], rho: float, total: float, seed: int
) -> None:
    counts = np.array(values, dtype=np.float64)
    sigma = 1 / math.sqrt(2 * rho)
    rng = np.random.default_rng(seed)
    ladder = [
        Noisy(level + rng.normal(0, sigma, level.size), sigma**2) for level in differences(counts)
    ]
    rebuilt = rebuild_haar(ladder, np.ones_like(counts), total, PRIOR)
    assert np.isfinite(rebuilt).all()
    assert rebuilt.min() >= 0
    assert rebuilt.sum() == pytest.approx(total)


def test_the_bayesian_rebuild_beats_raw_differences() -> None:
    rng = np.random.default_rng(0)
    truth = 10_000 * np.exp(-0.5 * ((np.arange(64) - 20) / 9) ** 2) / 22.5
    exact = differences(np.rint(truth))
    sigma = 60.0
    errors = {"bayes": 0.0, "raw": 0.0}
    for _ in range(30):
        noisy = [Noisy(level + rng.normal(0, sigma, level.size), sigma**2) for level in exact]
        bayes = rebuild_haar(noisy, np.ones(64, np.int64), float(np.rint(truth).sum()), PRIOR)
        masses = np.array([np.rint(truth).sum()])
        for level in noisy:
            masses = np.stack([masses + level.values, masses - level.values], axis=1).ravel() / 2
        errors["bayes"] += float(np.abs(bayes - truth).sum())
        errors["raw"] += float(np.abs(masses - truth).sum())
    assert errors["bayes"] < 0.5 * errors["raw"]


# GRID


@given(st.lists(st.floats(0, 1_000), min_size=1, max_size=60), st.floats(1, 2_000))
def test_groups_of_an_ordered_attribute_are_stretches_that_are_large_enough(
    values: list[float], threshold: float
) -> None:
    counts = np.array(values)
    groups = group_ordered(counts, threshold)
    steps = np.diff(groups)
    assert groups[0] == 0
    assert ((steps == 0) | (steps == 1)).all()
    if counts.size > 2 and groups[-1] > 0:
        assert grouped(counts, groups).min() >= threshold / 4 * (1 - 1e-9)


@given(st.lists(st.floats(0, 1_000), min_size=1, max_size=60), st.floats(1, 2_000))
def test_frequent_categories_stay_and_every_group_has_a_member(
    values: list[float], threshold: float
) -> None:
    counts = np.array(values)
    groups = group_categories(counts, threshold)
    assert set(groups.tolist()) == set(range(int(groups.max()) + 1))
    rare = np.flatnonzero(counts < threshold / 4)
    if counts.size > 2:
        assert len({int(groups[i]) for i in rare}) <= 1
    assert grouped(counts, groups).sum() == pytest.approx(counts.sum())


def test_missing_values_do_not_join_the_largest_ones() -> None:
    counts = np.array([10.0, 10, 10, 10, 30])
    assert group_ordered(counts, 20.0, last_apart=True).tolist() == [0, 0, 1, 1, 2]


# PAIRS


@given(st.integers(2, 12), st.integers(2, 12), st.integers(0, 2**32))
def test_a_pair_is_kept_at_zero_noise_and_dropped_under_noise_alone(
    rows: int, columns: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    table = rng.integers(1, 500, (rows, columns)).astype(np.float64)
    total = float(table.sum())
    exact = fitted_pair(Noisy(table, 1e-9), table.sum(axis=1), table.sum(axis=0), total)
    assert np.allclose(exact, table, atol=1e-2)
    apart = np.outer(table.sum(axis=1), table.sum(axis=0)) / total
    buried = fitted_pair(Noisy(apart, 1e12), table.sum(axis=1), table.sum(axis=0), total)
    assert np.allclose(buried, apart)


def test_an_empty_group_stays_empty_and_harms_no_other() -> None:
    table = np.array([[50.0, 5.0], [5.0, 50.0], [0.0, 0.0]])
    fitted_table = fitted_pair(Noisy(table, 1.0), table.sum(axis=1), table.sum(axis=0), 110.0)
    assert np.isfinite(fitted_table).all()
    assert np.allclose(fitted_table, table, atol=1.5)


def test_shrinking_keeps_nothing_of_pure_noise_and_lowers_the_error_of_a_signal() -> None:
    rng = np.random.default_rng(1)
    kept = [
        np.abs(shrink(double_centred(rng.normal(0, 1, (12, 12))), 1.0)).sum() for _ in range(50)
    ]
    assert np.mean(np.array(kept) > 0) < 0.5
    signal = double_centred(5 * np.outer(np.linspace(-1, 1, 12), np.linspace(-1, 1, 12)))
    noisy = [signal + double_centred(rng.normal(0, 1, (12, 12))) for _ in range(50)]
    before = np.mean([np.linalg.norm(table - signal) for table in noisy])
    after = np.mean([np.linalg.norm(shrink(table, 1.0) - signal) for table in noisy])
    assert after < 0.7 * before


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 300), st.integers(0, 2**32))
def test_allocation_within_strata_is_within_the_rounding_of_each(
    strata: int, values: int, rows: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    stratum = rng.integers(0, strata, rows)
    weights = rng.random((strata, values)) * (rng.random((strata, values)) < 0.7)
    codes = allocate_within(stratum, weights, rng)
    for place in range(strata):
        own = codes[stratum == place]
        share = weights[place] / weights[place].sum() if weights[place].any() else 1 / values
        wanted = np.floor(own.size * np.broadcast_to(share, values) - 1e-6)
        assert (np.bincount(own, minlength=values) >= wanted).all()


def test_a_spanning_forest_has_no_circle_and_the_greatest_weight() -> None:
    rng = np.random.default_rng(3)
    names = [f"a{i}" for i in range(7)]
    weights: dict[Clique, float] = {
        (names[i], names[j]): float(rng.random()) for i in range(7) for j in range(i + 1, 7)
    }
    forest = spanning_forest(weights)
    assert len(forest) == 6
    assert forest[0] == max(weights, key=lambda pair: weights[pair])
    assert {name for pair in forest for name in pair} == set(names)


# THE WHOLE METHOD


def fitted(schema: Schema, *tables: pa.Table | EncodedTable, **terms: Any) -> Release:
    usual = {"epsilon": 1.0, "delta": 1e-9, "method": "wavetree", "noise_seed": 1}
    synthesizer = FederatedSynthesizer(schema, **{**usual, **terms})
    if isinstance(tables[0], EncodedTable):
        return synthesizer.fit_encoded({f"s{i}": t for i, t in enumerate(tables)}).release
    return synthesizer.fit(tables).release


def remark(release: Release) -> str:
    (text,) = release.run.remarks
    return text


@pytest.mark.parametrize(
    ("sizes", "rows", "epsilon", "mode"),
    [
        ((5,), 5_000, 1.0, "mode independent"),
        ((5, 4), 20_000, 1.0, "mode full: 1 pairs"),
        ((1, 1, 1), 5_000, 1.0, "none stood out"),
        ((5, 4, 3), 200, 0.01, "only 1-ways are worth measuring"),
        ((5, 4, 3), 0, 1.0, "only 1-ways are worth measuring"),
    ],
)
def test_it_degrades_and_says_so(
    sizes: tuple[int, ...], rows: int, epsilon: float, mode: str
) -> None:
    schema = categories(*sizes, label=0)
    release = fitted(schema, *deal(dependent_table(schema.domain, rows), 2), epsilon=epsilon)
    assert mode in remark(release)
    assert release.sample(50, seed=1).num_rows == 50


def test_between_too_little_and_enough_only_label_pairs_are_measured() -> None:
    schema = categories(4, 4, 4, 4, 4, 4, 4, 4, label=2)
    tables = deal(dependent_table(schema.domain, 1_000), 2)
    release = fitted(schema, *tables, epsilon=1.0)
    assert "mode star: 7 pairs" in remark(release)
    measured = [pair.attributes for pair in release.run.pairs if pair.measured]
    assert all("a2" in pair for pair in measured)


def test_columns_share_alike_when_no_pair_is_worth_measuring_and_by_size_otherwise() -> None:
    schema = categories(2, 8, 32, label=0)

    def prices(rows: int) -> list[float]:
        release = fitted(schema, *deal(dependent_table(schema.domain, rows), 2))
        (charge,) = (c for c in release.privacy.sites[0].charges if c.label == "one-way")
        return [part.rho / charge.rho for part in charge.parts]

    assert prices(20) == pytest.approx([1 / 3] * 3)
    assert prices(50_000) == pytest.approx([1 / 7, 2 / 7, 4 / 7])


def test_pairs_are_scored_on_a_grid_as_fine_as_the_noise_of_scores_allows() -> None:
    schema = categories(12, 12, 12, 12)
    tables = deal(dependent_table(schema.domain, 20_000), 2)

    def cells(epsilon: float) -> list[int]:
        charges = fitted(schema, *tables, epsilon=epsilon).privacy.sites[0].charges
        (scores,) = (charge for charge in charges if charge.label == "scores")
        return [part.integers for part in scores.parts]

    coarse, fine = cells(0.2), cells(20.0)
    assert all(4 * 4 <= few < many for few, many in zip(coarse, fine, strict=True))


def test_a_pair_with_the_label_gets_twice_the_share_of_another() -> None:
    schema = categories(3, 3, 3, 3, label=1)
    release = fitted(schema, *deal(dependent_table(schema.domain, 5_000), 2), epsilon=2.0)
    (pairs,) = (c for c in release.privacy.sites[0].charges if c.label == "pairs")
    prices = {part.attributes: part.rho for part in pairs.parts}
    with_label = [rho for pair, rho in prices.items() if "a1" in pair]
    others = [rho for pair, rho in prices.items() if "a1" not in pair]
    assert len(with_label) == 3
    assert others
    assert with_label == pytest.approx([2 * others[0]] * 3)


def test_columns_of_few_values_stay_as_they_are_so_that_first_looks_count() -> None:
    """Also where a value is so rare that a group of it would be smaller than the noise allows."""
    schema = categories(*[4] * 8)
    codes = np.random.default_rng(0).integers(0, 3, (8, 5_000))
    rare = EncodedTable.from_codes(schema.domain, codes)
    release = fitted(schema, *deal(rare, 2), epsilon=1.0)
    (targets,) = release.model.targets
    assert all(grid.shape == (4, 4) for grid in targets.grids)
    assert targets.pairs
    assert len(targets.looks) + len(targets.pairs) == 8 * 7 / 2
    assert targets.looks.keys().isdisjoint(targets.pairs)


def test_rows_hold_what_is_known_of_every_column() -> None:
    """Though noisy pairs, which rows are weighed by first, contradict each other."""
    schema = categories(5, 6, 7, 8)
    release = fitted(schema, *deal(dependent_table(schema.domain, 3_000), 2), epsilon=1.0)
    (targets,) = release.model.targets
    known = targets.estimates
    made = Tree().synthesize(targets, 5_000, np.random.default_rng(0))
    for name, codes in zip(schema.domain.names, made.codes, strict=True):
        single = known.singles[name] / known.total
        shares = np.bincount(known.groups[name][codes], minlength=single.size) / made.rows
        assert np.abs(shares - single).sum() / 2 < 0.0025, name


@pytest.mark.parametrize("related", [0, 2])
def test_what_few_pairs_do_not_need_measures_single_columns_again(related: int) -> None:
    """So nothing of a budget is left."""
    schema = categories(*[12] * 6)
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 12, (6, 20_000))
    codes[1 : 1 + related] = codes[0]
    table = EncodedTable.from_codes(schema.domain, codes)
    release = fitted(schema, *deal(table, 2), epsilon=1.0)
    (account, *_) = release.privacy.sites
    (ones, _, last) = (charge for charge in account.charges if charge.label != "total")
    pairs = [part.rho for part in last.parts if len(part.attributes) == 2]
    again = {part.attributes: part.rho for part in last.parts if len(part.attributes) == 1}
    assert again.keys() == {part.attributes for part in ones.parts}
    assert len(pairs) >= related
    assert sum(pairs) == pytest.approx(last.rho * math.sqrt(len(pairs) / (2.0 * 5)))
    promised = Budget.of(epsilon=1.0, delta=1e-9).rho
    assert release.privacy.rho == pytest.approx(promised, rel=1e-6)


@pytest.mark.parametrize("sizes", [(5, 1), (5, 1, 1, 100), (12, 12, 12, 12), (2, 2, 2)])
def test_what_is_measured_again_was_told_before(sizes: tuple[int, ...]) -> None:
    """Also where no two columns could depend on each other."""
    schema, method = categories(*sizes), make_method("wavetree")
    plan = make_plan(schema, ("one", "two"), method=method.name)
    tables = deal(dependent_table(schema.domain, 20_000), 2)
    release = run_study(schema, plan, method, tables, noise_seed=1)
    ahead = method.ahead(Setting.of(schema, plan))
    told = {rest.label: rest for rest in ahead if isinstance(rest, Later)}
    (charge,) = (c for c in release.privacy.sites[0].charges if c.label == "pairs")
    most = told["pairs"]
    assert {part.kind for part in charge.parts} <= {*most.kinds}
    assert len(charge.parts) <= (most.releases or 0)
    assert sum(part.integers for part in charge.parts) <= (most.integers or 0)
    assert charge.rho <= most.cost.rho


def test_fine_levels_get_more_where_the_noise_leaves_something_of_single_values() -> None:
    schema = Schema((IntegerColumn("x", 0, 63), CategoricalColumn("c", ("a", "b"))))
    table = dependent_table(schema.domain, 20_000)

    def finest(epsilon: float) -> float:
        charges = fitted(schema, *deal(table, 2), epsilon=epsilon).privacy.sites[0].charges
        (ones,) = (charge for charge in charges if charge.label == "one-way")
        prices = [part.rho for part in ones.parts if part.attributes == ("x",)]
        return prices[-1] / prices[0]

    assert finest(0.2) == pytest.approx(2 ** (0.3 * 5))
    assert finest(50.0) == pytest.approx(2 ** (0.85 * 5))


def test_with_about_as_many_rows_levels_cost_the_same() -> None:
    """So that a plan for so many rows tells what a study will ask that hears a noisy number."""
    mode = Mode("full", planned=1.0, shares=(0.6, 0.1, 0.3), sigma=1.0, needed=1.0)
    some, about, more = (mode.level_weights(6, seen) for seen in (0.2, 0.3, 0.45))
    assert some == about
    assert more[-1] > some[-1]


@pytest.mark.thorough
def test_dependence_of_wide_columns_is_found_where_noise_is_small() -> None:
    made = family("few-wide").invent(np.random.default_rng(0))
    truth = encode(made.schema, made.rows.to_batches()).table

    def error(method: str) -> float:
        release = fitted(made.schema, *deal(truth, 3), method=method, epsilon=5.0)
        rows = encode(made.schema, release.sample(seed=1).to_batches()).table
        return total_variation(truth, rows).two_way

    assert error("wavetree") < 0.8 * error("independent")


@pytest.mark.parametrize("label", ["yes", "ward", "bmi", None])
def test_columns_of_every_kind_come_back_as_they_were(label: str | None) -> None:
    rng = np.random.default_rng(0)
    rows = 20_000
    base = rng.random(rows)
    columns: tuple[Column, ...] = (
        IntegerColumn("age", 0, 99, nullable=True),
        NumberColumn("bmi", 0.0, 50.0),
        DatetimeColumn("day", "2024-01-01", "2024-12-31", bins=52),  # type: ignore[arg-type]
        CategoricalColumn("grade", values=tuple("abcdefgh"), ordered=True),
        CategoricalColumn("ward", values=tuple(f"w{i}" for i in range(12)), nullable=True),
        BooleanColumn("yes"),
        CategoricalColumn("constant", values=("only",)),
        IntegerColumn("code", 0, 9_999, bins=10_000),
    )
    missing = rng.random(rows) < 0.1
    table = pa.table(
        {
            "age": pa.array((base * 99).astype(int), mask=missing),
            "bmi": np.where(rng.random(rows) < 0.4, 0.0, 10 + 30 * base),
            "day": np.datetime64("2024-01-01") + (base * 365).astype("timedelta64[D]"),
            "grade": np.array(list("abcdefgh"))[(base * 8).astype(int)],
            "ward": pa.array([f"w{i}" for i in (base * 12).astype(int)], mask=missing),
            "yes": base > 0.7,
            "constant": ["only"] * rows,
            "code": (base * 9_999).astype(int),
        }
    )
    schema = Schema(columns, label=label)
    release = fitted(schema, table.slice(0, 9_000), table.slice(9_000), epsilon=5.0)
    made = release.sample(seed=2)
    assert made.schema.names == [column.name for column in columns]
    assert made["age"].null_count == pytest.approx(0.1 * made.num_rows, rel=0.1)
    zeros = np.mean(np.array(made["bmi"]) == 0.0)
    assert zeros == pytest.approx(0.4, abs=0.02)
    truth, found = (encode(schema, t.to_batches()).table for t in (table, made))
    assert total_variation(truth, found).one_way < 0.15


@pytest.mark.slow
@pytest.mark.thorough
def test_two_hundred_columns_are_no_obstacle() -> None:
    schema = categories(*[3] * 200, label=0)
    table = dependent_table(schema.domain, 3_000)
    release = fitted(schema, table, epsilon=20.0)
    assert release.sample(100, seed=1).num_columns == 200


@pytest.mark.thorough
def test_relabelling_categories_does_not_change_the_distribution_of_results() -> None:
    schema = categories(6, 7, 5, 8, label=0)
    table = dependent_table(schema.domain, 6_000)
    rng = np.random.default_rng(5)
    orders = [rng.permutation(size) for size in schema.domain.sizes]
    shuffled = EncodedTable.from_codes(
        schema.domain,
        np.stack([order[codes] for order, codes in zip(orders, table.codes, strict=True)]),
    )

    def errors(truth: EncodedTable) -> Floats:
        found = []
        for seed in range(12):
            release = fitted(schema, *deal(truth, 2), noise_seed=seed)
            made = encode(release.schema, release.sample(seed=seed).to_batches()).table
            found.append(total_variation(truth, made).two_way)
        return np.array(found)

    plain, other = errors(table), errors(shuffled)
    error = math.sqrt((plain.var() + other.var()) / 12)
    assert abs(plain.mean() - other.mean()) < 4 * error


def test_piles_at_the_minimum_get_a_code_of_their_own() -> None:
    schema = Schema(
        (
            NumberColumn("gain", 0.0, 100.0, bins=10),
            IntegerColumn("days", 0, 99, bins=10),
            IntegerColumn("age", 0, 9),
            NumberColumn("paid", 0.0, 1.0, bins=4, atoms=(0.5,)),
            NumberColumn("same", 3.0, 3.0, bins=1),
        )
    )
    assert with_atoms(schema).domain.sizes == (11, 11, 10, 5, 1)
    assert with_atoms(with_atoms(schema)) == with_atoms(schema)


def test_one_ways_are_flat_or_haar_by_kind_and_size() -> None:
    schema = Schema(
        (
            CategoricalColumn("ward", values=tuple("abcdefgh")),
            CategoricalColumn("grade", values=tuple("abcdefgh"), ordered=True),
            IntegerColumn("few", 0, 3),
        )
    )
    rows = pa.table({"ward": ["a"] * 50, "grade": ["b"] * 50, "few": [1] * 50})
    release = fitted(schema, rows)
    statistics = [m.statistic for m in release.model.targets[0].measurements]
    assert Flat(("ward",)) in statistics
    assert [s.level for s in statistics if isinstance(s, Haar)] == [0, 1, 2]
    assert Flat(("few",)) in statistics


# BETWEEN GROUPS AND VALUES


def correlation(columns: Sequence[Codes | Integers]) -> float:
    return float(np.asarray(np.corrcoef(np.stack(columns)))[0, 1])


def test_attributes_that_rise_together_do_so_within_groups_too() -> None:
    rng = np.random.default_rng(0)
    first = rng.standard_normal(8_000)
    second = 0.97 * first + math.sqrt(1 - 0.97**2) * rng.standard_normal(8_000)
    # 40 values each, in 4 groups of 10; only the groups are given.
    fine = [np.clip((x + 2.5) * 8, 0, 39).astype(np.int64) for x in (first, second)]
    groups = np.repeat(np.arange(4), 10)
    values = [np.bincount(codes, minlength=40).astype(np.float64) for codes in fine]
    coarse = np.stack([groups[codes] for codes in fine]).astype(np.uint8)
    made = refine(coarse, [groups, groups], values, {0: False, 1: False}, rng)
    apart = refine(coarse, [groups, groups], values, {}, rng)
    for column, found, counts in zip(coarse, made, values, strict=True):
        assert np.array_equal(groups[found], column)
        assert np.array_equal(np.bincount(found, minlength=40), counts)
    truth = correlation(fine)
    assert abs(correlation(made) - truth) < 0.02
    assert correlation(apart) < truth - 0.05


def test_independent_attributes_stay_independent_within_groups() -> None:
    rng = np.random.default_rng(1)
    fine = [rng.integers(0, 40, 8_000) for _ in range(2)]
    groups = np.repeat(np.arange(4), 10)
    values = [np.bincount(codes, minlength=40).astype(np.float64) for codes in fine]
    coarse = np.stack([groups[codes] for codes in fine]).astype(np.uint8)
    made = refine(coarse, [groups, groups], values, {0: False, 1: False}, rng)
    assert abs(correlation(made)) < 4 / math.sqrt(8_000)


def test_missing_values_say_nothing_about_the_others() -> None:
    rng = np.random.default_rng(2)
    codes = np.stack([rng.integers(0, 3, 3_000), rng.integers(0, 4, 3_000)]).astype(np.uint8)
    groups = [np.repeat(np.arange(3), 5), np.concatenate([np.repeat(np.arange(3), 5), [3]])]
    values = [np.ones(15), np.ones(16)]
    made = refine(codes, groups, values, {0: False, 1: True}, rng)
    assert set(made[1][codes[1] == 3].tolist()) == {15}
    for own, column, found in zip(groups, codes, made, strict=True):
        assert np.array_equal(own[found], column)


@pytest.mark.parametrize("truth", [-0.95, -0.4, 0.4, 0.8, 0.97])
def test_a_normal_pair_is_found_from_a_noisy_one(truth: float) -> None:
    rng = np.random.default_rng(3)
    first = rng.standard_normal(200_000)
    noise = rng.standard_normal(200_000)
    second = truth * first + math.sqrt(1 - truth**2) * noise
    codes = [np.digitize(x, [-1, -0.3, 0.4, 1.1]) for x in (first, second)]
    table = np.zeros((5, 5))
    np.add.at(table, tuple(codes), 1)
    noisy = Noisy(table + rng.normal(0, 300, table.shape), 300.0**2)
    base = normal_base(noisy, table.sum(axis=1), table.sum(axis=0), float(table.sum()))
    assert base is not None
    assert np.abs(base - table).sum() / table.sum() < 0.03
    assert base.sum(axis=1) == pytest.approx(table.sum(axis=1))
    assert base.sum(axis=0) == pytest.approx(table.sum(axis=0), rel=0.03)


def test_no_normal_pair_is_seen_in_noise() -> None:
    rng = np.random.default_rng(4)
    even = np.full(6, 1_000.0)
    found = [
        normal_base(Noisy(1_000 / 6 + rng.normal(0, 50, (6, 6)), 2_500.0), even, even, 6_000.0)
        for _ in range(200)
    ]
    assert sum(base is not None for base in found) < 0.046 * 200 + 4 * math.sqrt(200 * 0.044)


def test_where_every_value_is_a_group_rows_keep_their_codes_and_memory_stays_small() -> None:
    rng = np.random.default_rng(3)
    size = 4_096
    codes = rng.integers(0, size, (2, 500)).astype(np.uint16)
    own = np.arange(size)
    tracemalloc.start()
    columns = refine(codes, [own, own], [rng.random(size) * 9] * 2, {0: False}, rng)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.array_equal(np.stack(columns), codes)
    assert peak < 8 * size * size / 100
