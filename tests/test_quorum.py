"""A study goes on without a site that misses a round, and says so; nothing else changes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn.hub import (
    METHODS,
    Absence,
    QuorumLost,
    Release,
    Request,
    drive,
    load,
    of_study,
)
from heterofedsyn.hub.journal import Journal
from heterofedsyn.hub.quorum import MOST_FACTOR, Roll
from heterofedsyn.hub.replies import (
    NO_ANSWER,
    NOT_ASKED,
    TOO_FEW,
    TOO_MANY,
    Reply,
    Round,
    receive,
)
from heterofedsyn.marginals.statistics import Flat, Total
from heterofedsyn.protocol import Answer, Part, Query, Released, Study
from heterofedsyn.simulate.run import summed
from quorum_support import SITES, TABLE, Sites, asked, study_of
from release_changes import packed, write
from support import deal, released

pytestmark = pytest.mark.thorough

FEDERATED = sorted(name for name, kind in METHODS.items() if not kind.pools)
Change = Callable[[Answer], Reply | list[Reply] | None]


def changed(study: Study, sites: Sites, change: Change, *, first: int = 0) -> Release:
    """Run a study in which the answers of the last site are changed from some round on."""

    def carry(request: Request) -> list[Reply]:
        replies: list[Reply] = []
        for reply in sites.carry(request):
            late = request.query.number >= first and reply.site == SITES[2]
            if late and isinstance(reply, Answer):
                other = change(reply)
                replies += other if isinstance(other, list) else [other] if other else []
            else:
                replies.append(reply)
        return replies

    return drive(of_study(study), carry)


def part(answer: Answer, **fields: object) -> Answer:
    first = msgspec.structs.replace(answer.parts[0], **fields)
    return msgspec.structs.replace(answer, parts=(first, *answer.parts[1:]))


def filled(answer: Answer, value: int) -> Answer:
    many = len(answer.parts[0].data) // 8
    return part(answer, data=np.full(many, value).astype("<i8").tobytes())


FAULTS: dict[str, Change] = {
    NO_ANSWER: lambda answer: None,
    "refused (over the cap)": lambda answer: Absence(answer.site, "refused (over the cap)"),
    "answered another query": lambda a: msgspec.structs.replace(a, query="0" * 64),
    "answered another number of parts": lambda a: msgspec.structs.replace(a, parts=a.parts[1:]),
    "sent a release of the wrong length": lambda a: part(a, data=a.parts[0].data + bytes(8)),
    "used other noise than agreed": lambda a: part(a, sigma=a.parts[0].sigma * 0.999),
    "sent a number beyond 2^53": lambda a: filled(a, 2**53),
    TOO_MANY: lambda a: filled(a, 2**52),
    TOO_FEW: lambda a: filled(a, -(2**40)),
    "answered more than once": lambda a: [a, a],
}


@pytest.mark.quick
@pytest.mark.parametrize("reason", FAULTS)
@pytest.mark.parametrize("first", [0, 1])
def test_a_site_without_a_good_answer_is_left_out_and_named(reason: str, first: int) -> None:
    study, sites = study_of("allmarg", quorum=2)
    run = changed(study, sites, FAULTS[reason], first=first).run
    assert run.missed is not msgspec.UNSET
    found = [(missed.site, missed.round, missed.reason) for missed in run.missed]
    assert found == [
        (SITES[2], first + 1, reason),
        *((SITES[2], later + 1, NOT_ASKED) for later in range(first + 1, 2)),
    ]
    assert f"three {reason} in round {first + 1}" in run.remarks[-1 if first == 0 else -2]


@pytest.mark.parametrize("reason", FAULTS)
def test_all_faults_leave_the_same_table(reason: str) -> None:
    """What is wrong with an answer changes what is said about it, and nothing else."""
    study, sites = study_of("allmarg", quorum=2)
    other = changed(study, sites, FAULTS[reason], first=1)
    study, sites = study_of("allmarg", quorum=2)
    usual = changed(study, sites, FAULTS[NO_ANSWER], first=1)
    assert other.privacy == usual.privacy
    assert other.sample(100, seed=1).equals(usual.sample(100, seed=1))


@pytest.mark.parametrize("name", FEDERATED)
def test_every_method_ends_without_a_site_that_dies_after_the_first_round(
    name: str, tmp_path: Path
) -> None:
    study, sites = study_of(name, quorum=2)
    release = changed(study, sites, FAULTS[NO_ANSWER], first=1)
    write(msgspec.msgpack.decode(packed(release)), tmp_path / "r")
    assert load(tmp_path / "r").run == release.run
    if name == "independent":
        assert release.run.missed is msgspec.UNSET  # it has one round only
        return
    assert release.run.missed is not msgspec.UNSET
    assert {missed.site for missed in release.run.missed} == {SITES[2]}
    assert release.sample(50, seed=0).num_rows == 50
    whole = changed(*study_of(name, quorum=2), lambda answer: answer)
    assert whole.run.missed is msgspec.UNSET
    if name != "local-merge":  # there the rows of the missing site are missing
        assert release.run.noisy_total == pytest.approx(whole.run.noisy_total, rel=0.1)


@pytest.mark.quick
def test_local_merge_leaves_out_the_rows_of_a_missing_site_and_asks_it_no_more() -> None:
    study, sites = study_of("local-merge", quorum=2)
    release = changed(study, sites, FAULTS[NO_ANSWER])
    assert len(release.model.targets) == 2
    assert [query.to for query, _ in sites.asked].count(SITES[2]) == 1
    assert release.run.missed is not msgspec.UNSET
    assert [missed.site for missed in release.run.missed] == [SITES[2]]


@pytest.mark.quick
def test_what_a_missing_site_may_have_been_charged_is_booked_and_no_more() -> None:
    study, sites = study_of("wavetree", quorum=2)
    release = changed(study, sites, FAULTS[NO_ANSWER], first=1)
    booked = {account.site: account for account in release.privacy.sites}
    assert [charge.label for charge in booked[SITES[2]].charges] == ["total", "one-way"]
    assert booked[SITES[2]].rho == pytest.approx(sites.spent()[SITES[2]], rel=1e-12)
    assert booked[SITES[0]].rho == pytest.approx(sites.spent()[SITES[0]], rel=1e-12)
    assert booked[SITES[2]].rho < booked[SITES[0]].rho <= release.privacy.rho


@pytest.mark.parametrize("quorum", [1, 2, 3])
def test_the_study_stops_when_fewer_than_the_quorum_are_left(quorum: int) -> None:
    study, sites = study_of("allmarg", quorum=quorum)
    hub = of_study(study)
    request = next(hub)
    enough = request.check(sites.carry(request, SITES[:quorum]))
    assert hub.send(enough).query.number == 1
    hub = of_study(study)
    request = next(hub)
    with pytest.raises(QuorumLost, match=f"at least {quorum} of 3 sites.*'three' gave no answer"):
        request.check(sites.carry(request, SITES[: quorum - 1]))


class Outage:
    """Carries nothing from some round on, and remembers how many rounds there were."""

    def __init__(self, sites: Sites, first: float) -> None:
        self.sites, self.first = sites, first
        self.rounds = 0

    def carry(self, request: Request) -> list[Reply]:
        """The answers of all sites, later of nobody."""
        number = request.query.number
        self.rounds = number + 1
        return self.sites.carry(request, request.asked if number < self.first else ())


@pytest.mark.parametrize("quorum", [1, 2, 3])
@pytest.mark.parametrize("name", FEDERATED)
def test_sites_that_all_fall_silent_in_any_round_stop_the_study_until_they_are_back(
    name: str, quorum: int, tmp_path: Path
) -> None:
    study, sites = study_of(name, quorum=quorum)
    whole = Outage(sites, math.inf)
    release = drive(of_study(study), whole.carry, Journal.create(tmp_path / "whole", study))
    for first in range(whole.rounds):
        folder = tmp_path / str(first)
        outage = Outage(study_of(name, quorum)[1], first)
        silent = {site for query, to in sites.asked if query.number >= first for site in to}
        if len(SITES) - len(silent) >= quorum:  # local-merge has heard enough of them to the end
            drive(of_study(study), outage.carry, Journal.create(folder, study))
            continue
        with pytest.raises(QuorumLost, match=NO_ANSWER):
            drive(of_study(study), outage.carry, Journal.create(folder, study))
        if outage.rounds > first + 1:  # local-merge goes on without the first that are silent
            continue
        journal = Journal.open(folder, study)
        assert journal.finished == first
        resumed = drive(of_study(study), Outage(study_of(name, quorum)[1], math.inf).carry, journal)
        assert resumed.privacy == release.privacy
        assert resumed.sample(50, seed=1).equals(release.sample(50, seed=1))


@pytest.mark.quick
def test_a_sum_that_never_comes_stops_the_study() -> None:
    study, sites = study_of("allmarg", quorum=3, trust="secure-aggregation", epsilon=0.1)
    for first in (0, 1):
        hub = of_study(study)
        request = next(hub)
        for _ in range(first):
            answers = [reply for reply in sites.carry(request, SITES) if isinstance(reply, Answer)]
            request = hub.send(request.check([summed(answers)]))
        with pytest.raises(QuorumLost, match=NO_ANSWER):
            request.check([])


def test_answers_of_strangers_and_of_sites_left_out_are_not_looked_at() -> None:
    study, sites = study_of("allmarg", quorum=2)
    hub = of_study(study)
    request = next(hub)
    request = hub.send(request.check(sites.carry(request, SITES[:2])))
    answers = sites.carry(request, SITES)
    stranger = msgspec.structs.replace(answers[0], site="four")
    with pytest.raises(StopIteration) as done:
        hub.send(request.check([*answers, stranger]))
    release: Release = done.value.value
    assert release.run.missed is not msgspec.UNSET
    assert [(m.site, m.reason) for m in release.run.missed] == [
        (SITES[2], NO_ANSWER),
        (SITES[2], NOT_ASKED),
    ]


@pytest.mark.quick
def test_a_release_with_missing_sites_is_written_and_read_back(tmp_path: Path) -> None:
    study, sites = study_of("wavetree", quorum=2)
    release = changed(study, sites, FAULTS[NO_ANSWER], first=1)
    release.save(tmp_path / "release")
    assert load(tmp_path / "release").run == release.run
    run = json.loads((tmp_path / "release" / "run.json").read_text())
    assert run["missed"][0] == {
        "site": "three",
        "round": 2,
        "label": "one-way",
        "reason": NO_ANSWER,
    }
    assert [scaled["round"] for scaled in run["scaled"]] == [2, 3, 4][: len(run["scaled"])]
    assert all(1.2 < scaled["factor"] < 1.9 for scaled in run["scaled"])  # a third is missing
    assert [summary["site"] for summary in run["differences"]] == ["one", "two"]


# WHAT A HOSTILE SITE CAN SAY


@pytest.mark.parametrize("name", ["wavetree", "local-merge", "fedprivsyn"])
def test_a_site_that_tells_of_too_many_rows_in_the_first_round_is_left_out(name: str) -> None:
    study, sites = study_of(name, quorum=2)
    release = changed(study, sites, lambda answer: filled(answer, 2**52))
    assert release.run.missed is not msgspec.UNSET
    assert (release.run.missed[0].site, release.run.missed[0].reason) == (SITES[2], TOO_MANY)
    assert 3_000 < release.run.noisy_total < 7_000


def test_cells_that_cancel_each_other_are_no_counts_of_rows() -> None:
    def cancelling(answer: Answer) -> Answer:
        values = answer.parts[0].values
        values[0] += 2**45
        values[-1] -= 2**45
        return part(answer, data=values.astype("<i8").tobytes())

    study, sites = study_of("allmarg", quorum=2)
    run = changed(study, sites, cancelling).run
    assert run.missed is not msgspec.UNSET
    assert run.missed[0].reason == TOO_MANY


@given(st.integers(1, 10**9), st.floats(-1, 2), st.sampled_from([0.01, 0.7, 4.0]))
def test_totals_count_exactly_within_what_a_site_may_have_and_its_noise(
    most: int, place: float, epsilon: float
) -> None:
    study, sites = study_of("wavetree", quorum=3, epsilon=epsilon)
    request = asked(study)
    (answer, *_) = sites.carry(request, SITES)
    assert isinstance(answer, Answer)
    total = round(place * most)
    reply = filled(answer, total)
    query, terms = request.query, request.terms
    found = receive(query, terms, [reply], SITES[:1], study.plan, most)
    slack = 8 * answer.parts[0].sigma
    assert bool(found.answers) == (-slack <= total <= most + slack)


def test_honest_sites_are_never_beyond_what_they_may_have() -> None:
    for name in FEDERATED:
        study, sites = study_of(name, quorum=3, epsilon=0.1)
        tight = msgspec.structs.replace(study, most_rows=max(s.rows for s in deal(TABLE, 3)))
        assert changed(tight, sites, lambda answer: answer).run.missed is msgspec.UNSET


def test_who_told_of_most_rows_and_leaves_stops_the_study_until_it_is_back(
    tmp_path: Path,
) -> None:
    study, sites = study_of("wavetree", quorum=2)

    def swollen(request: Request) -> list[Reply]:
        found: list[Reply] = []
        for reply in sites.carry(request):
            if reply.site == SITES[2] and isinstance(reply, Answer):
                large = filled(reply, 9_000_000)
                gone = Absence(SITES[2], "refused (unavailable)")
                found.append(gone if request.query.number else large)
            else:
                found.append(reply)
        return found

    journal = Journal.create(tmp_path / "rounds", study)
    with pytest.raises(QuorumLost, match=r"beyond 10 times as many; resume when 'three'"):
        drive(of_study(study), swollen, journal)
    assert journal.finished == 1


# SCALING


def answered(totals: Mapping[str, float], sigma: float = 2.0) -> Round:
    """A round in which sites tell their totals."""
    query = Query(study="s", number=0, label="total", parts=())
    parts = {site: released([round(total)], sigma) for site, total in totals.items()}
    query = msgspec.structs.replace(query, parts=(_asked(Total()),))
    return Round(query, tuple(_answer(query, site, found) for site, found in parts.items()))


def after(roll: Roll, round_: Round) -> Roll:
    """Who takes part after a round."""
    later = roll.take(round_).roll
    assert later is not None
    return later


def _asked(statistic: Total | Flat) -> Part:
    return Part(statistic, 0.5)


def _answer(query: Query, site: str, part: Released) -> Answer:
    return Answer(study="s", query=query.fingerprint, site=site, simulated=True, parts=(part,))


@given(
    st.lists(st.integers(-50, 100_000), min_size=2, max_size=6),
    st.integers(0, 5),
)
def test_sums_over_fewer_sites_are_multiplied_by_the_ratio_of_totals(
    totals: list[int], gone: int
) -> None:
    names = [f"s{i}" for i in range(len(totals))]
    roll = after(Roll(tuple(names), 1), answered(dict(zip(names, totals, strict=True))))
    left = [name for name in names if name != f"s{gone}"]
    later = answered(dict.fromkeys(left, 10.0))
    part = sum(totals[names.index(name)] for name in left)
    expected = max(1.0, sum(totals) / max(part, 2.0 * math.sqrt(len(left))))
    if expected > MOST_FACTOR and len(left) < len(names):
        with pytest.raises(QuorumLost, match=rf"resume when 's{gone}' can answer"):
            roll.take(later)
        return
    found = roll.take(later)
    assert found.factor == pytest.approx(expected if len(left) < len(names) else 1.0)
    (plain,), (scaled,) = later.totals(), found.totals()
    assert scaled.values == pytest.approx(plain.values * found.factor)
    assert scaled.variance == pytest.approx(plain.variance * found.factor**2)


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(-1_000, 1_000), max_size=6),
    st.sets(st.sampled_from("abcdef")),
    st.integers(1, 6),
)
def test_whoever_is_left_sums_are_scaled_or_the_quorum_is_lost(
    told: dict[str, int], present: set[str], quorum: int
) -> None:
    """Also where totals are nothing, or below nothing by their noise, and where nobody is left."""
    roll = replace(Roll(tuple("abcdef"), quorum), totals=after(Roll((), 0), answered(told)).totals)
    later = answered(dict.fromkeys(sorted(present), 10.0))
    absent = tuple(Absence(site, NO_ANSWER) for site in "abcdef" if site not in present)
    try:
        found = roll.take(replace(later, absent=absent))
    except QuorumLost:
        assert len(present) < quorum or present < {*told}
        return
    assert 1 <= found.factor <= MOST_FACTOR
    assert found.roll is not None
    assert len(found.roll.sites) - len(found.roll.missing) == len(present) >= quorum


def test_without_a_known_total_nothing_is_scaled() -> None:
    roll = Roll(("a", "b"), 1)
    assert roll.take(answered({"a": 5.0})).factor == 1.0


def test_totals_come_from_flat_one_ways_too_by_inverse_variance() -> None:
    roll = after(Roll(("a", "b"), 1), answered({"a": 100.0, "b": 300.0}, sigma=1.0))
    flat = Query(study="s", number=1, label="one-way", parts=(_asked(Flat(("x",))),))
    told = {site: released(counts) for site, counts in {"a": [60, 70], "b": [100, 230]}.items()}
    roll = after(roll, Round(flat, tuple(_answer(flat, s, r) for s, r in told.items())))
    a, b = (2 * 100 + 130) / 3, (2 * 300 + 330) / 3
    assert roll.take(answered({"a": 5.0})).factor == pytest.approx((a + b) / a)


@pytest.mark.quick
def test_nobody_missing_changes_no_byte(tmp_path: Path) -> None:
    study, sites = study_of("wavetree", quorum=1)
    lenient = changed(study, sites, lambda answer: answer).save(tmp_path / "a")
    study, sites = study_of("wavetree", quorum=3)
    strict = changed(study, sites, lambda answer: answer).save(tmp_path / "b")
    for path in lenient.iterdir():
        assert path.read_bytes() == (strict / path.name).read_bytes()
    run = json.loads((strict / "run.json").read_text())
    assert "missed" not in run
    assert "scaled" not in run


def test_receiving_again_what_was_received_changes_nothing() -> None:
    study, sites = study_of("wavetree", quorum=2)
    hub = of_study(study)
    request = next(hub)
    replies = [*sites.carry(request, SITES[:2]), Absence(SITES[2], "refused (malformed)")]
    once = request.check(replies)
    again = request.check(once.replies)
    assert (once.answers, once.absent) == (again.answers, again.absent)
