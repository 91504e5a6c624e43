"""Time tells nothing: what a site does for a query is the same whatever its rows are.

No clock is needed to see it: every line of ours that runs, all that compiled loops are given and
every array that is made must be the same for one row more and for other counts.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import heterofedsyn
from agent_support import FreshNoise, approved_study, ask, books_of, make_site
from heterofedsyn.audit import timing
from heterofedsyn.audit.fixtures import query_of
from heterofedsyn.engines.progress import rough
from heterofedsyn.errors import UsageError
from heterofedsyn.hub.conversation import _published
from heterofedsyn.hub.replies import NO_ANSWER, UNAVAILABLE, Absence
from heterofedsyn.marginals import Tally, _count_kernel, counting, counts, sketch, statistics, tally
from heterofedsyn.marginals.counting import Marginal
from heterofedsyn.marginals.counts import Counts, PairCounts, TableCounts
from heterofedsyn.marginals.sketch import SketchKind
from heterofedsyn.marginals.statistics import (
    Dependence,
    Flat,
    Grouped,
    Haar,
    Sketched,
    Statistic,
    Total,
)
from heterofedsyn.protocol import Part, Plan, Query
from heterofedsyn.protocol.refusal import Reason, Refused
from heterofedsyn.schema import (
    CategoricalColumn,
    Domain,
    EncodedTable,
    Encoder,
    IntegerColumn,
    NumberColumn,
    Schema,
    _parsing,
    _units,
)
from heterofedsyn.site import agent, schedule
from heterofedsyn.site.agent import Agent
from heterofedsyn.site.answering import Desk, Price
from heterofedsyn.site.consent import recorded
from heterofedsyn.site.counting import Counted, count
from heterofedsyn.site.receipt import issue
from heterofedsyn.site.schedule import COARSEST, on_tick
from heterofedsyn.site.settings import SiteSettings, propose
from heterofedsyn.site.signing import make_key
from heterofedsyn.sources import Dialect, Spelling, csv_file, read
from heterofedsyn.sources._csv_lines import Lines
from heterofedsyn.sources.csv_file import CsvSource
from site_support import NOW
from support import as_schema, dependent_table, make_plan

pytestmark = pytest.mark.sweep

OURS = str(Path(heterofedsyn.__file__).parent)
DOMAIN = Domain(("a", "b", "c", "d"), (20, 30, 16, 25))
PLAN = make_plan(as_schema(DOMAIN))
DECLARED = 200_000

THRESHOLDS = (
    *(0, 1, 320, 600, 750, 1_023, 1_024, 8 * 320, 8 * 600, 2**14, 2**15),
    *(2 * 20 * 30 * 16, 20 * 30 * 25, 2 * 2**14, 2**17 - 1, 2**17),
    *(10**6 // 6, 10**6 // 7, 10**6 // 8, 10**6 // 9, 10**6 // 10, 10**6 // 11),
)
"""Numbers of rows at which work used to change: cells of a pair, powers of two, eight rows for each
cell of a pair or two for each of three attributes, a million rows times groups."""


def every_statistic() -> list[Statistic]:
    """All kinds, and so many maps of two pairs that they are added up from their tables."""
    rng = np.random.default_rng(0)

    def groups(name: str) -> tuple[int, ...]:
        return (0, 1, *map(int, rng.integers(0, 4, DOMAIN.size(name) - 2)))

    maps = [
        Grouped((one, other), (groups(one), groups(other)))
        for one, other in 6 * [("a", "b")] + 6 * [("c", "d")] + [("a", "c"), ("b", "d")]
    ]
    sketches = [
        Sketched(("a", "b"), 8, 1, SketchKind.SIGNS),
        Sketched(("c", "d"), 8, 1, SketchKind.GAUSSIAN),
    ]
    few: list[Statistic] = [Total(), Flat(("a",)), Haar(("b",), 2), Dependence(("a", "c"))]
    return [*few, *map(Flat, DOMAIN.pairs()), *maps, *sketches]


def triples() -> list[Statistic]:
    """Three columns, with one map and with so many that they are added up from their table."""
    rng = np.random.default_rng(1)
    return [
        Grouped(
            names,
            tuple((0, 1, *map(int, rng.integers(0, 4, n - 2))) for n in DOMAIN.shape(names)),
        )
        for names in [("a", "b", "c"), ("b", "c", "d"), *5 * [("a", "c", "d")]]
    ]


QUERY = Query(
    study=PLAN.fingerprint,
    number=0,
    label="all",
    parts=tuple(Part(statistic, 1e-3) for statistic in every_statistic()),
)


class Free:
    """A store that affords everything and keeps nothing."""

    def kept(self, query: str) -> bytes | None:
        return None

    def afford(self, price: Price) -> None:
        """Always."""

    def charge(self, price: Price) -> None:
        """Nothing."""

    def keep(self, query: str, answer: bytes, asked: bytes) -> None:
        """Nothing."""


def answer(held: Counts, query: Query = QUERY, plan: Plan = PLAN) -> None:
    """All that a site does for a query, of every kind unless given."""
    desk = Desk("one", plan, DOMAIN, lambda: held, FreshNoise(), plan.trust_model)
    desk.answer(query, Free())


class Arrays:
    """numpy, and a note of every array that a function of it makes."""

    LINEAR = ("take",)
    """Their results are as long as there are rows: one row more, one step more."""

    def __init__(self, notes: list[Any]) -> None:
        self._notes = notes

    def __getattr__(self, name: str) -> Any:
        inner = getattr(np, name)
        plain = isinstance(inner, type | np.ufunc) or not callable(inner)
        if plain or name in self.LINEAR:
            return inner

        def call(*args: Any, **terms: Any) -> Any:
            made = inner(*args, **terms)
            if isinstance(made, np.ndarray):
                self._notes.append((name, made.shape, made.dtype.str))
            return made

        return call


def seen(value: object) -> object:
    """What an argument of a compiled loop is, without what codes and counts say."""
    if isinstance(value, np.ndarray):
        kind = value.dtype.str, value.shape, value.flags.c_contiguous
        return (*kind, value.tolist()) if value.dtype == np.int64 else kind
    return value


@contextmanager
def watched(patch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """A note of all that is done: lines of ours, compiled loops, arrays."""
    notes: list[Any] = []
    loops: list[Any] = []

    def look(frame: FrameType, event: str, _: object) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(OURS):
            return None
        if event == "line":
            notes.append((name.removeprefix(OURS), frame.f_lineno))
        return look

    def watch(name: str, exact: int) -> None:
        inner = getattr(_count_kernel, name)

        def call(*args: Any) -> None:
            # The last one is what is counted into.
            told = [seen(arg) for place, arg in enumerate(args[:-1]) if place != exact]
            loops.append((name, *told, args[-1].shape))
            inner(*args)

        patch.setattr(_count_kernel, name, call)

    watch("count_groups", exact=2)
    watch("count_single", exact=1)
    for module in (counts, counting, sketch, statistics):
        patch.setattr(module, "np", Arrays(notes))
    before = sys.gettrace()
    sys.settrace(look)
    try:
        yield notes
    finally:
        sys.settrace(before)
        patch.undo()
    notes.extend(sorted(loops, key=repr))  # threads take turns as they like


def done_for(held: Counts, patch: pytest.MonkeyPatch, *of: Any) -> list[Any]:
    """A note of all that is done for a query, once what is drawn and planned for it is kept.

    Args:
        of: the query and its plan, if not that of every kind.
    """
    answer(held, *of)
    held._kept.clear()
    patch.setattr(counting, "cores", lambda: 2)
    with watched(patch) as notes:
        answer(held, *of)
    return notes


def tallied(table: EncodedTable, rows: int | None = DECLARED) -> Counts:
    """A table as an agent holds it."""
    with Tally(table.domain, rows=rows) as held:
        held.add(table.codes)
        return held.counts()


@pytest.mark.parametrize("rows", sorted({*THRESHOLDS}))
def test_one_row_more_changes_no_step_of_an_answer(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = dependent_table(DOMAIN, rows + 1)
    one, other = (
        done_for(tallied(table.take(np.arange(n))), monkeypatch) for n in (rows, rows + 1)
    )
    assert one == other
    assert len(one) > 1_000


def test_other_counts_change_no_step_of_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = 5_000
    spread = np.stack([np.arange(rows) % size for size in DOMAIN.sizes])
    found = [
        done_for(tallied(EncodedTable.from_codes(DOMAIN, codes)), monkeypatch)
        for codes in (spread, np.zeros_like(spread), spread // 2)
    ]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("rows", [1, 1_023, 8 * 600, 2**14, 2**17 - 1])
def test_one_row_more_or_other_counts_change_no_step_of_three_columns(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan(as_schema(DOMAIN), columns=3)
    query = query_of(plan, *triples(), share=1e-3)
    table = dependent_table(DOMAIN, rows + 1)
    done = []
    for codes in (table.codes, table.codes[:, :rows], np.zeros_like(table.codes)):
        with Tally(DOMAIN, rows=DECLARED, together=3) as held:
            held.add(codes)
            done.append(done_for(held.counts(), monkeypatch, query, plan))
    assert done[0] == done[1] == done[2]
    assert len(done[0]) > 300


@pytest.mark.parametrize("largest", [2**31 - 1, 2**31, 2**40])
def test_large_counts_change_no_step_of_an_answer(
    largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held(first: int) -> Counts:
        tables = []
        for pair in DOMAIN.pairs():
            joint = np.zeros(DOMAIN.cells(pair), np.int64)
            joint[0] = first
            tables.append(Marginal(pair, joint))
        return PairCounts(DOMAIN, first, tables, 2**50)

    few, many = (done_for(held(first), monkeypatch) for first in (5, largest))
    assert few == many


@pytest.mark.parametrize("block", [40_000, 4_000])
@pytest.mark.parametrize("most_cells", [0, tally.MOST_CELLS])
def test_what_is_kept_of_rows_follows_what_is_declared_alone(
    block: int, most_cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tally, "BLOCK_BYTES", block)
    monkeypatch.setattr(tally, "MOST_CELLS", most_cells)
    table = dependent_table(DOMAIN, 12_001)
    plain = TableCounts(table)

    def passes(rows: int) -> tuple[Any, ...]:
        with monkeypatch.context() as patch, watched(patch) as notes:
            held = tallied(table.take(np.arange(rows)), 12_500)
        loops = [note for note in notes if note[0] == "count_groups"]
        assert held.rows == rows
        sizes = [(b.size, b.codes.shape) for b in getattr(held, "_tables", ()) if most_cells == 0]
        return type(held), held.size, sizes, loops

    usual = passes(12_000)
    assert usual[0] is (TableCounts if most_cells == 0 else PairCounts)
    for rows in (1, 999, 1_000, 1_001, 9_999, 10_000, 10_001, 12_001):
        assert passes(rows) == usual
    held = tallied(table, 1_000)
    assert held.size == 16_000
    for pair in DOMAIN.pairs():
        assert np.array_equal(held.of(counts.whole(pair)), plain.of(counts.whole(pair)))


@given(st.lists(st.integers(0, 2**45), min_size=6, max_size=6))
def test_a_dependence_score_is_exact_however_large_the_counts_are(cells: list[int]) -> None:
    domain = Domain(("a", "b"), (2, 3))
    joint = np.array(cells, np.int64)
    held = PairCounts(domain, int(joint.sum()), [Marginal(("a", "b"), joint)])
    exact = joint.reshape(2, 3).astype(object)
    total = int(exact.sum())
    apart = abs(total * exact - np.outer(exact.sum(axis=1), exact.sum(axis=0))).sum()
    units = statistics.UNITS_PER_COUNT
    expected = (2 * units * apart + total) // max(1, 2 * total)
    assert Dependence(("a", "b")).exact(held).values[0] == expected


# READING

ROWS = 900
COLUMNS = Schema(
    (
        CategoricalColumn("ward", ("a", "b", "2")),
        IntegerColumn("age", 0, 99),
        NumberColumn("weight", 0, 200, bins=20),
    )
)


@contextmanager
def lines_of_ours() -> Iterator[list[Any]]:
    """A note of every line of ours that runs in this thread.

    Not of what takes the place of a bad byte, nor of what the steward is told at the end.
    """
    notes: list[Any] = []

    def look(frame: FrameType, event: str, _: object) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(OURS) or frame.f_code.co_name in ("<lambda>", "_tell"):
            return None
        if event == "line":
            notes.append((name.removeprefix(OURS), frame.f_lineno))
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        yield notes
    finally:
        sys.settrace(before)


def done_to_read(path: Path, row: bytes, unit: str | None) -> list[Any]:
    """All that is done to read a file with this row before others."""
    rng = np.random.default_rng(0)
    others = [
        b"%s,%d,%.1f,p%d" % ((b"a", b"b", b"2")[place % 3], age, age * 1.5, place // 3)
        for place, age in enumerate(rng.integers(0, 100, ROWS).tolist())
    ]
    data = b"\n".join([b"ward,age,weight,person", row, *others, b""])
    path.write_bytes(data)
    source = CsvSource.open(path).forgiving(lambda said: None)
    blocks = [data[start : start + 1_000] for start in range(0, len(data), 1_000)]
    encoder = Encoder(COLUMNS, unit, 2, 4 * ROWS)
    with lines_of_ours() as notes:
        # pyarrow calls these two in a thread of its own, where nobody can look.
        lines, skipping = Lines(), csv_file._Skipping()
        for block in (*blocks, b""):
            lines(skipping.mark(block))
        with Tally(COLUMNS.domain, rows=4 * ROWS) as held:
            for part in encoder.encode(read([source], encoder.columns)):
                held.add(part.codes)
    assert len(notes) > 1_000
    return notes


@pytest.mark.parametrize("unit", ["person", None])
@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(b"a,85,127.5,p0", id="a row that this person has twice"),
        pytest.param(b"a\xff,7,70.5,p0", id="a byte that is no text"),
        pytest.param(b"zz,7,70.5,p0", id="no value of the column"),
        pytest.param(b"2.0,7,70.5,p0", id="another form of a value"),
        pytest.param(b"a,+7,70.5,p0", id="another form of a number"),
        pytest.param(b"a,x,70.5,p0", id="text for a number"),
        pytest.param(b'"a",7,70.5,p0', id="quotes"),
        pytest.param(b",,       ,p0", id="empty cells"),
    ],
)
def test_an_odd_row_changes_no_step_of_reading_the_others(
    odd: bytes, unit: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_file, "_BLOCK_BYTES", 2_000)
    rows = tmp_path / "rows.csv"
    # As long as the odd one when its bytes are marked, so that batches end where they did.
    length = len(odd) + 2 * odd.count(b"\xff")
    usual = b"a,7," + b"1.5".ljust(length - len(b"a,7,,p0"), b"0") + b",p0"
    # The first is not looked at: some things are made once.
    _, one, other = (Counter(done_to_read(rows, row, unit)) for row in (usual, odd, usual))
    assert one - other == other - one == Counter()


@pytest.mark.parametrize("odd", ["", "k.A.", "1.5", "1,5", "x", "31.12.2025", "2025-12-31", None])
def test_an_odd_cell_changes_no_step_of_rewriting_the_others(odd: str | None) -> None:
    spelling = Spelling(",", ".", "%d.%m.%Y", ("k.A.",))

    def steps(kind: str, first: str | None) -> list[Any]:
        cells = pa.array([first, *["1.234,5", "1.2.2003"] * ROWS], pa.string())
        with lines_of_ours() as notes:
            Dialect(cells=spelling).rewritten(cells, kind, "x")
        assert notes
        return notes

    for kind in ("integer", "number", "date", "datetime", "boolean", "categorical", "unit"):
        steps(kind, "7")  # some things are made once
        assert steps(kind, odd) == steps(kind, "7")


def test_a_person_whose_bytes_are_no_text_changes_no_step_of_telling_others_apart() -> None:
    def steps(first: bytes) -> list[Any]:
        cells = [first, *(b"p%d" % number for number in range(ROWS))]
        people = pa.array(cells, pa.binary()).view(pa.string())
        with lines_of_ours() as notes:
            known = _units.identify(people, "person")[1]
        assert known.tolist() == [first != b"p\xff", *[True] * ROWS]
        return notes

    assert steps(b"p\xff") == steps(b"p00")


@given(st.binary(max_size=6))
@example(b"\xed\xa0\x80")
@example(b"\xf4\x90\x80\x80")
@example(b"\xc3\xa9\n")
def test_bytes_are_text_if_python_reads_them(cell: bytes) -> None:
    cells = pa.array([cell, None, b"a"], pa.large_binary())
    try:
        expected = cell.decode()
    except UnicodeDecodeError:
        expected = None
    found = _parsing.only_text(cells.view(pa.large_string()))
    assert found.to_pylist() == [expected, None, "a"]


@pytest.mark.parametrize("rows", [99, 100, 199, 200, 399, 400, 1_000])
def test_how_often_rows_are_sorted_follows_what_is_declared(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_units, "_WORTH_SORTING", 100)
    sortings = []
    settle = _units.People._settle

    def noted(people: _units.People) -> None:
        sortings.append(1)
        settle(people)

    monkeypatch.setattr(_units.People, "_settle", noted)
    for many in (rows, rows + 1):
        people = _units.People(1, np.empty((1, 0), np.uint8), 1_001)
        whose = pa.array([f"p{number // 2}" for number in range(many)]).dictionary_encode()
        for start in range(0, many, 30):
            part = whose[start : start + 30]
            people.admit(np.zeros((1, len(part)), np.uint8), part)
        assert len(people.kept()[0]) == -(-many // 2)
    assert len(sortings) == 2 * 5


# TICKS


class Clock:
    """Time that passes when it is told to."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self.slept: list[float] = []
        self.before_sleep: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.before_sleep()
        self.slept.append(seconds)
        self.now += seconds


