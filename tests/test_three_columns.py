"""Counts of three columns together: where the plan of a study says so, and nowhere else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from agent_support import approved_study, ask, books_of, make_site
from heterofedsyn import FederatedSynthesizer
from heterofedsyn.audit import oracle
from heterofedsyn.audit.cases import ALL_ROUNDS, ROWS, Case
from heterofedsyn.audit.cases import deal as deal_rows
from heterofedsyn.audit.sources import STORES
from heterofedsyn.errors import ProtocolError, ReleaseError, UsageError
from heterofedsyn.hub import METHODS, Release, make_method
from heterofedsyn.hub.methods.base import (
    Later,
    Method,
    Model,
    Outcome,
    Setting,
    settings_of,
    with_columns,
)
from heterofedsyn.hub.methods.stages import one_ways
from heterofedsyn.hub.planning.cost import check_feasible
from heterofedsyn.hub.planning.new_study import Roster, new_study
from heterofedsyn.hub.planning.preview import column_lines, most_words, preview
from heterofedsyn.hub.release.release import load
from heterofedsyn.hub.release.sound import plan_of
from heterofedsyn.hub.replies import Ask, Round
from heterofedsyn.marginals import Flat, Grouped, TableCounts, tally
from heterofedsyn.marginals.statistics import moves
from heterofedsyn.marginals.tally import BLOCK_BYTES
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.noise import SimulatedNoise
from heterofedsyn.privacy.trust import Local, SecureAggregation
from heterofedsyn.protocol import Answer, Part, Plan, Query, Study, decode, encode
from heterofedsyn.protocol.promised import asked_words
from heterofedsyn.protocol.refusal import Reason, Refused
from heterofedsyn.protocol.terms import terms_of
from heterofedsyn.simulate.drafting import draft_plan
from heterofedsyn.simulate.run import run_study
from heterofedsyn.site import Site
from heterofedsyn.site.agent import Agent
from heterofedsyn.site.counting import count
from heterofedsyn.sources import open_source
from heterofedsyn.synthesis import Measurement
from support import NoNoise, categories, deal, dependent_table, make_plan

SCHEMA = categories(4, 6, 3)
TABLE = dependent_table(SCHEMA.domain, 400)
THREE = Grouped(("a0", "a1", "a2"), ((0, 0, 1, 2), (0, 1, 1, 2, 3, 3), (0, 1, 1)))
NAMES = ("one", "two", "three")


def query(plan: Plan, *statistics: Any, share: float = 0.1) -> bytes:
    parts = tuple(Part(statistic, share) for statistic in statistics)
    return encode(Query(study=plan.fingerprint, number=0, label="q", parts=parts))


# THE PLAN


def test_a_plan_that_says_nothing_has_the_name_that_it_always_had() -> None:
    plain = make_plan(SCHEMA)
    assert plain.fingerprint == "a09fde397255fa9e7dbcadfad7f5243537d3a6613856f1bcbe423d4c7b05cc7e"
    assert make_plan(SCHEMA, columns=2) == plain
    assert b"columns" not in msgspec.json.encode(plain)
    assert plain.together == 2
    says = make_plan(SCHEMA, columns=3)
    assert says.together == 3
    assert says.fingerprint != plain.fingerprint


def test_a_plan_that_says_three_comes_back_from_its_file(tmp_path: Path) -> None:
    plan = make_plan(SCHEMA, columns=3)
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan
    study = Study(plan=plan, schema=SCHEMA.settings, quorum=1)
    study.save(tmp_path / "study.toml")
    again = Study.load(tmp_path / "study.toml")
    assert (again.plan.together, again.fingerprint) == (3, study.fingerprint)


@pytest.mark.parametrize("columns", [-1, 0, 1, 4, 2**40])
def test_a_plan_says_three_columns_or_nothing(columns: int) -> None:
    with pytest.raises(UsageError, match=r"columns \(.*\) must be 3, or be left out"):
        make_plan(SCHEMA, columns=columns)


# SITES


def test_a_site_counts_three_columns_where_the_plan_says_so() -> None:
    plan = make_plan(SCHEMA, columns=3)
    site = Site("one", TABLE, plan, NoNoise())
    (part,) = decode(site.answer(query(plan, THREE)), Answer).parts
    assert np.array_equal(part.values, oracle.exact(THREE, TABLE))
    assert part.values.sum() == TABLE.rows
    assert part.sensitivity == 1.0
    assert site.ledger.spent.rho == pytest.approx(0.1 * plan.budget.rho)
    over_first = part.values.reshape(THREE.shape).sum(axis=0).ravel()
    pair = Grouped(THREE.attributes[1:], THREE.groups[1:])
    assert np.array_equal(over_first, pair.exact(TableCounts(TABLE)).values)


def test_groups_that_no_value_has_are_counted_as_none() -> None:
    plan = make_plan(SCHEMA, columns=3)
    gaps = Grouped(THREE.attributes, ((0, 0, 3, 3), (2,) * 6, (0, 2, 2)))
    site = Site("one", TABLE, plan, NoNoise())
    (part,) = decode(site.answer(query(plan, gaps)), Answer).parts
    counts = part.values.reshape(4, 3, 3)
    assert np.array_equal(part.values, oracle.exact(gaps, TABLE))
    assert counts[1:3].sum() == counts[:, :2].sum() == counts[:, :, 1].sum() == 0
    assert counts.sum() == TABLE.rows


@pytest.mark.parametrize("block", [BLOCK_BYTES, 64])
@pytest.mark.parametrize("kind", ["csv", "parquet", "duckdb"])
def test_three_columns_are_counted_alike_from_every_source(
    kind: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "duckdb":
        pytest.importorskip("duckdb")
    monkeypatch.setattr(tally, "BLOCK_BYTES", block)
    names = SCHEMA.domain.names
    cells = {
        name: [f"v{code}" for code in row] for name, row in zip(names, TABLE.codes, strict=True)
    }
    source = open_source(str(STORES[kind](cells, tmp_path)))
    counts = count([source], SCHEMA, together=3, folder=tmp_path).counts
    assert isinstance(counts, TableCounts)
    assert np.array_equal(THREE.exact(counts).values, oracle.exact(THREE, TABLE))
    for pair in SCHEMA.domain.pairs():
        assert np.array_equal(Flat(pair).exact(counts).values, oracle.exact(Flat(pair), TABLE))


def test_a_site_refuses_three_columns_without_the_plans_word_before_any_work() -> None:
    plan = make_plan(SCHEMA)

    class Untouched(TableCounts):
        def prepare(self, views: Any) -> None:
            raise AssertionError("rows were counted")

    site = Site("one", Untouched(TABLE), plan, NoNoise())
    for statistics in ((THREE,), (Flat(("a0",)), THREE)):
        with pytest.raises(ProtocolError, match=r"a0 and a1 and a2 together.* no more than 2"):
            site.answer(query(plan, *statistics))
    assert site.ledger.spent.rho == 0


@pytest.mark.parametrize(
    "statistic", [Flat(("a0", "a1", "a2")), Grouped(("a0",) * 3, ((0,) * 4,) * 3)]
)
def test_other_statistics_of_three_columns_are_refused_whatever_the_plan_says(
    statistic: Any,
) -> None:
    plan = make_plan(SCHEMA, columns=3)
    site = Site("one", TABLE, plan, NoNoise())
    with pytest.raises(ProtocolError):
        site.answer(query(plan, statistic))
    assert site.ledger.spent.rho == 0


def test_four_columns_are_never_counted_together() -> None:
    schema = categories(2, 2, 2, 2)
    plan = make_plan(schema, columns=3)
    site = Site("one", dependent_table(schema.domain, 20), plan, NoNoise())
    four = Grouped(schema.domain.names, ((0, 1),) * 4)
    with pytest.raises(ProtocolError, match="no more than 3"):
        site.answer(query(plan, four))
    assert site.ledger.spent.rho == 0


@pytest.mark.thorough
def test_an_agent_counts_three_columns_for_the_study_that_says_so_and_for_no_other(
    tmp_path: Path,
) -> None:
    settings = make_site(tmp_path)
    silent, says = (approved_study(settings, columns=columns) for columns in (2, 3))
    names = settings.load_schema().domain.names
    three = Grouped(
        names[:3],
        tuple(
            tuple(value // 2 for value in range(size))
            for size in settings.load_schema().domain.sizes[:3]
        ),
    )
    with books_of(settings) as books:
        agent = Agent(settings, books, noise=NoNoise(), log=lambda line: None)
        for label in ("once", "again"):
            pairs = [Flat(pair) for pair in combinations(names[:3], 2)]
            agent.answer(ask(silent, *pairs, label=label))
            before = books.account
            with pytest.raises(Refused) as refused:
                agent.answer(ask(silent, three, label=f"{label} three"))
            assert refused.value.reason is Reason.MALFORMED
            assert books.account == before
            (part,) = decode(agent.answer(ask(says, three, label=label)), Answer).parts
            assert part.values.sum() == 20
            assert books.account.spent > before.spent


# THE HUB


@dataclass(frozen=True)
class Triples(Method):
    """All single columns, and three of them together where the plan allows it."""

    name: ClassVar[str] = "independent"
    stubborn: bool = False

    def columns(self, setting: Setting) -> int:
        return 3

    def conduct(self, setting: Setting) -> Generator[Ask, Round, Outcome]:
        one, other = setting.budget.evenly(2)
        targets = yield from one_ways(setting, one)
        if self.stubborn or setting.together == 3:
            yield Ask("triples", ((THREE, other),))
        return Outcome(Model(self.synthesizer, (targets,)))


def triples_plan(trust: str = Local.name) -> Plan:
    return make_plan(SCHEMA, NAMES, trust=trust, settings=settings_of(make_method("independent")))


@pytest.mark.parametrize("trust", [Local.name, SecureAggregation.name])
def test_a_study_of_three_columns_is_recorded_as_one(trust: str) -> None:
    plan = with_columns(triples_plan(trust), Triples(), SCHEMA)
    assert plan.together == 3
    assert Setting.of(SCHEMA, plan).together == 3
    release = run_study(SCHEMA, plan, Triples(), deal(TABLE, 3), noise_seed=1)
    assert release.run.columns == 3
    charges = release.privacy.sites[0].charges
    (part,) = charges[-1].parts
    assert (part.kind, part.attributes) == ("grouped", THREE.attributes)
    told = plan_of(release.run, release.privacy, SCHEMA)
    assert (told.together, told.fingerprint) == (3, release.run.study)


def test_a_simulation_keeps_of_its_tables_what_three_columns_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @dataclass(frozen=True)
    class Named(Triples):
        name: ClassVar[str] = "triples"

    monkeypatch.setitem(METHODS, "triples", Named)
    monkeypatch.setattr(tally, "BLOCK_BYTES", 64)  # so small that pairs alone would be kept
    rows = pa.table(
        {
            name: [f"v{code}" for code in row]
            for name, row in zip(SCHEMA.domain.names, TABLE.codes, strict=True)
        }
    )
    fitted = FederatedSynthesizer(SCHEMA, epsilon=1, delta=1e-9, method="triples", noise_seed=1)
    release = fitted.fit({"one": rows, "two": rows.slice(100)}).release
    assert release.run.columns == 3
    assert release.privacy.sites[0].charges[-1].label == "triples"


def test_a_new_study_and_a_draft_say_what_their_method_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @dataclass(frozen=True)
    class Named(Triples):
        name: ClassVar[str] = "triples"

    monkeypatch.setitem(METHODS, "triples", Named)
    for method, together in (("triples", 3), ("independent", 2)):
        roster = Roster(NAMES, {})
        now = datetime(2030, 1, 1, tzinfo=UTC)
        study = new_study(SCHEMA, roster, epsilon=1, delta=1e-9, now=now, method=method)
        draft = draft_plan(SCHEMA, make_method(method), epsilon=1, delta=1e-9, sites=3)
        assert (study.plan.together, draft.together) == (together, together)


def test_a_method_looks_at_what_the_plan_says_and_not_at_what_it_would_like() -> None:
    plan = triples_plan()
    assert Setting.of(SCHEMA, plan).together == 2
    release = run_study(SCHEMA, plan, Triples(), deal(TABLE, 3), noise_seed=1)
    assert [charge.label for charge in release.privacy.sites[0].charges] == ["one-way"]
    assert release.run.columns is msgspec.UNSET


def test_a_hub_asks_for_no_more_columns_than_the_plan_says() -> None:
    plan = triples_plan()
    asked: list[str] = []
    with pytest.raises(ProtocolError, match="no more than 2"):
        run_study(
            SCHEMA,
            plan,
            Triples(stubborn=True),
            deal(TABLE, 3),
            noise_seed=1,
            watch=lambda report: asked.append(report.label),
        )
    assert asked == ["one-way"]


def test_a_study_whose_method_would_ask_for_more_columns_than_its_plan_says_is_refused() -> None:
    @dataclass(frozen=True)
    class Foreseeing(Triples):
        def ahead(self, setting: Setting) -> tuple[Ask | Later, ...]:
            return (Later("triples", ("grouped",), 5, 500, Budget(0.001), columns=3),)

    with pytest.raises(UsageError, match="3 columns together, and the study's plan allows no more"):
        check_feasible(SCHEMA, triples_plan(), Foreseeing())
    check_feasible(SCHEMA, with_columns(triples_plan(), Triples(), SCHEMA), Foreseeing())


def test_one_wide_column_among_many_makes_no_query_too_long() -> None:
    """It is in few of the tables that may be looked at: those with the label and each other one."""
    schema = categories(2, 60_000, *(3,) * 30, label=0)
    method = make_method("wavetree")
    plan = make_plan(schema, epsilon=20.0, method=method.name)
    plan = with_columns(plan, method, schema)
    assert plan.together == 3
    check_feasible(schema, plan, method)


# RELEASES


@pytest.fixture(scope="module")
def all_rounds() -> Release:
    """A release of the default method that asked in all of its rounds, as the audit has it."""
    case = Case("wavetree", epsilon=ALL_ROUNDS)
    plan, rows = case.plan(11), case.people(ROWS, 11)
    tables = [case.encoded(part) for part in deal_rows(rows, len(plan.sites))]
    return run_study(case.encoding, plan, case.conducted, tables, noise_seed=11)


def test_the_audit_has_a_study_in_which_everything_is_asked(all_rounds: Release) -> None:
    labels = [charge.label for charge in all_rounds.privacy.sites[0].charges]
    assert labels == ["total", "one-way", "scores", "pairs", "triple-scores", "triples"]
    (targets,) = all_rounds.model.targets
    assert targets.asides
    assert targets.triples
    again = Counter(own.statistic for own in targets.measurements if not own.aside)
    assert max(again.values()) > 1


def test_an_answer_that_stands_in_a_model_twice_is_refused(
    all_rounds: Release, tmp_path: Path
) -> None:
    load(all_rounds.save(tmp_path / "true"))
    (targets,) = all_rounds.model.targets
    kept = [own for own in targets.measurements if not own.aside]
    for number, own in enumerate((kept[-1], next(filter(pair_of, kept)))):
        twice = targets.with_measured((own,))
        model = replace(all_rounds.model, targets=(twice,))
        folder = replace(all_rounds, model=model).save(tmp_path / str(number))
        with pytest.raises(ReleaseError, match="not what sites were charged for"):
            load(folder)


def pair_of(measurement: Measurement) -> bool:
    return len(measurement.statistic.attributes) == 2


@pytest.mark.parametrize("trust", [Local.name, SecureAggregation.name])
def test_a_release_of_three_columns_that_nobody_agreed_to_is_refused(
    trust: str, tmp_path: Path
) -> None:
    plan = with_columns(triples_plan(trust), Triples(), SCHEMA)
    release = run_study(SCHEMA, plan, Triples(), deal(TABLE, 3), noise_seed=1)
    silent = msgspec.structs.replace(release.run, columns=msgspec.UNSET)
    name = plan_of(silent, release.privacy, SCHEMA).fingerprint
    run = msgspec.structs.replace(silent, study=name)
    folder = replace(release, run=run).save(tmp_path / "release")
    with pytest.raises(ReleaseError, match="more columns than the study allowed"):
        load(folder)


@pytest.mark.parametrize("rows", [1, 2, 40])
def test_rows_of_one_person_are_priced_in_three_columns_as_in_two(rows: int) -> None:
    plan = make_plan(SCHEMA, columns=3, unit="patient", rows_per_unit=rows)
    pair = Grouped(THREE.attributes[:2], THREE.groups[:2])
    three, two = (terms_of(Part(own, 0.1), SCHEMA.domain, plan) for own in (THREE, pair))
    assert (three.sensitivity, three.sigma) == (two.sensitivity, two.sigma)
    assert three.sensitivity == rows
    cells = THREE.integers(SCHEMA.domain)
    assert moves(THREE, SCHEMA.domain, rows) == (min(rows, cells), rows)


def test_three_columns_in_one_cell_have_noise_too() -> None:
    plan = make_plan(SCHEMA, columns=3)
    one = Grouped(THREE.attributes, tuple((0,) * len(groups) for groups in THREE.groups))
    site = Site("one", TABLE, plan, SimulatedNoise(1, "one"))
    parts = decode(site.answer(query(plan, *[one] * 9)), Answer).parts
    assert len({int(part.values[0]) for part in parts} - {TABLE.rows}) > 5


# WORDS


def test_a_steward_reads_that_three_columns_may_be_counted_together() -> None:
    for columns, most, partners, consent in (
        (2, "or of two columns together; never of three,", "a1, a2", "any statistic that"),
        (
            3,
            "of up to three columns together; never of four,",
            "a1, a2, up to two at once",
            "any statistic, of up to three columns together, that",
        ),
    ):
        plan = make_plan(SCHEMA, NAMES, method="fedprivsyn", columns=columns)
        shown = preview(Study(plan=plan, schema=SCHEMA.settings, quorum=3), "one")
        assert shown.together == columns
        assert most in most_words(shown)
        assert column_lines(shown)[0][2] == partners
        assert consent in asked_words(plan)


def test_noise_of_a_real_source_is_on_every_count_of_three_columns() -> None:
    plan = make_plan(SCHEMA, columns=3)
    site = Site("one", TABLE, plan, SimulatedNoise(1, "one"))
    (part,) = decode(site.answer(query(plan, THREE)), Answer).parts
    added = part.values - oracle.exact(THREE, TABLE)
    assert np.count_nonzero(added) > 0.8 * added.size
    assert np.sqrt(np.mean(added**2.0)) == pytest.approx(
        part.sigma, rel=4 / np.sqrt(2 * added.size)
    )
