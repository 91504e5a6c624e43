"""Nothing leaves a site that its steward was not shown before."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass

import pytest

from heterofedsyn.errors import PrivacyRefusal
from heterofedsyn.hub import METHODS, Absence, Request, drive, make_method, of_study
from heterofedsyn.hub.planning.preview import Preview, preview
from heterofedsyn.hub.replies import NO_ANSWER, Reply
from heterofedsyn.hub.steps import KEYS, MASKED
from heterofedsyn.marginals.statistics import kind_of
from heterofedsyn.privacy.budget import Budget, together
from heterofedsyn.privacy.noise import SimulatedNoise
from heterofedsyn.protocol import Answer, Query, decode, encode
from heterofedsyn.protocol.study import Study
from heterofedsyn.protocol.terms import terms_of
from heterofedsyn.schema import (
    BooleanColumn,
    CategoricalColumn,
    IntegerColumn,
    NumberColumn,
    Schema,
)
from heterofedsyn.site import Site
from heterofedsyn.site.settings import LEAST_RHO, STUDY_BYTES
from sums_support import Federation
from support import categories, deal, dependent_table, make_plan

pytestmark = pytest.mark.sweep

FEDERATED = sorted(name for name, kind in METHODS.items() if not kind.pools)
SITES = ("one", "two", "three")
MIXED = Schema(
    (
        IntegerColumn("age", 0, 99),
        NumberColumn("cost", 0.0, 900.0, bins=60, nullable=True),
        CategoricalColumn("ward", tuple("abcdefghij")),
        CategoricalColumn("grade", ("low", "mid", "high"), ordered=True),
        CategoricalColumn("only", ("this",)),
        BooleanColumn("sick"),
    ),
    label="sick",
)
SCHEMAS = {
    "mixed": MIXED,
    "no label": Schema(MIXED.columns),
    "lonely": Schema((IntegerColumn("age", 0, 99),)),
    "constant label": Schema(MIXED.columns, label="only"),
    "categories": categories(4, 6, 3, 5, 12, 2, 2, label=0),
}


def make_study(schema: Schema, method: str, **terms: object) -> Study:
    settings = terms.get("settings", {})
    assert isinstance(settings, dict)
    encoding = make_method(method, settings).encoding(schema)
    plan = make_plan(encoding, SITES, method=method, **terms)
    return Study(plan=plan, schema=schema.settings, quorum=len(SITES))


@dataclass(frozen=True)
class Carried:
    """A query that a site got and how many bytes it answered."""

    query: Query
    bytes: int


def carry(study: Study, rows: int, seed: int) -> dict[str, list[Carried]]:
    """A whole study between sites in memory: what every site was asked."""
    plan, encoding = study.plan, study.encoding
    tables = deal(dependent_table(encoding.domain, rows, seed), len(SITES), seed)
    sites = {
        name: Site(name, table, plan, SimulatedNoise(seed, name))
        for name, table in zip(SITES, tables, strict=True)
    }
    found: dict[str, list[Carried]] = defaultdict(list)

    def ask(request: Request) -> list[Answer]:
        answers = []
        for name in request.asked:
            reply = sites[name].answer(encode(request.query))
            found[name].append(Carried(request.query, len(reply)))
            answers.append(decode(reply, Answer))
        return answers

    drive(of_study(study), ask)
    return found


def hold(shown: Preview, carried: list[Carried], study: Study) -> None:
    """Nothing was asked that was not foreseen."""
    plan, domain = study.plan, study.encoding.domain
    foreseen = {round_.label: round_ for round_ in shown.rounds}
    assert len(foreseen) == len(shown.rounds)
    by_label: dict[str, list[Carried]] = defaultdict(list)
    for one in carried:
        by_label[one.query.label].append(one)
    assert set(by_label) <= set(foreseen)
    for label, found in by_label.items():
        round_ = foreseen[label]
        parts = [part for one in found for part in one.query.parts]
        terms = [terms_of(part, domain, plan) for part in parts]
        cost = together(Budget(part.rho) for part in terms)
        sent = sum(one.bytes for one in found)
        integers = sum(part.integers for part in terms)
        if round_.fixed:
            assert len(found) == 1
            assert [
                (kind_of(part.statistic), part.statistic.attributes, of.integers, of.sigma, of.rho)
                for part, of in zip(parts, terms, strict=True)
            ] == [(p.kind, p.attributes, p.integers, p.sigma, p.rho) for p in round_.parts]
            assert (sent, integers, cost.rho) == (round_.bytes, round_.integers, round_.rho)
            continue
        assert {kind_of(part.statistic) for part in parts} <= set(round_.kinds)
        assert round_.rounds is not None
        assert round_.releases is not None
        assert round_.integers is not None
        assert round_.bytes is not None
        assert len(found) <= round_.rounds
        assert len(parts) <= round_.releases
        assert integers <= round_.integers
        assert cost.rho <= round_.rho
        assert sent <= round_.bytes
    fixed = {round_.label for round_ in shown.rounds if round_.fixed}
    assert fixed <= set(by_label), "what was said to be fixed was not asked"


@pytest.mark.thorough
@pytest.mark.parametrize("name", FEDERATED)
@pytest.mark.parametrize("kind", sorted(SCHEMAS))
def test_no_study_asks_for_more_than_was_previewed(name: str, kind: str) -> None:
    for seed, (rows, epsilon) in enumerate(
        [(0, 1.0), (30, 0.1), (2_000, 0.5), (2_000, 2.0), (4_000, 20.0), (4_000, 100.0)]
    ):
        study = make_study(SCHEMAS[kind], name, epsilon=epsilon, seed=seed)
        carried = carry(study, rows, seed)
        for site in SITES:
            hold(preview(study, site), carried[site], study)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("wavetree", {"density": 0.1, "full_at": 0.1}),
        ("wavetree", {"density": 40, "full_at": 0.1, "finest": 1000}),
        ("wavetree", {"full_at": 1000, "star_at": 0.1, "atoms": False}),
        ("wavetree", {"finest": 2, "coarse": 2, "full_at": 0.1}),
        ("adafedprivsyn", {"bound": 1.0, "refresh": 1}),
        ("adafedprivsyn", {"bound": 0.01}),
        ("fedprivsyn", {"k": 3, "sketch": "gaussian", "q": 0.4}),
    ],
)
def test_settings_change_the_preview_with_the_study(
    name: str, settings: dict[str, float | str]
) -> None:
    for seed, (rows, epsilon) in enumerate([(0, 1.0), (3_000, 1.0), (3_000, 100.0)]):
        study = make_study(MIXED, name, settings=settings, epsilon=epsilon, seed=seed)
        carried = carry(study, rows, seed)
        hold(preview(study, "two"), carried["two"], study)


def test_a_method_that_pools_has_no_preview() -> None:
    with pytest.raises(PrivacyRefusal, match="all rows in one place"):
        preview(make_study(MIXED, "privsyn"), "one")


@pytest.mark.parametrize("name", FEDERATED)
def test_the_rounds_together_cover_the_budget(name: str) -> None:
    shown = preview(make_study(MIXED, name), "one")
    together_ = sum(round_.rho for round_ in shown.rounds)
    assert together_ >= 0.999 * shown.rho
    assert shown.bytes is not None
    assert shown.integers is not None
    assert shown.bytes > 8 * shown.integers


# What a site takes as the least for one part: far below what any method asks

MANY_COLUMNS = categories(*([2, 3, 4, 40] * 16), label=0)
FAR = 100.0


@pytest.mark.parametrize("name", FEDERATED)
def test_no_method_foresees_a_part_near_the_least_price_or_a_study_near_the_quota_of_bytes(
    name: str,
) -> None:
    for epsilon in (0.2, 5.0):
        study = make_study(MANY_COLUMNS, name, epsilon=epsilon)
        shown = preview(study, "one")
        for round_ in shown.rounds:
            for part in round_.parts:
                assert part.rho >= FAR * LEAST_RHO, round_.label
            if round_.releases:
                assert round_.rho / round_.releases >= FAR * LEAST_RHO, round_.label
        assert shown.bytes is None or shown.bytes < STUDY_BYTES / 10


@pytest.mark.slow
@pytest.mark.parametrize("name", FEDERATED)
def test_no_method_asks_for_a_part_near_the_least_price(name: str) -> None:
    study = make_study(MANY_COLUMNS, name, epsilon=0.2)
    for carried in carry(study, 3_000, 1).values():
        shares = [part.share for one in carried for part in one.query.parts]
        assert study.plan.budget.part(min(shares)).rho >= FAR * LEAST_RHO
        taken = sum(len(encode(one.query)) + one.bytes for one in carried)
        assert taken < STUDY_BYTES / 10


# WHERE ANSWERS ARE HIDDEN IN SUMS


def masked_bytes(federation: Federation, away: str | None) -> dict[str, Counter[str]]:
    """A whole study of real members: bytes that each sent, by what they were asked about."""
    sent: dict[str, Counter[str]] = defaultdict(Counter)

    def carry(request: Request) -> list[Reply]:
        replies: list[Reply] = []
        for site in request.asked:
            if request.step == MASKED and site == away:
                replies.append(Absence(site, NO_ANSWER))
                continue
            replies.append(federation.ask(request, site))
            what = KEYS if request.step == KEYS else request.query.label
            sent[site][what] += len(federation.said[-1][3])
        return replies

    drive(of_study(federation.study), carry)
    return sent


@pytest.mark.parametrize("method", ["allmarg", "wavetree", "fedprivsyn"])
@pytest.mark.parametrize(("sites", "colluding", "quorum"), [(3, 1, 3), (5, 1, 4), (5, 2, 5)])
def test_a_site_of_sums_sends_no_more_than_was_previewed(
    method: str, sites: int, colluding: int, quorum: int
) -> None:
    federation = Federation(sites, colluding=colluding, quorum=quorum, method=method, epsilon=0.3)
    away = federation.plan.sites[0] if quorum < sites else None
    sent = masked_bytes(federation, away)
    for site in sent:
        shown = preview(federation.study, site)
        foreseen = {round_.label: round_ for round_ in shown.rounds}
        assert {*sent[site]} - {KEYS} <= {*foreseen}
        assert shown.once == sent[site][KEYS]
        for label, round_ in foreseen.items():
            assert round_.bytes is not None
            assert sent[site][label] <= round_.bytes
            # With as many missing as may be, or none if none may, it is all of it.
            assert not round_.fixed or site == away or sent[site][label] == round_.bytes
        assert shown.bytes is not None
        assert sent[site].total() <= shown.bytes


@pytest.mark.parametrize(("sites", "colluding", "quorum"), [(3, 1, 3), (5, 1, 4), (5, 2, 5)])
def test_a_preview_of_sums_tells_both_prices_and_the_noise_that_is_sure(
    sites: int, colluding: int, quorum: int
) -> None:
    federation = Federation(sites, colluding=colluding, quorum=quorum, epsilon=0.3)
    shown = preview(federation.study, federation.plan.sites[0])
    release = federation.simulated()
    assert shown.rho == release.privacy.rho
    assert shown.rho_alone == release.privacy.rho_alone
    assert shown.rho_alone == pytest.approx((quorum - colluding) * shown.rho)
    stated = [charge.parts for charge in release.privacy.sites[0].charges]
    assert [round_.parts for round_ in shown.rounds] == stated
    for round_ in shown.rounds:
        for part in round_.parts:
            sure = part.sensitivity / math.sqrt(2 * part.rho)
            assert part.sigma == pytest.approx(sure, rel=1e-6)


def test_under_local_trust_both_prices_are_one() -> None:
    shown = preview(make_study(MIXED, "wavetree"), "one")
    assert shown.rho_alone == shown.rho
    assert shown.once == 0
