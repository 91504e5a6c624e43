"""The law everything rests on: what a record can change is at most what was charged for it.

For any tables D and D plus one person, and any queries: the squared change of every release over
twice its variance, added up, is at most what the ledger booked, and that is at most the budget.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from heterofedsyn.hub import METHODS, make_method
from heterofedsyn.hub.methods.base import Method
from heterofedsyn.marginals import (
    Dependence,
    Flat,
    Grouped,
    Haar,
    Sketched,
    SketchKind,
    Statistic,
    TableCounts,
    Total,
)
from heterofedsyn.marginals.counting import Marginal
from heterofedsyn.marginals.counts import TRIPLES, PairCounts
from heterofedsyn.marginals.statistics import haar_levels, moves
from heterofedsyn.protocol import Answer, Part, Plan, Query, decode, encode
from heterofedsyn.protocol.plan import Aggregation
from heterofedsyn.schema import Domain, EncodedTable, Schema
from heterofedsyn.simulate.run import run_study, site_names
from heterofedsyn.site import Site
from support import NoNoise, categories, deal, dependent_table, make_plan, tables


def with_person(table: EncodedTable, rows: int, rng: np.random.Generator) -> EncodedTable:
    """The table and one more person with up to so many rows; alike rows are the worst case."""
    one = np.array([[rng.integers(0, size)] for size in table.domain.sizes])
    if rng.random() < 0.5:
        extra = np.repeat(one, rows, axis=1)
    else:
        extra = np.array([rng.integers(0, size, rows) for size in table.domain.sizes])
    extra_table = EncodedTable.from_codes(table.domain, extra)
    return EncodedTable.concatenate([table, extra_table])


def loss(queries: list[bytes], sites: list[Site], factor: float = 1.0) -> float:
    """The squared change over twice the protecting variance, over all releases of all queries."""
    one, other = sites
    total = 0.0
    for message in queries:
        pairs = zip(
            decode(one.answer(message), Answer).parts,
            decode(other.answer(message), Answer).parts,
            strict=True,
        )
        for first, second in pairs:
            assert (first.sensitivity, first.sigma, first.rho) == (
                second.sensitivity,
                second.sigma,
                second.rho,
            )
            change = float(((first.values - second.values) ** 2).sum())
            total += change / (2 * factor * first.sigma**2)
    return total


@st.composite
def statistics(draw: st.DrawFn, domain: Domain) -> Statistic:
    names = domain.clique(*draw(st.lists(st.sampled_from(domain.names), min_size=1, max_size=2)))
    if len(names) == 1:
        levels = [Haar((names[0],), level) for level in range(haar_levels(domain.size(names[0])))]
        single: list[Statistic] = [Total(), Flat(names), *levels]
        size = domain.size(names[0])
        own = draw(st.tuples(*[st.integers(0, size - 1)] * size))
        return draw(st.sampled_from([*single, Grouped(names, (own,))]))
    sketch = st.builds(
        Sketched,
        st.just(names),
        st.integers(1, 20),
        st.integers(0, 2**40),
        st.sampled_from(SketchKind),
    )
    groups = st.tuples(
        *(st.tuples(*[st.integers(0, size - 1)] * size) for size in domain.shape(names))
    )
    merged = st.builds(Grouped, st.just((names[0], names[1])), groups)
    if len(domain) > 2:
        three = domain.clique(*draw(st.permutations(domain.names))[:3])
        all_groups = st.tuples(
            *(st.tuples(*[st.integers(0, size - 1)] * size) for size in domain.shape(three))
        )
        merged |= st.builds(Grouped, st.just(three), all_groups)
    return draw(st.one_of(st.just(Flat(names)), st.just(Dependence(names)), sketch, merged))


@pytest.mark.thorough
@given(tables(), st.data(), st.integers(1, 4), st.floats(0.05, 10))
@settings(max_examples=200)
def test_no_query_moves_more_than_it_was_charged(
    table: EncodedTable, data: st.DataObject, person_rows: int, epsilon: float
) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    schema = categories(*table.domain.sizes)
    unit: dict[str, Any] = {} if person_rows == 1 else {"unit": "id", "rows_per_unit": person_rows}
    plan = make_plan(schema, epsilon=epsilon, columns=TRIPLES, **unit)
    asked = data.draw(st.lists(statistics(table.domain), min_size=1, max_size=6))
    shares = plan.budget.split(*[data.draw(st.floats(0.1, 1)) for _ in asked])
    parts = tuple(
        Part(statistic, plan.budget.share(cost))
        for statistic, cost in zip(asked, shares, strict=True)
    )
    query = encode(Query(study=plan.fingerprint, number=0, label="any", parts=parts))
    larger = with_person(table, person_rows, rng)
    sites = [Site("one", rows, plan, NoNoise()) for rows in (table, larger)]
    spent = loss([query], sites)
    assert spent <= sites[0].ledger.spent.rho <= plan.budget.rho


@given(tables(), st.data(), st.integers(1, 4))
def test_a_person_moves_no_more_integers_and_no_further_than_a_statistic_says(
    table: EncodedTable, data: st.DataObject, rows: int
) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    statistic = data.draw(statistics(table.domain))
    larger = with_person(table, rows, rng)
    one, other = (statistic.exact(TableCounts(each)).values for each in (table, larger))
    change = np.abs(other - one)
    many, l1 = moves(statistic, table.domain, rows)
    assert np.count_nonzero(change) <= many <= statistic.integers(table.domain)
    assert change.sum() <= l1
    assert math.sqrt(float((change**2).sum())) <= rows * statistic.sensitivity(table.domain)


@given(tables(), st.data())
def test_where_rows_are_partitioned_each_adds_one_to_one_integer(
    table: EncodedTable, data: st.DataObject
) -> None:
    statistic = data.draw(statistics(table.domain))
    integers = statistic.exact(TableCounts(table)).values
    if statistic.partitions:
        assert integers.min() >= 0
        assert integers.sum() == table.rows
    assert statistic.tells_total == (statistic.partitions and len(statistic.attributes) < 2)
    assert (statistic.level is None) == (not isinstance(statistic, Haar))


@pytest.mark.parametrize("kind", SketchKind)
def test_the_record_in_the_longest_sketch_row_attains_the_price(kind: SketchKind) -> None:
    domain = Domain(("a0", "a1"), (9, 11))
    plan = make_plan(categories(9, 11))
    statistic = Sketched(("a0", "a1"), 10, 5, kind)
    lengths = (statistic.sketch(domain).matrix.astype(np.int64) ** 2).sum(axis=1)
    worst = divmod(int(lengths.argmax()), 11)
    empty = EncodedTable.from_codes(domain, np.zeros((2, 0), dtype=np.int64))
    record = EncodedTable.from_codes(domain, np.array(worst)[:, None])
    query = encode(
        Query(study=plan.fingerprint, number=0, label="any", parts=(Part(statistic, 1.0),))
    )
    sites = [Site("one", rows, plan, NoNoise()) for rows in (empty, record)]
    assert loss([query], sites) == pytest.approx(plan.budget.rho, rel=1e-9)
    assert loss([query], sites) <= sites[0].ledger.spent.rho


@pytest.mark.parametrize("kind", SketchKind)
def test_some_record_moves_a_sketch_as_far_in_all_as_it_says(kind: SketchKind) -> None:
    domain = Domain(("a0", "a1"), (9, 11))
    statistic = Sketched(("a0", "a1"), 10, 5, kind)
    lengths = np.abs(statistic.sketch(domain).matrix.astype(np.int64)).sum(axis=1)
    assert moves(statistic, domain, 3) == (10, 3 * lengths.max())
    assert kind is not SketchKind.SIGNS or statistic.l1(domain) == statistic.width


@pytest.mark.thorough
@pytest.mark.parametrize("rows_per_unit", [1, 3])
@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_whole_adaptive_study_moves_at_most_its_budget(method: str, rows_per_unit: int) -> None:
    schema = categories(4, 6, 3, 5, 12)
    table = dependent_table(schema.domain, 3_000)
    terms: dict[str, Any] = (
        {} if rows_per_unit == 1 else {"unit": "id", "rows_per_unit": rows_per_unit}
    )
    chosen = make_method(method)
    names = site_names(chosen, ["one", "two", "three"])
    plan = make_plan(schema, names, epsilon=3.0, method=method, **terms)
    asked, at_sites = record_study(schema, plan, chosen, deal(table, 3))
    rng = np.random.default_rng(1)
    for _ in range(10):
        sites = [
            Site(names[0], rows, plan, NoNoise())
            for rows in (at_sites[0], with_person(at_sites[0], rows_per_unit, rng))
        ]
        spent = loss(asked, sites)
        assert spent <= sites[0].ledger.spent.rho <= plan.budget.rho
    assert len(asked) >= 1


def record_study(
    schema: Schema, plan: Plan, method: Method, parts: list[EncodedTable]
) -> tuple[list[bytes], list[EncodedTable]]:
    """The queries that the first site was asked in a seeded study, and the tables of the sites."""
    asked: list[bytes] = []
    answer = Site.answer

    def listen(self: Site, message: bytes) -> bytes:
        if self.name == plan.sites[0]:
            asked.append(message)
        return answer(self, message)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Site, "answer", listen)
        run_study(schema, plan, method, parts, noise_seed=4)
    pooled = len(plan.sites) == 1
    return asked, [EncodedTable.concatenate(parts)] if pooled else parts


@pytest.mark.thorough
@given(tables(), st.integers(3, 30), st.integers(0, 2**32), st.data())
def test_under_secure_aggregation_the_honest_of_a_sum_protect_as_declared(
    table: EncodedTable, sites: int, seed: int, data: st.DataObject
) -> None:
    schema = categories(*table.domain.sizes)
    colluding = data.draw(st.integers(1, sites - 2))
    quorum = data.draw(st.integers((sites + colluding) // 2 + 1, sites))
    plan = make_plan(
        schema,
        [f"s{i}" for i in range(sites)],
        epsilon=0.5,
        trust="secure-aggregation",
        aggregation=Aggregation(colluding, quorum),
    )
    statistic = Flat(table.domain.names[:2])
    query = encode(
        Query(study=plan.fingerprint, number=0, label="q", parts=(Part(statistic, 0.5),))
    )
    larger = with_person(table, 1, np.random.default_rng(seed))
    trust = plan.trust_model
    pair = [Site("s0", rows, plan, NoNoise(), trust=trust) for rows in (table, larger)]
    assert loss([query], pair, factor=quorum - colluding) <= pair[0].ledger.spent.rho
    alone = loss([query], pair)
    assert alone <= plan.budget.rho * (quorum - colluding)
    assert trust.alone_factor == quorum - colluding
    assert Fraction(pair[0].ledger.spent.rho) <= Fraction(plan.budget.rho) / 2


@given(
    st.lists(st.integers(0, 2**36) | st.integers(0, 3), min_size=12, max_size=12),
    st.integers(0, 11),
)
@example([3_037_000_499, *[0] * 11], 0)  # one more, and n^2 does not fit 64 bits
@example([2**30 - 1, *[0] * 11], 11)
def test_dependence_moves_by_at_most_four_counts_however_many_rows_there_are(
    counts: list[int], cell: int
) -> None:
    domain = Domain(("a", "b"), (3, 4))
    statistic = Dependence(("a", "b"))
    found = []
    for more in (0, 1):
        joint = np.array(counts, dtype=np.int64)
        joint[cell] += more
        table = PairCounts(domain, int(joint.sum()), [Marginal(("a", "b"), joint)])
        found.append(int(statistic.exact(table).values[0]))
    assert abs(found[1] - found[0]) <= statistic.sensitivity(domain)


def test_dependence_of_a_pair_moves_by_at_most_four_counts() -> None:
    rng = np.random.default_rng(0)
    domain = Domain(("a", "b"), (3, 4))
    worst = 0.0
    for _ in range(2_000):
        rows = int(rng.integers(0, 40))
        codes = np.array([rng.integers(0, s, rows) for s in domain.sizes]).reshape(2, rows)
        table = EncodedTable.from_codes(domain, codes)
        pair = [
            Dependence(("a", "b")).exact(TableCounts(t)).values[0]
            for t in (table, with_person(table, 1, rng))
        ]
        worst = max(worst, abs(float(pair[0] - pair[1])))
    # A record far from where nearly all others are is the worst there is.
    table = EncodedTable.from_codes(domain, np.zeros((2, 10_000), dtype=np.int64))
    corner = EncodedTable.from_codes(domain, np.array([[2], [3]]))
    pair = [
        Dependence(("a", "b")).exact(TableCounts(t)).values[0]
        for t in (table, EncodedTable.concatenate([table, corner]))
    ]
    worst = max(worst, abs(float(pair[0] - pair[1])))
    assert 0.99 * 4096 < worst <= Dependence(("a", "b")).sensitivity(domain)
    assert math.isfinite(worst)
