"""The four steps of a sum that hides its members: keys once, then masked, agree and open.

Each step is a request of its own, carried and kept by itself. The set of a sum is fixed by what is
kept of `masked`, the votes by what is kept of `agree`: a hub that was stopped says the same again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self, TypeVar

from heterofedsyn.errors import ProtocolError, QuorumLost
from heterofedsyn.hub.replies import SUM, Absence, Reply, Round, single
from heterofedsyn.hub.requests import Request
from heterofedsyn.hub.sums import (
    HiddenSum,
    answer_of,
    shared_keys,
    trust_of,
    wrong_key,
    wrong_masked,
)
from heterofedsyn.masking.words import digest
from heterofedsyn.protocol import encode
from heterofedsyn.protocol.aggregation import (
    AskKey,
    AskMasked,
    AskVote,
    Masked,
    OfferedKey,
    Opened,
    Vote,
)
from heterofedsyn.protocol.codec import Said

Kind = TypeVar("Kind", OfferedKey, Masked, Vote, Opened)

KEYS = "keys"
MASKED = "masked"
AGREE = "agree"
OPEN = "open"

_SHARED = ("query", "asked", "terms", "plan", "roll", "most_rows")
"""What every step has of the request for a query."""


@dataclass(frozen=True, eq=False)
class _Step(Request, ABC):
    """A step on the way to a sum."""

    waits: ClassVar[bool] = True

    @classmethod
    def about(cls, request: Request, **more: Any) -> Self:
        """A step of the query of this request."""
        facts = {name: getattr(request, name) for name in _SHARED}
        return cls(**{**facts, **more})

    @property
    def integers(self) -> int:
        return 0

    @property
    def sent(self) -> bytes:
        return self._sent

    @cached_property
    def _sent(self) -> bytes:
        # Hash by hash: the messages for all sites together may be gigabytes.
        hashes = ((site, digest("message", self.message(site))) for site in self.asked)
        return digest("sent", *(part for pair in hashes for part in pair))

    @abstractmethod
    def message(self, site: str) -> bytes:
        """The message for a site."""

    def _sorted(
        self,
        replies: Sequence[Reply],
        kind: type[Kind],
        fault: Callable[[Kind], str | None],
    ) -> tuple[tuple[Kind, ...], tuple[Absence, ...]]:
        """The replies that count, and who has none."""
        said: list[Kind] = []
        absent: list[Absence] = []
        for site in sorted(self.asked, key=str.encode):
            reply = single(site, replies, kind)
            if isinstance(reply, Absence):
                absent.append(reply)
            elif wrong := fault(reply):
                absent.append(Absence(site, wrong))
            else:
                said.append(reply)
        return tuple(said), tuple(absent)

    def _lost(self, what: str, absent: Sequence[Absence]) -> QuorumLost:
        why = "; ".join(f"site {each.site!r} {each.reason}" for each in absent)
        return QuorumLost(
            f"{what}: {why}; nothing is lost, continue with --resume when it can answer"
        )


@dataclass(frozen=True, eq=False)
class AskingKeys(_Step):
    """Every site's key for the study; nobody may be missing."""

    kind: ClassVar[type[Said]] = OfferedKey
    step: str = KEYS

    @property
    def place(self) -> str:
        return self.step

    def message(self, site: str) -> bytes:
        return encode(AskKey(study=self.plan.fingerprint))

    def check(self, replies: Sequence[Reply]) -> Round:
        offered, absent = self._sorted(
            replies, OfferedKey, lambda offered: wrong_key(offered, self.plan)
        )
        twice = shared_keys(offered)
        absent += tuple(Absence(site, "offered the key of another site") for site in sorted(twice))
        if absent:
            raise self._lost("every site must offer a key before the first query", absent)
        return Round(self.query, (), said=offered, roll=self.roll)


@dataclass(frozen=True, eq=False)
class AskingMasked(_Step):
    """Masked answers to the query: whoever gives one is in the sum.

    Attributes:
        keys: of all sites; each gets the same list.
    """

    kind: ClassVar[type[Said]] = Masked
    step: str = MASKED
    keys: tuple[OfferedKey, ...] = ()

    @property
    def integers(self) -> int:
        return sum(terms.integers for terms in self.terms)

    @cached_property
    def _message(self) -> bytes:
        return encode(AskMasked(study=self.plan.fingerprint, query=self.query, keys=self.keys))

    @cached_property
    def _sent(self) -> bytes:
        return digest("sent to all", self._message, *self.asked)

    def message(self, site: str) -> bytes:
        return self._message

    def check(self, replies: Sequence[Reply]) -> Round:
        fingerprint = self.query.fingerprint
        masked, absent = self._sorted(
            replies,
            Masked,
            lambda masked: wrong_masked(masked, fingerprint, self.integers, self.plan),
        )
        needed = trust_of(self.plan).quorum
        if len(masked) < needed:
            what = f"needs masked answers of at least {needed} of {len(self.asked)} sites"
            raise self._lost(
                f"query {self.query.label!r} {what}, but {len(masked)} gave one", absent
            )
        return Round(self.query, (), absent, said=masked, roll=self.roll)


