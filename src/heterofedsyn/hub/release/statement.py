"""`privacy.json`: every charge of a study, made to be checked by others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import msgspec

from heterofedsyn.errors import PrivacyRefusal
from heterofedsyn.hub.replies import SUM, Round
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.terms import Terms
from heterofedsyn.privacy.trust import SecureAggregation
from heterofedsyn.protocol import Plan
from heterofedsyn.protocol.plan import NEIGHBOURS, protected, unit_column, unit_name
from heterofedsyn.protocol.terms import price_of


class SiteCharge(msgspec.Struct, frozen=True):
    """One query that the site was asked; one without an answer may have been charged as well."""

    label: str
    rho: float
    parts: tuple[Terms, ...]


class SiteAccount(msgspec.Struct, frozen=True):
    """Everything one site was charged."""

    site: str
    rho: float
    charges: tuple[SiteCharge, ...]


class Contributed(msgspec.Struct, frozen=True):
    """Whose answers are in the sum that answered a query."""

    label: str
    sites: tuple[str, ...]


class PrivacyStatement(msgspec.Struct, frozen=True, kw_only=True):
    """The guarantee of a release and the charges it rests on.

    Attributes:
        rho_alone: what the study costs if more sites collude than its trust model assumes.
        colluding: how many sites may pool what they know, with the hub or without.
        quorum: how many sites are in every sum.
        sums: one for every query; it and the two before are there under secure aggregation alone.
    """

    epsilon: float
    delta: float
    rho: float
    conversion: str
    neighbours: str = NEIGHBOURS
    unit: str
    rows_per_unit: int
    trust: str
    colluding: int | msgspec.UnsetType = msgspec.UNSET
    quorum: int | msgspec.UnsetType = msgspec.UNSET
    rho_alone: float
    simulated_noise: bool
    sites: tuple[SiteAccount, ...]
    sums: tuple[Contributed, ...] | msgspec.UnsetType = msgspec.UNSET

    @property
    def unit_column(self) -> str | None:
        """The column that tells people apart, or None where every row is protected by itself."""
        return unit_column(self.unit)

    @property
    def whom(self) -> str:
        """Whom it protects, in one word."""
        return "record" if self.unit_column is None else "person"

    @property
    def guarantee(self) -> str:
        """The promise in one sentence; of simulated noise, that there is none."""
        figures = f"epsilon {self.epsilon:g}, delta {self.delta:g} for every "
        figures += protected(self.unit_column)
        if self.simulated_noise:
            return f"none: the noise is simulated, as if for {figures}"
        return f"{figures} (rho {self.rho:.4g}, trust {self.trust})"


def spent_on(charges: Sequence[SiteCharge]) -> Budget:
    """What all parts of these charges cost jointly."""
    return price_of([terms for charge in charges for terms in charge.parts])


def accounts_of(sites: Sequence[str], rounds: Sequence[Round]) -> tuple[SiteAccount, ...]:
    """What each site was charged, or may have been: a lost answer can have been paid for."""
    charges = [
        SiteCharge(round_.query.label, price_of(round_.terms).rho, round_.terms)
        for round_ in rounds
    ]
    asked = [round_.asked for round_ in rounds]

    @cache  # most sites were asked the same
    def spent(places: tuple[int, ...]) -> tuple[float, tuple[SiteCharge, ...]]:
        own = tuple(charges[place] for place in places)
        return spent_on(own).rho, own

    return tuple(
        SiteAccount(site, *spent(tuple(i for i, some in enumerate(asked) if some & {site, SUM})))
        for site in sites
    )


def state(plan: Plan, rounds: Sequence[Round], *, simulated: bool) -> PrivacyStatement:
    """The statement of a finished study.

    Raises:
        PrivacyRefusal: if a site was charged more than the study's budget.
    """
    sites = accounts_of(plan.sites, rounds)
    budget = plan.budget
    most = max(site.rho for site in sites)
    if most > budget.rho:
        raise PrivacyRefusal(f"a site was charged rho={most}, above the study's {budget.rho}")
    trust = plan.trust_model
    return PrivacyStatement(
        epsilon=plan.epsilon,
        delta=plan.delta,
        rho=budget.rho,
        conversion=plan.conversion,
        unit=unit_name(plan.unit),
        rows_per_unit=plan.rows_per_unit,
        trust=plan.trust,
        colluding=trust.colluding if isinstance(trust, SecureAggregation) else msgspec.UNSET,
        quorum=trust.quorum if isinstance(trust, SecureAggregation) else msgspec.UNSET,
        rho_alone=plan.budget_alone.rho,
        simulated_noise=simulated,
        sites=sites,
        sums=_sums(rounds) if isinstance(trust, SecureAggregation) else msgspec.UNSET,
    )


def _sums(rounds: Sequence[Round]) -> tuple[Contributed, ...]:
    """Who is in the sum of every query."""
    return tuple(Contributed(round_.query.label, round_.members) for round_ in rounds)
