"""What every part of a query costs and how it is protected: the one place where it is computed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from heterofedsyn.errors import PrivacyRefusal
from heterofedsyn.marginals.statistics import Statistic, kind_of, moves
from heterofedsyn.privacy.budget import Budget, together
from heterofedsyn.privacy.terms import Terms
from heterofedsyn.privacy.trust import SecureAggregation, Trust
from heterofedsyn.protocol.messages import Part, Query
from heterofedsyn.protocol.plan import Plan
from heterofedsyn.schema import Domain

MOST_SIGMA = 2.0**40
"""Noise that could reach the end of 64-bit integers would be cut off there, and so tell."""


def cost_of(part: Part, plan: Plan) -> Budget:
    """What a part of a query costs; nothing needs to be drawn or counted to know it."""
    return plan.budget.part(part.share)


def terms_of(part: Part, domain: Domain, plan: Plan, trust: Trust | None = None) -> Terms:
    """On what terms one site releases a part of a query.

    Args:
        trust: the plan's, unless the site knows better.

    Raises:
        PrivacyRefusal: if there is no noise that would do.
    """
    return terms_at(part.statistic, cost_of(part, plan), domain, plan, trust)


def terms_at(
    statistic: Statistic, cost: Budget, domain: Domain, plan: Plan, trust: Trust | None = None
) -> Terms:
    """The same for a statistic that costs so much.

    Raises:
        PrivacyRefusal: if there is no noise that would do.
    """
    rows = plan.rows_per_unit
    sensitivity = statistic.sensitivity(domain) * rows
    moved, l1 = moves(statistic, domain, rows)
    return Terms(
        kind=kind_of(statistic),
        attributes=statistic.attributes,
        sensitivity=sensitivity,
        sigma=_sigma(sensitivity, cost, moved, l1, trust or plan.trust_model),
        integers=statistic.integers(domain),
        rho=cost.rho,
    )


def stated_terms(part: Part, domain: Domain, plan: Plan) -> Terms:
    """On what terms a part is said to be released: with the noise that protects for sure."""
    return guaranteed(terms_of(part, domain, plan), plan.trust_model)


def guaranteed(terms: Terms, trust: Trust) -> Terms:
    """The terms with the noise that protects a record for sure, where each site releases on these.

    Under secure aggregation that is the noise of the honest sites that every sum has.
    """
    honest = trust.honest if isinstance(trust, SecureAggregation) else 1
    return of_the_sum(terms, honest)


def of_the_sum(terms: Terms, sites: int) -> Terms:
    """The terms of a sum over so many sites, each of which releases on these."""
    sigma = math.sqrt(math.fsum([terms.sigma**2] * sites))
    return msgspec.structs.replace(terms, sigma=sigma)


def hears_sums(plan: Plan) -> bool:
    """Whether the hub hears nothing but sums over sites."""
    return isinstance(plan.trust_model, SecureAggregation)


def check_noise(query: Query, domain: Domain, plan: Plan, trust: Trust) -> None:
    """Refuse what cannot be noised before any work is done for it.

    The sensitivity of a sketch needs its matrix, a bound on it does not.

    Raises:
        PrivacyRefusal: if there is no noise for the part that needs most.
    """

    def bound(part: Part) -> float:
        return part.statistic.most_sensitivity(domain)

    rows = plan.rows_per_unit
    noisiest = max(query.parts, key=lambda part: bound(part) / math.sqrt(part.share))
    integers = noisiest.statistic.integers(domain)
    most = bound(noisiest) * rows
    cost = cost_of(noisiest, plan)
    _sigma(most, cost, integers, math.sqrt(integers) * most, trust)


def within_means(query: Query, domain: Domain, plan: Plan) -> Query:
    """The query, with smaller shares for parts whose own would leave sites too little noise.

    What later rounds ask hangs on noisy answers: a sum of few releases must not end a study that
    was paid for, only because it could be more exact than is possible.
    """
    trust = plan.trust_model
    if not isinstance(trust, SecureAggregation):
        return query
    parts = tuple(_within_means(part, domain, plan, trust) for part in query.parts)
    return query if parts == query.parts else msgspec.structs.replace(query, parts=parts)


def _within_means(part: Part, domain: Domain, plan: Plan, trust: SecureAggregation) -> Part:
    most = trust.dearest(part.statistic.sensitivity(domain) * plan.rows_per_unit)
    if cost_of(part, plan) <= most:
        return part
    return msgspec.structs.replace(part, share=plan.budget.share(most))


def price_of(terms: Sequence[Terms]) -> Budget:
    """What several releases cost jointly."""
    return together(Budget(each.rho) for each in terms)


def _sigma(sensitivity: float, cost: Budget, moved: int, l1: float, trust: Trust) -> float:
    sigma = trust.site_sigma(sensitivity, cost, moved, l1)
    if sigma > MOST_SIGMA:
        raise PrivacyRefusal(
            f"noise of sigma {sigma:.3g} does not fit 64-bit integers; ask with a larger share"
        )
    return sigma
