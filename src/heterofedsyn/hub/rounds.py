"""One round as the hub sees it: what a method asks, and the checked answers it gets back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heterofedsyn.errors import ProtocolError
from heterofedsyn.marginals.statistics import Statistic
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.privacy.trust import SecureAggregation
from heterofedsyn.protocol import Answer, Part, Plan, Query, Released
from heterofedsyn.schema import Domain
from heterofedsyn.synthesis import Measured, Measurement

SUM = "sum"
"""The name under which the sum over sites answers when only the sum is seen."""

_LARGEST = 2**53


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


@dataclass(frozen=True, eq=False)
class Round:
    """Checked answers to one query; order of arrival does not matter."""

    query: Query
    answers: tuple[Answer, ...]

    def totals(self) -> list[Noisy]:
        """For every part, the sum over sites; its variance is the sum of theirs."""
        return [self._total(i) for i in range(len(self.query.parts))]

    def measurements(self) -> tuple[Measurement, ...]:
        """What of this round a model may keep, summed over sites."""
        return tuple(
            Measurement(part.statistic, noisy)
            for part, noisy in zip(self.query.parts, self.totals(), strict=True)
            if isinstance(part.statistic, Measured)
        )

    def _total(self, part: int) -> Noisy:
        released = [answer.parts[part] for answer in self.answers]
        values = sum(r.values for r in released)
        return Noisy(np.asarray(values, np.float64), math.fsum(r.sigma**2 for r in released))


def make_query(ask: Ask, plan: Plan, budget: Budget, study: str, number: int) -> Query:
    """The message for an ask: budgets become shares of the study's budget."""
    parts = tuple(Part(statistic, budget.share(cost)) for statistic, cost in ask.parts)
    return Query(study=study, number=number, label=ask.label, parts=parts, to=ask.to)


def receive(
    query: Query, answers: Sequence[Answer], domain: Domain, plan: Plan, budget: Budget
) -> Round:
    """Answers that belong to the query, are complete, and are as noisy as agreed.

    Raises:
        ProtocolError: naming the site whose answer does not fit.
    """
    found = sorted(answers, key=lambda answer: answer.site)
    whole = isinstance(plan.trust_model, SecureAggregation)
    expected = sorted([SUM] if whole else [query.to] if query.to else plan.sites)
    if [answer.site for answer in found] != expected:
        names = ", ".join(answer.site for answer in found) or "nobody"
        raise ProtocolError(
            f"query {query.label!r} needs one answer each from {', '.join(expected)}; "
            f"got answers from {names}"
        )
    fingerprint = query.fingerprint
    agreed = [Agreed.of(part, domain, plan, budget) for part in query.parts]
    for answer in found:
        if (answer.study, answer.query) != (query.study, fingerprint):
            raise ProtocolError(f"site {answer.site!r} answered another query")
        if len(answer.parts) != len(query.parts):
            raise ProtocolError(f"site {answer.site!r} answered another number of parts")
        for terms, released in zip(agreed, answer.parts, strict=True):
            _check(answer.site, terms, released)
    return Round(query, tuple(found))


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
        sigma = trust.site_sigma(sensitivity, cost, integers)
        if isinstance(trust, SecureAggregation):
            sigma *= math.sqrt(trust.sites)
        return cls(integers, sensitivity, sigma, cost.rho)


def _check(site: str, agreed: Agreed, released: Released) -> None:
    if len(released.data) != 8 * agreed.integers:
        raise ProtocolError(f"site {site!r} sent a release of the wrong length")
    for stated, wanted in (
        (released.sensitivity, agreed.sensitivity),
        (released.sigma, agreed.sigma),
        (released.rho, agreed.rho),
    ):
        if not math.isclose(stated, wanted, rel_tol=1e-9):
            raise ProtocolError(f"site {site!r} used other noise than agreed")
    if not (released.values.min() > -_LARGEST and released.values.max() < _LARGEST):
        raise ProtocolError(f"site {site!r} sent a number beyond 2^53")