@given(st.floats(0.001, 60), st.floats(0, 1_000), st.floats(0, 1e6), st.booleans())
def test_a_reply_leaves_after_the_first_power_of_two_of_ticks_up_to_the_coarsest(
    tick: float, work: float, begun: float, fails: bool
) -> None:
    clock = Clock(begun)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedule, "time", clock)
        try:
            with on_tick(tick):
                clock.now += work
                if fails:
                    raise UsageError("refused")
        except UsageError:
            assert fails
    ticks = (clock.now - begun) / tick
    assert ticks == pytest.approx(round(ticks), abs=1e-6 * max(1, begun / tick))
    assert round(ticks) >= 1
    assert round(ticks) % COARSEST == 0 or round(ticks).bit_count() == 1
    assert work - 1e-6 <= clock.now - begun <= max(tick, 2 * work) + 1e-6


def test_an_agent_holds_its_turn_until_a_reply_leaves_also_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = make_site(tmp_path, tick=3.0)
    study = approved_study(settings)
    clock = Clock()
    monkeypatch.setattr(schedule, "time", clock)
    with books_of(settings) as books:
        agent = Agent(settings, books, noise=FreshNoise(), log=lambda _: None)
        held: list[bool] = []
        clock.before_sleep = lambda: held.append(agent._turns._busy)
        agent.answer(ask(study, Total()))
        for reason, wrong in (
            (Reason.OVER_THE_CAP, ask(study, Total(), share=1.0, label="all")),
            (Reason.MALFORMED, ask(study, Total(), share=2.0)),
        ):
            with pytest.raises(Refused) as refused:
                agent.answer(wrong)
            assert refused.value.reason is reason
    assert clock.slept == [3.0] * 3
    assert held == [True] * 3


