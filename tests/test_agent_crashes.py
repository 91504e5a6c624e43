"""Agents killed at every step: never an uncharged release, never two answers to one query."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from agent_support import FreshNoise, approved_study, ask, books_of, make_site
from heterofedsyn._arrays import Integers
from heterofedsyn.audit.faults import ANSWERED, REFUSED, Ended
from heterofedsyn.marginals import Flat
from heterofedsyn.privacy.budget import Budget, together
from heterofedsyn.privacy.terms import Terms
from heterofedsyn.protocol import Answer, Query, Study, decode
from heterofedsyn.site.agent import Agent
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.settings import SiteSettings

FLUSH, REPLACE = os.fsync, os.replace


DRIVER = """
import json, sys
from pathlib import Path
from heterofedsyn.audit.faults import Fault, live
from heterofedsyn.audit.fixtures import SiteOnDisk
from heterofedsyn.audit.histories import History
from heterofedsyn.site.settings import SiteSettings

History.warm(Path(sys.argv[1]))
print("ready", flush=True)
for line in sys.stdin:
    told = json.loads(line)
    site = SiteOnDisk(SiteSettings.load(Path(told["folder"])))
    fault = None if told["writes"] is None else Fault(told["writes"])
    ended = live(site, [bytes.fromhex(told["message"])], fault, told["after"])
    print(json.dumps([ended.sent, ended.code]), flush=True)
