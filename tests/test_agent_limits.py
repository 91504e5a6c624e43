"""What a hub cannot pay for it cannot get: work, memory, disk, turns of others, lines of a log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import heterofedsyn.marginals.sketch as sketch_module
import heterofedsyn.site.agent as agent_module
from agent_support import NOW, FreshNoise, approved_study, ask, books_of, make_site, make_study
from heterofedsyn._arrays import Integers
from heterofedsyn.errors import ProtocolError
from heterofedsyn.hub import Request, of_study
from heterofedsyn.hub.planning.preview import preview
from heterofedsyn.marginals import Flat, Grouped, Sketched, SketchKind, Statistic, Total
from heterofedsyn.marginals.sketch import Sketch, largest_norm
from heterofedsyn.marginals.statistics import works
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.terms import Terms
from heterofedsyn.protocol import Answer, Part, Query, Study, decode, encode
from heterofedsyn.protocol.codec import study_of
from heterofedsyn.protocol.limits import (
    MOST_PART_WORK,
    MOST_REPLY_BYTES,
    MOST_REQUEST_BYTES,
    MOST_WORK,
    check_query,
    most_answer_bytes,
)
from heterofedsyn.protocol.refusal import Reason, Refused
from heterofedsyn.schema import Domain, Schema
from heterofedsyn.simulate.hospitals import hospital_schema
from heterofedsyn.site.agent import Agent
from heterofedsyn.site.consent import approve, withdraw
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.settings import LEAST_RHO, STUDY_BYTES, SiteSettings
from heterofedsyn.site.turns import Turns
from support import categories, make_plan, released

pytestmark = pytest.mark.sweep

SCHEMA = categories(60, 64)
ALL = ("a0", "a1")
WIDE = Sketched(ALL, 500, 1, SketchKind.GAUSSIAN)
"""Each takes long to draw; eight are within the limits of one query."""


class Site:
    """A site of some rows whose agent counts nothing and draws nothing unseen."""

    def __init__(self, place: Path, noise: Any = None, **terms: Any) -> None:
        self.settings = make_site(place, SCHEMA, **terms)
        self.books = books_of(self.settings)
        self.noise = noise or FreshNoise()
        self.lines: list[str] = []
        self.agent = self.another()

    def another(self) -> Agent:
        return Agent(self.settings, self.books, noise=self.noise, log=self.lines.append)

    def study(self, **terms: Any) -> Study:
        return approved_study(self.settings, SCHEMA, **terms)

    def reply(self, message: bytes) -> Answer | Reason:
        try:
            return decode(self.agent.answer(message), Answer)
        except Refused as refused:
            return refused.reason

    def rewrite(self, **changes: Any) -> None:
        """The steward edits the settings while the agent runs."""
        changed = replace(self.settings, **changes)
        (self.settings.folder / "site.toml").write_text(changed.to_toml())


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path)
    with found.books:
        yield found


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on no sketch is drawn and no row read without the test noticing."""

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("work was done")

    for name in ("_draw", "_kept"):
        monkeypatch.setattr(sketch_module, name, fail)
    monkeypatch.setattr(agent_module, "count", fail)


def parts_of(study: Study, *parts: tuple[Statistic, float], **terms: Any) -> bytes:
    """A query whose parts have prices of their own."""
    named = tuple(Part(statistic, share) for statistic, share in parts)
    usual = {"study": study.fingerprint, "number": 0, "label": "q", "parts": named}
    return encode(Query(**{**usual, **terms}))


# Free work

WIDES = [(WIDE, 0.01)] * 7
IN_VAIN: dict[str, tuple[Callable[[Study], bytes], Reason]] = {
    "a share too small to be noised": (
        lambda s: parts_of(s, *WIDES, (Total(), 1e-300)),
        Reason.MALFORMED,
    ),
    "a sketch's share too small to be noised": (
        lambda s: parts_of(s, *WIDES, (WIDE, 1e-20)),
        Reason.MALFORMED,
    ),
    "a part too cheap": (lambda s: parts_of(s, *WIDES, (Total(), 1e-9)), Reason.OVER_THE_CAP),
    "more than the study has": (
        lambda s: parts_of(s, *WIDES, (Total(), 0.95)),
        Reason.OVER_THE_CAP,
    ),
    "an attribute that is not there": (
        lambda s: parts_of(s, *WIDES, (Flat(("a7",)), 0.01)),
        Reason.MALFORMED,
    ),
    "too many cells together": (lambda s: parts_of(s, *WIDES * 2), Reason.MALFORMED),
    "a width beyond any": (
        lambda s: parts_of(s, *WIDES, (Sketched(ALL, 10**9, 1), 0.01)),
        Reason.MALFORMED,
    ),
    "another site": (lambda s: parts_of(s, *WIDES, to="two"), Reason.MALFORMED),
}


