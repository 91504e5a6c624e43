"""A column of many codes with a public hierarchy is measured on the levels the noise allows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn.bench.fresh_process import in_fresh_process
from heterofedsyn.errors import ReleaseError
from heterofedsyn.evaluation import TotalVariation, total_variation
from heterofedsyn.hub import Release, make_method
from heterofedsyn.hub.methods.base import Later, Setting
from heterofedsyn.hub.methods.tiers import hierarchy, worth_asking
from heterofedsyn.hub.release import load
from heterofedsyn.marginals import Flat, Grouped, TableCounts, Total
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.schema import CategoricalColumn, Determines, Schema, encode
from heterofedsyn.simulate import FederatedSynthesizer
from heterofedsyn.synthesis import Denoising, Measurement, Targets
from heterofedsyn.synthesis.grid import group_categories
from heterofedsyn.synthesis.hierarchy import rebuild_tiers, stood_out, within
from heterofedsyn.synthesis.precision import variance_of
from support import make_plan
from wide_support import wide_hierarchy

pytestmark = pytest.mark.thorough

CHAPTERS, EACH = 10, 60
CODES = [f"{chapter}{code:02}" for chapter in range(CHAPTERS) for code in range(EACH)]
ICD = CategoricalColumn("icd", tuple(CODES))
CHAPTER = CategoricalColumn("chapter", tuple(f"c{i}" for i in range(CHAPTERS)))
WARD = CategoricalColumn("ward", ("a", "b", "c"))
RULE = Determines("icd", "chapter", tuple(f"c{code[0]}" for code in CODES))
PLAIN = Schema((ICD, CHAPTER, WARD))
RULED = Schema((ICD, CHAPTER, WARD), rules=(RULE,))
LEVEL = np.arange(ICD.size) // EACH


def rows(many: int, seed: int = 0) -> pa.Table:
    """Chapters that follow the ward, codes that follow Zipf's law in their chapter."""
    rng = np.random.default_rng(seed)
    ward = rng.integers(0, 3, many)
    chapter = (rng.geometric(0.25, many) + 2 * ward) % CHAPTERS
    zipf = 1 / np.arange(1, EACH + 1)
    code = rng.choice(EACH, many, p=zipf / zipf.sum())
    return pa.table(
        {
            "icd": [CODES[i] for i in chapter * EACH + code],
            "chapter": [f"c{i}" for i in chapter],
            "ward": [WARD.values[i] for i in ward],
        }
    )


def study(schema: Schema, table: pa.Table, seed: int, epsilon: float = 1.0) -> Release:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = FederatedSynthesizer(schema, epsilon=epsilon, delta=1e-9, noise_seed=seed)
        parts = [table.take(np.arange(i, table.num_rows, 3)) for i in range(3)]
        return made.fit(parts).release


def apart(table: pa.Table, release: Release) -> TotalVariation:
    real, made = (
        encode(PLAIN, each.to_batches()).table for each in (table, release.sample(seed=1))
    )
    return total_variation(real, made)


def kinds(release: Release) -> list[str]:
    """How the codes were asked for."""
    parts = [part for charge in release.privacy.sites[0].charges for part in charge.parts]
    return [part.kind for part in parts if part.attributes == ("icd",)]


def test_codes_and_what_follows_from_them_come_out_closer() -> None:
    table = rows(6_000)
    found = {
        schema: [apart(table, study(schema, table, seed)) for seed in range(3)]
        for schema in (PLAIN, RULED)
    }

    def mean(schema: Schema, what: Any) -> float:
        return float(np.mean([what(one) for one in found[schema]]))

    for what in (
        lambda one: one.attributes["icd"],
        lambda one: one.pairs["icd", "chapter"],
        lambda one: one.pairs["icd", "ward"],
    ):
        assert mean(RULED, what) < 0.9 * mean(PLAIN, what)
    assert mean(RULED, lambda one: one.attributes["chapter"]) < 0.05


@pytest.mark.parametrize(
    ("many", "asked"), [(60, ["grouped"]), (6_000, ["grouped", "flat"]), (10**7, ["flat"])]
)
def test_levels_are_asked_as_the_noise_allows(many: int, asked: list[str]) -> None:
    tiers = worth_asking(hierarchy(RULED, ICD), ICD, many, 10.0)
    told = ["grouped" if isinstance(s, Grouped) else "flat" for s in tiers.statistics()]
    assert told == asked


@pytest.mark.parametrize(("many", "epsilon"), [(150, 0.2), (6_000, 1.0), (60_000, 50.0)])
def test_a_study_asks_of_a_hierarchy_no_more_than_was_foreseen(many: int, epsilon: float) -> None:
    release = study(RULED, rows(many), 1, epsilon)
    sites = tuple(account.site for account in release.privacy.sites)
    setting = Setting.of(RULED, make_plan(RULED, sites, epsilon=epsilon))
    method = make_method("wavetree")
    stages = {part.label: part for part in method.ahead(setting)}
    for charge in release.privacy.sites[0].charges:
        stage = stages[charge.label]
        if isinstance(stage, Later):
            assert {part.kind for part in charge.parts} <= {*stage.kinds}
            assert len(charge.parts) <= (stage.releases or 0)
            assert sum(part.integers for part in charge.parts) <= (stage.integers or 0)
            assert charge.rho <= stage.cost.rho * (1 + 1e-9)