"""
"""Agents as lines of input ask for them, one process for each, forked from a warm one."""


class Agents:
    """Starts agents, one process each, on whatever site it is told."""

    def __init__(self, driver: subprocess.Popen[str]) -> None:
        self._driver = driver
        self.deaths = 0

    def live(
        self,
        settings: SiteSettings,
        message: bytes,
        writes: int | None = None,
        after: float | None = None,
    ) -> Ended:
        """What an agent sent before it ended, and its exit code.

        Args:
            writes: steps of writing and sending that it does before it is killed.
            after: seconds after which it is killed.
        """
        assert self._driver.stdin is not None
        assert self._driver.stdout is not None
        told = {"folder": str(settings.folder), "writes": writes, "after": after}
        print(json.dumps({**told, "message": message.hex()}), file=self._driver.stdin, flush=True)
        ended = Ended(*json.loads(self._driver.stdout.readline()))
        self.deaths += ended.killed
        return ended


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agents]:
    command = [sys.executable, "-c", DRIVER, str(tmp_path_factory.mktemp("warm"))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "ready\n"
        yield Agents(driver)
        assert driver.stdin is not None
        driver.stdin.close()
        assert driver.wait() == 0


class Watch:
    """One query to one site, asked again and again, and the laws that hold throughout."""

    def __init__(self, settings: SiteSettings, study: Study, message: bytes) -> None:
        self.settings = settings
        self.message = message
        self.query = decode(message, Query).fingerprint
        self.cost = together(
            study.plan.budget.part(part.share) for part in decode(message, Query).parts
        )
        self.sent: list[str] = []

    @property
    def charges(self) -> int:
        account = Books.read(self.settings.folder, self.settings.anchor)
        return sum(charged.query == self.query for charged in account.charges)

    def ask(self, agents: Agents, writes: int | None = None, after: float | None = None) -> bool:
        """Whether the agent was killed before its end."""
        charged = self.charges
        ended = agents.live(self.settings, self.message, writes, after)
        assert ended.killed or ended.code == 0, ended
        assert not ended.sent.startswith(REFUSED), ended
        assert self.charges in (charged, 1), "charged twice, or a charge was lost"
        if ended.sent:
            assert self.charges == 1, "released but not charged"
            self.sent.append(ended.sent)
            longest = max(self.sent, key=len)
            assert all(longest.startswith(sent) for sent in self.sent), "two different answers"
        return ended.killed

    def settle(self, agents: Agents) -> None:
        """Ask twice more: the answer is whole, and the same, and paid once."""
        assert [self.ask(agents), self.ask(agents)] == [False, False]
        answer = bytes.fromhex(self.sent[-1].removeprefix(ANSWERED))
        assert decode(answer, Answer).query == self.query
        assert self.sent[-1] == self.sent[-2]
        assert self.charges == 1


def watched(settings: SiteSettings, study: Study, label: str) -> Watch:
    message = ask(study, Flat(("a0", "a1")), Flat(("a2",)), share=2**-10, label=label)
    return Watch(settings, study, message)


LEAST_STEPS = 14
"""Of an agent that answers a new query: charge and answer are written, flushed and anchored."""


@pytest.mark.thorough
def test_killed_at_any_step_five_times_over_and_asked_again(tmp_path: Path, agents: Agents) -> None:
    settings = make_site(tmp_path / "place")
    study = approved_study(settings)
    costs: list[Budget] = []
    for step in count():
        watch = watched(settings, study, f"{step}")
        killed = watch.ask(agents, step)
        for _ in range(4):
            watch.ask(agents, step)
        watch.settle(agents)
        costs.append(watch.cost)
        if not killed:
            break
    assert step >= LEAST_STEPS
    spent = Books.read(settings.folder, settings.anchor).spent
    assert spent == together(costs)


TIMES = pytest.mark.parametrize(
    "times",
    [
        pytest.param(10, marks=pytest.mark.thorough),
        pytest.param(250, marks=[pytest.mark.slow, pytest.mark.timeout(3600)]),
    ],
)


@TIMES
def test_killed_at_sequences_of_steps(tmp_path: Path, agents: Agents, times: int) -> None:
    rng = np.random.default_rng(1)
    settings = make_site(tmp_path / "place")
    study = approved_study(settings, epsilon=2.0)
    costs: list[Budget] = []
    before = agents.deaths
    for trial in range(times):
        watch = watched(settings, study, f"{trial}")
        for step in rng.integers(0, LEAST_STEPS, rng.integers(1, 5)):
            watch.ask(agents, int(step))
        watch.settle(agents)
        costs.append(watch.cost)
    assert agents.deaths - before > times
    account = Books.read(settings.folder, settings.anchor)
    assert account.spent == together(costs)
    assert len(account.charges) == times


@TIMES
def test_killed_from_outside_at_any_moment(tmp_path: Path, agents: Agents, times: int) -> None:
    rng = np.random.default_rng(2)
    settings = make_site(tmp_path / "place")
    study = approved_study(settings)
    before, trials = agents.deaths, 0
    # On a busy machine many an answer is there before the kill: then there are more trials.
    while trials < times or agents.deaths - before <= times:
        assert trials < 10 * times, "hardly an agent was killed in time"
        watch = watched(settings, study, f"{trials}")
        for after in rng.uniform(0, 0.08, 3):
            watch.ask(agents, after=float(after))
        watch.settle(agents)
        trials += 1
    assert len(Books.read(settings.folder, settings.anchor).charges) == trials


@pytest.mark.thorough
def test_an_older_ledger_put_back_after_a_crash_releases_nothing(
    tmp_path: Path, agents: Agents
) -> None:
    settings = make_site(tmp_path / "place")
    study = approved_study(settings)
    older = tmp_path / "older"
    shutil.copy(settings.folder / "ledger", older)
    first = watched(settings, study, "one")
    first.ask(agents)
    shutil.copy(older, settings.folder / "ledger")
    for query in (first, watched(settings, study, "two")):
        ended = agents.live(settings, query.message)
        assert (ended.said, ended.code) == ((), 1)


class Disk:
    """What a power cut would leave of the files in a folder: what was flushed, and nothing else.

    A new file is there under its name once its bytes and then its folder were flushed; one whose
    bytes were not is there empty.
    """

    def __init__(self, base: Path) -> None:
        self._base = base
        self._folders = [path for path in base.rglob("*") if path.is_dir()]
        self._kept = {path: path.read_bytes() for path in base.rglob("*") if path.is_file()}
        self._flushed: dict[Path, bytes] = {}
        self._moved: list[tuple[Path, bytes]] = []

    def flush(self, file: int) -> None:
        """In place of `os.fsync`."""
        FLUSH(file)
        path = Path(f"/proc/self/fd/{file}").readlink()
        if path.is_dir():
            self._kept.update((to, data) for to, data in self._moved if to.parent == path)
        else:
            (self._kept if path in self._kept else self._flushed)[path] = path.read_bytes()

    def replace(self, source: Path, target: Path) -> None:
        """In place of `os.replace`."""
        REPLACE(source, target)
        self._moved.append((Path(target), self._flushed.pop(Path(source), b"")))

    def restored(self, place: Path) -> Path:
        """A folder like this one after the power came back."""
        for folder in self._folders:
            (place / folder.relative_to(self._base)).mkdir(parents=True, exist_ok=True)
        for path, data in self._kept.items():
            (place / path.relative_to(self._base)).write_bytes(data)
        return place


@pytest.mark.slow
def test_a_power_cut_loses_no_charge_of_noise_drawn_and_no_answer_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = make_site(tmp_path / "place")
    study = approved_study(settings)
    disk = Disk(tmp_path / "place")
    drawn: set[str] = set()
    sent: dict[str, bytes] = {}
    cuts = 0

    def cut() -> None:
        nonlocal cuts
        cuts += 1
        left = disk.restored(tmp_path / f"cut {cuts}")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", FLUSH)
            patch.setattr(os, "replace", REPLACE)
            with Books.open(left / "site", left / "elsewhere" / "anchor") as books:
                assert drawn <= {charged.query for charged in books.account.charges}
                kept = {known.query: books.kept(known.query) for known in books.account.answers}
                assert sent.items() <= kept.items()

    def flush(file: int) -> None:
        disk.flush(file)
        cut()

    class Noting(FreshNoise):
        def draw(self, terms: Terms, alone: Budget, key: bytes) -> Integers:
            drawn.add(key.decode().split()[0])
            cut()
            return super().draw(terms, alone, key)

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(os, "replace", disk.replace)
    with books_of(settings) as books:
        agent = Agent(settings, books, noise=Noting(), log=lambda line: None)
        for label in ("one", "two", "one"):
            message = ask(study, Flat(("a0", "a1")), Flat(("a2",)), share=0.1, label=label)
            answer = agent.answer(message)
            sent[decode(answer, Answer).query] = answer
            cut()
    assert len(sent) == len(drawn) == 2
    assert cuts > 20
