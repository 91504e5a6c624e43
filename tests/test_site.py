"""A site answers what it can afford, once, and refuses everything else."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any, get_args

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_support import FreshNoise
from heterofedsyn._arrays import Integers
from heterofedsyn.errors import BudgetExceeded, PrivacyRefusal, ProtocolError, UsageError
from heterofedsyn.marginals import (
    Dependence,
    Flat,
    Grouped,
    Haar,
    Sketched,
    SketchKind,
    Statistic,
    Total,
)
from heterofedsyn.marginals.counting import Marginal
from heterofedsyn.marginals.counts import PairCounts
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.ledger import Ledger
from heterofedsyn.privacy.noise import SecureNoise, SimulatedNoise
from heterofedsyn.privacy.terms import Terms
from heterofedsyn.protocol import Answer, Part, Plan, Query, Released, decode, encode
from heterofedsyn.protocol.terms import terms_of
from heterofedsyn.schema import EncodedTable
from heterofedsyn.site import Site
from support import NoNoise, categories, dependent_table, make_plan

pytestmark = pytest.mark.sweep

SCHEMA = categories(4, 6, 300)
TABLE = dependent_table(SCHEMA.domain, 500)
PLAN = make_plan(SCHEMA)


def site(**terms: Any) -> Site:
    return Site("one", TABLE, PLAN, terms.pop("noise", SimulatedNoise(1, "one")), **terms)


def query(*statistics: Statistic, share: float = 0.1, label: str = "q", **terms: Any) -> bytes:
    parts = tuple(Part(statistic, share) for statistic in statistics)
    usual = {"study": PLAN.fingerprint, "number": 0, "label": label, "parts": parts}
    return encode(Query(**{**usual, **terms}))


@pytest.mark.parametrize("noise", [SecureNoise(), SimulatedNoise(1, "one")])
def test_the_same_query_again_gets_the_same_bytes_and_costs_nothing(noise: Any) -> None:
    agent = site(noise=noise)
    first = agent.answer(query(Flat(("a0",))))
    spent = agent.ledger.spent
    assert agent.answer(query(Flat(("a0",)))) == first
    assert agent.ledger.spent == spent


@pytest.mark.thorough
def test_the_same_pair_under_new_labels_is_charged_until_nothing_is_left() -> None:
    agent = site()
    answered = 0
    for i in range(1_000):
        try:
            agent.answer(query(Flat(("a0", "a1")), share=0.015, label=f"ask {i}"))
            answered += 1
        except BudgetExceeded:
            pass
    assert answered == 66
    assert agent.ledger.spent <= PLAN.budget


def test_a_refused_query_releases_and_charges_nothing() -> None:
    agent = site()
    agent.answer(query(Flat(("a0",)), share=0.9))
    spent = agent.ledger.spent
    for _ in range(2):
        with pytest.raises(BudgetExceeded, match="is left for table 'one'"):
            agent.answer(query(Flat(("a1",)), share=0.2, label="more"))
    assert agent.ledger.spent == spent


def test_the_owners_cap_wins_over_the_plan() -> None:
    agent = site(cap=Budget(PLAN.budget.rho / 10))
    with pytest.raises(BudgetExceeded):
        agent.answer(query(Flat(("a0",)), share=0.2))
    agent.answer(query(Flat(("a0",)), share=0.1))


@pytest.mark.parametrize(
    "cap", [None, Budget(100 * PLAN.budget.rho)], ids=["no cap", "a large cap"]
)
@given(st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=12))
def test_a_site_never_answers_for_more_than_the_rho_of_its_study(
    cap: Budget | None, shares: list[float]
) -> None:
    agent = Site("one", TABLE, PLAN, NoNoise(), cap=cap)
    paid = Fraction(0)
    for i, share in enumerate(shares):
        cost = Fraction(PLAN.budget.part(share).rho)
        try:
            (part,) = decode(agent.answer(query(Total(), share=share, label=f"{i}")), Answer).parts
        except BudgetExceeded:
            assert paid + cost > Fraction(PLAN.budget.rho)
        else:
            assert Fraction(part.sensitivity) ** 2 <= cost * 2 * Fraction(part.sigma) ** 2
            paid += cost
    assert paid <= Fraction(PLAN.budget.rho)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x00" * 1000,
        b"\xff" * 1000,
        query(Flat(("a0",)))[:-3],
        query(Flat(("a0",))) + b"\x00",
        query(),
        query(Flat(("nobody",))),
        query(Flat(())),
        query(Flat(("a1", "a0"))),
        query(Flat(("a0", "a0"))),
        query(Flat(("a0", "a1", "a2"))),
        query(Dependence(("a0",))),
        query(Sketched(("a0", "a1"), 10**9, 1)),
        query(Sketched(("a0", "a1"), 0, 1)),
        query(Sketched(("a0", "a1"), -5, 1)),
        query(Flat(("a0",)), share=math.nan),
        query(Flat(("a0",)), share=math.inf),
        query(Flat(("a0",)), share=0.0),
        query(Flat(("a0",)), share=-1.0),
        query(Flat(("a0",)), share=1.5),
        query(Flat(("a0",)), study="0" * 64),
        query(Flat(("a0",)), to="another"),
        query(Flat(("a0",)), version=2),
        query(*[Flat(("a1", "a2"))] * 60_000, share=1e-6),
        msgspec.msgpack.encode({"type": "query", "sigma": 0.0}),
        msgspec.msgpack.encode([1, 2, 3]),
        encode(Answer(study="", query="", site="x", simulated=False, parts=())),
    ],
)
def test_a_malformed_query_is_refused_uncharged(message: bytes) -> None:
    agent = site()
    with pytest.raises(ProtocolError) as refused:
        agent.answer(message)
    assert "\n" not in str(refused.value)
    assert agent.ledger.charges == ()


def test_unknown_fields_are_refused() -> None:
    fields = msgspec.msgpack.decode(query(Flat(("a0",))))
    for extra in ("sigma", "cap", "trust"):
        with pytest.raises(ProtocolError):
            site().answer(msgspec.msgpack.encode({**fields, extra: 1.0}))
    fields["parts"][0]["sigma"] = 0.001
    with pytest.raises(ProtocolError):
        site().answer(msgspec.msgpack.encode(fields))


@given(st.binary(max_size=300))
def test_no_bytes_make_a_site_fail_otherwise(message: bytes) -> None:
    with pytest.raises(ProtocolError):
        site().answer(message)


def test_a_share_too_small_to_be_noised_is_refused() -> None:
    agent = site()
    with pytest.raises(PrivacyRefusal, match="too small"):
        agent.answer(query(Flat(("a0",)), share=1e-300))
    assert agent.ledger.charges == ()


@pytest.mark.thorough
@given(st.integers(0, 40), st.integers(0, 2**32))
def test_the_length_of_an_answer_does_not_depend_on_rows(rows: int, seed: int) -> None:
    asked = query(
        Flat(("a0",)), Flat(("a1", "a2")), Sketched(("a0", "a2"), 10, 1, SketchKind.GAUSSIAN)
    )
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, s, rows) for s in SCHEMA.domain.sizes])
    table = EncodedTable.from_codes(SCHEMA.domain, codes)
    answers = [
        Site("one", t, PLAN, SimulatedNoise(seed, "one")).answer(asked) for t in (table, TABLE)
    ]
    assert len(answers[0]) == len(answers[1])


def test_every_cell_is_released_zeros_included() -> None:
    empty = EncodedTable.from_codes(SCHEMA.domain, np.zeros((3, 0), dtype=np.int64))
    agent = Site("one", empty, PLAN, SimulatedNoise(1, "one"))
    answer = decode(agent.answer(query(Flat(("a1", "a2")))), Answer)
    assert answer.parts[0].values.size == 6 * 300
    assert np.count_nonzero(answer.parts[0].values) > 0.9 * 6 * 300


JOINT = np.array([[2**53 + 1, 2**54 + 3, 7], [2**55 + 5, 2**53 + 9, 0]], dtype=object)
"""Counts of a pair, as integers of Python: no floating-point number holds them."""

COLUMNS = JOINT.sum(axis=0)
SKETCH = Sketched(("a0", "a1"), 5, 3)


@pytest.mark.parametrize(
    ("statistic", "exact"),
    [
        pytest.param(Flat(("a0", "a1")), JOINT.ravel(), id="pair"),
        pytest.param(Flat(("a1",)), COLUMNS, id="column"),
        pytest.param(Total(), [JOINT.sum()], id="total"),
        pytest.param(Haar(("a1",), 0), [COLUMNS[0] + COLUMNS[1] - COLUMNS[2]], id="haar"),
        pytest.param(
            Grouped(("a0", "a1"), ((0, 0), (0, 0, 1))),
            [COLUMNS[0] + COLUMNS[1], COLUMNS[2]],
            id="grouped",
        ),
        pytest.param(
            SKETCH,
            JOINT.ravel() @ SKETCH.sketch(categories(2, 3).domain).matrix.astype(object),
            id="sketch",
        ),
    ],
)
def test_no_integer_is_rounded_on_its_way_out(statistic: Statistic, exact: Sequence[int]) -> None:
    class One:
        """Noise that moves every integer to its neighbour."""

        simulated = True

        def draw(self, terms: Terms, alone: Budget, key: bytes) -> Integers:
            return np.ones(terms.integers, dtype=np.int64)

    schema = categories(2, 3)
    plan = make_plan(schema)
    counted = Marginal(("a0", "a1"), JOINT.ravel().astype(np.int64))
    agent = Site("one", PairCounts(schema.domain, int(JOINT.sum()), [counted]), plan, One())
    answer = agent.answer(query(statistic, study=plan.fingerprint))
    (released,) = decode(answer, Answer).parts
    assert released.values.tolist() == [number + 1 for number in exact]


def test_an_answer_holds_noisy_integers_and_nothing_else_from_the_rows() -> None:
    asked = query(Flat(("a0",)), Sketched(("a0", "a1"), 10, 3))
    few = Site("one", TABLE.take(np.arange(3)), PLAN, NoNoise())
    many = Site("one", TABLE, PLAN, NoNoise())
    stripped = []
    for agent in (few, many):
        fields = msgspec.msgpack.decode(agent.answer(asked))
        for part in fields["parts"]:
            del part["data"]
        stripped.append(fields)
    assert stripped[0] == stripped[1]


def test_no_plan_and_no_query_can_give_a_site_a_noise_seed() -> None:
    named = {*Plan.__struct_fields__, *Query.__struct_fields__, *Part.__struct_fields__}
    assert not [name for name in named if "noise" in name]
    # The plan's seed is the hub's public randomness: another one leaves secure noise fresh.
    agents = [Site("one", TABLE, PLAN, SecureNoise()) for _ in range(2)]
    assert agents[0].answer(query(Flat(("a2",)))) != agents[1].answer(query(Flat(("a2",))))


def answered_at_once(agent: Site, asked: Sequence[bytes]) -> list[bytes | None]:
    """What each of sixteen threads hears; None where the budget is spent."""

    def ask(message: bytes) -> bytes | None:
        try:
            return agent.answer(message)
        except BudgetExceeded:
            return None

    with ThreadPoolExecutor(16) as pool:
        return list(pool.map(ask, asked))


def test_queries_that_fit_alone_but_not_together_are_not_both_answered() -> None:
    for trial in range(10):
        agent = site()
        asked = [query(Flat(("a0",)), share=0.3, label=f"{trial} {i // 2}") for i in range(16)]
        answers = answered_at_once(agent, asked)
        assert len({answer for answer in answers if answer is not None}) == 3
        assert answers[0::2] == answers[1::2]
        assert agent.ledger.spent <= PLAN.budget


def test_no_two_threads_spend_the_same_budget_or_draw_for_the_same_query(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    book = Ledger.charge

    def hesitating(ledger: Ledger, label: str, budget: Budget) -> Ledger:
        booked = book(ledger, label, budget)
        time.sleep(0.02)  # long enough for every other thread to see the ledger as it was
        return booked

    class Slow(FreshNoise):
        def draw(self, terms: Terms, alone: Budget, key: bytes) -> Integers:
            time.sleep(0.02)
            return super().draw(terms, alone, key)

    monkeypatch.setattr(Ledger, "charge", hesitating)
    agent = site(noise=Slow())
    asked = [query(Flat(("a0",)), share=0.3, label=f"{i // 2}") for i in range(16)]
    answers = answered_at_once(agent, asked)
    assert answers[0::2] == answers[1::2], "two answers to one query"
    assert len({answer for answer in answers if answer is not None}) == 3
    assert len(agent.ledger.charges) == 3


STATISTICS: list[Statistic] = [
    Flat(("a0",)),
    Flat(("a0", "a1")),
    Total(),
    Haar(("a2",), 0),
    Haar(("a2",), 3),
    Dependence(("a0", "a1")),
    Sketched(("a0", "a1"), 10, 3),
    Grouped(("a0", "a1"), ((0, 0, 1, 1), (0, 1, 2, 0, 1, 2))),
]


@pytest.mark.parametrize("statistic", STATISTICS, ids=str)
@pytest.mark.parametrize("rows", [2, 3, 50])
def test_every_sensitivity_is_as_many_times_as_large_as_a_unit_may_have_rows(
    statistic: Statistic, rows: int
) -> None:
    assert {type(known) for known in STATISTICS} == {*get_args(Statistic)}
    found: list[Released] = []
    for most in (1, rows):
        plan = make_plan(SCHEMA, unit="id", rows_per_unit=most)
        agent = Site("one", TABLE, plan, NoNoise())
        answer = agent.answer(query(statistic, study=plan.fingerprint))
        found += decode(answer, Answer).parts
    one, many = found
    assert many.sensitivity == rows * one.sensitivity == rows * statistic.sensitivity(SCHEMA.domain)
    assert many.sigma == pytest.approx(rows * one.sigma, rel=1e-9)
    assert many.rho == one.rho


@pytest.mark.parametrize("statistic", STATISTICS, ids=str)
def test_what_leaves_differs_from_the_truth_by_noise_of_the_stated_size(
    statistic: Statistic,
) -> None:
    agent = Site("one", TABLE, PLAN, SimulatedNoise(2, "one"))
    exact = decode(Site("one", TABLE, PLAN, NoNoise()).answer(query(statistic)), Answer)
    noise, sigma = [], 0.0
    for i in range(200):
        message = query(statistic, share=0.004, label=f"{i}")
        (released,) = decode(agent.answer(message), Answer).parts
        noise.append(released.values - exact.parts[0].values)
        sigma = released.sigma
    drawn = np.concatenate(noise)
    assert abs(drawn.std() - sigma) < 4 * sigma / math.sqrt(2 * drawn.size)
    assert abs(drawn.mean()) < 4 * sigma / math.sqrt(drawn.size)


def test_noise_is_never_used_twice_between_parts_or_queries() -> None:
    agent, bare = Site("one", TABLE, PLAN, SimulatedNoise(2, "one")), NoNoise()
    same = Flat(("a1", "a2"))
    asked = [query(same, same, label="one"), query(same, label="two")]
    drawn = []
    for message in asked:
        exact = decode(Site("one", TABLE, PLAN, bare).answer(message), Answer)
        found = decode(agent.answer(message), Answer)
        drawn += [a.values - b.values for a, b in zip(found.parts, exact.parts, strict=True)]
    for i, one in enumerate(drawn):
        for other in drawn[:i]:
            together = float(np.asarray(np.corrcoef(one, other))[0, 1])
            assert abs(together) < 4 / math.sqrt(one.size)


@pytest.mark.parametrize(
    "statistics",
    [
        [Sketched(("a1", "a2"), 4096, i) for i in range(20)],
        [Flat(("a1", "a2"))] * 40_000,
        [Dependence(("a1", "a2"))] * 40_000,
    ],
    ids=["sketches", "pairs", "scores"],
)
def test_a_query_that_needs_too_much_work_is_refused(statistics: list[Statistic]) -> None:
    agent = site()
    with pytest.raises(ProtocolError, match="cells"):
        agent.answer(query(*statistics, share=1e-6))
    assert agent.ledger.charges == ()


def test_noise_beyond_64_bits_is_refused_and_never_cut_off() -> None:
    with pytest.raises(UsageError, match="rows per unit"):
        make_plan(SCHEMA, unit="id", rows_per_unit=10**18)
    plan = make_plan(SCHEMA, unit="id", rows_per_unit=10_000)
    pair = Dependence(SCHEMA.domain.pairs()[0])
    with pytest.raises(PrivacyRefusal, match="64-bit"):
        terms_of(Part(pair, 1e-10), SCHEMA.domain, plan)


_FIRST_DECODING = """
import sys, threading
from heterofedsyn.marginals import Total
from heterofedsyn.protocol import Part, Query, decode, encode
sys.setswitchinterval(1e-6)
message = encode(Query(study="s", number=0, label="l", parts=(Part(Total(), 1.0),)))
together = threading.Barrier(8)
def work():
    together.wait()
    for _ in range(50):
        decode(message, Query)
threads = [threading.Thread(target=work) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


@pytest.mark.thorough
def test_many_threads_may_read_the_first_message_at_once() -> None:
    for _ in range(4):
        subprocess.run([sys.executable, "-c", _FIRST_DECODING], check=True)


def test_a_site_of_a_sum_answers_no_query_of_its_own() -> None:
    """Its noise alone would cost more than is booked."""
    plan = make_plan(SCHEMA, ("one", "two", "three"), trust="secure-aggregation", epsilon=0.1)
    table = dependent_table(SCHEMA.domain, 50)
    site = Site("one", table, plan, SimulatedNoise(1, "one"), trust=plan.trust_model)
    query = Query(study=plan.fingerprint, number=0, label="peek", parts=(Part(Total(), 0.5),))
    with pytest.raises(ProtocolError, match="only sums over sites may be seen"):
        site.answer(encode(msgspec.structs.replace(query, to="one")))
    assert site.ledger.charges == ()
    assert site.answer(encode(query))
