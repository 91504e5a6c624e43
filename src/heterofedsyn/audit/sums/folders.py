"""Sites of sums on disk: what is restored, repaired, withdrawn or removed reveals nothing more.

Real agents with their books take part in a study. Then one site's folder is what it was before, or
lacks something, or its steward has changed his mind: whatever a hub asks, it hears nothing that it
had not heard before, and the study cannot begin there once more.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from heterofedsyn.audit import oracle
from heterofedsyn.audit.findings import Broken, Check, require
from heterofedsyn.audit.fixtures import (
    WHEN,
    as_csv,
    make_settings,
    plan_of,
    query_of,
    table_of,
    temporary_folder,
)
from heterofedsyn.audit.patches import Passage, at_the_door
from heterofedsyn.audit.sums.members import SCHEMA, STATISTICS
from heterofedsyn.errors import HeterofedsynError
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.trust import Local, SecureAggregation
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
from heterofedsyn.site.consent import approve, close, withdraw
from heterofedsyn.site.create import create_site
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.ledger.private import AGGREGATION
from heterofedsyn.site.peers import Peers
from heterofedsyn.site.settings import SiteSettings
from heterofedsyn.site.signing import Identity

_NAMES = ("elm", "fir", "oak", "yew")
_TRUST = SecureAggregation(4, 1, 3)
_EPSILON, _DELTA = 1.0, 1e-9
_WHO = "an auditor"
STEPS = ("key", "masked", "vote", "open")

Messages = dict[str, bytes]
"""What one site was asked for, by step."""


def checks(seed: int) -> Iterator[Check]:
    """Agents on disk, before and after something happened to one of them."""
    yield "on disk: both prices", partial(prices, seed)
    yield "on disk: started anew", partial(started_anew, seed)
    yield "on disk: older copies", partial(restored, seed)
    yield "on disk: older copies with their anchors", partial(restored_whole, seed)
    yield "on disk: studies that ended", partial(ended, seed)
    yield "on disk: files removed", partial(removed, seed)


class Federation:
    """Sites on disk that know each other, with a study that all have approved."""

    def __init__(self, place: Path, seed: int, *, room: float = 3.0) -> None:
        """Make them.

        Args:
            room: studies that fit under the cap on answers seen alone.
        """
        plan = plan_of(SCHEMA, seed, *_NAMES, epsilon=_EPSILON, delta=_DELTA)
        rho = plan.budget.rho
        terms = {
            "epsilon": Budget(2.5 * rho).epsilon(_DELTA),
            "study_epsilon": _EPSILON,
            "alone_epsilon": Budget(rho * _TRUST.alone_factor * room).epsilon(_DELTA),
        }
        rows = as_csv(table_of(SCHEMA, 9, np.random.default_rng(seed)))
        self.sites: dict[str, SiteSettings] = {}
        for name in _NAMES:
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
        return self.sites[_NAMES[0]]

    def agree(self, seed: int) -> Study:
        """A study that all stewards approve."""
        plan = plan_of(
            SCHEMA,
            seed,
            *_NAMES,
            epsilon=_EPSILON,
            delta=_DELTA,
            trust=_TRUST.name,
            aggregation=Aggregation(_TRUST.colluding, _TRUST.quorum, self.keys),
        )
        study = Study(plan=plan, schema=SCHEMA.settings, quorum=_TRUST.quorum)
        for made in self.sites.values():
            approve(made, study, who=_WHO, now=WHEN)
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
                for name in names or _NAMES
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
            messages = {name: self._message(step, name, heard) for name in _NAMES}
            with self.agents() as agents:
                heard[step] = {name: agents[name].answer(messages[name]) for name in _NAMES}
            asked[step], said[step] = messages[_NAMES[0]], heard[step][_NAMES[0]]
        return asked, said

    def _message(self, step: str, name: str, heard: dict[str, dict[str, bytes]]) -> bytes:
        study, query = self.study.fingerprint, self.query(0)
        if step == "key":
            return encode(AskKey(study=study))
        if step == "masked":
            keys = tuple(decode(data, OfferedKey) for data in heard["key"].values())
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
                study=study, query=query.fingerprint, members=members, votes=votes, shares=shares
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
        before = _ledger(self.first)
        with self.agents(_NAMES[0]) as agents:
            for step, message in asked.items():
                require(_answer(agents[_NAMES[0]], message) is None, f"{what}: {step} was answered")
        require(_ledger(self.first) == before, f"{what}: what was refused is in the ledger")
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
            approve(self.first, self.study, who=_WHO, now=WHEN)
        except HeterofedsynError:
            return
        raise Broken(f"{what}: the study was approved again")


def prices(seed: int) -> str:
    """An answer is booked at what it costs by itself, too, and there is a cap on that."""
    with temporary_folder() as place:
        sites = Federation(place, seed, room=1.6)
        first, spent = sites.first, Fraction(0)
        studies = (sites.study, sites.agree(seed + 1))
        answered = []
        for study in studies:
            for number in range(2):
                with at_the_door() as passages:
                    answered.append(_masked(sites, study, number))
                spent += _alone(passages)
                account = Books.read(first.folder, first.anchor)
                require(
                    spent <= Fraction(account.spent_alone.rho),
                    f"answers cost rho {float(spent)} by themselves, "
                    f"{account.spent_alone.rho} is booked for that",
                )
                require(
                    account.spent_alone <= first.alone_cap,  # type: ignore[operator]
                    "more is spent on answers seen alone than the cap on that",
                )
        require(answered == [True, True, True, False], "a cap on answers seen alone is not kept")
        return f"{float(spent / Fraction(account.spent_alone.rho)):.6f} of what is booked"


def _masked(sites: Federation, study: Study, number: int) -> bool:
    """Whether the first site gives a masked answer."""
    with sites.agents() as agents:
        ask = encode(AskKey(study=study.fingerprint))
        keys = tuple(decode(agent.answer(ask), OfferedKey) for agent in agents.values())
        query = sites.query(number, study)
        message = AskMasked(study=study.fingerprint, query=query, keys=keys)
        return _answer(agents[_NAMES[0]], encode(message)) is not None


def _alone(passages: list[Passage]) -> Fraction:
    """What one answer costs by itself: each part moves by 1."""
    local = Local(_TRUST.sites)
    prices = [oracle.price_of(Fraction(1), p.terms.sigma, 1, local) for p in passages]
    return sum(prices, Fraction(0))


def started_anew(seed: int) -> str:
    """Agents that were stopped after every step give the same bytes, and sign one set."""
    with temporary_folder() as place:
        sites = Federation(place, seed)
        asked, said = sites.run()
        before = _ledger(sites.first)
        with sites.agents(_NAMES[0]) as agents:
            agent = agents[_NAMES[0]]
            for step, message in asked.items():
                again = _answer(agent, message)
                require(again == said[step], f"{step}: the same request gets other bytes")
            require(_ledger(sites.first) == before, "the same requests are booked again")
        others = sites.others(asked)
        del others["a new query"]
        return f"{len(said)} steps again, {sites.check_silent(others, 'started anew')} refused"


def restored(seed: int) -> str:
    """The folder is what it was before some step, while the anchor stays; then it is repaired."""
    tried = 0
    with temporary_folder() as place:
        sites = Federation(place, seed)
        first = sites.first

        def copy(step: str) -> None:
            shutil.copytree(first.folder, place / "copies" / step)

        asked, _ = sites.run(copy)
        anchor = first.anchor.read_bytes()
        asked |= sites.others(asked)
        for step in STEPS:
            what = f"a copy from before {step}"
            _put_back(place / "copies" / step, first.folder)
            first.anchor.write_bytes(anchor)
            tried += sites.check_locked(asked, what)
            Books.repair(first.folder, first.anchor, first.study_cap, alone_cap=first.alone_cap)
            tried += sites.check_silent(asked, f"{what}, repaired")
            sites.check_over(f"{what}, repaired")
            _check_no_key(first, what)
            require(
                Identity.load(first.key).public != sites.keys[_NAMES[0]],
                f"{what}, repaired: the site signs with the same key",
            )
    return f"{tried} requests for nothing"


def restored_whole(seed: int) -> str:
    """Folder and anchor are both what they were: shown what it signed, the site locks itself."""
    with temporary_folder() as place:
        sites = Federation(place, seed)

        def copy(step: str) -> None:
            shutil.copytree(place / _NAMES[0], place / "copies" / step)

        asked, _ = sites.run(copy)
        tried = 0
        for step, shown in (("key", "masked"), ("masked", "open"), ("vote", "open")):
            what = f"a copy with its anchor from before {step}"
            _put_back(place / "copies" / step, place / _NAMES[0])
            with sites.agents(_NAMES[0]) as agents:
                agent = agents[_NAMES[0]]
                if step == "masked":  # a second answer, whose list of keys is the same
                    _answer(agent, asked["masked"])
                require(_answer(agent, asked[shown]) is None, f"{what}: {shown} was answered")
            tried += sites.check_locked(asked, what)
    return f"{tried} requests for nothing"


def ended(seed: int) -> str:
    """Withdrawn or closed, a study is over, whatever is removed from the folder then."""
    tried = 0
    for end in (withdraw, close):
        with temporary_folder() as place:
            sites = Federation(place, seed)
            first, what = sites.first, end.__name__
            asked, _ = sites.run()
            asked |= sites.others(asked)
            end(first, sites.study.fingerprint, who=_WHO, now=WHEN)
            tried += sites.check_silent(asked, what)
            _check_no_key(first, what)
            sites.check_over(what)
            for folder in (first.studies / sites.study.fingerprint, first.folder / AGGREGATION):
                shutil.rmtree(folder)
                sites.check_over(f"{what}, {folder.name} removed")
                tried += sites.check_silent(asked, f"{what}, {folder.name} removed")
    return f"{tried} requests for nothing"


def removed(seed: int) -> str:
    """Without its key or its list of keys a site answers nothing, and makes no other."""
    tried = 0
    for names in (("key",), ("list",), ("key", "list")):
        with temporary_folder() as place:
            sites = Federation(place, seed)
            asked, _ = sites.run()
            asked |= sites.others(asked)
            own = sites.first.folder / AGGREGATION / sites.study.fingerprint
            for name in names:
                (own / name).unlink()
            if names == ("list",):
                del asked["key"]
            what = f"without its {' and '.join(names)}"
            tried += sites.check_silent(asked, what)
            sites.check_over(what)
    return f"{tried} requests for nothing"


def _answer(agent: Agent, message: bytes) -> bytes | None:
    try:
        return agent.answer(message)
    except Refused:
        return None


def _ledger(site: SiteSettings) -> tuple[bytes, bytes]:
    return (site.folder / "ledger").read_bytes(), site.anchor.read_bytes()


def _put_back(copy: Path, folder: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(copy, folder)


def _check_no_key(site: SiteSettings, what: str) -> None:
    kept = [*(site.folder / AGGREGATION).rglob("key")]
    require(not kept, f"{what}: the study's private key is still there")