@pytest.mark.parametrize("name", IN_VAIN)
@pytest.mark.usefixtures("no_work")
def test_what_a_query_says_is_refused_before_any_work_is_done_for_it(site: Site, name: str) -> None:
    make, reason = IN_VAIN[name]
    assert site.reply(make(site.study())) is reason
    assert not site.books.account.charges


@given(st.integers(1, 40), st.integers(1, 12), st.sampled_from(SketchKind), st.integers(0, 99))
def test_no_sketch_moves_further_than_is_known_without_drawing_it(
    width: int, cells: int, kind: SketchKind, seed: int
) -> None:
    sketch = Sketch.draw(Domain(("a",), (cells,)), ("a",), width, seed, kind)
    assert sketch.sensitivity <= largest_norm(width, kind)


def test_refused_queries_end_a_study_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path, refused_queries=5)
    with site.books:
        study, other = site.study(), site.study(seed=9)
        first = ask(study, Total())
        site.agent.answer(first)
        for i in range(5):
            assert site.reply(ask(study, Flat(("a7",)), label=f"{i}")) is Reason.MALFORMED
        with monkeypatch.context() as patched:

            def unread(message: bytes, kind: type[Query]) -> Query:
                raise AssertionError("a query was read")

            patched.setattr(agent_module, "decode_asked", unread)
            for message in (first, ask(study, Flat(("a7",)))):
                with pytest.raises(Refused, match="5 queries of study") as caught:
                    site.agent.answer(message)
                assert caught.value.reason is Reason.UNAVAILABLE
        assert isinstance(site.reply(ask(other, Total())), Answer)
        site.agent = site.another()  # which is the steward's own act
        assert isinstance(site.reply(first), Answer)


def test_time_spent_on_refused_queries_ends_a_study(tmp_path: Path) -> None:
    site = Site(tmp_path, refused_seconds=1e-9)
    with site.books:
        study, other = site.study(), site.study(seed=9)
        assert isinstance(site.reply(ask(study, Total())), Answer)  # time for answers is paid
        assert site.reply(ask(study, Flat(("a7",)))) is Reason.MALFORMED
        assert site.reply(ask(study, Total(), label="more")) is Reason.UNAVAILABLE
        assert isinstance(site.reply(ask(other, Total())), Answer)


def test_an_outage_of_the_site_uses_up_no_study(tmp_path: Path) -> None:
    site = Site(tmp_path, refused_queries=2)
    with site.books:
        study = site.study()
        rows = Path(site.settings.source)
        rows.rename(tmp_path / "away")
        for i in range(4):
            assert site.reply(ask(study, Total(), label=f"{i}")) is Reason.UNAVAILABLE
        (tmp_path / "away").rename(rows)
        assert isinstance(site.reply(ask(study, Total())), Answer)


def test_rows_are_not_read_for_a_study_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_module, "_MOST_READINGS", 3)
    site = Site(tmp_path)
    with site.books:
        study, other = site.study(), site.study(seed=9)
        replies = []
        for i in range(4):
            site.agent._tables.clear()
            replies.append(site.reply(ask(study, Total(), share=0.01, label=f"{i}")))
        assert [isinstance(reply, Answer) for reply in replies] == [True, True, True, False]
        assert replies[-1] is Reason.UNAVAILABLE
        assert isinstance(site.reply(ask(other, Total())), Answer)


@pytest.mark.usefixtures("no_work")
def test_a_withdrawn_study_waits_for_no_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path)

    def fail(*_: object) -> None:
        raise AssertionError("a turn was taken")

    with site.books:
        study = site.study()
        withdraw(site.settings, study.fingerprint, who="a steward", now=NOW)
        monkeypatch.setattr(site.agent._turns, "of", fail)
        assert site.reply(ask(study, Total())) is Reason.NOT_APPROVED