@dataclass(frozen=True, eq=False, kw_only=True)
class _OfASum(_Step):
    """A step that only the members of a sum are asked for."""

    hidden: HiddenSum

    def enough(self, replies: Sequence[Reply]) -> bool:
        # Where sites are outside of the sum, every member must sign and open it.
        if self.hidden.outside or {reply.site for reply in replies} != {*self.asked}:
            return False
        try:
            self.check(replies)
        except QuorumLost:
            return False
        return True


@dataclass(frozen=True, eq=False, kw_only=True)
class AskingVotes(_OfASum):
    """The members' signatures under the set of the sum."""

    kind: ClassVar[type[Said]] = Vote
    step: str = AGREE

    def message(self, site: str) -> bytes:
        study, hidden = self.plan.fingerprint, self.hidden
        return encode(AskVote(study=study, query=hidden.query, members=hidden.members))

    def check(self, replies: Sequence[Reply]) -> Round:
        votes, absent = self._sorted(replies, Vote, self.hidden.wrong_vote)
        needed = trust_of(self.plan).signatures
        if len(votes) < needed:
            what = f"needs the signatures of {needed} of the {len(self.asked)} sites in its sum"
            raise self._lost(f"query {self.query.label!r} {what}, but {len(votes)} signed", absent)
        return Round(self.query, (), absent, said=votes, roll=self.roll)


@dataclass(frozen=True, eq=False, kw_only=True)
class AskingOpened(_OfASum):
    """What opens the sum: the last step, which ends the round.

    Attributes:
        votes: of enough members.
        missed: why the others are not in the sum.
    """

    kind: ClassVar[type[Said]] = Opened
    step: str = OPEN
    votes: tuple[Vote, ...]
    missed: tuple[Absence, ...]

    def message(self, site: str) -> bytes:
        return encode(self.hidden.asked(site, self.votes))

    def check(self, replies: Sequence[Reply]) -> Round:
        hidden = self.hidden
        opened, absent = self._sorted(replies, Opened, hidden.wrong_opened)
        seeds = hidden.seeds(opened)
        needed = [each for each in absent if each.site not in seeds]
        if needed:
            why = "without them" if hidden.outside else "with so few others"
            raise self._lost(
                f"the sum of query {self.query.label!r} cannot be opened {why}", needed
            )
        answer = answer_of(hidden, hidden.total(opened, seeds), self.terms)
        round_ = self.take([answer], (SUM,), hidden.sites)
        return replace(round_, absent=self.missed, said=(*opened, *absent))


def offered_keys(request: Request) -> Generator[Request, Round, tuple[OfferedKey, ...]]:
    """Ask every site for its key, before the first query."""
    round_ = yield AskingKeys.about(request)
    return _said(round_, OfferedKey)


def hidden_round(
    request: Request, keys: tuple[OfferedKey, ...]
) -> Generator[Request, Round, Round]:
    """All that is said about one query until its sum is there.

    Raises:
        ProtocolError: if the query is for one site: its answer cannot be hidden.
    """
    query = request.query
    if query.to is not None:
        raise ProtocolError(f"query {query.label!r} is for one site, where only sums may be seen")
    given = yield AskingMasked.about(request, keys=keys)
    masked = {each.site: each for each in _said(given, Masked)}
    hidden = HiddenSum(request.plan, query.fingerprint, keys, masked)
    within = replace(request, asked=hidden.sites)
    votes = _said((yield AskingVotes.about(within, hidden=hidden)), Vote)
    round_ = yield AskingOpened.about(within, hidden=hidden, votes=votes, missed=given.absent)
    if round_.roll is None or round_.terms != request.stated:
        raise ProtocolError(f"the round of query {query.label!r} was never checked")
    return round_


def _said(round_: Round, kind: type[Kind]) -> tuple[Kind, ...]:
    """What a checked step came to.

    Raises:
        ProtocolError: if it was not checked against its request.
    """
    if round_.roll is None or not round_.said:
        raise ProtocolError(f"a step of query {round_.query.label!r} was never checked")
    return tuple(said for said in round_.said if isinstance(said, kind))
