"""One round as the hub sees it: what a method asks, and the checked answers it gets back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import msgspec
import numpy as np

from heterofedsyn.errors import ProtocolError
from heterofedsyn.marginals.statistics import Statistic
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.privacy.terms import Terms
from heterofedsyn.protocol import Answer, Part, Plan, Query, Released, decode
from heterofedsyn.protocol.aggregation import Masked, OfferedKey, Opened, Vote
from heterofedsyn.protocol.codec import Said
from heterofedsyn.protocol.limits import check_together
from heterofedsyn.protocol.refusal import Reason
from heterofedsyn.synthesis import Measured, Measurement

if TYPE_CHECKING:
    from heterofedsyn.hub.quorum import Roll

SUM = "sum"
"""The name under which the sum over sites answers when only the sum is seen."""

ANSWER = "answer"
"""The step of a query in which sites answer it."""

NO_ANSWER = "gave no answer"
"""Too late or not at all: all that a release says of it, since how long counting takes is private.
"""

NOT_ASKED = "was not asked again"
TOO_MANY = "told of more rows than the study lets a site have"
TOO_FEW = "told counts far below any that rows give"

_LARGEST = 2**53
SLACK = 8.0
"""Standard deviations; an honest site goes beyond in one of 10^6 studies of 10^8 integers."""


@dataclass(frozen=True)
class Ask:
    """Statistics a method wants, each with what it may cost; `to` names one site or means all."""

    label: str
    parts: tuple[tuple[Statistic, Budget], ...]
    to: str | None = None

    @classmethod
    def evenly(cls, label: str, statistics: Sequence[Statistic], budget: Budget) -> Ask:
        """Equal shares of a budget for each statistic."""
        return cls(label, tuple(zip(statistics, budget.evenly(len(statistics)), strict=True)))


class Absence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A site without an answer that counts, and why, in words that fit after its name."""

    site: str
    reason: str

    @classmethod
    def refused(cls, site: str, reason: Reason) -> Absence:
        """A site whose agent refused, for one of its four reasons."""
        return cls(site, f"refused ({reason})")


UNAVAILABLE = Absence.refused("", Reason.UNAVAILABLE).reason

Step: TypeAlias = OfferedKey | Masked | Vote | Opened
"""What a site says on the way to a sum."""

Reply: TypeAlias = Answer | Step | Absence
"""What comes of asking one site."""

Heard = TypeVar("Heard", Answer, OfferedKey, Masked, Vote, Opened)


@dataclass(frozen=True, eq=False)
class Round:
    """Checked replies to one query, or to one step of it; order of arrival does not matter.

    Attributes:
        absent: sites that were asked but have no answer that counts.
        terms: how every part must have been released.
        factor: what makes sums over fewer sites comparable with those over all; see `Roll`.
        roll: who takes part after it.
        said: what came of asking each site for the last step on the way to a sum.
        members: the sites whose sum answers; none where each answers for itself.
    """

    query: Query
    answers: tuple[Answer, ...]
    absent: tuple[Absence, ...] = ()
    terms: tuple[Terms, ...] = ()
    factor: float = 1.0
    roll: Roll | None = None
    said: tuple[Step | Absence, ...] = ()
    members: tuple[str, ...] = ()

    @property
    def asked(self) -> frozenset[str]:
        """The sites that may have been charged, or `SUM`, which is all of them."""
        return frozenset([*(a.site for a in self.answers), *(a.site for a in self.absent)])

    @property
    def replies(self) -> tuple[Reply, ...]:
        """One for every site that was asked."""
        return (*self.answers, *self.said, *self.absent)

    def totals(self) -> list[Noisy]:
        """For every part, the sum over sites; its variance is the sum of theirs."""
        if not self.answers:
            raise ProtocolError(f"nobody answered query {self.query.label!r}")
        return [self._total(i) for i in range(len(self.query.parts))]

    def measurements(self) -> tuple[Measurement, ...]:
        """What of this round a model may keep, summed over sites."""
        return tuple(
            Measurement(part.statistic, noisy)
            for part, noisy in zip(self.query.parts, self.totals(), strict=True)
            if isinstance(part.statistic, Measured)
        )

    def of(self, sites: Sequence[str]) -> Round:
        """The same round with the answers of these sites only."""
        return replace(self, answers=tuple(a for a in self.answers if a.site in sites))

    def _total(self, part: int) -> Noisy:
        released = [answer.parts[part] for answer in self.answers]
        values = sum(r.values for r in released)
        total = Noisy(np.asarray(values, np.float64), math.fsum(r.sigma**2 for r in released))
        return total if self.factor == 1 else total.scaled(self.factor)