@pytest.mark.usefixtures("no_work")
def test_who_names_no_approved_study_uses_up_nobodys_patience(tmp_path: Path) -> None:
    site = Site(tmp_path, refused_queries=1)
    with site.books:
        site.study()
        for _ in range(3):
            assert site.reply(ask(make_study(SCHEMA, seed=9), Total())) is Reason.NOT_APPROVED
            assert site.reply(b"garbage") is Reason.MALFORMED


@given(st.binary(max_size=200))
def test_the_name_of_a_study_is_read_from_whatever_comes_or_refused(data: bytes) -> None:
    study = make_study(SCHEMA)
    assert study_of(ask(study, Total())) == study.fingerprint
    with suppress(ProtocolError):
        assert isinstance(study_of(data), str)


# Turns


class Gate:
    """Noise that waits until it may be drawn, and notes for which study it was."""

    simulated = True

    def __init__(self) -> None:
        self.free = threading.Event()
        self.begun = threading.Event()

    def draw(self, terms: Terms, alone: Budget, key: bytes) -> Integers:
        self.begun.set()
        assert self.free.wait(60)
        return np.zeros(terms.integers, dtype=np.int64)


def waits(agent: Agent, many: int) -> bool:
    return agent._turns._waiting == many


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.002)


@pytest.mark.thorough
def test_a_study_waits_for_one_query_of_each_other_study_and_no_more(tmp_path: Path) -> None:
    gate = Gate()
    site = Site(tmp_path, gate)
    with site.books, ThreadPoolExecutor(40) as pool:
        many, few, other = (site.study(seed=seed) for seed in (1, 2, 3))
        first = pool.submit(site.reply, ask(many, Total(), share=0.001, label="first"))
        assert gate.begun.wait(60)
        asked: list[Future[Answer | Reason]] = [first]
        for number, study in enumerate([many] * 20 + [few] + [many] * 10 + [other]):
            message = ask(study, Total(), share=0.001, label=f"{number}")
            asked.append(pool.submit(site.reply, message))
            until(partial(waits, site.agent, number + 1))
        gate.free.set()
        assert all(isinstance(one.result(60), Answer) for one in asked)
        order = [charged.study for charged in site.books.account.charges]
    for study in (few, other):
        # One was being answered; then comes one of each study that was there before.
        assert order.index(study.fingerprint) <= 3


def test_a_study_with_many_queries_leaves_room_for_others_to_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_module, "MOST_WAITING", 6)
    gate = Gate()
    site = Site(tmp_path, gate)
    with site.books, ThreadPoolExecutor(40) as pool:
        many, few = (site.study(seed=seed) for seed in (1, 2))
        queries = [ask(many, Total(), share=0.001, label=f"{i}") for i in range(20)]
        asked = [pool.submit(site.reply, queries[0])]
        assert gate.begun.wait(60)
        for number, message in enumerate(queries[1:7]):
            asked.append(pool.submit(site.reply, message))
            until(partial(waits, site.agent, number + 1))
        # Its own queries find no room, and at once; those of others do.
        assert [site.reply(message) for message in queries[7:10]] == [Reason.UNAVAILABLE] * 3
        others = [
            pool.submit(site.reply, ask(few, Total(), share=0.001, label=f"{i}")) for i in range(3)
        ]
        until(lambda: sum(one.done() for one in asked) == 3)
        gate.free.set()
        assert all(isinstance(one.result(60), Answer) for one in others)
        heard = [one.result(60) for one in asked]
    assert [isinstance(one, Answer) for one in heard] == [True] * 4 + [False] * 3
    assert set(heard[4:]) == {Reason.UNAVAILABLE}


@pytest.mark.parametrize("lowered", [False, True], ids=["at the start", "by the settings"])
def test_a_study_that_asked_too_much_in_vain_waits_for_no_turn(
    tmp_path: Path, lowered: bool
) -> None:
    gate = Gate()
    site = Site(tmp_path, gate, refused_queries=100 if lowered else 1)
    with site.books, ThreadPoolExecutor(2) as pool:
        study, other = site.study(), site.study(seed=9)
        assert site.reply(ask(study, Flat(("a7",)))) is Reason.MALFORMED
        if lowered:
            site.rewrite(refused_queries=1)
        try:
            first = pool.submit(site.reply, ask(other, Total()))
            assert gate.begun.wait(60)
            refused = pool.submit(site.reply, ask(study, Total()))
            assert refused.result(20) is Reason.UNAVAILABLE
            assert not first.done()
        finally:
            gate.free.set()
        assert isinstance(first.result(60), Answer)


