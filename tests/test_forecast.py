"""What `plan` says before a study is what the study then does, as far as it can be known."""

from __future__ import annotations

import itertools
import json
import math
import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from heterofedsyn.bench.benchmark_tables import real_table
from heterofedsyn.errors import UsageError
from heterofedsyn.evaluation import total_variation
from heterofedsyn.hub import Request, converse, drive, make_method
from heterofedsyn.hub.methods import METHODS, stages
from heterofedsyn.hub.methods.base import Method, with_columns
from heterofedsyn.hub.methods.wavetree import WaveTree
from heterofedsyn.hub.planning.columns import value_noise
from heterofedsyn.hub.planning.cost import check_feasible
from heterofedsyn.hub.planning.dryrun import DryRuns, answers_to, run_dry
from heterofedsyn.hub.planning.forecast import SPAN, Forecast, Stage, forecast
from heterofedsyn.hub.planning.population import Invented, invent
from heterofedsyn.hub.replies import SUM
from heterofedsyn.marginals.statistics import Flat, Grouped, Total, haar_levels
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.protocol import Answer, Plan, limits
from heterofedsyn.protocol.plan import Aggregation
from heterofedsyn.schema import (
    BooleanColumn,
    CategoricalColumn,
    EncodedTable,
    IntegerColumn,
    NumberColumn,
    Schema,
    encode,
)
from heterofedsyn.simulate import FederatedSynthesizer
from heterofedsyn.simulate.run import RoundReport, site_names
from heterofedsyn.simulate.synthesizer import name_sites
from invented import Desk, names
from support import categories, deal, dependent_table, make_plan

pytestmark = pytest.mark.thorough

CLINIC = Schema(
    (
        IntegerColumn("age", 18, 99, bins=40),
        NumberColumn("cost", 0.0, 900.0, bins=30, nullable=True),
        CategoricalColumn("ward", tuple("abcdef")),
        CategoricalColumn("grade", ("low", "mid", "high"), ordered=True),
        BooleanColumn("sick"),
    ),
    label="sick",
)


def look(
    schema: Schema = CLINIC,
    rows: int = 20_000,
    *,
    sites: int = 4,
    epsilons: tuple[float, ...] = (),
    method: Method | None = None,
    **terms: Any,
) -> Forecast:
    """A forecast with usual terms unless others are given."""
    method = method or WaveTree()
    plan = Plan(
        schema=method.encoding(schema).fingerprint,
        sites=site_names(method, [f"site-{number}" for number in range(1, sites + 1)]),
        method=method.name,
        seed=0,
        **{"epsilon": 1.0, "delta": 1e-9, **terms},
    )
    return forecast(schema, plan, method, rows, epsilons=epsilons)


def study(
    schema: Schema, table: EncodedTable, sites: int, **terms: Any
) -> tuple[FederatedSynthesizer, dict[str, int]]:
    """A study that was really run, and how long the longest answer to each round was."""
    sent: dict[str, int] = {}

    def watch(report: RoundReport) -> None:
        sent[report.label] = max(report.sent.values())

    usual: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-9, "noise_seed": 5}
    synthesizer = FederatedSynthesizer(schema, **{**usual, **terms})
    synthesizer.fit_encoded(name_sites(deal(table, sites)), watch=watch)
    return synthesizer, sent


def errors(found: Forecast) -> tuple[float, float, float]:
    one_way, two_way = found.outlook.one_way, found.outlook.two_way
    assert one_way is not None
    assert two_way is not None
    return one_way, *two_way


# NOISE