def test_a_study_that_asked_too_much_in_vain_takes_no_tick_and_hears_so_on_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = make_site(tmp_path, tick=3.0, refused_queries=1)
    study = approved_study(settings)
    clock = Clock()
    monkeypatch.setattr(schedule, "time", clock)
    counted: list[int] = []
    with books_of(settings) as books:
        agent = Agent(settings, books, noise=FreshNoise(), log=lambda _: None)
        refusals = agent._refused
        # A second query must not tell when the work for the first ended.
        clock.before_sleep = lambda: counted.append(refusals[study.fingerprint].queries)
        for reason in [Reason.MALFORMED] + [Reason.UNAVAILABLE] * 5:
            with pytest.raises(Refused) as refused:
                agent.answer(ask(study, Total(), share=2.0))
            assert refused.value.reason is reason
    assert clock.slept == [3.0]
    assert counted == [0]


def test_a_site_without_ticks_or_a_declared_size_is_remarked_on(tmp_path: Path) -> None:
    settings = make_site(tmp_path)
    usual = len(settings.remarks())
    for terms in ({"tick": 0.0}, {"rows": None}):
        changed = SiteSettings(**{**_terms(settings), **terms})
        assert len(changed.remarks()) == usual + 1
    for wrong in ({"tick": -1.0}, {"tick": float("nan")}, {"tick": 61.0}, {"rows": 0}):
        with pytest.raises(UsageError, match=f"{next(iter(wrong))} .* must be in"):
            SiteSettings(**{**_terms(settings), **wrong})