class Interrupted(Exception):
    """Something that ends a wait."""


class Interrupting(threading.Condition):
    """Ends a wait, before or after its turn came."""

    def __init__(self, late: bool) -> None:
        super().__init__()
        self.late = late
        self.tries = 0

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        self.tries += 1
        if self.tries == 2:
            if self.late:
                super().wait_for(predicate, timeout)
            raise Interrupted
        return super().wait_for(predicate, timeout)


@pytest.mark.parametrize("late", [False, True], ids=["before its turn", "as its turn comes"])
def test_a_wait_that_was_interrupted_holds_up_nobody(late: bool) -> None:
    turns = Turns(5)
    turns._change = Interrupting(late)
    held, free = threading.Event(), threading.Event()

    def take(study: str) -> str:
        with turns.of(study):
            held.set()
            assert free.wait(60)
            return study

    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(take, "first")
        assert held.wait(60)
        interrupted = pool.submit(take, "interrupted")
        until(lambda: interrupted.done() or turns._waiting == 1)
        others = [pool.submit(take, "interrupted"), pool.submit(take, "other")]
        until(lambda: turns._waiting >= 2)
        free.set()
        with pytest.raises(Interrupted):
            interrupted.result(20)
        try:
            heard = [one.result(20) for one in (first, *others)]
        finally:
            turns.close()  # else what is stuck would be waited for
    assert heard == ["first", "interrupted", "other"]
    assert not turns._busy
    assert not turns._waiting


# Memory before consent


BOMBS = {
    "wide": {"k": 4096, "sketch": "gaussian"},
    "whole": {"k": 4096, "sketch": "signs"},
}


def bomb(schema: Schema, name: str, **terms: Any) -> Study:
    """A few hundred bytes that ask for gigabytes."""
    plan = make_plan(schema, ("one", "two"), method="fedprivsyn", settings=BOMBS[name], **terms)
    return Study(plan=plan, schema=schema.settings, quorum=1)


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.usefixtures("no_work")
def test_limits_are_the_same_for_hub_preview_and_agent_and_come_before_work(
    tmp_path: Path, name: str
) -> None:
    schema = categories(120, 128)
    study = bomb(schema, name)
    settings = make_site(tmp_path, schema)
    approve(settings, study, who="a steward", now=NOW)
    heard = []
    with pytest.raises(ProtocolError) as caught:
        preview(study, "one")
    heard.append(str(caught.value))
    conversation = of_study(study)
    ones = next(conversation)
    told = ones.check([_flat_answer(ones, site) for site in ones.asked])
    with pytest.raises(ProtocolError) as caught:
        conversation.send(told)
    heard.append(str(caught.value))
    kind = SketchKind(str(BOMBS[name]["sketch"]))
    message = ask(study, Sketched(ALL, 4096, study.plan.seed, kind), label="sketches")
    with books_of(settings) as books:
        agent = Agent(settings, books, noise=FreshNoise(), log=print)
        with pytest.raises(Refused) as refused:
            agent.answer(message)
    assert refused.value.reason is Reason.MALFORMED
    heard.append(str(refused.value))
    assert len({text.partition("needs")[2] for text in heard}) == 1, heard


def _maps(many: int, size: int) -> list[Statistic]:
    """Maps of one pair into two groups, no two alike."""
    rng = np.random.default_rng(0)
    ways = rng.integers(0, 2, (many, 2, size)).tolist()
    return [Grouped(ALL, (tuple(one), tuple(other))) for one, other in ways]


