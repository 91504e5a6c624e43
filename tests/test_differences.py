"""What `run.differences` promises: an honest view of sites, from noisy answers only."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heterofedsyn import Release, load
from heterofedsyn._arrays import Floats, Integers
from heterofedsyn.hub import Request, converse, drive, make_method
from heterofedsyn.hub.release.differences import MOST_GROUPS, AttributeDifference, differences
from heterofedsyn.hub.replies import Round
from heterofedsyn.marginals import Flat, Haar, Statistic, Total
from heterofedsyn.marginals.statistics import haar_differences, haar_levels
from heterofedsyn.privacy.noise import SimulatedNoise
from heterofedsyn.protocol import Answer, Part, Plan, Query, decode, encode
from heterofedsyn.schema import (
    BooleanColumn,
    CategoricalColumn,
    EncodedTable,
    IntegerColumn,
    Schema,
)
from heterofedsyn.simulate.run import run_study
from heterofedsyn.site import Site
from support import as_schema, make_plan, released

pytestmark = pytest.mark.thorough

FORMAT_1 = Path(__file__).parent / "data" / "release-format-1"
SITES = ("north", "south", "west")
SCHEMA = Schema(
    (
        IntegerColumn("age", min=0, max=19),
        CategoricalColumn("ward", values=tuple("abcdefghijkl")),
        BooleanColumn("sick"),
    ),
    label="sick",
)


def patients(rows: int, seed: int, *, old: float = 0.4) -> EncodedTable:
    """Older patients are in later wards and more often sick."""
    rng = np.random.default_rng(seed)
    age = rng.binomial(19, old, rows)
    ward = np.minimum(11, age // 2 + rng.integers(0, 4, rows))
    return EncodedTable.from_codes(
        SCHEMA.domain, np.stack([age, ward, rng.random(rows) < age / 19])
    )


def study(tables: Sequence[EncodedTable], seed: int = 0, **terms: Any) -> Release:
    named = {"method": "wavetree", "epsilon": 2.0, "sites": SITES[: len(tables)], **terms}
    plan = make_plan(SCHEMA, **named)
    return run_study(SCHEMA, plan, make_method(plan.method), tables, noise_seed=seed)


def by_name(release: Release, site: str) -> dict[str, AttributeDifference]:
    (found,) = [summary for summary in release.run.differences if summary.site == site]
    return {attribute.name: attribute for attribute in found.attributes}


# WHAT IT SAYS


@pytest.mark.parametrize("method", ["wavetree", "independent", "local-merge", "adafedprivsyn"])
def test_every_method_tells_how_sites_differ(method: str) -> None:
    release = study([patients(2000, seed) for seed in range(3)], method=method)
    assert [summary.site for summary in release.run.differences] == [*SITES]
    for summary in release.run.differences:
        assert tuple(a.name for a in summary.attributes) == SCHEMA.domain.names
        assert abs(summary.total - 2000) < 4 * summary.total_error
        assert all(a.distance >= 0 and 0 < a.noise < 1 for a in summary.attributes)


def ratios(release: Release) -> list[float]:
    """Every distance in units of its noise."""
    return [a.distance / a.noise for site in release.run.differences for a in site.attributes]


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["wavetree", "independent"])
def test_sites_of_one_population_are_within_the_noise(method: str) -> None:
    """Not one in a hundred above twice the noise, yet the noise is not made to look large."""
    found = [
        ratio
        for seed in range(150)
        for ratio in ratios(
            study([patients(1500, 3 * seed + i) for i in range(3)], seed, method=method)
        )
    ]
    ratio = np.array(found)
    error = math.sqrt(0.01 * 0.99 / 150 / 3)  # sites of one study are not independent
    assert (ratio > 2).mean() < 0.01 + 4 * error
    assert 0.05 < (ratio > 1).mean() < 0.25
    assert (ratio == 0).mean() > 0.3


def dealt(whole: EncodedTable, sites: int, seed: int) -> list[EncodedTable]:
    """Rows of one table, each to a site by lot."""
    rng = np.random.default_rng(seed)
    site = rng.integers(0, sites, whole.rows)
    return [EncodedTable.from_codes(whole.domain, whole.codes[:, site == k]) for k in range(sites)]


FIVE = tuple(f"site-{k}" for k in range(5))


@pytest.mark.thorough
@pytest.mark.parametrize("epsilon", [1.0, 5.0, 10.0])
def test_rows_dealt_by_lot_make_no_site_stand_out_and_a_skewed_one_does(epsilon: float) -> None:
    """However small the noise, the luck of the lot is no difference between sites."""
    whole, alike, skewed = patients(5000, 1), [], []
    for seed in range(30):
        tables = dealt(whole, 5, seed)
        alike += ratios(study(tables, seed, epsilon=epsilon, sites=FIVE))
        planted = [*tables[:4], patients(1000, 100 + seed, old=0.6)]
        release = study(planted, seed, epsilon=epsilon, sites=FIVE)
        skewed += [a.distance / a.noise for a in by_name(release, "site-4").values()]
    error = math.sqrt(0.01 * 0.99 / 30 / 3)  # sites and columns of one study are not independent
    assert (np.array(alike) > 2).mean() < 0.01 + 4 * error
    assert (np.array(skewed) > 2).mean() > 0.95


def test_a_skewed_site_stands_out() -> None:
    tables = [patients(3000, 1), patients(3000, 2), patients(3000, 3, old=0.6)]
    release = study(tables)
    skewed, usual = by_name(release, "west"), by_name(release, "north")
    for name in SCHEMA.domain.names:
        assert skewed[name].distance > 4 * skewed[name].noise
        assert skewed[name].distance > 1.5 * usual[name].distance


def shares(table: EncodedTable, name: str) -> Floats:
    codes = table.codes[SCHEMA.domain.index(name)].astype(np.int64)
    if name == "age":
        codes = codes >> haar_levels(20) - 3
    return np.bincount(codes, minlength=8) / table.rows


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("old", [0.45, 0.6])
def test_the_square_is_unbiased_over_noise_and_rows(old: float) -> None:
    """Where nothing hides a difference, the mean square is that of the populations."""
    hospitals = ((9000, 0.4), (6000, 0.4), (3000, old))
    releases = []
    for seed in range(200):
        tables = [patients(rows, 3 * seed + i, old=p) for i, (rows, p) in enumerate(hospitals)]
        releases.append(study(tables, seed, epsilon=3.0))
    whole = [patients(4_000_000, 1000), patients(4_000_000, 1001, old=old)]
    for name in ("age", "sick"):
        true = float(((shares(whole[0], name) - shares(whole[1], name)) ** 2).sum())
        squares = np.array([by_name(release, "west")[name].distance ** 2 for release in releases])
        assert squares.min() > 0
        assert abs(squares.mean() - true) < 4 * squares.std() / math.sqrt(squares.size)


def test_without_noise_it_is_the_distance_itself() -> None:
    """Answers whose sigma is next to nothing, of very many rows, written by hand."""
    schema = as_schema(patients(1, 0).domain)
    own, others = 10**12 * np.array([30, 10, 20]), 10**12 * np.array([10, 40, 50])
    padded = [np.pad(own, (0, 17)), np.pad(others, (0, 17))]

    def asked(*statistics: Statistic) -> Query:
        parts = tuple(Part(statistic, 0.1) for statistic in statistics)
        return Query(study="s", number=0, label="l", parts=parts)

    def answer(site: str, *values: Integers) -> Answer:
        parts = (released(v, sigma=1e-6) for v in values)
        return Answer(study="s", query="q", site=site, simulated=True, parts=tuple(parts))

    levels = [Haar(("age",), level) for level in range(haar_levels(20))]
    answers = tuple(
        answer(site, np.array([c.sum()]), *(haar_differences(c, h.level) for h in levels))
        for site, c in zip(("a", "b"), padded, strict=True)
    )
    for site in differences(schema, ("a", "b"), [Round(asked(Total(), *levels), answers)]):
        # Blocks of four values: everything is in the first of them.
        assert site.attributes[0].distance == pytest.approx(0, abs=1e-6)
    flat = asked(Flat(("sick",)))
    answers = tuple(answer(s, c[:2]) for s, c in zip(("a", "b"), (own, others), strict=True))
    for site in differences(schema, ("a", "b"), [Round(flat, answers)]):
        (found,) = site.attributes  # of other columns nothing is known
        assert found.name == "sick"
        assert found.distance == pytest.approx(math.sqrt(2) * abs(30 / 40 - 10 / 50), abs=1e-6)
    assert differences(schema, ("a", "b"), [Round(asked(levels[0]), answers)]) == ()


def test_few_groups_are_compared_however_many_values_there_are() -> None:
    """Rare categories together: a difference among them alone is not seen."""
    schema = as_schema(patients(1, 0).domain)
    counts = np.array([900, 5, 800, 700, 4, 600, 500, 400, 300, 9, 8, 0])
    moved = counts.copy()
    moved[[1, 4, 9, 10, 11]] = [0, 8, 0, 10, 8]
    rank = np.argsort(-counts)
    assert counts.sum() == moved.sum()
    assert {1, 4, 9, 10, 11} == {*rank[MOST_GROUPS - 1 :]}
    query = Query(study="s", number=0, label="l", parts=(Part(Flat(("ward",)), 0.1),))
    answers = tuple(
        Answer(
            study="s",
            query="q",
            site=site,
            simulated=True,
            parts=(released(values, sigma=1e-6),),
        )
        for site, values in (("a", counts), ("b", moved))
    )
    for summary in differences(schema, ("a", "b"), [Round(query, answers)]):
        assert summary.attributes[0].distance == pytest.approx(0, abs=1e-6)


# WHERE IT COMES FROM


def test_it_depends_on_the_answers_alone_and_not_on_their_order() -> None:
    tables = [patients(500, seed) for seed in range(3)]
    plan = make_plan(SCHEMA, SITES, method="wavetree", epsilon=2.0)
    live = [
        Site(name, table, plan, SimulatedNoise(3, name))
        for name, table in zip(SITES, tables, strict=True)
    ]
    kept: dict[str, list[Answer]] = {}

    def answers(query: Query) -> list[Answer]:
        message = encode(query)
        kept[query.fingerprint] = [decode(site.answer(message), Answer) for site in live]
        return kept[query.fingerprint]

    first = told(plan, answers)
    again = told(plan, lambda query: kept[query.fingerprint][::-1])
    assert first.run.differences == again.run.differences
    assert first.run == study(tables, 3).run


def told(plan: Plan, answers: Callable[[Query], list[Answer]]) -> Release:
    def ask(request: Request) -> list[Answer]:
        return answers(request.query)

    return drive(converse(SCHEMA, plan, make_method(plan.method)), ask)


def test_sites_that_are_not_seen_singly_are_not_compared() -> None:
    tables = [patients(500, seed) for seed in range(3)]
    assert study(tables, trust="secure-aggregation").run.differences == ()
    assert study(tables[:1]).run.differences == ()
    assert study(tables, method="privsyn", sites=("pooled",)).run.differences == ()


@pytest.mark.parametrize("method", ["wavetree", "independent"])
def test_an_empty_site_is_lost_in_the_noise(method: str) -> None:
    tables = [patients(800, 1), patients(800, 2), patients(0, 3)]
    for seed in range(5):
        release = study(tables, seed, method=method, epsilon=0.5)
        (empty,) = [s for s in release.run.differences if s.site == "west"]
        assert 1 <= empty.total < 5 * empty.total_error
        for attribute in empty.attributes:
            assert math.isfinite(attribute.distance)
            assert attribute.distance < 5 * attribute.noise


def test_it_survives_the_disk_and_older_releases_have_none(tmp_path: Path) -> None:
    release = study([patients(500, seed) for seed in range(3)])
    back = load(release.save(tmp_path / "release"))
    assert back.run.differences == release.run.differences
    assert len(back.run.differences) == 3
    assert load(FORMAT_1).run.differences == ()


def test_a_release_folder_may_hold_a_report(tmp_path: Path) -> None:
    release = study([patients(500, seed) for seed in range(3)])
    folder = release.save(tmp_path / "release")
    (folder / "report.html").write_text("<!doctype html>")
    assert load(folder).run == release.run
    release.save(folder, overwrite=True)
    # A report of the former release does not stay beside the new one.
    assert not (folder / "report.html").exists()