@pytest.mark.parametrize("trust", ["local", "secure-aggregation"])
@pytest.mark.parametrize("mode", ["full", "star", "independent"])
@pytest.mark.parametrize("max_rows_per_unit", [1, 3])
def test_noise_and_bytes_are_those_of_the_study(
    trust: str, mode: str, max_rows_per_unit: int
) -> None:
    terms: dict[str, Any] = {"epsilon": 0.3, "trust": trust}
    terms |= {"unit": "person"} if max_rows_per_unit > 1 else {}
    thresholds = look(rows_per_unit=max_rows_per_unit, **terms).thresholds
    star, full = (t.rows or 0 for t in thresholds)
    rows = {"full": 3 * full, "star": round(math.sqrt(star * full)), "independent": star // 2}[mode]
    found = look(rows=rows, rows_per_unit=max_rows_per_unit, **terms)
    assert found.outlook.mode == mode
    table = dependent_table(WaveTree().encoding(CLINIC).domain, rows)
    terms["max_rows_per_unit"] = max_rows_per_unit
    studies = (study(CLINIC, table, 4, noise_seed=seed, **terms) for seed in range(20))
    # The mode hangs on a noisy number of rows: take a study that came out as expected.
    ran, sent = next(s for s in studies if f"mode {mode}" in s[0].release.run.remarks[0])
    assert found.rho == ran.release.privacy.rho
    stages = {stage.label: stage for stage in found.stages}
    charges = ran.release.privacy.sites[0].charges
    assert [charge.label for charge in charges] == list(stages)
    for charge in charges:
        stage = stages[charge.label]
        if stage.fixed:
            assert len(charge.parts) == stage.releases
            assert charge.rho == stage.rho
            assert sent[charge.label] == stage.bytes
            for part, planned in zip(charge.parts, stage.parts, strict=True):
                assert part == msgspec.structs.replace(planned.terms, sigma=part.sigma)
                stated = planned.stated_sigma
                assert math.isclose(part.sigma, stated, rel_tol=1e-12)
        else:
            check_most(stage, [part.integers for part in charge.parts], sent[charge.label])
            (planned,) = stage.parts
            tables = [part.sigma for part in charge.parts if len(part.attributes) == 2]
            stated, noisiest = planned.stated_sigma, max(tables)
            assert noisiest <= stated * (1 + 1e-9)
            same = len(charge.parts) == stage.releases
            assert not same or math.isclose(noisiest, stated, rel_tol=1e-9)


def test_a_round_in_which_releases_cost_more_and_less_tells_no_noise() -> None:
    """Tables of three columns, and again what was measured before, each at its own price."""
    schema = categories(3, 3, 5, 2, label=3)
    method = WaveTree()
    plan = make_plan(schema, epsilon=5.0, method=method.name)
    plan = with_columns(plan, method, schema)
    stages = {stage.label: stage for stage in forecast(schema, plan, method, 20_000).stages}
    assert stages["triple-scores"].parts
    assert not stages["triples"].parts


def check_most(stage: Stage, integers: list[int], sent: int) -> None:
    assert len(integers) <= (stage.releases or 0)
    assert sum(integers) <= (stage.integers or 0)
    assert sent <= (stage.bytes or 0)


@pytest.mark.parametrize("trust", ["local", "secure-aggregation"])
@pytest.mark.parametrize("name", METHODS)
def test_a_study_of_any_method_asks_what_its_plan_says(name: str, trust: str) -> None:
    method = make_method(name)
    if trust != "local" and (method.pools or not method.sums):
        with pytest.raises(UsageError, match=r"every site's own answers|pools all rows"):
            FederatedSynthesizer(CLINIC, epsilon=1.0, delta=1e-9, method=name, trust=trust)
        with pytest.raises(UsageError, match=r"every site's own answers|at least 3 sites"):
            look(method=method, trust=trust)
        return
    planned = look(rows=4_000, method=method, trust=trust)
    assert planned.method == name
    table = dependent_table(method.encoding(CLINIC).domain, 4_000)
    ran, _ = study(CLINIC, table, 1 if method.pools else 4, method=name, trust=trust, noise_seed=3)
    account = ran.release.privacy.sites[0]
    stages = {stage.label: stage for stage in planned.stages}
    seed_decides = name == "randmarg"
    for label in {charge.label for charge in account.charges}:
        parts = [
            part for charge in account.charges if charge.label == label for part in charge.parts
        ]
        stage = stages[label]
        assert stage.releases is not None
        assert stage.integers is not None
        if seed_decides and label == "pairs":
            continue
        assert len(parts) <= stage.releases
        assert sum(part.integers for part in parts) <= stage.integers
        if stage.fixed:
            for part, told in zip(parts, stage.parts, strict=True):
                assert (part.kind, part.attributes) == (told.terms.kind, told.terms.attributes)
                assert (part.integers, part.rho) == (told.terms.integers, told.terms.rho)
                assert math.isclose(part.sigma, told.stated_sigma, rel_tol=1e-12)


@pytest.mark.parametrize("hidden", [None, (1, 4), (1, 3), (2, 4)])
@pytest.mark.parametrize("name", METHODS)
def test_dry_runs_ask_what_is_planned_on_the_terms_of_each_site(
    name: str, hidden: tuple[int, int] | None
) -> None:
    method = make_method(name)
    sites = ("pooled",) if method.pools else ("site-1", "site-2", "site-3", "site-4")
    if hidden is not None and (method.pools or not method.sums):
        return
    encoding = method.encoding(CLINIC)
    terms: dict[str, Any] = {"epsilon": 0.5, "delta": 1e-9, "method": name, "seed": 0}
    if hidden is not None:
        terms |= {"trust": "secure-aggregation", "aggregation": Aggregation(*hidden)}
    plan = Plan(schema=encoding.fingerprint, sites=sites, **terms)
    shares = 1 if hidden is None else hidden[1] - hidden[0]
    for finding in DryRuns(CLINIC, plan, method, 3_000, seed=0, thorough=False).run():
        assert {*finding.errors} == {*CLINIC.domain.names}
        assert math.fsum(
            own.rho
            for request in finding.requests
            if request.query.to in (None, "site-1")
            for own in request.terms
        ) <= plan.budget.rho * (1 + 1e-9)
        for request in finding.requests:
            for own in request.terms:
                alone = own.sensitivity / math.sqrt(2 * own.rho)
                assert math.isclose(shares * own.sigma**2, alone**2, rel_tol=1e-6)


@pytest.mark.parametrize(
    ("terms", "factor"),
    [
        ({}, 5.0),
        ({"trust": "secure-aggregation"}, 5 / 4),
        ({"trust": "secure-aggregation", "aggregation": Aggregation(2, 4)}, 5 / 2),
    ],
)
def test_dry_runs_answer_with_the_noise_of_all_sites(terms: dict[str, Any], factor: float) -> None:
    schema = categories(4_000, 3)
    plan = make_plan(schema, tuple("abcde"), epsilon=0.2, method="independent", **terms)
    (likeness,) = invent(schema, 1, seed=1)
    counts = Invented(likeness.draw(100_000, np.random.default_rng(0)), np.random.default_rng(1))
    seen = []

    def answer(request: Request) -> list[Answer]:
        (told,) = answers_to(request, {SUM: counts}, np.random.default_rng(2))
        for part, asked, own in zip(told.parts, request.query.parts, request.terms, strict=True):
            noise = part.values - asked.statistic.exact(counts).values
            expected = math.sqrt(factor) * own.sensitivity / math.sqrt(2 * own.rho)
            assert math.isclose(part.sigma, expected, rel_tol=1e-6)
            spread = expected / math.sqrt(2 * noise.size)
            assert noise.size < 100 or abs(noise.std() - expected) < 4 * spread
            seen.append(noise.size)
        return [told]

    drive(converse(schema, plan, make_method("independent"), summed=True), answer)
    assert max(seen) == 4_000


@pytest.mark.quick
def test_all_of_the_budget_is_planned_and_no_more() -> None:
    for rows in (100, 4_000, 1_000_000):
        found = look(rows=rows)
        spent = math.fsum(stage.rho for stage in found.stages)
        assert math.isclose(spent, found.rho, rel_tol=1e-9)
        assert spent <= found.rho


def test_noise_on_a_value_is_that_of_the_plain_inverse_transform() -> None:
    size, rng = 16, np.random.default_rng(0)
    sigmas = [3.0, 5.0, 2.0, 4.0]
    assert len(sigmas) == haar_levels(size)
    masses = np.zeros((20_000, 1))
    for level, sigma in enumerate(sigmas):
        noise = sigma * rng.standard_normal((20_000, 1 << level))
        masses = np.stack([(masses + noise) / 2, (masses - noise) / 2], axis=2)
        masses = masses.reshape(20_000, -1)
    assert math.isclose(masses.std(), value_noise(sigmas, haar=True), rel_tol=0.02)
    assert value_noise([7.0], haar=False) == 7.0


# INVENTED TABLES


def test_invented_tables_tell_one_story_whatever_is_asked() -> None:
    """A pair's counts add up to those of its columns, as far as rounding to whole rows allows."""
    encoding = WaveTree().encoding(CLINIC)
    for rows in (50, 40_000, 10**12):
        for likeness in invent(encoding, 3, seed=1):
            population = likeness.draw(rows, np.random.default_rng(0))
            counts = Invented(population, np.random.default_rng(1))
            assert Total().exact(counts).values.tolist() == [rows]
            shape = encoding.domain.shape(("age", "cost"))
            joint = Flat(("age", "cost")).exact(counts).values.reshape(shape)
            for axis, name in enumerate(("age", "cost")):
                single = Flat((name,)).exact(counts).values
                assert single.sum() == rows
                off = np.abs(joint.sum(axis=1 - axis) - single)
                assert off.max() <= 0.1 * math.sqrt(rows) * 4 + joint.shape[1 - axis]
            fold = (tuple(code // 9 for code in range(41)), tuple(code // 9 for code in range(32)))
            merged = Grouped(("age", "cost"), fold).exact(counts).values
            assert abs(int(merged.sum()) - rows) <= 0.1 * math.sqrt(rows) * 4 + merged.size


def test_tied_columns_depend_on_each_other_and_others_do_not() -> None:
    schema = categories(6, 6, 6, 6)
    rows = 10**6
    for likeness in invent(schema, 8, seed=2):
        counts = Invented(likeness.draw(rows, np.random.default_rng(0)), np.random.default_rng(1))
        for pair in schema.domain.pairs():
            joint = Flat(pair).exact(counts).values.reshape(6, 6) / rows
            apart = np.abs(joint - np.outer(joint.sum(axis=1), joint.sum(axis=0))).sum() / 2
            assert (apart > 0.1) == likeness.tied.issuperset(pair)


# WHAT DOES NOT FIT

TOO_WIDE = {
    "pair": Schema(
        (IntegerColumn("a", 0, 19_999, bins=20_000), IntegerColumn("b", 0, 999, bins=1_000))
    ),
    "many": Schema(
        tuple(CategoricalColumn(f"c{i}", tuple(map(str, range(10_000)))) for i in range(48))
    ),
    "levels": Schema(
        tuple(IntegerColumn(f"n{i}", 0, 65_000, bins=65_001) for i in range(36)),
    ),
    "long": Schema(
        (IntegerColumn("a", 0, 59_999, bins=60_000), CategoricalColumn("b", tuple("xyz")))
    ),
}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("schema", TOO_WIDE.values(), ids=TOO_WIDE)
def test_a_study_is_refused_when_it_is_made_or_never_for_its_size(
    name: str, schema: Schema
) -> None:
    method = make_method(name)
    encoding = method.encoding(schema)
    sites = ("pooled",) if method.pools else ("site-1", "site-2")
    plan = Plan(
        schema=encoding.fingerprint, epsilon=5.0, delta=1e-9, sites=sites, method=name, seed=0
    )
    refusal = ""
    try:
        check_feasible(encoding, plan, method)
    except UsageError as error:
        refusal = str(error)
    if refusal:
        assert re.search(r"fewer (bins|columns|pairs).*column '\w+' has [\d,]+ values", refusal)
        with pytest.raises(UsageError, match="more than sites answer"):
            FederatedSynthesizer(schema, epsilon=5.0, delta=1e-9, method=name)
        return
    (likeness,) = invent(encoding, 1, seed=0)
    table = Invented(likeness.draw(5_000, np.random.default_rng(0)), np.random.default_rng(1))
    counts = dict.fromkeys(("sum", *sites), table)
    release, requests = run_dry(encoding, plan, method, counts, np.random.default_rng(2))
    assert requests
    assert release.model.targets


def test_answers_that_no_hub_could_hold_are_refused_before_they_are_asked_for() -> None:
    schema = Schema(tuple(IntegerColumn(name, 0, 2_799, bins=2_800) for name in "ab"))
    method = make_method("allmarg")

    def check(sites: int) -> None:
        names = tuple(f"site-{number}" for number in range(sites))
        terms: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-9, "method": "allmarg", "seed": 0}
        plan = Plan(schema=schema.fingerprint, sites=names, **terms)
        check_feasible(schema, plan, method)

    check(10)
    with pytest.raises(UsageError, match=r"400 sites need .* GiB at the hub.*fewer bins.*'a' has"):
        check(400)


@pytest.mark.parametrize("name", ["fedprivsyn", "adafedprivsyn", "privsyn", "local-merge"])
def test_pairs_that_no_answer_has_room_for_are_not_asked(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit of its own size would need minutes: it is lowered for hub and method alike."""
    for module in (limits, stages):
        monkeypatch.setattr(module, "MOST_INTEGERS", 500)
    schema = categories(15, 15, 15, 15, 15)
    table = dependent_table(schema.domain, 40_000)
    ran, _ = study(schema, table, 1, epsilon=50.0, method=name)
    asked = [
        sum(part.integers for part in charge.parts)
        for account in ran.release.privacy.sites
        for charge in account.charges
    ]
    assert 225 < max(asked) <= 500


# MODES


@pytest.mark.slow
@pytest.mark.parametrize("schema", [CLINIC, Schema(CLINIC.columns)], ids=["label", "no label"])
@pytest.mark.parametrize("trust", ["local", "secure-aggregation"])
def test_thresholds_are_where_the_mode_changes(schema: Schema, trust: str) -> None:
    reached = {"star": {"star", "full"}, "full": {"full"}}
    found = look(schema, rows=1_000, epsilon=0.3, trust=trust)
    assert [t.mode for t in found.thresholds] == (["star", "full"] if schema.label else ["full"])
    for threshold in found.thresholds:
        assert threshold.epsilon is not None
        assert threshold.rows is not None
        for side, expected in ((1.001, True), (0.999, False)):
            there = look(schema, rows=1_000, epsilon=threshold.epsilon * side, trust=trust)
            assert (there.outlook.mode in reached[threshold.mode]) is expected
        for rows, expected in ((threshold.rows, True), (threshold.rows - 1, False)):
            there = look(schema, rows=rows, epsilon=0.3, trust=trust)
            assert (there.outlook.mode in reached[threshold.mode]) is expected
        below = found.outlook.mode not in reached[threshold.mode]
        assert (threshold.groups < threshold.needed) is below


@pytest.mark.thorough
def test_chances_of_modes_are_those_of_noisy_totals() -> None:
    found = look(rows=1_250, epsilon=0.3)
    assert math.isclose(sum(found.outlook.chances.values()), 1)
    table = dependent_table(WaveTree().encoding(CLINIC).domain, 1_250)
    seen = []
    for seed in range(40):
        ran, _ = study(CLINIC, table, 4, epsilon=0.3, noise_seed=seed)
        seen.append(ran.release.run.remarks[0].split(":")[0].removeprefix("mode "))
    for mode, chance in found.outlook.chances.items():
        spread = math.sqrt(max(chance * (1 - chance), 0.01) / 40)
        assert abs(seen.count(mode) / 40 - chance) <= 4 * spread


# ERRORS


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("schema", [CLINIC, categories(3, 9, 30)], ids=["mixed", "categories"])
def test_twice_the_budget_or_twice_the_rows_never_expect_more_error(schema: Schema) -> None:
    budgets = [errors(look(schema, epsilon=0.1 * 2**step)) for step in range(7)]
    sizes = [errors(look(schema, rows=500 * 2**step)) for step in range(9)]
    for series in (budgets, sizes):
        for before, after in itertools.pairwise(series):
            for figure, later in zip(before, after, strict=True):
                assert later <= figure * 1.08
        assert series[-1][0] < series[0][0] / 4


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 2.0])
def test_secure_aggregation_is_never_worse(epsilon: float) -> None:
    local = errors(look(epsilon=epsilon, sites=8))
    summed = errors(look(epsilon=epsilon, sites=8, trust="secure-aggregation"))
    for one, other in zip(local, summed, strict=True):
        assert other <= one * 1.05
    assert summed[0] < local[0]


@pytest.mark.parametrize("sites", [1, 2])
def test_one_or_two_sites_have_no_sum_to_hide_in(sites: int) -> None:
    with pytest.raises(UsageError, match="at least 3 sites"):
        look(sites=sites, trust="secure-aggregation")
    found = look(sites=sites)
    assert [told.trust for told in found.trusts] == ["local"]
    assert not any("secure aggregation" in line for line in found.advice)


@pytest.mark.parametrize(
    ("sites", "ways"),
    [
        (3, [(1, 3)]),
        (5, [(1, 5), (1, 4), (2, 5), (2, 4)]),
        pytest.param(
            *(10, [(1, 10), (1, 6), (2, 10), (2, 7), (5, 10), (5, 8)]), marks=pytest.mark.slow
        ),
    ],
)
def test_trust_models_are_compared_with_what_each_promises(
    sites: int, ways: list[tuple[int, int]]
) -> None:
    found = look(sites=sites, epsilon=0.2)
    local, *hidden = found.trusts
    assert (local.trust, local.colluding, local.quorum) == ("local", None, None)
    assert local.noise == math.sqrt(sites)
    assert local.rho_alone == found.rho
    assert local.epsilon_alone == pytest.approx(0.2)
    assert [(told.colluding, told.quorum) for told in hidden] == ways
    for told, (colluding, quorum) in zip(hidden, ways, strict=True):
        assert told.trust == "secure-aggregation"
        assert told.noise == pytest.approx(math.sqrt(sites / (quorum - colluding)))
        assert told.rho_alone == pytest.approx((quorum - colluding) * found.rho)
        alone = Budget.of(epsilon=told.epsilon_alone, delta=found.delta)
        assert alone.rho == pytest.approx(told.rho_alone, rel=1e-6)
        own = look(
            sites=sites,
            epsilon=0.2,
            trust="secure-aggregation",
            aggregation=Aggregation(colluding, quorum),
        )
        assert (own.colluding, own.quorum) == (colluding, quorum)
        # Whichever is planned, they are compared by the same runs.
        assert own.trusts == found.trusts
    least, *others = sorted(found.trusts, key=lambda told: told.noise)
    for told in others:
        assert least.outlook.one_way is not None
        assert told.outlook.one_way is not None
        assert told.outlook.one_way >= least.outlook.one_way * 0.98
    assert local.outlook.one_way is not None
    assert least.outlook.one_way is not None
    assert least.outlook.one_way < local.outlook.one_way


def test_a_way_to_hide_that_is_planned_is_compared_with_the_usual_ones() -> None:
    own = Aggregation(colluding=3, quorum=9)
    found = look(sites=10, epsilon=0.2, trust="secure-aggregation", aggregation=own)
    assert (3, 9) in [(told.colluding, told.quorum) for told in found.trusts]
    assert len(found.trusts) == 8


def test_a_trust_model_that_would_be_refused_is_marked_and_not_advised() -> None:
    found = look(sites=400, epsilon=20.0)
    assert found.trusts[1].outlook.mode == "refused"
    assert not any(
        f"sums over {told.quorum} sites, {told.colluding} may" in line
        for line in found.advice
        for told in found.trusts
        if told.outlook.mode == "refused"
    )


WIDE = Schema(
    tuple(NumberColumn(f"n{i}", 0.0, 1.0, bins=10 + i) for i in range(100))
    + tuple(CategoricalColumn(f"c{i}", tuple(map(str, range(2 + i % 30)))) for i in range(100)),
    label="c0",
)


@pytest.mark.parametrize(
    "schema",
    [
        Schema((IntegerColumn("a", 0, 99),)),
        Schema((IntegerColumn("a", 3, 3),)),
        Schema((IntegerColumn("a", 3, 3), CategoricalColumn("b", ("only",)))),
        categories(2, 2, label=1),
        categories(2, 2),
        Schema((BooleanColumn("a", nullable=True), IntegerColumn("b", 0, 9, nullable=True))),
        Schema(
            (
                NumberColumn("a", 0.0, 1.0, bins=10_000),
                IntegerColumn("b", 0, 9_999, bins=10_000),
                CategoricalColumn("c", tuple(map(str, range(10_000)))),
            )
        ),
        pytest.param(WIDE, marks=pytest.mark.slow),
    ],
    ids=["one", "constant", "constants", "label", "two", "null", "10,000 values", "200 columns"],
)
@pytest.mark.parametrize("rows", [1, 5_000, 10**9])
def test_every_schema_and_size_has_a_forecast(schema: Schema, rows: int) -> None:
    found = look(schema, rows)
    one_way, two_way = found.outlook.one_way, found.outlook.two_way
    assert one_way is not None
    assert 0 <= one_way <= 1
    assert (two_way is None) == (len(schema.columns) < 2)
    if two_way is not None:
        low, high = two_way
        assert one_way <= low <= high <= min(1.0, SPAN * low * (1 + 1e-9))
    assert len(found.columns) == len(schema.columns)
    assert all(c.one_way is not None and math.isfinite(c.noise) for c in found.columns)
    json.dumps([stage.bytes for stage in found.stages])


def test_a_column_that_is_too_wide_is_told_how_wide_it_may_be() -> None:
    wide = Schema((IntegerColumn("a", 0, 999, bins=1000), CategoricalColumn("b", ("x", "y"))))
    found = look(wide, rows=2_000)
    column = found.columns[0]
    assert column.noise > column.typical
    assert column.enough is not None
    assert any(f"'a': {column.enough} bins instead of 1,000" in line for line in found.advice)
    fewer = Schema((IntegerColumn("a", 0, 999, bins=column.enough), wide.columns[1]))
    assert look(fewer, rows=2_000, method=WaveTree(atoms=False)).columns[0].enough is None


@pytest.mark.slow
def test_advice_is_true() -> None:
    found = look(rows=1_000, delta=1e-3, sites=6)
    assert any("delta (0.001) should be far below 1 / rows" in line for line in found.advice)
    found = look(sites=6)
    assert not any("delta" in line for line in found.advice)
    (line,) = (line for line in found.advice if "secure aggregation" in line)
    worth = float(line.split("as epsilon ")[1].split()[0])
    as_much = Budget.of(epsilon=worth, delta=1e-9).rho
    assert math.isclose(as_much, 5 * found.rho, rel_tol=0.01)
    assert math.isclose(
        look(sites=6, epsilon=worth).stages[0].parts[0].sum_sigma,
        look(sites=6, trust="secure-aggregation").stages[0].parts[0].sum_sigma,
        rel_tol=0.01,
    )
    found = look(sites=6, trust="secure-aggregation", aggregation=Aggregation(2, 5))
    (line,) = (line for line in found.advice if "more than 2 of 6 sites collude" in line)
    stays = float(line.split("epsilon ")[1].split()[0])
    as_much = Budget.of(epsilon=stays, delta=1e-9).rho
    assert math.isclose(as_much, 3 * found.rho, rel_tol=0.01)
    assert any("quorum 6 would hide" in line for line in found.advice)
    usual = look(sites=6, trust="secure-aggregation")
    assert not any("would hide" in line for line in usual.advice)


def test_a_budget_that_secure_aggregation_refuses_is_marked_in_the_comparison() -> None:
    found = look(trust="secure-aggregation", epsilons=(0.5, 90.0))
    assert [outlook.mode for outlook in found.others] == ["full", "full", "refused"]


# COMMAND


TERMS = ("--schema", "s.toml", "--rows", "3000", "--epsilon", "1", "--delta", "1e-9")


def test_the_command_needs_no_data_and_repeats_itself(desk: Desk) -> None:
    (desk.folder / "d.csv").unlink()
    assert desk.run("plan", *TERMS) == 0
    first = desk.out
    for words in (
        *("3,000 rows over 5 sites", "one-way", "scores (at most)", "mode full", "advice:"),
        *("local <", "secure-aggregation", "epsilon alone"),
    ):
        assert words in first
    assert desk.run("plan", *TERMS) == 0
    assert desk.out == first
    assert names(desk.folder) == {"s.toml"}


def test_json_has_everything(desk: Desk) -> None:
    assert desk.run("plan", *TERMS, "--json", "--sites", "3") == 0
    told = json.loads(desk.out)
    assert {stage["label"] for stage in told["stages"]} >= {"total", "one-way"}
    assert told["sites"] == 3
    assert [column["name"] for column in told["columns"]] == ["age", "ward", "sick"]
    assert [line["epsilon"] for line in told["others"]] == [0.1, 0.2, 0.5, 1, 2, 5, 10]
    assert told["advice"]
    assert (told["colluding"], told["quorum"]) == (None, None)
    ways = [(way["trust"], way["colluding"], way["quorum"]) for way in told["trusts"]]
    assert ways == [("local", None, None), ("secure-aggregation", 1, 3)]
    assert {*told["trusts"][1]} >= {"noise", "rho_alone", "epsilon_alone", "outlook"}
    hidden = ("--trust", "secure-aggregation", "--colluding", "1", "--quorum", "4")
    assert desk.run("plan", *TERMS, "--json", *hidden) == 0
    told = json.loads(desk.out)
    assert (told["colluding"], told["quorum"]) == (1, 4)
    part = told["stages"][0]["parts"][0]
    assert part["stated_sigma"] == pytest.approx(math.sqrt(3) * part["site_sigma"])
    assert part["sum_sigma"] == pytest.approx(math.sqrt(5) * part["site_sigma"])


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_plan_of_the_same_shape(desk: Desk, method: str) -> None:
    assert desk.run("plan", *TERMS, "--method", method, "--json") == 0
    told = json.loads(desk.out)
    assert {*told} >= {
        *("rows", "sites", "trust", "epsilon", "delta", "conversion", "rho", "rows_per_unit"),
        *("stages", "columns", "outlook", "others", "thresholds", "advice", "method"),
    }
    for stage in told["stages"]:
        assert {*stage} >= {
            *("label", "fixed", "releases", "integers", "rho", "bytes", "parts", "effort")
        }
        effort = stage["effort"]
        assert effort["received"] == told["sites"] * stage["bytes"]
        assert effort["site_seconds"] >= 25e-6 * stage["integers"]
        assert min(effort["site_memory"], effort["hub_memory"]) >= 8 * stage["integers"]
    for outlook in told["others"]:
        assert outlook["runs"] >= 2
        assert (outlook["mode"] is not None) == (method == "wavetree")
        assert 0 <= outlook["one_way"] <= outlook["two_way"][0] <= outlook["two_way"][1] <= 1
    assert bool(told["thresholds"]) == (method == "wavetree")
    assert desk.run("plan", *TERMS, "--method", method) == 0
    assert "on invented tables" in desk.out


def test_nothing_is_read_for_a_study_that_no_site_would_answer(desk: Desk) -> None:
    wide = "\n".join(
        f'[[columns]]\nname = "{name}"\ntype = "integer"\nmin = 0\nmax = 29999\nbins = 30000'
        for name in "ab"
    )
    desk.write("wide.toml", wide)
    terms = ("--schema", "wide.toml", "--epsilon", "1", "--delta", "1e-9", "--method", "fedprivsyn")
    words = ("'fedprivsyn'", "cells", "fewer bins", "column 'a' has 30,000 values")
    desk.run("plan", *terms, "--rows", "1000")
    desk.refused(2, *words)
    desk.run("simulate", *terms, "--data", "not-there.csv", "--out", "release")
    desk.refused(2, *words)
    desk.run("study", "new", *terms, "--site", "one", "--out", "study.toml")
    desk.refused(2, *words)
    assert not (desk.folder / "study.toml").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--rows", "0"], 2, ["rows (0)"]),
        (["--rows", "many"], 2, ["--rows", "'many'"]),
        (["--rows", str(10**13)], 2, ["rows"]),
        (["--sites", "0"], 2, ["sites (0)"]),
        (["--epsilon", "0"], 2, ["epsilon"]),
        (["--epsilon", "1e-7"], 3, ["too small", "raise epsilon"]),
        (["--delta", "1"], 2, ["delta"]),
        (["--trust", "lokal"], 2, ["'lokal'", "did you mean 'local'"]),
        (["--conversion", "tihgt"], 2, ["'tihgt'"]),
        (
            ["--method", "local-merge", "--trust", "secure-aggregation"],
            2,
            ["'local-merge'", "every site's own answers", "trust 'local'"],
        ),
        (["--method", "wavetre"], 2, ["'wavetre'", "did you mean 'wavetree'"]),
        (["--set", "scor=1"], 2, ["'scor'", "did you mean 'score'"]),
        (["--set", "score=2"], 2, ["score (2)"]),
        (["--max-rows-per-unit", "0"], 2, ["rows per unit", "0"]),
        (["--schema", "no.toml"], 2, ["no.toml", "check the path"]),
        (
            ["--trust", "secure-aggregation", "--epsilon", "90", "--sites", "50"],
            3,
            ["secure aggregation over 50 sites", "lower epsilon"],
        ),
        (["--trust", "secure-aggregation", "--sites", "2"], 2, ["at least 3 sites"]),
        (["--trust", "secure-aggregation", "--colluding", "4"], 2, ["colluding (4)", "1..3"]),
        (["--trust", "secure-aggregation", "--quorum", "3"], 2, ["quorum (3)", "4..5"]),
        (["--trust", "secure-aggregation", "--quorum", "0"], 2, ["quorum (0)"]),
        (["--colluding", "1"], 2, ["colluding", "'local'"]),
        (["--quorum", "5"], 2, ["quorum", "'local'"]),
        (
            ["--method", "privsyn", "--trust", "secure-aggregation"],
            2,
            ["'privsyn'", "pools", "trust 'local'"],
        ),
    ],
)
def test_the_command_refuses_in_one_line(
    desk: Desk, arguments: list[str], code: int, words: list[str]
) -> None:
    desk.run("plan", *TERMS, *arguments)
    desk.refused(code, *words)
    assert desk.out == ""


# ACCURACY


def measured(folder: Path, name: str, seeds: int, **terms: Any) -> tuple[float, float]:
    """The mean 1-way and 2-way error of studies that were really run."""
    schema, real = real_table(folder, name)
    files = [folder / name / f"{part}.csv" for part in ("train", "val")]
    told = []
    for seed in range(seeds):
        synthesizer = FederatedSynthesizer(schema, noise_seed=seed, **terms)
        tables = synthesizer.split(synthesizer.encode(files), 5, "uniform")
        synthesizer.fit_encoded(name_sites(tables))
        made = encode(schema, synthesizer.sample(seed=seed).to_batches()).table
        told.append(total_variation(real, made))
    return (
        float(np.mean([error.one_way for error in told])),
        float(np.mean([error.two_way for error in told])),
    )


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("name", ["adult", "insurance", "abalone", "shoppers", "obesity"])
@pytest.mark.parametrize("trust", ["local", "secure-aggregation"])
def test_expected_errors_hold_on_public_tables(
    data_folder: Path, name: str, epsilon: float, trust: str
) -> None:
    """Shapes and ranges were fitted to the first three tables; what starts at 0 was told apart,
    and the ranges widened, after a miss on the fourth; the fifth fitted from the start."""
    schema, real = real_table(data_folder, name)
    terms: dict[str, Any] = {"epsilon": epsilon, "delta": 1e-10, "trust": trust}
    terms["conversion"] = "paper"
    found = look(schema, real.rows, sites=5, **terms)
    one_way, two_way = measured(data_folder, name, 5, **terms)
    expected, low, high = errors(found)
    print(f"1-way {expected:.4f} / {one_way:.4f}, 2-way {low:.3f} to {high:.3f} / {two_way:.3f}")
    assert one_way / 1.5 <= expected <= one_way * 1.5
    assert low <= two_way <= high
    assert high <= SPAN * low * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["insurance", "obesity", "abalone"])
@pytest.mark.parametrize("method", [name for name in METHODS if name != "wavetree"])
def test_expected_errors_of_other_methods_hold_on_public_tables(
    data_folder: Path, name: str, method: str
) -> None:
    """Nothing was fitted to these: shapes and ranges are those of wavetree."""
    schema, real = real_table(data_folder, name)
    terms: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-10, "conversion": "paper"}
    expected, low, high = errors(
        look(schema, real.rows, sites=5, method=make_method(method), **terms)
    )
    one_way, two_way = measured(data_folder, name, 3, method=method, **terms)
    print(f"1-way {expected:.4f} / {one_way:.4f}, 2-way {low:.3f} to {high:.3f} / {two_way:.3f}")
    assert one_way / 1.5 <= expected <= one_way * 1.5
    assert low <= two_way <= high
    assert high <= SPAN * low * (1 + 1e-9)


def test_a_study_too_large_for_any_hub_is_refused_before_its_sites_are_asked() -> None:
    schema = categories(2_800, 2_800)
    empty = dependent_table(schema.domain, 0)
    synthesizer = FederatedSynthesizer(schema, epsilon=1.0, delta=1e-9, method="allmarg")
    with pytest.raises(UsageError, match="GiB at the hub"):
        synthesizer.fit_encoded({f"site-{number}": empty for number in range(400)})
