"""Sites on disk that take part in sums, and a hub that asks one of them for anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import numpy as np

from heterofedsyn.audit.findings import Broken, require
from heterofedsyn.audit.fixtures import (
    WHEN,
    as_csv,
    make_settings,
    plan_of,
    query_of,
    table_of,
)
from heterofedsyn.audit.sums.members import SCHEMA, STATISTICS
from heterofedsyn.errors import HeterofedsynError
from heterofedsyn.masking.words import list_hash
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.trust import SecureAggregation
from heterofedsyn.protocol import Query, Study, decode, encode
from heterofedsyn.protocol.aggregation import (
    AskKey,
    AskMasked,
    AskOpened,
    AskVote,
    Masked,
    Member,
    OfferedKey,
    Told,
    Vote,
)
from heterofedsyn.protocol.plan import Aggregation
from heterofedsyn.protocol.refusal import Refused
from heterofedsyn.site.agent import Agent
from heterofedsyn.site.consent import approve
from heterofedsyn.site.create import create_site
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.peers import Peers
from heterofedsyn.site.settings import SiteSettings
from heterofedsyn.site.signing import Identity

NAMES = ("elm", "fir", "oak", "yew")
TRUST = SecureAggregation(4, 1, 3)
_EPSILON, _DELTA = 1.0, 1e-9
WHO = "an auditor"
STEPS = ("key", "masked", "vote", "open")

Messages = dict[str, bytes]
"""What one site was asked for, by step."""


class Federation:
    """Sites on disk that know each other, with a study that all have approved."""

    def __init__(self, place: Path, seed: int, *, room: float = 3.0) -> None:
        """Make them.

        Args:
            room: studies that fit under the cap on answers seen alone.
        """
        plan = plan_of(SCHEMA, seed, *NAMES, epsilon=_EPSILON, delta=_DELTA)
        rho = plan.budget.rho
        terms = {
            "epsilon": Budget(2.5 * rho).epsilon(_DELTA),
            "study_epsilon": _EPSILON,
            "alone_epsilon": Budget(rho * TRUST.alone_factor * room).epsilon(_DELTA),
        }
        rows = as_csv(table_of(SCHEMA, 9, np.random.default_rng(seed)))
        self.sites: dict[str, SiteSettings] = {}
        for name in NAMES:
            (place / name).mkdir()
            made = make_settings(place / name, SCHEMA, rows, name=name, tick=0.0, **terms)
            create_site(made)
            self.sites[name] = made
        self.keys = {name: Identity.load(made.key).public for name, made in self.sites.items()}
        for name, made in self.sites.items():
            book = Peers()
            for peer, key in self.keys.items():
                book = book if peer == name else book.add(peer, key)
            book.save(made.folder)
        self.study = self.agree(seed)

    @property
    def first(self) -> SiteSettings:
        """The site to which something happens."""
        return self.sites[NAMES[0]]

    def agree(self, seed: int) -> Study:
        """A study that all stewards approve."""
        plan = plan_of(
            SCHEMA,
            seed,
            *NAMES,
            epsilon=_EPSILON,
            delta=_DELTA,
            trust=TRUST.name,
            aggregation=Aggregation(TRUST.colluding, TRUST.quorum, self.keys),
        )
        study = Study(plan=plan, schema=SCHEMA.settings, quorum=TRUST.quorum)
        for made in self.sites.values():
            approve(made, study, who=WHO, now=WHEN)
        return study

    @contextmanager
    def agents(self, *names: str) -> Iterator[dict[str, Agent]]:
        """The agents of these sites, or of all, for a while."""
        with ExitStack() as stack:
            yield {
                name: Agent(
                    self.sites[name],
                    stack.enter_context(
                        Books.open(self.sites[name].folder, self.sites[name].anchor)
                    ),
                    log=lambda line: None,
                )
                for name in names or NAMES
            }

    def query(self, number: int, study: Study | None = None) -> Query:
        """A query that takes half of a study's budget."""
        return query_of(study or self.study, *STATISTICS, share=0.25, number=number)

    def run(self, before: Callable[[str], None] = lambda step: None) -> tuple[Messages, Messages]:
        """The whole study; what the first site was asked for, and what it said.

        Args:
            before: is told of every step before any site is asked, while no agent has its books.
        """
        asked, said = {}, {}
        heard: dict[str, dict[str, bytes]] = {}
        for step in STEPS:
            before(step)
            messages = {name: self._message(step, name, heard) for name in NAMES}
            with self.agents() as agents:
                heard[step] = {name: agents[name].answer(messages[name]) for name in NAMES}
            asked[step], said[step] = messages[NAMES[0]], heard[step][NAMES[0]]
        return asked, said

    def _message(self, step: str, name: str, heard: dict[str, dict[str, bytes]]) -> bytes:
        study, query = self.study.fingerprint, self.query(0)
        if step == "key":
            return encode(AskKey(study=study))
        keys = tuple(decode(data, OfferedKey) for data in heard["key"].values())
        if step == "masked":
            return encode(AskMasked(study=study, query=query, keys=keys))
        masked = {name: decode(data, Masked) for name, data in heard["masked"].items()}
        members = tuple(Member(site, answer.hash) for site, answer in masked.items())
        if step == "vote":
            return encode(AskVote(study=study, query=query.fingerprint, members=members))
        votes = tuple(decode(data, Vote) for data in heard["vote"].values())
        shares = tuple(
            Told(site, share.data)
            for site, answer in masked.items()
            for share in answer.shares
            if share.receiver == name
        )
        return encode(
            AskOpened(
                study=study,
                query=query.fingerprint,
                listed=list_hash((each.site, each.key) for each in keys),
                members=members,
                votes=votes,
                shares=shares,
            )
        )

    def others(self, asked: Messages) -> Messages:
        """Other things that a hub may ask for: a new query, a set without one site, that opened."""
        new = msgspec.structs.replace(decode(asked["masked"], AskMasked), query=self.query(1))
        vote, opened = decode(asked["vote"], AskVote), decode(asked["open"], AskOpened)
        fewer = vote.members[:-1]
        return {
            "a new query": encode(new),
            "another set": encode(msgspec.structs.replace(vote, members=fewer)),
            "another set opened": encode(
                msgspec.structs.replace(opened, members=fewer, votes=opened.votes[:-1])
            ),
        }

    def check_silent(self, asked: Messages, what: str) -> int:
        """The first site answers none of these, and its ledger stays as it is.

        Raises:
            Broken: if it does.
        """
        before = ledger_of(self.first)
        with self.agents(NAMES[0]) as agents:
            for step, message in asked.items():
                require(
                    answer_of(agents[NAMES[0]], message) is None, f"{what}: {step} was answered"
                )
        require(ledger_of(self.first) == before, f"{what}: what was refused is in the ledger")
        return len(asked)

    def check_locked(self, asked: Messages, what: str) -> int:
        """The first site answers none of these, or its agent does not even start.

        Raises:
            Broken: if it does.
        """
        try:
            return self.check_silent(asked, what)
        except HeterofedsynError:
            return len(asked)

    def check_over(self, what: str) -> None:
        """The study can never be approved again at the first site.

        Raises:
            Broken: if it can.
        """
        try:
            approve(self.first, self.study, who=WHO, now=WHEN)
        except HeterofedsynError:
            return
        raise Broken(f"{what}: the study was approved again")


def answer_of(agent: Agent, message: bytes) -> bytes | None:
    """What an agent says, or None if it refuses."""
    try:
        return agent.answer(message)
    except Refused:
        return None


def ledger_of(site: SiteSettings) -> tuple[bytes, bytes]:
    """The bytes of a site's ledger and of its anchor."""
    return (site.folder / "ledger").read_bytes(), site.anchor.read_bytes()
