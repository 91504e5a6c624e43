"""NVFlare carries the steps of a sum: each site its own bytes, and again while there is time."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from msgspec import UNSET
from msgspec.structs import replace

pytest.importorskip("nvflare")

from nvflare.apis.signal import Signal

from heterofedsyn.engines.nvflare import asking, controller
from heterofedsyn.engines.nvflare.job import write_job
from heterofedsyn.engines.nvflare.progress import Progress, State
from heterofedsyn.engines.nvflare.task import RELEASE, pack
from heterofedsyn.errors import HeterofedsynError, UsageError
from heterofedsyn.hub import load
from heterofedsyn.hub.steps import AGREE, KEYS, MASKED, OPEN
from heterofedsyn.protocol import Study, decode, encode
from heterofedsyn.protocol.aggregation import AskKey, AskMasked, AskOpened, AskVote, Opened
from heterofedsyn.protocol.codec import Asked, decode_asked
from heterofedsyn.protocol.refusal import Reason, Refused
from nvflare_simulated import SimulatedController
from nvflare_wires import Answering, run_wired
from sums_support import NAMES, Federation

pytestmark = pytest.mark.thorough

STEP_OF = {AskKey: KEYS, AskMasked: MASKED, AskVote: AGREE, AskOpened: OPEN}
ROWS = 50


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits that a test can wait for."""
    monkeypatch.setattr(asking, "AGAIN_SECONDS", 0.05)
    monkeypatch.setattr(controller, "START_SECONDS", 0.0)


