"""The label and two other columns together: what is asked, what is believed, and what rows show."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn._arrays import Floats, Integers
from heterofedsyn.errors import ReleaseError
from heterofedsyn.hub import Release, make_method
from heterofedsyn.hub.methods.base import Later, Setting, settings_of, with_columns
from heterofedsyn.hub.methods.beside_label import (
    HARDLY,
    MOST_LOOKED_AT,
    SURELY,
    Together,
    ask_together,
    groups_of,
    on_grid,
    seen,
    worth_a_look,
    worth_measuring,
)
from heterofedsyn.hub.methods.wavetree import WaveTree
from heterofedsyn.hub.planning.population import scattered
from heterofedsyn.hub.questions.kept_estimates import informed, pack_estimates
from heterofedsyn.hub.questions.worlds import Plausible
from heterofedsyn.hub.replies import Round, make_query
from heterofedsyn.marginals import Flat, Grouped, Total
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.protocol import Answer, Plan, decode, encode
from heterofedsyn.schema import CategoricalColumn, Clique, Domain, EncodedTable, Schema
from heterofedsyn.simulate.run import run_study
from heterofedsyn.site import Site
from heterofedsyn.synthesis import Denoising, Measurement, Targets
from heterofedsyn.synthesis.raking import Coarse, raked
from heterofedsyn.synthesis.triples import fitted, joint_of, summed, triple
from support import NoNoise, deal, make_plan

ROWS = 6_000
SITES = ("one", "two", "three")


def labelled(*sizes: int) -> Schema:
    """Categories `a0`, `a1` and so on, the last of them the label."""
    columns = tuple(
        CategoricalColumn(f"a{place}", tuple(f"v{code}" for code in range(size)))
        for place, size in enumerate(sizes)
    )
    return Schema(columns, label=columns[-1].name, task="multiclass_classification")


SCHEMA = labelled(3, 3, 3, 3, 3)


def turning(rows: int, seed: int = 0) -> EncodedTable:
    """Any two columns are independent; the label says how a1 follows a0, and a3 follows a2."""
    rng = np.random.default_rng(seed)
    label, a0, a2 = rng.integers(0, 3, (3, rows))
    a1, a3 = (a0 + label) % 3, (a2 + label) % 3
    return EncodedTable.from_codes(SCHEMA.domain, np.stack([a0, a1, a2, a3, label]))


def plan_of(**settings: float) -> Plan:
    method = make_method("wavetree", settings)
    plan = make_plan(SCHEMA, SITES, epsilon=5.0, method="wavetree", settings=settings_of(method))
    return with_columns(plan, method, SCHEMA)


def study(**settings: float) -> Release:
    method = make_method("wavetree", settings)
    return run_study(SCHEMA, plan_of(**settings), method, deal(turning(ROWS), 3), noise_seed=1)


@pytest.fixture(scope="module")
def release() -> Release:
    return study()


def counted(table: EncodedTable, names: tuple[str, ...]) -> Floats:
    shares, _ = np.histogramdd(
        np.stack([table.codes[table.domain.index(name)] for name in names]).T,
        [np.arange(table.domain.size(name) + 1) - 0.5 for name in names],
    )
    return np.asarray(shares / shares.sum())


# TABLES


def pairs_of(table: Floats) -> tuple[Floats, Floats, Floats]:
    return table.sum(axis=2), table.sum(axis=1), table.sum(axis=0)


some_tables = st.tuples(st.integers(2, 4), st.integers(2, 4), st.integers(2, 4), st.integers(0, 99))


def random_table(sizes: tuple[int, ...], seed: int) -> Floats:
    return np.random.default_rng(seed).dirichlet(np.full(math.prod(sizes), 2.0)).reshape(sizes)


@given(some_tables)
def test_pairs_tell_a_table_with_their_sums_and_no_more_dependence(
    drawn: tuple[int, int, int, int],
) -> None:
    table = random_table(drawn[:3], drawn[3])
    joint = joint_of(*pairs_of(table))
    for own, wanted in zip(pairs_of(joint), pairs_of(table), strict=True):
        assert own == pytest.approx(wanted, abs=0.01)

    def entropy(shares: Floats) -> float:
        return -float((shares * np.log(np.maximum(shares, 1e-300))).sum())

    assert entropy(joint) >= entropy(table) - 0.01


@given(some_tables)
def test_what_was_lifted_keeps_its_pairs_and_its_dependence(
    drawn: tuple[int, int, int, int],
) -> None:
    table = random_table(drawn[:3], drawn[3])
    pairs = pairs_of(table)
    assert fitted(table, *pairs) == pytest.approx(table), "a table with these pairs stays"
    own = tuple(np.arange(size) for size in table.shape)
    known = triple(joint_of(*pairs), Noisy(table, 1e-12), (own[0], own[1], own[2]))
    # Singular values that nothing is known of are below any noise.
    assert known.lifted(joint_of(*pairs)) == pytest.approx(table, abs=1e-4)
    assert np.array_equal(known.turned.turned.lift, known.lift)


@given(some_tables, st.integers(0, 9))
def test_coarser_tables_are_sums(drawn: tuple[int, int, int, int], seed: int) -> None:
    table = random_table(drawn[:3], drawn[3])
    rng = np.random.default_rng(seed)
    maps = tuple(np.sort(rng.integers(0, size, size)) for size in table.shape)
    maps = tuple(np.unique(own, return_inverse=True)[1] for own in maps)
    found = summed(table, (maps[0], maps[1], maps[2]))
    for cell in itertools.product(*(range(size) for size in found.shape)):
        own = [np.flatnonzero(to == code) for to, code in zip(maps, cell, strict=True)]
        assert found[cell] == pytest.approx(table[np.ix_(*own)].sum())


def test_noise_alone_lifts_next_to_nothing() -> None:
    rng = np.random.default_rng(0)
    joint = np.full((4, 4, 4), 100.0)
    own = np.arange(4)
    lifts = [
        triple(joint, Noisy(joint + rng.normal(0, 20.0, joint.shape), 400.0), (own, own, own)).lift
        for _ in range(20)
    ]
    noise = 20.0 / 100.0
    assert float(np.std(lifts)) < 0.4 * noise


def test_weights_of_rows_come_close_to_a_table_of_three_columns() -> None:
    domain = Domain(("a", "b", "c"), (3, 4, 5))
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, 4_000) for size in domain.sizes]).astype(np.uint16)
    maps = (np.array([0, 1, 1]), np.arange(4), np.array([0, 0, 1, 1, 2]))
    wanted = random_table((2, 4, 3), 1)
    weights = raked(domain, codes, {}, 40, [Coarse(domain.names, maps, wanted)])
    found = np.zeros(wanted.shape)
    np.add.at(found, tuple(to[own] for to, own in zip(maps, codes, strict=True)), weights)
    assert found / found.sum() == pytest.approx(wanted, abs=1e-3)


# CHOICE


def known_of(table: EncodedTable, schema: Schema) -> Targets:
    """Everything about pairs, almost without noise."""
    domain = schema.domain
    measured = [Measurement(Total(), Noisy(np.array([float(table.codes.shape[1])]), 1e-6))]
    for name in domain.names:
        counts = np.bincount(table.codes[domain.index(name)], minlength=domain.size(name))
        measured.append(Measurement(Flat((name,)), Noisy(counts.astype(np.float64), 1e-6)))
    for pair in domain.pairs():
        counts = counted(table, pair) * table.codes.shape[1]
        maps = tuple(tuple(range(domain.size(name))) for name in pair)
        measured.append(Measurement(Grouped(pair, maps), Noisy(counts.ravel(), 1e-6)))
    return Targets(schema, tuple(measured), Denoising())


def test_a_look_finds_what_only_three_columns_tell() -> None:
    table = turning(20_000)
    known = known_of(table, SCHEMA).estimates
    beside = [pair for pair in SCHEMA.domain.pairs() if SCHEMA.label not in pair]
    rng = np.random.default_rng(0)
    found = {}
    for statistic in on_grid(known, beside, 27.0):
        exact = counted(table, statistic.attributes).ravel() * 20_000
        noisy = Noisy(exact + rng.normal(0, 60.0, exact.size), 3_600.0)
        pair, together = seen(known, statistic, noisy)
        found[pair] = together
    assert {*worth_measuring(found, sigma=100.0)} == {("a0", "a1"), ("a2", "a3")}


def test_what_pairs_tell_is_measured_only_where_noise_is_small() -> None:
    found: dict[Clique, Together] = {
        ("a", "b"): Together(0.5, SURELY - 0.1),
        ("b", "c"): Together(0.4, SURELY),
        ("a", "c"): Together(0.3, 9.0),
    }
    assert worth_measuring(found, HARDLY * 1.01) == [("b", "c")]
    assert worth_measuring(found, HARDLY) == [("a", "b"), ("b", "c")], "a tree, not a circle"


def test_tables_of_too_many_groups_for_any_model_are_not_asked_for() -> None:
    schema, rng = labelled(3, 200, 200, 200), np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, 2_000) for size in schema.domain.sizes])
    known = known_of(EncodedTable.from_codes(schema.domain, codes), schema).estimates
    asked = on_grid(known, [("a0", "a1"), ("a1", "a2")], 1e9)
    assert [statistic.attributes for statistic in asked] == [("a0", "a1", "a3")]


@pytest.mark.parametrize(("sigma", "many"), [(0.0, 6), (20.0, 6), (50.0, 3), (1e6, 1)])
def test_fewer_pairs_are_worth_a_look_where_a_look_tells_less(sigma: float, many: int) -> None:
    known = known_of(turning(ROWS), SCHEMA).estimates
    beside = [pair for pair in SCHEMA.domain.pairs() if SCHEMA.label not in pair]
    looked = worth_a_look(known, beside, ROWS, sigma)
    assert len(looked) == min(many, MOST_LOOKED_AT)
    assert [*looked] == [pair for pair in beside if pair in {*looked}]


@given(st.floats(1, 1e9), st.integers(2, 40))
def test_groups_of_three_columns_make_about_the_cells_that_are_asked_for(
    cells: float, label: int
) -> None:
    groups = groups_of(cells, label)
    assert groups >= 2
    assert groups == 2 or label * groups**2 <= max(8.0, cells) * (1 + 1e-9)


# STUDIES


def test_rows_show_what_only_three_columns_tell(release: Release) -> None:
    assert "and 2 tables of the label and two other columns" in release.run.remarks[0]
    truth = counted(turning(ROWS), ("a0", "a1", "a4"))
    plain = study(triples_at=0)
    apart = [
        0.5 * float(np.abs(counted(drawn(own), ("a0", "a1", "a4")) - truth).sum())
        for own in (release, plain)
    ]
    assert apart[0] < 0.05
    assert apart[1] > 0.5, "pairs tell nothing of it"


def drawn(release: Release) -> EncodedTable:
    model = release.model
    rng = np.random.default_rng(0)
    return model.synthesizer.synthesize(model.targets[0], ROWS, rng)


def test_pairs_of_three_columns_that_were_measured_stay_as_they_are_known(
    release: Release,
) -> None:
    rows, plain = drawn(release), drawn(study(triples_at=0))
    truth = turning(ROWS)

    def error(own: EncodedTable) -> float:
        apart = [counted(own, pair) - counted(truth, pair) for pair in SCHEMA.domain.pairs()]
        return float(np.mean([0.5 * np.abs(each).sum() for each in apart]))

    assert error(rows) < error(plain) + 0.01


def test_a_plan_says_three_columns_only_where_they_may_be_asked_for() -> None:
    assert plan_of().together == 3
    assert plan_of(triples_at=0).together == 2
    assert plan_of(triples_at=0.1).together == 2, "noise is larger"
    method = make_method("wavetree")
    free = Schema(SCHEMA.columns)
    plan = make_plan(free, SITES, epsilon=5.0, method="wavetree", settings=settings_of(method))
    assert with_columns(plan, method, free).together == 2, "there is no label"


@pytest.mark.parametrize(
    ("schema", "settings"),
    [
        (Schema(SCHEMA.columns), {}),
        (labelled(3, 3), {}),
        (labelled(3), {}),
        (labelled(3, 3, 1), {}),
        (SCHEMA, {"triples": 0}),
        (SCHEMA, {"triple_score": 0}),
    ],
    ids=["no label", "two columns", "one column", "one label", "no tables", "no look"],
)
def test_where_no_three_columns_can_be_measured_none_are_announced(
    schema: Schema, settings: dict[str, float]
) -> None:
    """Not even if somebody writes a plan that would allow it."""
    method = make_method("wavetree", settings)
    terms = {"epsilon": 50.0, "method": "wavetree", "settings": settings_of(method)}
    assert with_columns(make_plan(schema, SITES, **terms), method, schema).together == 2
    setting = Setting.of(schema, make_plan(schema, SITES, columns=3, **terms))
    labels = {
        part.label
        for ahead in (method.ahead(setting), method.ahead_of(setting, 1e6))
        for part in ahead
    }
    assert not labels & {"triple-scores", "triples"}
    mode = method.mode(setting, 1e9)
    assert mode is not None
    assert mode.name != "triples"


def test_a_study_whose_plan_says_nothing_never_asks_for_three() -> None:
    method = make_method("wavetree")
    plan = make_plan(SCHEMA, SITES, epsilon=5.0, method="wavetree", settings=settings_of(method))
    release = run_study(SCHEMA, plan, method, deal(turning(ROWS), 3), noise_seed=1)
    parts = [part for charge in release.privacy.sites[0].charges for part in charge.parts]
    assert max(len(part.attributes) for part in parts) == 2
    assert release.run.remarks[0].startswith("mode full")


def test_no_round_asks_for_more_than_was_told_before(release: Release) -> None:
    method = WaveTree()
    setting = Setting.of(SCHEMA, plan_of())
    for ahead in (method.ahead(setting), method.ahead_of(setting, float(ROWS))):
        told = {rest.label: rest for rest in ahead if isinstance(rest, Later)}
        charges = {charge.label: charge for charge in release.privacy.sites[0].charges}
        for label in ("pairs", "triple-scores", "triples"):
            most, parts = told[label], charges[label].parts
            assert most.releases is not None
            assert most.integers is not None
            assert len(parts) <= most.releases
            assert sum(part.integers for part in parts) <= most.integers
            assert charges[label].rho <= most.cost.rho * (1 + 1e-9)
            columns = {len(part.attributes) for part in parts}
            assert most.columns is None or columns == {most.columns}


def test_a_table_that_noise_leaves_one_group_of_a_column_is_not_asked_for() -> None:
    """The budget for it measures once more what was measured before, in the same proportions."""
    columns = (
        CategoricalColumn("a", ("low", "usual", "high"), ordered=True),
        CategoricalColumn("b", ("p", "q", "r")),
        CategoricalColumn("c", ("no", "yes")),
    )
    schema = Schema(columns, label="c", task="binary_classification")
    rng = np.random.default_rng(0)
    usual, two, label = (rng.integers(0, size, 250) for size in (1, 3, 2))
    ends = np.where(np.arange(250) < 30, np.arange(250) % 2 * 2, usual + 1)
    table = EncodedTable.from_codes(schema.domain, np.stack([ends, two, label]))
    known = known_of(table, schema)
    plan = make_plan(schema, epsilon=6.0, columns=3)
    setting, site = Setting.of(schema, plan), Site("one", table, plan, NoNoise())
    look_cost, tables_cost = (Budget(1 / (2 * sigma**2)) for sigma in (5.0, 0.98 * HARDLY))
    before = tuple(
        (Flat((name,)), setting.budget.part(own)) for name, own in (("a", 0.5), ("b", 0.25))
    )
    budgets = look_cost, tables_cost
    asking = ask_together(setting, known, budgets, [("a", "b")], before, finest=24)
    look = next(asking)
    assert [statistic.attributes for statistic, _ in look.parts] == [("a", "b", "c")]
    query = make_query(look, plan, 0)
    again = asking.send(Round(query, (decode(site.answer(encode(query)), Answer),)))
    assert [statistic for statistic, _ in again.parts] == [Flat(("a",)), Flat(("b",))]
    prices = [price.rho for _, price in again.parts]
    assert prices == pytest.approx([tables_cost.rho * 2 / 3, tables_cost.rho / 3])


def test_all_of_the_budget_is_used_and_no_more(release: Release) -> None:
    account = release.privacy.sites[0]
    assert 0.999 < account.rho / release.privacy.rho <= 1


# MODELS


def test_estimates_of_three_columns_come_back_as_they_were(release: Release) -> None:
    known = informed(release.model, pack_estimates(release.model.targets)).targets[0].known
    assert known is not None
    ours = release.model.targets[0].estimates.triples
    assert [*known.triples] == [*ours]
    for pair, own in ours.items():
        again = known.triples[pair]
        assert np.array_equal(again.lift, own.lift)
        assert np.array_equal(again.table, own.table)
        assert all(np.array_equal(*maps) for maps in zip(again.maps, own.maps, strict=True))


def test_another_world_has_another_noise_on_three_columns(release: Release) -> None:
    ours = release.model.targets[0]
    one, again, other = (
        Plausible(ours, 0, purpose).estimate(ours).triples for purpose in ("one", "one", "other")
    )
    for pair, known in ours.estimates.triples.items():
        assert np.array_equal(one[pair].lift, again[pair].lift)
        assert not np.array_equal(one[pair].lift, other[pair].lift)
        apart = float(np.abs(one[pair].table - known.table).sum())
        assert 0 < apart < 0.2 * float(known.table.sum())


def without_label(maps: tuple[tuple[int, ...], ...]) -> Grouped:
    return Grouped(("a0", "a1", "a2"), maps)


def with_label(maps: tuple[tuple[int, ...], ...]) -> Grouped:
    return Grouped(("a0", "a1", "a4"), maps)


OWN = ((0, 1, 2),) * 3


@pytest.mark.parametrize(
    ("statistic", "said"),
    [
        (without_label(OWN), "without the label"),
        (with_label((*OWN[:2], (0, 1, 1))), None),
        (with_label(OWN), None),
    ],
)
def test_a_model_with_three_columns_is_checked(statistic: Grouped, said: str | None) -> None:
    known = known_of(turning(ROWS), SCHEMA)
    noisy = Noisy(np.ones(math.prod(statistic.shape)), 1.0)
    targets = known.with_measured((Measurement(statistic, noisy),))
    if said is None:
        targets.rebuild.check(targets)
    else:
        with pytest.raises(ReleaseError, match=said):
            targets.rebuild.check(targets)


def test_three_columns_that_cut_through_groups_of_pairs_are_no_model() -> None:
    maps: tuple[Integers, ...] = (np.array([0, 0, 1]), np.arange(3))
    own = [tuple(to.tolist()) for to in maps]
    measured = [
        Measurement(Total(), Noisy(np.array([100.0]), 1.0)),
        *(Measurement(Flat((name,)), Noisy(np.ones(3), 1.0)) for name in SCHEMA.domain.names),
        Measurement(Grouped(("a0", "a1"), (own[0], own[1])), Noisy(np.ones(6), 1.0)),
        Measurement(with_label(OWN), Noisy(np.ones(27), 1.0)),
    ]
    targets = Targets(SCHEMA, tuple(measured), Denoising())
    with pytest.raises(ReleaseError, match="not on the grid of its pairs"):
        targets.rebuild.check(targets)


def test_invented_counts_of_three_columns_have_about_their_sums() -> None:
    expected = random_table((3, 4, 5), 0) * 1e6
    counts = scattered(expected, np.random.default_rng(0))
    for axes in ((1, 2), (0, 2), (0, 1)):
        assert counts.sum(axis=axes) == pytest.approx(expected.sum(axis=axes), rel=1e-3)