def test_a_release_of_levels_alone_is_kept_and_drawn_from(tmp_path: Any) -> None:
    table = rows(150)
    release = study(RULED, table, 1, 0.2)
    assert kinds(release) == ["grouped"]
    again = load(release.save(tmp_path / "release"))
    drawn = again.sample(500, seed=2)
    assert drawn.equals(release.sample(500, seed=2))
    codes, chapters = drawn["icd"].to_pylist(), drawn["chapter"].to_pylist()
    assert all(chapter == f"c{code[0]}" for code, chapter in zip(codes, chapters, strict=True))
    errors = again.accuracy("icd").standard_error
    assert np.all(np.isfinite(errors))
    assert np.all(errors > 0)
    halves = again.accuracy("icd", groups=LEVEL.tolist()).standard_error
    sigma = next(
        part.sigma
        for charge in release.privacy.sites[0].charges
        for part in charge.parts
        if part.attributes == ("icd",)
    )
    assert halves == pytest.approx(np.full(CHAPTERS, sigma * np.sqrt(3)), rel=1e-6)


def test_groups_of_one_attribute_are_counted_and_add_up_to_the_rows() -> None:
    encoded = encode(RULED, rows(500).to_batches()).table
    counts = TableCounts(encoded)
    merged = Grouped(("icd",), (tuple(LEVEL.tolist()),))
    merged.check(RULED.domain)
    codes = Flat(("icd",)).exact(counts).values
    assert np.array_equal(merged.exact(counts).values, np.bincount(LEVEL, codes))
    assert merged.tells_total
    assert merged.sensitivity(RULED.domain) == 1


@given(
    st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=30), st.floats(0, 1e4), st.floats(0.1, 1e3)
)
def test_what_stands_out_and_the_rest_add_up(
    counts: list[float], total: float, sigma: float
) -> None:
    found = stood_out(np.array(counts), total, sigma)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(total, abs=1e-6)


@given(st.integers(0, 2**32), st.booleans())
def test_every_level_keeps_the_mass_of_the_one_above(seed: int, codes: bool) -> None:
    rng = np.random.default_rng(seed)
    fine = np.arange(24) // 4
    coarse = fine // 3
    possible = rng.random(24) < 0.8
    possible[0] = True
    tiers = [(own, Noisy(rng.normal(size=own.max() + 1) * 50, 9.0)) for own in (coarse, fine)]
    values = Noisy(rng.normal(size=24) * 50, 25.0) if codes else None
    found = rebuild_tiers(tiers, values, 100.0, possible)
    assert found.min() >= 0
    assert found[~possible].sum() == 0
    assert found.sum() == pytest.approx(100.0)


def test_without_noise_every_code_is_found() -> None:
    encoded = encode(RULED, rows(2_000).to_batches()).table
    counts = TableCounts(encoded)
    codes = Flat(("icd",)).exact(counts).values.astype(np.float64)
    tiers = [(LEVEL, Noisy(np.bincount(LEVEL, codes).astype(np.float64), 1e-6))]
    found = rebuild_tiers(tiers, Noisy(codes, 1e-6), codes.sum(), np.ones(codes.size, bool))
    assert np.abs(found - codes).max() < 0.1


def test_rare_codes_stay_with_their_chapter() -> None:
    counts = np.where(np.arange(ICD.size) % EACH == 0, 40.0, 1.0)
    groups = group_categories(counts, 200.0, None, [LEVEL])
    assert within(groups, LEVEL)
    assert int(groups.max()) + 1 == CHAPTERS
    few = group_categories(counts, 20_000.0, None, [LEVEL])
    assert int(few.max()) + 1 == 1


def test_single_codes_are_as_noisy_as_the_finest_of_their_levels() -> None:
    """They share alike within its groups, whatever is known of coarser ones."""
    code = CategoricalColumn("code", tuple("abcdefgh"))
    coarse, fine = np.arange(8) // 4, np.arange(8) // 2
    measured = tuple(
        Measurement(
            Grouped(("code",), (tuple(own.tolist()),)),
            Noisy(np.bincount(own).astype(np.float64), variance),
        )
        for own, variance in ((coarse, 1.0), (fine, 100.0))
    )
    own = Targets(Schema((code,)), measured, Denoising())
    assert variance_of(own, "code", np.arange(8)) == pytest.approx([100 / 4] * 8)
    assert variance_of(own, "code", fine) == pytest.approx([100] * 4)
    assert variance_of(own, "code", np.zeros(8, np.int64)) == pytest.approx([own.total_variance])


def test_groups_that_cross_each_other_are_no_hierarchy() -> None:
    """Of two columns that follow from one, only those that lie within each other are levels."""
    across = CategoricalColumn("across", ("x", "y"))
    other = Determines("icd", "across", tuple("xy"[int(code[1:]) % 2] for code in CODES))
    both = Schema((ICD, CHAPTER, across, WARD), rules=(RULE, other))
    assert len(hierarchy(both, ICD)) == 1


def test_a_model_whose_levels_cross_each_other_is_refused() -> None:
    def seen(groups: Any) -> Measurement:
        merged = Grouped(("icd",), (tuple(groups.tolist()),))
        return Measurement(merged, Noisy(np.ones(merged.integers(RULED.domain)), 1.0))

    total = Measurement(Total(), Noisy(np.array([100.0]), 1.0))
    ward = Measurement(Flat(("ward",)), Noisy(np.ones(3), 1.0))
    crossed = Targets(RULED, (total, ward, seen(np.arange(600) % 2), seen(LEVEL)), Denoising())
    with pytest.raises(ReleaseError, match="do not lie within each other"):
        Denoising().check(crossed)


@pytest.mark.slow
def test_sixty_thousand_codes_with_a_hierarchy_fit_into_a_gibibyte() -> None:
    cost = in_fresh_process(wide_hierarchy, 60_000)
    assert cost.peak < 2**10, cost