def test_rows_and_tick_of_a_site_are_read_back(tmp_path: Path) -> None:
    settings = make_site(tmp_path, rows=20_000, tick=2.5)
    assert SiteSettings.load(settings.folder) == settings


@given(st.integers(0, 10**12))
def test_what_is_proposed_is_generous_and_has_one_digit(rows: int) -> None:
    found = propose(rows)
    assert 2 * rows < found <= max(1_000, 5 * rows)
    assert re.fullmatch("[125]0*", str(found))


def _terms(settings: SiteSettings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in SiteSettings.__dataclass_fields__}


# WHAT IS PUBLISHED OF TIME


def test_a_receipt_names_days_and_nothing_finer(tmp_path: Path) -> None:
    settings = make_site(tmp_path)
    make_key(settings.key)
    study = approved_study(settings)
    with books_of(settings) as books:
        Agent(settings, books, noise=FreshNoise(), log=lambda _: None).answer(ask(study, Total()))
        account = books.account
    _, consent = recorded(settings, study.fingerprint)
    receipt = issue(settings, study, consent, account, now=NOW).receipt
    days = (receipt.issued, receipt.consent_when, *(one.when for one in receipt.releases))
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", day) for day in days)
    assert not re.search(rb"\d:\d\d", msgspec.json.encode(receipt))


