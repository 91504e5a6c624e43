"""Laws that every engine keeps, without a network: what a study comes to whatever an engine does.

`EngineContract` is inherited by the tests of each engine, which say how a whole job is run: by the
engine's own books where it has some in one process. `Wires` are what lies between hub and sites.
"""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from heterofedsyn.engines import conducting, exchange
from heterofedsyn.engines.progress import Progress, State
from heterofedsyn.errors import HeterofedsynError
from heterofedsyn.hub import load, make_method
from heterofedsyn.hub.release import Missed, Release
from heterofedsyn.hub.steps import AGREE, KEYS, MASKED, OPEN
from heterofedsyn.protocol import Query, Study, decode, encode
from heterofedsyn.protocol.aggregation import AskKey, AskMasked, AskOpened, AskVote, Opened
from heterofedsyn.protocol.codec import Asked, decode_asked
from heterofedsyn.protocol.refusal import Reason, Refused
from heterofedsyn.simulate.run import run_study
from quorum_support import SCHEMA, SITES, TABLE, study_of
from sums_support import Federation
from support import deal

Said = bytes | Reason | None
"""What a site says to a message: bytes, why it does not, or nothing at all, ever."""

Answering = Callable[[str, bytes], Said]

STEP_OF = {AskKey: KEYS, AskMasked: MASKED, AskVote: AGREE, AskOpened: OPEN}
ROWS = 50
SEED = 5
"""Of the noise of `quorum_support`."""


@dataclass
class Wires:
    """What lies between hub and sites.

    Attributes:
        repeats: whether every message, there and back, is brought twice.
        reverses: whether the answers of sites come in the other order.
        stop: set when the engine is told to end the job.
    """

    answer: Answering
    repeats: bool = False
    reverses: bool = False
    stop: threading.Event = field(default_factory=threading.Event)