class Agents:
    """The agents of all sites: they answer, are away for a while, or never say anything."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        self.asked: Counter[tuple[str, str]] = Counter()
        self.away: dict[tuple[str, str], int] = {}
        """How many times a site is not there in a step."""
        self.silent: set[tuple[str, str]] = set()

    def answer(self, site: str, message: bytes) -> bytes | Reason | None:
        asked: Asked = decode_asked(message)
        place = (STEP_OF[type(asked)], site)
        self.asked[place] += 1
        if place in self.silent:
            return None
        if self.away.get(place, 0) > 0:
            self.away[place] -= 1
            return Reason.UNAVAILABLE
        try:
            return self.federation.members[site].answer(asked)
        except HeterofedsynError as error:
            return Refused.because_of(error).reason


def run(
    federation: Federation,
    answer: Answering,
    root: Path,
    *,
    resume: bool = False,
    patience: float = 60.0,
) -> tuple[Progress, Path]:
    study = replace(federation.study, patience=patience)
    made = SimulatedController(pack(study.to_toml()), resume=resume, rows=ROWS)
    return run_wired(made, federation.plan.sites, answer, root)


def same_files(release: Path, federation: Federation, tmp_path: Path) -> bool:
    simulated = federation.simulated().save(tmp_path / "simulated", rows=ROWS)
    return {path.name: path.read_bytes() for path in release.iterdir()} == {
        path.name: path.read_bytes() for path in simulated.iterdir()
    }


@pytest.mark.quick
def test_nvflare_sums_are_those_of_a_simulation_and_progress_tells_every_step(
    tmp_path: Path,
) -> None:
    federation = Federation(4, quorum=3)
    agents = Agents(federation)
    progress, result = run(federation, agents.answer, tmp_path / "root")
    assert (progress.state, progress.message) == (State.DONE, "")
    assert same_files(result / RELEASE, federation, tmp_path)
    places = [(each.round, each.step) for each in progress.rounds]
    assert places == [(0, KEYS), *((n, s) for n in (1, 2) for s in (MASKED, AGREE, OPEN))]
    for each in progress.rounds:
        assert sorted(each.answered) == sorted(each.asked) == sorted(federation.plan.sites)
        assert each.finished
        assert {*each.received} == {*federation.plan.sites}
        assert all(many > 0 for many in each.received.values())
        assert each.sent > 0
        assert each.seconds == 10.0
    assert set(agents.asked.values()) == {1, 2}  # keys once, every other step for both queries


@pytest.mark.parametrize("step", [KEYS, MASKED, AGREE])
def test_nvflare_site_that_is_away_for_a_while_is_asked_until_it_is_back(
    step: str, tmp_path: Path
) -> None:
    federation = Federation(3)
    agents = Agents(federation)
    agents.away[step, "elm"] = 3
    progress, result = run(federation, agents.answer, tmp_path / "root")
    assert progress.state is State.DONE
    assert same_files(result / RELEASE, federation, tmp_path)
    assert agents.asked[step, "elm"] == 3 + (1 if step == KEYS else 2)
    assert all(not each.absent for each in progress.rounds)


def test_nvflare_site_that_must_open_is_asked_until_it_is_back(tmp_path: Path) -> None:
    federation = Federation(4, quorum=3)
    agents = Agents(federation)
    agents.silent.add((MASKED, "oak"))
    agents.away[OPEN, "elm"] = 3
    progress, _ = run(federation, agents.answer, tmp_path / "root", patience=2.0)
    assert progress.state is State.DONE
    assert agents.asked[OPEN, "elm"] == 3 + 2


def test_nvflare_site_that_died_after_its_masked_answer_is_not_waited_for(tmp_path: Path) -> None:
    federation = Federation(4, quorum=3)
    agents = Agents(federation)
    agents.away = {(AGREE, "elm"): 10_000, (OPEN, "elm"): 10_000}
    progress, result = run(federation, agents.answer, tmp_path / "root", patience=3_600.0)
    assert progress.state is State.DONE
    assert same_files(result / RELEASE, federation, tmp_path)
    assert 2 <= agents.asked[AGREE, "elm"] <= 20


def test_nvflare_site_that_refuses_for_good_is_not_asked_again(tmp_path: Path) -> None:
    federation = Federation(3)
    agents = Agents(federation)

    def answer(site: str, message: bytes) -> bytes | Reason | None:
        said = agents.answer(site, message)
        return Reason.NOT_APPROVED if site == "elm" else said

    progress, _ = run(federation, answer, tmp_path / "root")
    assert progress.state is State.STOPPED
    assert "site 'elm' refused (not approved)" in progress.message
    assert agents.asked == {(KEYS, site): 1 for site in federation.plan.sites}


@pytest.mark.quick
def test_nvflare_silent_site_is_outside_of_the_sum_and_shown_as_such(tmp_path: Path) -> None:
    federation = Federation(4, quorum=3)
    agents = Agents(federation)
    agents.silent.add((MASKED, "elm"))
    progress, result = run(federation, agents.answer, tmp_path / "root", patience=1.0)
    assert progress.state is State.DONE
    rounds = {(each.round, each.step): each for each in progress.rounds}
    assert [absence.site for absence in rounds[1, MASKED].absent] == ["elm"]
    assert "elm" not in rounds[1, AGREE].asked
    found = load(result / RELEASE).privacy.sums
    assert isinstance(found, tuple)
    assert {each.sites for each in found} == {("birch", "Fir", "oak")}


def test_nvflare_wrong_self_seed_is_named_though_the_sum_is_opened(tmp_path: Path) -> None:
    federation = Federation(4, quorum=3)
    agents = Agents(federation)

    def answer(site: str, message: bytes) -> bytes | Reason | None:
        said = agents.answer(site, message)
        if site == "elm" and isinstance(decode_asked(message), AskOpened):
            assert isinstance(said, bytes)
            return encode(replace(decode(said, Opened), seed=bytes(16)))
        return said

    progress, result = run(federation, answer, tmp_path / "root")
    assert same_files(result / RELEASE, federation, tmp_path)
    (opened, *_) = (each for each in progress.rounds if each.step == OPEN)
    assert [(a.site, a.reason) for a in opened.absent] == [("elm", "told a wrong self seed")]


def test_nvflare_study_that_waits_for_a_site_is_resumed_where_it_stopped(tmp_path: Path) -> None:
    federation = Federation(3)
    agents = Agents(federation)
    agents.silent.add((AGREE, "elm"))
    progress, _ = run(federation, agents.answer, tmp_path / "root", patience=1.0)
    assert progress.state is State.STOPPED
    assert "--resume" in progress.message
    assert "site 'elm' gave no answer" in progress.message
    agents.silent.clear()
    agents.asked.clear()
    progress, result = run(federation, agents.answer, tmp_path / "root", resume=True, patience=1.0)
    assert progress.state is State.DONE
    assert same_files(result / RELEASE, federation, tmp_path)
    assert [each.resumed for each in progress.rounds[:3]] == [True, True, False]
    assert agents.asked[KEYS, "elm"] == 0
    assert agents.asked[MASKED, "elm"] == 1  # of the second query


def test_nvflare_job_that_is_stopped_waits_for_nobody(tmp_path: Path) -> None:
    federation = Federation(3)
    agents = Agents(federation)
    signal = Signal()

    def answer(site: str, message: bytes) -> bytes | Reason | None:
        if isinstance(decode_asked(message), AskVote):
            signal.trigger(True)
            return None
        return agents.answer(site, message)

    made = SimulatedController(pack(federation.study.to_toml()), rows=ROWS)
    progress, _ = run_wired(made, federation.plan.sites, answer, tmp_path / "root", signal)
    assert progress.state is State.STOPPED
    assert "continue with --resume" in progress.message


def test_nvflare_job_of_a_study_without_keys_is_refused(tmp_path: Path) -> None:
    federation = Federation(3)
    plan = federation.plan
    study: Study = replace(federation.study, plan=replace(plan, aggregation=UNSET))
    with pytest.raises(UsageError, match="no keys of its sites"):
        write_job(study, tmp_path / "job")
    made = SimulatedController(pack(study.to_toml()))
    progress, _ = run_wired(made, NAMES[:3], lambda site, message: None, tmp_path / "root")
    assert "no keys of its sites" in progress.message
    assert progress.wrong_use