@pytest.mark.parametrize(
    ("statistics", "passes"),
    [
        pytest.param(_maps(4, 4096), True, id="a pass over the rows for each of few maps"),
        pytest.param(_maps(5, 4096), False, id="many maps of one large table"),
        pytest.param([*_maps(4, 4096), Flat(ALL)], False, id="few maps beside the table itself"),
        pytest.param([Sketched(ALL, 1, 1)], True, id="signs"),
        pytest.param([Sketched(ALL, 1, 1, SketchKind.GAUSSIAN)], False, id="Gaussian entries"),
    ],
)
def test_work_counts_what_is_added_up_and_what_is_dear_to_draw(
    statistics: list[Statistic], passes: bool
) -> None:
    schema = categories(4096, 4096)
    query = Query(
        study=make_plan(schema).fingerprint,
        number=0,
        label="all",
        parts=tuple(Part(statistic, 0.01) for statistic in statistics),
    )
    with nullcontext() if passes else pytest.raises(ProtocolError, match="cells, more than"):
        check_query(query, schema.domain)


@pytest.mark.parametrize("kind", SketchKind)
def test_every_pair_of_the_hospitals_may_be_sketched_far_below_the_limits(kind: SketchKind) -> None:
    domain = hospital_schema().domain
    sketches = [Sketched(pair, 30, 1, kind) for pair in domain.pairs()]
    assert 20 * sum(works(sketches, domain)) < MOST_WORK
    assert 20 * max(works(sketches, domain)) < MOST_PART_WORK


def _flat_answer(request: Request, site: str) -> Answer:
    """An answer to a query of counts that has the right shape."""
    query = request.query
    parts = (released(np.full(of.integers, 50), of.sigma, of.rho) for of in request.terms)
    return Answer(
        study=query.study, query=query.fingerprint, site=site, simulated=True, parts=tuple(parts)
    )


@pytest.mark.parametrize(
    ("kind", "most"), [(Query, MOST_REQUEST_BYTES), (Answer, MOST_REPLY_BYTES)]
)
def test_a_message_longer_than_any_need_be_is_not_read(kind: type[Any], most: int) -> None:
    with pytest.raises(ProtocolError, match="over the limit"):
        decode(bytes(most + 1), kind)


# Disk


def test_a_part_below_the_least_price_of_the_site_is_over_the_cap(tmp_path: Path) -> None:
    site = Site(tmp_path, least_rho=1e-4)
    with site.books:
        study = site.study()
        share = 1e-4 / study.plan.budget.rho
        cheap = parts_of(study, (Total(), 0.1), (Total(), share * 0.999))
        assert site.reply(cheap) is Reason.OVER_THE_CAP
        assert not site.books.account.charges
        assert isinstance(site.reply(parts_of(study, (Total(), share * 1.001))), Answer)
    assert make_site(tmp_path / "usual").least_rho == LEAST_RHO > 0


def stored(settings: SiteSettings) -> int:
    return sum(path.stat().st_size for path in (settings.folder / "answers").iterdir())


@pytest.mark.thorough
@pytest.mark.parametrize(
    "statistics",
    [
        [Flat(("a0",))],
        [Total()] * 500,
        [Grouped(ALL, (tuple([0] * 60), tuple([0] * 64)))] * 40,  # long questions, short answers
        [Flat(ALL)] * 3,
    ],
    ids=["one", "many", "maps", "large"],
)
def test_what_a_study_takes_on_disk_is_bounded_whatever_it_asks(
    tmp_path: Path, statistics: list[Statistic]
) -> None:
    site = Site(tmp_path, study_bytes=300_000)
    with site.books:
        study, other = site.study(), site.study(seed=9)
        answers = 0
        while True:
            message = ask(study, *statistics, share=1e-6, label=f"{answers}" * 20)
            before = stored(site.settings)
            heard = site.reply(message)
            if not isinstance(heard, Answer):
                break
            answers += 1
            integers = sum(part.values.size for part in heard.parts)
            most = len(message) + most_answer_bytes(integers, len(heard.parts))
            assert stored(site.settings) - before <= most
        assert heard is Reason.OVER_THE_CAP
        assert 0 < stored(site.settings) <= 300_000
        assert isinstance(site.reply(ask(other, Total())), Answer)
    assert make_site(tmp_path / "usual").study_bytes == STUDY_BYTES == 2**30


# Settings that become stricter while an agent runs


