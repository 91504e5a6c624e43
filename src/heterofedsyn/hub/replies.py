"""One round as the hub sees it: what a method asks, and the checked answers it gets back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import msgspec
import numpy as np

from heterofedsyn.errors import ProtocolError, QuorumLost
from heterofedsyn.marginals.statistics import Flat, Grouped, Statistic, Total, moves
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.privacy.trust import SecureAggregation
from heterofedsyn.protocol import Answer, Part, Plan, Query, Released
from heterofedsyn.schema import Domain
from heterofedsyn.synthesis import Measured, Measurement

SUM = "sum"
"""The name under which the sum over sites answers when only the sum is seen."""

NO_ANSWER = "gave no answer"
"""Too late or not at all: all that a release says of it, since how long counting takes is private.
"""

NOT_ASKED = "was not asked again"
TOO_MANY = "told of more rows than the study lets a site have"
TOO_FEW = "told counts far below any that rows give"

MOST_FACTOR = 10.0
"""By which sums over fewer sites may be multiplied: beyond, too little is known of the others."""

_LARGEST = 2**53
_SLACK = 8.0
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
    def refused(cls, site: str, reason: str) -> Absence:
        """A site whose agent refused, for one of its four reasons."""
        return cls(site, f"refused ({reason})")


UNAVAILABLE = Absence.refused("", "unavailable").reason

Reply: TypeAlias = Answer | Absence
"""What comes of asking one site."""


@dataclass(frozen=True, eq=False)
class Round:
    """Checked answers to one query; order of arrival does not matter.

    Attributes:
        absent: sites that were asked but have no answer that counts.
        terms: how every part must have been released.
        factor: what makes sums over fewer sites comparable with those over all; see `Roll`.
    """

    query: Query
    answers: tuple[Answer, ...]
    absent: tuple[Absence, ...] = ()
    terms: tuple[Agreed, ...] = ()
    factor: float = 1.0

    @property
    def asked(self) -> frozenset[str]:
        """The sites that may have been charged, or `SUM`, which is all of them."""
        return frozenset(reply.site for reply in self.replies)

    @property
    def replies(self) -> tuple[Reply, ...]:
        """One for every site that was asked."""
        return (*self.answers, *self.absent)

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
        found = Noisy(np.asarray(values, np.float64), math.fsum(r.sigma**2 for r in released))
        return found if self.factor == 1 else found.scaled(self.factor)


def make_query(ask: Ask, plan: Plan, budget: Budget, study: str, number: int) -> Query:
    """The message for an ask: budgets become shares of the study's budget."""
    parts = tuple(Part(statistic, budget.share(cost)) for statistic, cost in ask.parts)
    return Query(study=study, number=number, label=ask.label, parts=parts, to=ask.to)


@dataclass(frozen=True)
class Agreed:
    """How one part must have been released, as everyone can compute it."""

    integers: int
    sensitivity: float
    sigma: float
    rho: float

    @classmethod
    def of(cls, part: Part, domain: Domain, plan: Plan, budget: Budget) -> Agreed:
        """The terms of one part; the sum over sites has the noise of all of them."""
        trust = plan.trust_model
        integers = part.statistic.integers(domain)
        cost = budget.part(part.share)
        sensitivity = part.statistic.sensitivity(domain) * plan.rows_per_unit
        moved, l1 = moves(part.statistic, domain, plan.rows_per_unit)
        sigma = trust.site_sigma(sensitivity, cost, moved, l1)
        if isinstance(trust, SecureAggregation):
            sigma = math.sqrt(math.fsum([sigma**2] * trust.sites))
        return cls(integers, sensitivity, sigma, cost.rho)


def receive(
    query: Query,
    replies: Sequence[Reply],
    domain: Domain,
    plan: Plan,
    asked: Sequence[str],
    most_rows: int | None = None,
) -> Round:
    """The answers that belong to the query, are complete, and are as noisy as agreed.

    A site that was asked and has no such answer, or more than one, is absent. What others send is
    not looked at.

    Args:
        most_rows: that a site may have; answers that so many rows cannot give do not count.
    """
    budget = plan.budget
    terms = tuple(Agreed.of(part, domain, plan, budget) for part in query.parts)
    fingerprint = query.fingerprint
    answers: list[Answer] = []
    absent: list[Absence] = []
    for site in sorted(asked):
        reply = _single(site, [reply for reply in replies if reply.site == site])
        if isinstance(reply, Answer):
            rows = (
                None if most_rows is None else most_rows * (len(plan.sites) if site == SUM else 1)
            )
            fault = _fault(query, fingerprint, terms, reply) or (
                rows and _beyond(query, terms, reply, rows, plan.rows_per_unit)
            )
            reply = Absence(site, fault) if fault else reply
        if isinstance(reply, Answer):
            answers.append(reply)
        else:
            absent.append(reply)
    return Round(query, tuple(answers), tuple(absent), terms)