def make_query(ask: Ask, plan: Plan, number: int) -> Query:
    """The message for an ask: budgets become shares of the study's budget.

    Raises:
        ProtocolError: if it asks for more columns together than the plan allows.
    """
    budget = plan.budget
    parts = tuple(Part(statistic, budget.share(cost)) for statistic, cost in ask.parts)
    query = Query(study=plan.fingerprint, number=number, label=ask.label, parts=parts, to=ask.to)
    check_together(query, plan)
    return query


def read_said(site: str, data: object, kind: type[Said], *, simulated: bool = False) -> Reply:
    """What a site's bytes say; it speaks for itself and with real noise, or has no answer.

    Args:
        kind: of what it was asked for; anything else is no answer.
        simulated: whether the noise of a simulation is good enough.
    """
    try:
        said = decode(data, kind) if isinstance(data, bytes) else None
    except ProtocolError:
        said = None
    if said is None:
        return Absence(site, "sent something else than an answer")
    if said.site != site:
        return Absence(site, "answered for another site")
    if isinstance(said, Answer | Masked) and said.simulated and not simulated:
        return Absence(site, "used the noise of a simulation")
    return said


def receive(
    query: Query,
    terms: Sequence[Terms],
    replies: Sequence[Reply],
    asked: Sequence[str],
    plan: Plan,
    most_rows: int | None = None,
) -> Round:
    """The answers that belong to the query, are complete, and are as noisy as agreed.

    A site that was asked and has no such answer, or more than one, is absent. What others send is
    not looked at.

    Args:
        most_rows: that an answer may tell of; one that so many rows cannot give does not count.
    """
    fingerprint = query.fingerprint
    answers: list[Answer] = []
    absent: list[Absence] = []
    for site in sorted(asked):
        reply = single(site, replies, Answer)
        if isinstance(reply, Answer):
            fault = _fault(query, fingerprint, terms, reply)
            if fault is None and most_rows is not None:
                fault = _beyond(query, terms, reply, most_rows, plan.rows_per_unit)
            reply = Absence(site, fault) if fault else reply
        if isinstance(reply, Answer):
            answers.append(reply)
        else:
            absent.append(reply)
    return Round(query, tuple(answers), tuple(absent), tuple(terms))


def single(site: str, replies: Sequence[Reply], kind: type[Heard]) -> Heard | Absence:
    """The one reply of a site, if it is of this kind."""
    own = [reply for reply in replies if reply.site == site]
    if not own:
        return Absence(site, NO_ANSWER)
    if len(own) > 1:
        return Absence(site, "answered more than once")
    (reply,) = own
    if isinstance(reply, kind | Absence):
        return reply
    return Absence(site, "sent something else than an answer")


def _fault(query: Query, fingerprint: str, terms: Sequence[Terms], answer: Answer) -> str | None:
    """What is wrong with an answer, in words that fit after the site's name."""
    if (answer.study, answer.query) != (query.study, fingerprint):
        return "answered another query"
    if len(answer.parts) != len(query.parts):
        return "answered another number of parts"
    faults = (_misfit(agreed, part) for agreed, part in zip(terms, answer.parts, strict=True))
    return next((fault for fault in faults if fault), None)


def _beyond(
    query: Query, terms: Sequence[Terms], answer: Answer, rows: int, rows_per_unit: int
) -> str | None:
    """What no table of so many rows would give, in words that fit after the site's name.

    A row moves no integer by more than the sensitivity, and without rows all integers are 0.
    """
    for part, agreed, released in zip(query.parts, terms, answer.parts, strict=True):
        values = released.values.astype(np.float64)
        most, slack = rows * agreed.sensitivity / rows_per_unit, SLACK * agreed.sigma
        least = -most
        if part.statistic.partitions:
            least = 0.0
            total, slack_of_total = values.sum(), slack * math.sqrt(values.size)
            if total > rows + slack_of_total:
                return TOO_MANY
            if total < -slack_of_total:
                return TOO_FEW
        if values.max() > most + slack:
            return TOO_MANY
        if values.min() < least - slack:
            return TOO_FEW
    return None


def _misfit(terms: Terms, released: Released) -> str | None:
    if len(released.data) != 8 * terms.integers:
        return "sent a release of the wrong length"
    for stated, wanted in (
        (released.sensitivity, terms.sensitivity),
        (released.sigma, terms.sigma),
        (released.rho, terms.rho),
    ):
        if not math.isclose(stated, wanted, rel_tol=1e-9):
            return "used other noise than agreed"
    if not (released.values.min() > -_LARGEST and released.values.max() < _LARGEST):
        return "sent a number beyond 2^53"
    return None