class Agents:
    """The agents of all sites: they answer, are away for a while, or never say anything."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        self._turn = threading.Lock()
        self.asked: Counter[tuple[str, str]] = Counter()
        self.away: dict[tuple[str, str], int] = {}
        """How many times a site is not there in a step."""
        self.silent: set[tuple[str, str]] = set()

    def answer(self, site: str, message: bytes) -> Said:
        asked: Asked = decode_asked(message)
        place = (STEP_OF[type(asked)], site)
        self.asked[place] += 1
        if place in self.silent:
            return None
        if self.away.get(place, 0) > 0:
            self.away[place] -= 1
            return Reason.UNAVAILABLE
        try:
            with self._turn:
                return self.federation.members[site].answer(asked)
        except HeterofedsynError as error:
            return Refused.because_of(error).reason


class Answers:
    """Sites of a study in memory; like agents, they answer a query that they know as before."""

    def __init__(self, quorum: int = 3, method: str = "allmarg", patience: float = 60.0) -> None:
        study, self._sites = study_of(method, quorum)
        self.study = replace(study, patience=patience)
        self._kept: dict[tuple[str, bytes], bytes] = {}
        self._turn = threading.Lock()
        self.asked: Counter[tuple[int, str]] = Counter()
        self.silent: set[tuple[int, str]] = set()
        self.dead: set[tuple[int, str]] = set()

    def answer(self, site: str, message: bytes) -> Said:
        query = decode_asked(message)
        assert isinstance(query, Query)
        place = (query.number, site)
        with self._turn:
            self.asked[place] += 1
            if place in self.silent:
                return None
            if place in self.dead:
                return Reason.UNAVAILABLE
            if (site, message) not in self._kept:
                self._kept[site, message] = self._sites.sites[site].answer(message)
            return self._kept[site, message]

    def simulated(self) -> Release:
        """What a simulation of the same tables comes to."""
        plan = self.study.plan
        method = make_method(plan.method, plan.settings)
        encoding = method.encoding(SCHEMA)
        return run_study(encoding, plan, method, deal(TABLE, len(SITES)), noise_seed=SEED)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def missed(release: Path) -> tuple[Missed, ...]:
    found = load(release).run.missed
    return found if isinstance(found, tuple) else ()


def same_files(release: Path, simulated: Release, tmp_path: Path) -> bool:
    return files(release) == files(simulated.save(tmp_path / "simulated", rows=ROWS))


@pytest.mark.thorough
class EngineContract:
    """What holds whichever engine carries the messages."""

    @abstractmethod
    def carried(
        self, study: Study, wires: Wires, root: Path, *, resume: bool = False
    ) -> tuple[Progress, Path]:
        """Run a whole job for `ROWS` rows; how far it came, and the folder of its release."""

    @pytest.fixture(autouse=True)
    def hasty(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Waits that a test can wait for."""
        monkeypatch.setattr(exchange, "AGAIN_SECONDS", 0.05)
        monkeypatch.setattr(conducting, "START_SECONDS", 0.0)

    # ANSWERS

    @pytest.mark.quick
    def test_a_release_has_the_bytes_of_a_simulation_and_progress_tells_every_round(
        self, tmp_path: Path
    ) -> None:
        sites = Answers()
        progress, release = self.carried(sites.study, Wires(sites.answer), tmp_path / "root")
        assert (progress.state, progress.message) == (State.DONE, "")
        assert same_files(release, sites.simulated(), tmp_path)
        assert [each.round for each in progress.rounds] == [1, 2]
        for each in progress.rounds:
            assert sorted(each.answered) == sorted(each.asked) == sorted(SITES)
            assert each.finished
            assert not each.absent
            assert {*each.received} == {*SITES}
            assert each.sent > 0
            assert each.seconds == 10.0
        assert {*sites.asked.values()} == {1}

    @pytest.mark.parametrize("mischief", ["repeats", "reverses", "both"])
    def test_an_engine_that_repeats_or_reorders_messages_changes_nothing(
        self, mischief: str, tmp_path: Path
    ) -> None:
        sites = Answers()
        wires = Wires(
            sites.answer,
            repeats=mischief in ("repeats", "both"),
            reverses=mischief in ("reverses", "both"),
        )
        progress, release = self.carried(sites.study, wires, tmp_path / "root")
        assert progress.state is State.DONE
        assert same_files(release, sites.simulated(), tmp_path)
        assert all(not each.absent for each in progress.rounds)

    def test_of_what_an_engine_brings_twice_the_first_counts(self, tmp_path: Path) -> None:
        sites = Answers()
        turn = threading.Lock()
        answered: dict[tuple[str, bytes], threading.Event] = {}
        repeated = threading.Event()

        def answer(site: str, message: bytes) -> Said:
            with turn:
                again = (site, message) in answered
                done = answered.setdefault((site, message), threading.Event())
            if again:
                assert done.wait(20)
                time.sleep(0.3)  # until it was taken
                repeated.set()
                return Reason.UNAVAILABLE
            if site == SITES[-1]:  # lets the exchange go on until another was heard twice
                assert repeated.wait(20)
                time.sleep(0.3)
            found = sites.answer(site, message)
            done.set()
            return found

        wires = Wires(answer, repeats=True)
        progress, release = self.carried(sites.study, wires, tmp_path / "root")
        assert progress.state is State.DONE
        assert same_files(release, sites.simulated(), tmp_path)

    @pytest.mark.parametrize(
        ("tampered", "reason"),
        [
            (lambda own, other: own[:-1], "sent something else than an answer"),
            (lambda own, other: own + b"\0", "sent something else than an answer"),
            (lambda own, other: b"", "sent something else than an answer"),
            (lambda own, other: other, "answered for another site"),
        ],
        ids=["truncated", "longer", "empty", "swapped"],
    )
    def test_an_answer_that_an_engine_truncates_or_swaps_does_not_count(
        self, tampered: Callable[[bytes, bytes], bytes], reason: str, tmp_path: Path
    ) -> None:
        sites = Answers(quorum=2)

        def answer(site: str, message: bytes) -> Said:
            own = sites.answer(site, message)
            if site != SITES[0] or decode(message, Query).number != 1:
                return own
            other = sites.answer(SITES[1], message)
            assert isinstance(own, bytes)
            assert isinstance(other, bytes)
            return tampered(own, other)

        progress, release = self.carried(sites.study, Wires(answer), tmp_path / "root")
        assert progress.state is State.DONE
        (absence,) = progress.rounds[1].absent
        assert (absence.site, absence.reason) == (SITES[0], reason)
        assert sorted(progress.rounds[1].received) == sorted(SITES[1:])
        assert [each.site for each in missed(release)] == [SITES[0]]

    def test_an_answer_of_an_earlier_round_does_not_count_again(self, tmp_path: Path) -> None:
        sites = Answers(quorum=2)
        first: dict[str, Said] = {}

        def answer(site: str, message: bytes) -> Said:
            said = first.setdefault(site, sites.answer(site, message))
            return said if site == SITES[0] else sites.answer(site, message)

        progress, _ = self.carried(sites.study, Wires(answer), tmp_path / "root")
        assert [absence.site for absence in progress.rounds[1].absent] == [SITES[0]]

    def test_a_question_that_an_engine_truncates_is_refused_by_its_site(
        self, tmp_path: Path
    ) -> None:
        sites = Answers(quorum=2)

        def answer(site: str, message: bytes) -> Said:
            cut = site == SITES[0] and decode(message, Query).number == 1
            try:
                return sites.answer(site, message[:-1] if cut else message)
            except HeterofedsynError as error:
                return Refused.because_of(error).reason

        progress, release = self.carried(sites.study, Wires(answer), tmp_path / "root")
        assert progress.state is State.DONE
        (absence,) = progress.rounds[1].absent
        assert (absence.site, absence.reason) == (SITES[0], "refused (malformed)")
        assert [each.site for each in missed(release)] == [SITES[0]]
        assert sites.asked[1, SITES[0]] == 0

    # SITES THAT ARE AWAY

    def test_a_site_that_dies_is_left_out_and_named(self, tmp_path: Path) -> None:
        sites = Answers(quorum=2)
        sites.dead.add((1, SITES[2]))
        progress, release = self.carried(sites.study, Wires(sites.answer), tmp_path / "root")
        assert progress.state is State.DONE
        (absence,) = progress.rounds[1].absent
        assert (absence.site, absence.reason) == (SITES[2], "refused (unavailable)")
        (left,) = missed(release)
        assert (left.site, left.round, left.reason) == (SITES[2], 2, "gave no answer")

    @pytest.mark.quick
    def test_a_late_site_is_waited_for_as_long_as_the_study_says_and_no_longer(
        self, tmp_path: Path
    ) -> None:
        sites = Answers(quorum=2, patience=1.0)
        sites.silent.add((1, SITES[0]))
        progress, release = self.carried(sites.study, Wires(sites.answer), tmp_path / "root")
        assert progress.state is State.DONE
        (absence,) = progress.rounds[1].absent
        assert (absence.site, absence.reason) == (SITES[0], "gave no answer")
        assert [each.site for each in missed(release)] == [SITES[0]]

    def test_below_its_quorum_a_study_stops_and_is_resumed_and_nobody_is_asked_twice(
        self, tmp_path: Path
    ) -> None:
        sites = Answers(quorum=3)
        sites.dead.add((1, SITES[1]))
        wires = Wires(sites.answer)
        progress, release = self.carried(sites.study, wires, tmp_path / "root")
        assert progress.state is State.STOPPED
        assert "at least 3 of 3 sites, but 2 are left" in progress.message
        assert not release.exists()
        sites.dead.clear()
        progress, _ = self.carried(sites.study, wires, tmp_path / "root")
        assert progress.state is State.STOPPED  # what is begun is not begun anew
        assert "--resume" in progress.message
        sites.asked.clear()
        progress, release = self.carried(sites.study, wires, tmp_path / "root", resume=True)
        assert progress.state is State.DONE
        assert [each.resumed for each in progress.rounds] == [True, False]
        assert sites.asked == {(1, site): 1 for site in SITES}
        assert same_files(release, sites.simulated(), tmp_path)

    def test_answers_with_the_noise_of_a_simulation_count_nowhere_else(
        self, tmp_path: Path
    ) -> None:
        sites = Answers()
        progress, _ = self.carried_for_real(sites.study, Wires(sites.answer), tmp_path / "root")
        assert progress.state is State.STOPPED
        assert {each.reason for each in progress.rounds[0].absent} == {
            "used the noise of a simulation"
        }

    @abstractmethod
    def carried_for_real(self, study: Study, wires: Wires, root: Path) -> tuple[Progress, Path]:
        """The same by what takes no noise of a simulation."""

    # SUMS

    def summed(
        self,
        federation: Federation,
        answer: Answering,
        root: Path,
        *,
        resume: bool = False,
        patience: float = 60.0,
    ) -> tuple[Progress, Path]:
        study = replace(federation.study, patience=patience)
        return self.carried(study, Wires(answer), root, resume=resume)

    @pytest.mark.quick
    def test_sums_are_those_of_a_simulation_and_progress_tells_every_step(
        self, tmp_path: Path
    ) -> None:
        federation = Federation(4, quorum=3)
        agents = Agents(federation)
        progress, release = self.summed(federation, agents.answer, tmp_path / "root")
        assert (progress.state, progress.message) == (State.DONE, "")
        assert same_files(release, federation.simulated(), tmp_path)
        places = [(each.round, each.step) for each in progress.rounds]
        assert places == [(0, KEYS), *((n, s) for n in (1, 2) for s in (MASKED, AGREE, OPEN))]
        for each in progress.rounds:
            assert sorted(each.answered) == sorted(each.asked) == sorted(federation.plan.sites)
            assert each.finished
            assert {*each.received} == {*federation.plan.sites}
            assert all(many > 0 for many in each.received.values())
            assert each.sent > 0
            assert each.seconds == 10.0
        assert set(agents.asked.values()) == {1, 2}  # keys once, other steps for both queries

    @pytest.mark.parametrize("step", [KEYS, MASKED, AGREE])
    def test_a_site_that_is_away_for_a_while_is_asked_until_it_is_back(
        self, step: str, tmp_path: Path
    ) -> None:
        federation = Federation(3)
        agents = Agents(federation)
        agents.away[step, "elm"] = 3
        progress, release = self.summed(federation, agents.answer, tmp_path / "root")
        assert progress.state is State.DONE
        assert same_files(release, federation.simulated(), tmp_path)
        assert agents.asked[step, "elm"] == 3 + (1 if step == KEYS else 2)
        assert all(not each.absent for each in progress.rounds)

    def test_a_site_that_must_open_is_asked_until_it_is_back(self, tmp_path: Path) -> None:
        federation = Federation(4, quorum=3)
        agents = Agents(federation)
        agents.silent.add((MASKED, "oak"))
        agents.away[OPEN, "elm"] = 3
        progress, _ = self.summed(federation, agents.answer, tmp_path / "root", patience=2.0)
        assert progress.state is State.DONE
        assert agents.asked[OPEN, "elm"] == 3 + 2

    def test_a_site_that_died_after_its_masked_answer_is_not_waited_for(
        self, tmp_path: Path
    ) -> None:
        federation = Federation(4, quorum=3)
        agents = Agents(federation)
        agents.away = {(AGREE, "elm"): 10_000, (OPEN, "elm"): 10_000}
        progress, release = self.summed(
            federation, agents.answer, tmp_path / "root", patience=3_600.0
        )
        assert progress.state is State.DONE
        assert same_files(release, federation.simulated(), tmp_path)
        assert 2 <= agents.asked[AGREE, "elm"] <= 20

    def test_a_site_that_refuses_for_good_is_not_asked_again(self, tmp_path: Path) -> None:
        federation = Federation(3)
        agents = Agents(federation)

        def answer(site: str, message: bytes) -> Said:
            said = agents.answer(site, message)
            return Reason.NOT_APPROVED if site == "elm" else said

        progress, _ = self.summed(federation, answer, tmp_path / "root")
        assert progress.state is State.STOPPED
        assert "site 'elm' refused (not approved)" in progress.message
        assert agents.asked == {(KEYS, site): 1 for site in federation.plan.sites}

    @pytest.mark.quick
    def test_a_silent_site_is_outside_of_the_sum_and_shown_as_such(self, tmp_path: Path) -> None:
        federation = Federation(4, quorum=3)
        agents = Agents(federation)
        agents.silent.add((MASKED, "elm"))
        progress, release = self.summed(federation, agents.answer, tmp_path / "root", patience=1.0)
        assert progress.state is State.DONE
        rounds = {(each.round, each.step): each for each in progress.rounds}
        assert [absence.site for absence in rounds[1, MASKED].absent] == ["elm"]
        assert "elm" not in rounds[1, AGREE].asked
        found = load(release).privacy.sums
        assert isinstance(found, tuple)
        assert {each.sites for each in found} == {("birch", "Fir", "oak")}

    @pytest.mark.parametrize("mischief", ["truncates", "swaps", "repeats", "reverses"])
    def test_an_engine_puts_no_masked_answer_in_anothers_place(
        self, mischief: str, tmp_path: Path
    ) -> None:
        federation = Federation(4, quorum=3)
        agents = Agents(federation)

        def answer(site: str, message: bytes) -> Said:
            own = agents.answer(site, message)
            if site != "elm" or not isinstance(decode_asked(message), AskMasked):
                return own
            assert isinstance(own, bytes)
            other = agents.answer("oak", message) if mischief == "swaps" else own
            return own[:-1] if mischief == "truncates" else other

        wires = Wires(answer, repeats=mischief == "repeats", reverses=mischief == "reverses")
        progress, release = self.carried(federation.study, wires, tmp_path / "root")
        assert progress.state is State.DONE
        found = load(release).privacy.sums
        assert isinstance(found, tuple)
        whole = ("birch", "elm", "Fir", "oak")
        harmless = mischief in ("repeats", "reverses")
        assert {each.sites for each in found} == {whole if harmless else ("birch", "Fir", "oak")}
        assert same_files(release, federation.simulated(), tmp_path) is harmless

    def test_a_wrong_self_seed_is_named_though_the_sum_is_opened(self, tmp_path: Path) -> None:
        federation = Federation(4, quorum=3)
        agents = Agents(federation)

        def answer(site: str, message: bytes) -> Said:
            said = agents.answer(site, message)
            if site == "elm" and isinstance(decode_asked(message), AskOpened):
                assert isinstance(said, bytes)
                return encode(replace(decode(said, Opened), seed=bytes(16)))
            return said

        progress, release = self.summed(federation, answer, tmp_path / "root")
        assert same_files(release, federation.simulated(), tmp_path)
        (opened, *_) = (each for each in progress.rounds if each.step == OPEN)
        assert [(a.site, a.reason) for a in opened.absent] == [("elm", "told a wrong self seed")]

    def test_a_study_that_waits_for_a_site_is_resumed_where_it_stopped(
        self, tmp_path: Path
    ) -> None:
        federation = Federation(3)
        agents = Agents(federation)
        agents.silent.add((AGREE, "elm"))
        root = tmp_path / "root"
        progress, _ = self.summed(federation, agents.answer, root, patience=1.0)
        assert progress.state is State.STOPPED
        assert "--resume" in progress.message
        assert "site 'elm' gave no answer" in progress.message
        agents.silent.clear()
        agents.asked.clear()
        progress, release = self.summed(federation, agents.answer, root, resume=True, patience=1.0)
        assert progress.state is State.DONE
        assert same_files(release, federation.simulated(), tmp_path)
        assert [each.resumed for each in progress.rounds[:3]] == [True, True, False]
        assert agents.asked[KEYS, "elm"] == 0
        assert agents.asked[MASKED, "elm"] == 1  # of the second query

    def test_a_job_that_is_stopped_waits_for_nobody(self, tmp_path: Path) -> None:
        federation = Federation(3)
        agents = Agents(federation)
        stop = threading.Event()

        def answer(site: str, message: bytes) -> Said:
            if isinstance(decode_asked(message), AskVote):
                stop.set()
                return None
            return agents.answer(site, message)

        wires = Wires(answer, stop=stop)
        progress, _ = self.carried(federation.study, wires, tmp_path / "root")
        assert progress.state is State.STOPPED
        assert "continue with --resume" in progress.message

    def test_a_job_of_a_study_without_keys_is_refused(self, tmp_path: Path) -> None:
        federation = Federation(3)
        plan = replace(federation.plan, aggregation=UNSET)
        study = replace(federation.study, plan=plan)
        wires = Wires(lambda site, message: None)
        progress, _ = self.carried(study, wires, tmp_path / "root")
        assert "no keys of its sites" in progress.message
        assert progress.wrong_use
