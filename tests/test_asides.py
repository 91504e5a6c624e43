"""First looks at pairs that are not measured then: what they tell, and what must hold of them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from heterofedsyn.bench.families import family
from heterofedsyn.errors import ReleaseError
from heterofedsyn.hub.questions.worlds import Plausible
from heterofedsyn.hub.release import load
from heterofedsyn.marginals.statistics import Flat, Grouped, Total
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.schema import CategoricalColumn, EncodedTable, Schema
from heterofedsyn.simulate import FederatedSynthesizer
from heterofedsyn.simulate.synthesizer import name_sites
from heterofedsyn.synthesis import Denoising, Measurement, Targets
from heterofedsyn.synthesis.asides import looked_at
from heterofedsyn.synthesis.leaning import leaned

NAMES = ("a", "b", "c")
SCHEMA = Schema(tuple(CategoricalColumn(name, ("no", "yes")) for name in NAMES))
BOTH = (0, 1)


def measured(statistic: Flat | Grouped | Total, values: object, variance: float) -> Measurement:
    return Measurement(statistic, Noisy(np.array(values, np.float64).ravel(), variance))


def pair(first: str, second: str) -> Grouped:
    return Grouped((first, second), (BOTH, BOTH))


def targets(*more: Measurement, variance: float = 100.0) -> Targets:
    """400 records, a quarter of them with each value of two columns."""
    ones = [measured(Flat((name,)), [200, 200], variance) for name in NAMES]
    return Targets(SCHEMA, (measured(Total(), [400], 1.0), *ones, *more), Denoising())


def aside(statistic: Grouped, values: object, variance: float) -> Measurement:
    return dataclasses.replace(measured(statistic, values, variance), aside=True)


def rows(table: list[list[int]]) -> EncodedTable:
    """Rows of a and b with these counts; c is even in each cell."""
    codes = [
        (a, b, turn % 2) for a in BOTH for b in BOTH for turn in range(table[a][b]) for _ in BOTH
    ]
    return EncodedTable.from_codes(SCHEMA.domain, np.array(codes).T)


def test_a_look_tells_of_its_columns_by_inverse_variance() -> None:
    # Sums over two cells of variance 50 weigh as much as the counts themselves, of variance 100.
    own = targets(aside(pair("a", "b"), [[120, 120], [80, 80]], 50.0))
    singles = own.estimates.singles
    assert singles["a"] == pytest.approx([220, 180])
    assert singles["b"] == pytest.approx([200, 200])
    assert singles["c"] == pytest.approx([200, 200])


def test_a_pair_that_was_measured_is_no_first_look() -> None:
    own = targets(measured(pair("a", "c"), [100] * 4, 50.0), aside(pair("a", "b"), [100] * 4, 50.0))
    assert {*own.looks} == {("a", "b")}


def test_a_group_of_values_weighs_by_its_own_variance() -> None:
    """Counts of three values together have three times the variance of one."""
    columns = (CategoricalColumn("a", tuple("pqrs")), CategoricalColumn("b", ("no", "yes")))
    own = Targets(
        Schema(columns),
        (
            measured(Total(), [400], 1.0),
            measured(Flat(("a",)), [100] * 4, 90.0),
            measured(Flat(("b",)), [200, 200], 90.0),
            measured(Grouped(("a", "b"), ((0, 0, 0, 1), BOTH)), [170, 170, 30, 30], 45.0),
        ),
        Denoising(),
    )
    # 330 of variances 270 and 90, 80 of twice 90, and both less 5 for the total.
    assert own.estimates.singles["a"] == pytest.approx([325, 75])


def test_worlds_differ_by_as_much_as_all_answers_leave_open() -> None:
    """Not by the noise of a column alone, of which a first look tells far more."""
    own = targets(aside(pair("a", "b"), [100] * 4, 50.0), variance=10_000.0)
    worlds = [Plausible(own, 1, str(number)).only(("a",)) for number in range(200)]
    spread = np.std([world.singles["a"][0] for world in worlds])
    # Of two values whose total is known; each is off by a bit less than a sum of two cells.
    assert spread == pytest.approx(np.sqrt(100 / 2), rel=0.2)


def test_a_look_is_no_measured_pair_and_changes_no_estimate_of_one() -> None:
    own = targets(aside(pair("a", "b"), [[100, 100], [100, 100]], 1.0))
    assert own.pairs == ()
    assert own.estimates.pairs == {}
    assert own.total == pytest.approx(400)


def test_looks_are_kept_on_the_groups_of_the_model_and_count_as_measured_if_the_pair_is() -> None:
    wide = Schema((*SCHEMA.columns[:2], CategoricalColumn("c", ("x", "y", "z"))))
    coarse = Grouped(("a", "c"), (BOTH, (0, 1, 1)))
    seen = [measured(pair("a", "b"), [1, 2, 3, 4], 1.0), measured(coarse, [1, 2, 3, 4], 1.0)]
    (kept,) = looked_at(seen, [], wide.domain)
    assert kept.statistic == pair("a", "b")
    assert kept.aside
    first, second = looked_at(seen, [pair("a", "b"), coarse], wide.domain)
    assert not first.aside
    assert not second.aside


@pytest.mark.parametrize(
    "wrong",
    [
        aside(Grouped(("a",), (BOTH,)), [200, 200], 1.0),
        aside(Grouped(("a", "b"), ((0, 0), BOTH)), [200, 200], 1.0),
        dataclasses.replace(measured(Flat(("a",)), [200, 200], 1.0), aside=True),
    ],
)
def test_a_look_that_says_nothing_to_the_model_is_refused(wrong: Measurement) -> None:
    own = targets(wrong)
    with pytest.raises(ReleaseError, match="first look"):
        own.rebuild.check(own)


def test_a_pair_is_looked_at_once_and_not_measured_as_well() -> None:
    look = aside(pair("a", "b"), [100] * 4, 1.0)
    for more in ((look, look), (look, measured(pair("a", "b"), [100] * 4, 1.0))):
        with pytest.raises(ReleaseError, match="first look"):
            targets(*more).rebuild.check(targets(*more))


@pytest.mark.parametrize(("variance", "share"), [(100.0, 0.5), (300.0, 0.25)])
def test_of_a_difference_a_count_over_itself_and_its_noise_is_believed(
    variance: float, share: float
) -> None:
    own = targets(aside(pair("a", "b"), [[110, 90], [90, 110]], variance))
    table = leaned(own, rows([[50, 50], [50, 50]]).codes)["a", "b"]
    assert table[0, 0] - 100 == pytest.approx(10 * share, rel=1e-3)


def test_a_look_with_too_much_noise_leaves_rows_alone() -> None:
    own = targets(aside(pair("a", "b"), [[150, 50], [50, 150]], 1e4))
    assert leaned(own, rows([[50, 50], [50, 50]]).codes) == {}


def test_a_measured_pair_leans_from_what_rows_say_and_not_from_independence() -> None:
    """Rows may depend through a third column; noise does not speak against it."""
    own = targets(measured(pair("a", "b"), [[110, 90], [90, 110]], 1e4))
    assert own.estimates.residuals == {}
    drawn = rows([[60, 40], [40, 60]]).codes
    assert leaned(own, drawn)["a", "b"][0, 0] == pytest.approx(120, abs=0.2)


def test_rows_of_another_world_follow_its_estimates_alone() -> None:
    class Elsewhere(Denoising):
        leans = False

    own = targets(measured(pair("a", "b"), [[110, 90], [90, 110]], 100.0))
    other = dataclasses.replace(own, rebuild=Elsewhere())
    drawn = rows([[60, 40], [40, 60]]).codes
    table = leaned(other, drawn)["a", "b"]
    assert table is other.estimates.pairs["a", "b"]


def test_a_release_keeps_its_looks_and_draws_the_same_rows_when_loaded(tmp_path: Path) -> None:
    made = family("small-categories").invent(np.random.default_rng(0), 2_000, 8)
    study = FederatedSynthesizer(made.schema, epsilon=1.0, delta=1e-9, noise_seed=0)
    tables = study.split(study.encode([made.rows]), 3, "uniform")
    release = study.fit_encoded(name_sites(tables)).release
    (own,) = release.model.targets
    assert own.asides, "not every scored pair is measured"
    release.save(tmp_path / "release")
    again = load(tmp_path / "release")
    assert len(again.model.targets[0].asides) == len(own.asides)
    assert again.sample(500, seed=1).equals(release.sample(500, seed=1))


def test_single_columns_of_few_values_are_told_by_pairs_nearly_as_well_as_alone() -> None:
    """A pair of binary columns says as much of both as two counts of one column for its price."""
    made = family("binary").invent(np.random.default_rng(0), 4_000, 12)
    errors: dict[str, list[float]] = {"wavetree": [], "independent": []}
    for method, own in errors.items():
        for seed in range(12):
            study = FederatedSynthesizer(
                made.schema, epsilon=1.0, delta=1e-9, method=method, noise_seed=seed
            )
            tables = study.split(study.encode([made.rows]), 3, "uniform")
            known = study.fit_encoded(name_sites(tables)).release.model.targets[0].estimates
            truth = tables[0].domain
            counts = [
                sum(np.bincount(t.codes[i], minlength=size) for t in tables)
                for i, size in enumerate(truth.sizes)
            ]
            own += [
                float(np.abs(known.singles[name] - count).sum())
                for name, count in zip(truth.names, counts, strict=True)
            ]
    ours, theirs = (np.array(own) for own in errors.values())
    error = np.hypot(ours.std(), theirs.std()) / np.sqrt(ours.size)
    assert ours.mean() < 1.2 * theirs.mean() + 4 * error