STRICTER: dict[str, tuple[dict[str, Any], Reason]] = {
    "cap of the table": ({"epsilon": 0.1, "study_epsilon": 0.1}, Reason.NOT_APPROVED),
    "cap of a study": ({"study_epsilon": 0.5}, Reason.NOT_APPROVED),
    "caps at a smaller delta": ({"delta": 1e-30}, Reason.NOT_APPROVED),
    "a unit": ({"unit": "id"}, Reason.NOT_APPROVED),
    "another name": ({"name": "three"}, Reason.NOT_APPROVED),
    "a higher least price": ({"least_rho": 0.04}, Reason.OVER_THE_CAP),
    "fewer bytes": ({"study_bytes": 100}, Reason.OVER_THE_CAP),
}


@pytest.mark.parametrize("name", STRICTER)
def test_settings_that_become_stricter_hold_for_the_next_query(site: Site, name: str) -> None:
    changes, reason = STRICTER[name]
    study = site.study(epsilon=2.0)
    assert isinstance(site.reply(ask(study, Total(), label="before")), Answer)
    site.rewrite(**changes)
    assert site.reply(ask(study, Total(), label="after")) is reason
    site.rewrite()
    assert isinstance(site.reply(ask(study, Total(), label="as it was")), Answer)


def test_a_lowered_cap_of_the_table_holds_for_the_next_query(site: Site) -> None:
    studies = [site.study(seed=seed, epsilon=1.0) for seed in range(3)]
    assert isinstance(site.reply(ask(studies[0], Total(), share=1.0)), Answer)
    site.rewrite(epsilon=1.1, study_epsilon=1.0)
    assert site.reply(ask(studies[1], Total(), share=1.0)) is Reason.OVER_THE_CAP
    site.rewrite()
    assert isinstance(site.reply(ask(studies[2], Total(), share=1.0)), Answer)


def test_a_lowered_quota_of_refused_queries_holds_for_the_next_query(site: Site) -> None:
    study = site.study()
    assert site.reply(ask(study, Flat(("a7",)))) is Reason.MALFORMED
    site.rewrite(refused_queries=1)
    assert site.reply(ask(study, Total())) is Reason.UNAVAILABLE


LOOSER: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], Reason]] = {
    "cap of the table": (
        {"epsilon": 1.0, "study_epsilon": 1.0},
        {"epsilon": 50.0},
        {"share": 1.0},
        Reason.OVER_THE_CAP,
    ),
    "least price": ({"least_rho": 0.01}, {"least_rho": 0.0}, {}, Reason.OVER_THE_CAP),
    "bytes": ({"study_bytes": 100}, {"study_bytes": 10**9}, {}, Reason.OVER_THE_CAP),
}


@pytest.mark.parametrize("name", LOOSER)
def test_settings_that_become_looser_wait_for_a_restart(tmp_path: Path, name: str) -> None:
    first, then, terms, reason = LOOSER[name]
    site = Site(tmp_path, **first)
    with site.books:
        studies = [site.study(seed=seed, epsilon=1.0) for seed in range(2)]
        if name == "cap of the table":
            site.reply(ask(studies[0], Total(), share=1.0))
        site.rewrite(**then)
        message = ask(studies[1], Total(), **terms)
        assert site.reply(message) is reason
        site.settings = SiteSettings.load(site.settings.folder)
        site.agent = site.another()
        assert isinstance(site.reply(message), Answer)


@pytest.mark.parametrize("text", [None, "", "epsilon = 1e", "epsilon = -1.0"])
def test_with_settings_that_cannot_be_read_nothing_is_answered(
    site: Site, text: str | None
) -> None:
    study = site.study()
    path = site.settings.folder / "site.toml"
    whole = path.read_text()
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    assert site.reply(ask(study, Total())) is Reason.UNAVAILABLE
    assert not site.books.account.charges
    path.write_text(whole)
    assert isinstance(site.reply(ask(study, Total())), Answer)


def test_what_may_be_decided_of_a_hub_is_written_down_and_read_back(tmp_path: Path) -> None:
    terms: dict[str, Any] = {
        "least_rho": 1e-7,
        "study_bytes": 12_345,
        "refused_queries": 7,
        "refused_seconds": 1.5,
    }
    settings = make_site(tmp_path, **terms)
    assert SiteSettings.load(settings.folder) == settings
    with Books.open(settings.folder, settings.anchor) as books:
        assert books.account.unit == "record"