def test_a_release_does_not_tell_a_late_site_from_one_that_failed() -> None:
    assert {_published(reason) for reason in (NO_ANSWER, UNAVAILABLE)} == {NO_ANSWER}
    assert Absence.refused("north", Reason.UNAVAILABLE) == Absence("north", UNAVAILABLE)
    assert "time" not in NO_ANSWER
    assert _published("refused (over the cap)") == "refused (over the cap)"


@given(st.floats(0, 1e5))
def test_progress_tells_tens_of_seconds(seconds: float) -> None:
    found = rough(seconds)
    assert found % 10 == 0
    assert seconds <= found <= max(10, seconds + 10)


# THE BENCHMARK


@pytest.mark.thorough
@pytest.mark.parametrize("how", [{}, {"socket": True}, {"odd": "twice"}, {"odd": "bytes"}])
def test_the_benchmark_plays_with_real_agents(how: dict[str, Any]) -> None:
    game = timing.Game("two tables", (40, 40 if "odd" in how else 39), **how)
    told = timing.play(game, 0.001, 3, timing.QUICK_FRESH, 0)
    assert 0 <= told.low <= told.auc <= told.high <= 1


def test_an_area_is_how_often_the_first_takes_longer() -> None:
    one, other = np.array([2.0, 3.0]), np.array([1.0, 2.0])
    assert timing._auc(one, other) == 0.875
    assert timing._auc(one, one) == 0.5
    always = timing.Told("", *timing._interval([1.0, 1.0], 100))
    assert not always.nothing
    assert timing.Told("", *timing._interval([0.4, 0.6], 100)).nothing


def test_the_benchmark_reads_anew_for_every_query_of_a_game_about_reading(tmp_path: Path) -> None:
    game = timing.Game("read", (40, 40), odd="bytes")
    reads: list[Any] = []
    with pytest.MonkeyPatch.context() as patch, timing._agent(tmp_path / "a", game, 0, 0.0) as asks:

        def noted(*args: Any, **terms: Any) -> Counted:
            reads.append(1)
            return count(*args, **terms)

        patch.setattr(agent, "count", noted)
        for number in range(6):
            asks(timing._query(number, game, np.random.default_rng(0)))
    assert len(reads) == 6


def test_the_benchmark_crosses_every_size_at_which_work_changed() -> None:
    played = {game.rows for game in timing.games()}
    assert {(n, n - 1) for n in timing.SIZES} <= played
    assert len(timing.SIZES) == 10