@dataclass(frozen=True, eq=False)
class Roll:
    """Who takes part in a study: a site that misses a round is not asked again.

    Methods combine sums of earlier rounds with sums of later ones. When sites are missing from a
    later one, its sums are multiplied by the ratio of noisy totals: of all sites that told one,
    over those that answered. The absent are so assumed to look like the present. A ratio below 1
    is noise and counts as 1; one above `MOST_FACTOR` ends the study; where no total is known there
    is no ratio.

    Attributes:
        sites: all sites of the plan, or the one name under which their sum answers.
        totals: each site's own noisy total, as `(sum of precision * total, sum of precision)`.
    """

    sites: tuple[str, ...]
    quorum: int
    missing: frozenset[str] = frozenset()
    totals: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan, quorum: int | None) -> Roll:
        """Everyone; all must answer unless a quorum is given."""
        if isinstance(plan.trust_model, SecureAggregation):
            return cls((SUM,), 1)
        return cls(plan.sites, len(plan.sites) if quorum is None else quorum)

    def take(self, round_: Round) -> tuple[Roll, Round]:
        """Who takes part after this round, and the round with the factor that its sums need.

        Raises:
            QuorumLost: if too few are left, or they have too few of all rows.
        """
        # Who is left is asked first: nobody's rows have no ratio.
        after = self._after(round_)
        return after, self._fitted(round_)

    def asked(self, query: Query) -> tuple[str, ...]:
        """Whom a query goes to."""
        meant = self.sites if query.to is None else (query.to,)
        return tuple(site for site in meant if site not in self.missing)

    def _after(self, round_: Round) -> Roll:
        """Who takes part after this round, if enough are left."""
        missing = self.missing | {absence.site for absence in round_.absent}
        left = len(self.sites) - len(missing)
        if left < self.quorum:
            found = "; ".join(f"site {a.site!r} {a.reason}" for a in round_.absent)
            earlier = f"; missing since earlier: {', '.join(sorted(self.missing))}"
            raise QuorumLost(
                f"query {round_.query.label!r} needs one answer each from at least {self.quorum} "
                f"of {len(self.sites)} sites, but {left} are left: {found}"
                f"{earlier if self.missing else ''}"
            )
        return replace(self, missing=missing, totals=self._told(round_))

    def _fitted(self, round_: Round) -> Round:
        """The round with the factor that its sums need, if those who answered can speak for all."""
        present = {answer.site for answer in round_.answers}
        if (
            round_.query.to is not None
            or not present <= {*self.totals}
            or present == {*self.totals}
        ):
            return round_
        whole = math.fsum(total / precision for total, precision in self.totals.values())
        part = math.fsum(self.totals[site][0] / self.totals[site][1] for site in present)
        error = math.sqrt(math.fsum(1 / self.totals[site][1] for site in present))
        # A total below its own noise tells nothing to divide by.
        factor = max(1.0, whole / max(part, error))
        if factor > MOST_FACTOR:
            gone = ", ".join(repr(site) for site in self.sites if site not in present)
            raise QuorumLost(
                f"query {round_.query.label!r}: the sites that answered told of {part:,.0f} rows, "
                f"all of {whole:,.0f}, which is beyond {MOST_FACTOR:g} times as many; resume when "
                f"{gone} can answer, or make the study anew without"
            )
        return replace(round_, factor=factor)

    def _told(self, round_: Round) -> dict[str, tuple[float, float]]:
        """The totals after this round, by inverse variance."""
        found = dict(self.totals)
        for answer in round_.answers:
            for part, released in zip(round_.query.parts, answer.parts, strict=True):
                statistic = part.statistic
                if isinstance(statistic, Total | Flat) and len(statistic.attributes) < 2:
                    values = released.values
                    precision = 1 / (released.sigma**2 * values.size)
                    told, weight = found.get(answer.site, (0.0, 0.0))
                    told += precision * float(values.sum())
                    found[answer.site] = (told, weight + precision)
        return found


def _single(site: str, replies: Sequence[Reply]) -> Reply:
    if not replies:
        return Absence(site, NO_ANSWER)
    return replies[0] if len(replies) == 1 else Absence(site, "answered more than once")


def _fault(query: Query, fingerprint: str, terms: Sequence[Agreed], answer: Answer) -> str | None:
    """What is wrong with an answer, in words that fit after the site's name."""
    if (answer.study, answer.query) != (query.study, fingerprint):
        return "answered another query"
    if len(answer.parts) != len(query.parts):
        return "answered another number of parts"
    faults = (_misfit(agreed, part) for agreed, part in zip(terms, answer.parts, strict=True))
    return next((fault for fault in faults if fault), None)


def _beyond(
    query: Query, terms: Sequence[Agreed], answer: Answer, rows: int, rows_per_unit: int
) -> str | None:
    """What no table of so many rows would give, in words that fit after the site's name.

    A row moves no integer by more than the sensitivity, and without rows all integers are 0.
    """
    for part, agreed, released in zip(query.parts, terms, answer.parts, strict=True):
        values = released.values.astype(np.float64)
        most, slack = rows * agreed.sensitivity / rows_per_unit, _SLACK * agreed.sigma
        least = -most
        if isinstance(part.statistic, Total | Flat | Grouped):
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


def _misfit(agreed: Agreed, released: Released) -> str | None:
    if len(released.data) != 8 * agreed.integers:
        return "sent a release of the wrong length"
    for stated, wanted in (
        (released.sensitivity, agreed.sensitivity),
        (released.sigma, agreed.sigma),
        (released.rho, agreed.rho),
    ):
        if not math.isclose(stated, wanted, rel_tol=1e-9):
            return "used other noise than agreed"
    if not (released.values.min() > -_LARGEST and released.values.max() < _LARGEST):
        return "sent a number beyond 2^53"
    return None
