"""Agents of sums killed at every step of writing: one noise, one set, both prices once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from heterofedsyn.audit.faults import ANSWERED, REFUSED
from heterofedsyn.hub.conversation import drive, of_study
from heterofedsyn.hub.replies import Reply
from heterofedsyn.hub.requests import Request
from heterofedsyn.protocol.aggregation import AskVote
from heterofedsyn.protocol.codec import decode
from heterofedsyn.protocol.messages import encode
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.settings import SiteSettings
from hidden_support import agents_of, approve_all, ask_agents, hidden_study, sites_of
from support import categories, deal, dependent_table
from test_agent_crashes import Agents, agents  # noqa: F401  (a fixture)

SCHEMA = categories(3, 4, label=0)
TABLES = dict(
    zip(("elm", "fir", "oak", "yew"), deal(dependent_table(SCHEMA.domain, 400), 4), strict=True)
)
STEPS = ("keys", "masked", "agree", "open")


class Killed:
    """One site of a study whose agent is killed again and again; the others are well."""

    def __init__(self, place: Path, driver: Agents) -> None:
        self.sites = sites_of(place, TABLES, SCHEMA)
        self.study = hidden_study(self.sites, SCHEMA, quorum=3)
        approve_all(self.sites, self.study)
        self.elm: SiteSettings = self.sites["elm"]
        self.agents = driver
        self.sent: dict[bytes, str] = {}
        """By message, all that left before an agent was killed, at its longest."""

    def ask(self, message: bytes, writes: int | None = None) -> str:
        """What an agent says that lives for so many steps; always the same, if anything."""
        ended = self.agents.live(self.elm, message, writes)
        assert ended.killed or ended.code == 0, ended
        if ended.sent.startswith(ANSWERED):
            known = self.sent.get(message, "")
            longest = max(known, ended.sent, key=len)
            assert longest.startswith(known), "two answers"
            assert longest.startswith(ended.sent), "two answers"
            self.sent[message] = longest
        self.check_books()
        return ended.sent if not ended.killed else ""

    def check_books(self) -> None:
        account = Books.read(self.elm.folder, self.elm.anchor)
        queries = [charged.query for charged in account.charges]
        assert len({*queries}) == len(queries), "charged twice"
        assert account.spent_alone == account.spent.times(self.study.plan.trust_model.alone_factor)

    def killed_everywhere(self, message: bytes) -> bytes:
        """The answer to a message, after agents were killed at every step on the way to it."""
        for writes in range(200):
            said = self.ask(message, writes)
            if said:
                assert writes > 0
                again = self.ask(message)
                assert again == said, "another answer after a restart"
                return bytes.fromhex(said.removeprefix(ANSWERED).strip())
        raise AssertionError("no agent ever came to its end")

    def run(self) -> None:
        """The whole study, with everybody else well."""

        def carry(request: Request) -> list[Reply]:
            replies: list[Reply] = []
            with agents_of({n: s for n, s in self.sites.items() if n != "elm"}) as others:
                replies += ask_agents(others, request)
            message = request.message("elm")
            replies.append(request.read("elm", self.killed_everywhere(message)))
            if request.step == "agree":
                self.check_no_second_set(message)
            return replies

        drive(of_study(self.study), carry)
        account = Books.read(self.elm.folder, self.elm.anchor)
        assert len(account.charges) == len(account.agreed) == len(account.unmasked) > 0

    def check_no_second_set(self, message: bytes) -> None:
        asked = decode(message, AskVote)
        for without in ("fir", "oak", "yew"):
            members = tuple(member for member in asked.members if member.site != without)
            other = AskVote(study=asked.study, query=asked.query, members=members)
            assert self.ask(encode(other)).startswith(REFUSED)


@pytest.mark.thorough
def test_killed_at_every_step_of_a_sum_a_site_says_one_thing_and_pays_once(
    tmp_path: Path,
    agents: Agents,  # noqa: F811
) -> None:
    Killed(tmp_path, agents).run()


def lives(seed: int) -> Iterator[tuple[bool, int]]:
    """Which of two sets is asked for next, and how long the agent lives."""
    chance = np.random.default_rng(seed)
    while True:
        yield bool(chance.integers(2)), int(chance.integers(14))


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_killed_at_random_while_two_sets_are_asked_for_a_site_signs_one_of_them(
    tmp_path: Path,
    agents: Agents,  # noqa: F811
) -> None:
    (tmp_path / "sites").mkdir()
    killed = Killed(tmp_path / "sites", agents)
    votes: list[bytes] = []

    class Stop(Exception):
        pass

    def carry(request: Request) -> list[Reply]:
        if request.step == "agree":
            votes.append(request.message("elm"))
            raise Stop
        return ask_agents(well, request)

    with agents_of(killed.sites) as well, pytest.raises(Stop):
        drive(of_study(killed.study), carry)
    whole = decode(votes[0], AskVote)
    smaller = AskVote(study=whole.study, query=whole.query, members=whole.members[:3])
    both = [encode(whole), encode(smaller)]
    shutil.copytree(killed.elm.folder, tmp_path / "folder")
    anchor = killed.elm.anchor.read_bytes()
    deaths = killed.agents.deaths
    for seed in range(50):
        shutil.rmtree(killed.elm.folder)
        shutil.copytree(tmp_path / "folder", killed.elm.folder)
        killed.elm.anchor.write_bytes(anchor)  # as if it had never been asked
        killed.sent.clear()
        for _, (first, writes) in zip(range(4), lives(seed), strict=False):
            killed.ask(both[first], writes)
        for message in both * 2:
            killed.ask(message)
        assert len(killed.sent) == 1, f"seed {seed}: two sets were signed, or none"
    assert killed.agents.deaths > deaths + 50


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_killed_at_every_step_ten_times_more(
    tmp_path: Path,
    agents: Agents,  # noqa: F811
) -> None:
    for number in range(10):
        place = tmp_path / str(number)
        place.mkdir()
        Killed(place, agents).run()
        shutil.rmtree(place)
