"""Finished rounds outlast the hub, and nobody else's rounds are taken for them."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from heterofedsyn.errors import JournalError, ProtocolError, UsageError
from heterofedsyn.hub import Absence, QuorumLost, Release, Request, conversation, drive, of_study
from heterofedsyn.hub.journal import Journal, alone
from heterofedsyn.hub.replies import Reply, Round
from heterofedsyn.protocol import Answer, encode
from heterofedsyn.protocol.refusal import Reason
from quorum_support import SITES, asked, study_of

pytestmark = pytest.mark.thorough


class Stop(Exception):
    """The hub is killed."""


def saved(release: Release, folder: Path) -> dict[str, bytes]:
    place = release.save(folder)
    return {path.name: path.read_bytes() for path in place.iterdir()}


@pytest.mark.parametrize("killed_in", [0, 1, 2, 3])
def test_a_hub_killed_in_any_round_ends_with_the_same_release(
    killed_in: int, tmp_path: Path
) -> None:
    study, sites = study_of("wavetree", quorum=3)
    whole = saved(
        drive(of_study(study), sites.carry, Journal.create(tmp_path / "one", study)), tmp_path / "a"
    )
    many = len(sites.asked)
    study, sites = study_of("wavetree", quorum=3)

    def killed(request: Request) -> list[Reply]:
        if request.query.number == killed_in:
            sites.carry(request)  # sites answered and charged, the hub never knew
            raise Stop
        return sites.carry(request)

    folder = tmp_path / "two"
    with pytest.raises(Stop):
        drive(of_study(study), killed, Journal.create(folder, study))
    assert Journal.open(folder, study).finished == killed_in
    before = sites.spent()
    release = drive(of_study(study), sites.carry, Journal.open(folder, study))
    assert saved(release, tmp_path / "b") == whole
    assert len(sites.asked) == many + 1  # the interrupted round, once more
    numbers = [query.number for query, _ in sites.asked]
    assert numbers == [*range(killed_in + 1), *range(killed_in, many)]
    assert before[SITES[0]] <= sites.spent()[SITES[0]] <= study.plan.budget.rho


def test_a_query_that_was_sent_is_asked_again_in_the_same_bytes_or_not_at_all(
    tmp_path: Path,
) -> None:
    study, sites = study_of("wavetree", quorum=3)

    def killed(request: Request) -> list[Reply]:
        if request.query.number == 2:
            sites.carry(request)
            raise Stop
        return sites.carry(request)

    folder = tmp_path / "rounds"
    with pytest.raises(Stop):
        drive(of_study(study), killed, Journal.create(folder, study))
    sent, _ = sites.asked[-1]
    paid = sites.spent()
    kept = folder / "0003.query"
    assert kept.read_bytes() == encode(sent)
    # Another version, or another machine, would ask with shares of other digits.
    part = msgspec.structs.replace(sent.parts[0], share=sent.parts[0].share * (1 - 1e-15))
    other = msgspec.structs.replace(sent, parts=(part, *sent.parts[1:]))
    for message in (encode(other), encode(sent)[:-1], b""):
        kept.write_bytes(message)
        with pytest.raises(JournalError, match=r"another query .* sites may have paid"):
            drive(of_study(study), sites.carry, Journal.open(folder, study))
    assert sites.spent() == paid
    kept.write_bytes(encode(sent))
    drive(of_study(study), sites.carry, Journal.open(folder, study))
    assert [query.number for query, _ in sites.asked].count(2) == 2


@pytest.mark.quick
def test_below_quorum_the_rounds_before_are_kept_and_the_rest_is_asked_again(
    tmp_path: Path,
) -> None:
    study, sites = study_of("allmarg", quorum=2)

    def dead(request: Request) -> list[Reply]:
        if request.query.number == 1:
            return [
                *sites.carry(request, (SITES[0],)),
                *(Absence(s, "refused (unavailable)") for s in request.asked[1:]),
            ]
        return sites.carry(request)

    folder = tmp_path / "rounds"
    with pytest.raises(QuorumLost, match=r"at least 2 of 3 sites, but 1 are left.*unavailable"):
        drive(of_study(study), dead, Journal.create(folder, study))
    assert Journal.open(folder, study).finished == 1
    release = drive(of_study(study), sites.carry, Journal.open(folder, study))
    assert "missed" not in str(release.run.remarks)
    assert sites.spent()[SITES[0]] <= study.plan.budget.rho


@pytest.mark.quick
def test_a_site_left_out_before_stays_out_after_resuming(tmp_path: Path) -> None:
    study, sites = study_of("wavetree", quorum=2)

    def without(request: Request) -> list[Reply]:
        if request.query.number == 2:
            raise Stop
        present = [site for site in request.asked if site != SITES[2]]
        late = [Absence(SITES[2], "gave no answer in time")] if SITES[2] in request.asked else []
        return [*sites.carry(request, present), *late]

    folder = tmp_path / "rounds"
    with pytest.raises(Stop):
        drive(of_study(study), without, Journal.create(folder, study))
    sites.asked.clear()
    drive(of_study(study), sites.carry, Journal.open(folder, study))
    assert sites.asked
    assert all(to == SITES[:2] for _, to in sites.asked)


@pytest.mark.quick
def test_a_journal_of_another_plan_is_refused(tmp_path: Path) -> None:
    study, _ = study_of("allmarg", quorum=3)
    other, _ = study_of("allmarg", quorum=3, epsilon=2.0)
    Journal.create(tmp_path / "rounds", study)
    with pytest.raises(UsageError, match="another study"):
        Journal.open(tmp_path / "rounds", other)


def test_a_journal_is_neither_replaced_nor_resumed_from_nothing(tmp_path: Path) -> None:
    study, sites = study_of("allmarg", quorum=3)
    with pytest.raises(UsageError, match="no rounds to resume"):
        Journal.open(tmp_path / "rounds", study)
    drive(of_study(study), sites.carry, Journal.create(tmp_path / "rounds", study))
    with pytest.raises(UsageError, match="--resume"):
        Journal.create(tmp_path / "rounds", study)


def test_a_study_of_which_no_round_is_finished_continues_without_being_told(tmp_path: Path) -> None:
    study, sites = study_of("allmarg", quorum=3)

    def two_approved(request: Request) -> list[Reply]:
        refused = Absence.refused(SITES[2], Reason.NOT_APPROVED)
        return [*sites.carry(request, SITES[:2]), refused]

    folder = tmp_path / "rounds"
    with pytest.raises(QuorumLost, match="not approved"):
        drive(of_study(study), two_approved, Journal.create(folder, study))
    paid = sites.spent()
    drive(of_study(study), sites.carry, Journal.create(folder, study))
    assert all(sites.spent()[site] <= study.plan.budget.rho for site in SITES)
    assert all(sites.spent()[site] >= paid[site] for site in SITES[:2])


def test_no_message_about_a_journal_says_where_the_hub_keeps_it(tmp_path: Path) -> None:
    study, sites = study_of("allmarg", quorum=3)
    folder = tmp_path / "rounds"
    drive(of_study(study), sites.carry, Journal.create(folder, study))
    for path in folder.glob("*.round"):
        path.write_bytes(b"damaged")
    for again in (Journal.create, lambda *_: Journal.open(tmp_path / "none", study)):
        with pytest.raises(UsageError) as refused:
            again(folder, study)
        assert str(tmp_path) not in str(refused.value)
    with pytest.raises(
        JournalError, match=r"0001\.round of the hub's journal is damaged"
    ) as broken:
        drive(of_study(study), sites.carry, Journal.open(folder, study))
    assert str(tmp_path) not in str(broken.value)


def test_a_damaged_round_or_one_of_another_query_is_refused(tmp_path: Path) -> None:
    study, sites = study_of("allmarg", quorum=3)
    journal = Journal.create(tmp_path / "rounds", study)
    drive(of_study(study), sites.carry, journal)
    first, second = sorted((tmp_path / "rounds").glob("*.round"))
    request = asked(study)
    data = first.read_bytes()
    for damaged in (b"", data[:-1], data[:60], data.replace(b"one-way", b"one-wax"), b"x" + data):
        first.write_bytes(damaged)
        with pytest.raises(JournalError, match="damaged"):
            journal.find(request)
    first.write_bytes(second.read_bytes())
    with pytest.raises(JournalError, match="another query"):
        journal.find(request)
    first.write_bytes(data)
    assert journal.find(request) is not None


def test_a_journal_is_for_the_hub_alone(tmp_path: Path) -> None:
    study, _ = study_of("allmarg", quorum=3)
    Journal.create(tmp_path / "rounds", study)
    assert (tmp_path / "rounds").stat().st_mode & 0o777 == 0o700


def test_one_job_at_a_time_has_a_study(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    with alone(folder), pytest.raises(UsageError, match="another job"), alone(folder):
        pass
    with alone(folder):
        pass


def in_two_steps(request: Request) -> Generator[Request, Round, Round]:
    """A query that every site hears of twice."""
    yield replace(request, step="greet")
    return (yield request)


def test_every_step_of_a_query_is_carried_kept_and_resumed_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, sites = study_of("allmarg", quorum=3)
    whole = drive(of_study(study), sites.carry)
    monkeypatch.setattr(conversation, "_round", in_two_steps)
    folder, steps = tmp_path / "rounds", []

    def carry(request: Request) -> list[Reply]:
        steps.append((request.query.number, request.step))
        if len(steps) == 3:
            raise Stop
        return sites.carry(request)

    with pytest.raises(Stop):
        drive(of_study(study), carry, Journal.create(folder, study))
    assert steps == [(0, "greet"), (0, "answer"), (1, "greet")]
    release = drive(of_study(study), carry, Journal.open(folder, study))
    assert steps[3:] == [(1, "greet"), (1, "answer")]
    assert release.privacy == whole.privacy
    assert release.sample(50, seed=1).equals(whole.sample(50, seed=1))


def test_a_round_that_was_not_checked_is_refused() -> None:
    study, sites = study_of("allmarg", quorum=3)
    talk = of_study(study)
    request = next(talk)
    answers = tuple(r for r in sites.carry(request) if isinstance(r, Answer))
    with pytest.raises(ProtocolError, match="never checked"):
        talk.send(Round(request.query, answers))


def test_a_carrier_that_runs_out_is_not_taken_for_the_end() -> None:
    study, _ = study_of("allmarg", quorum=3)
    with pytest.raises(StopIteration):
        drive(of_study(study), lambda request: next(iter([])))
