"""`privacy.json`: every charge of a study, made to be checked by others."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from heterofedsyn.errors import PrivacyRefusal
from heterofedsyn.hub.replies import SUM, Round
from heterofedsyn.marginals.statistics import kind_of
from heterofedsyn.privacy.budget import Budget, together
from heterofedsyn.protocol import Plan
from heterofedsyn.protocol.plan import unit_column, unit_name


class ChargedPart(msgspec.Struct, frozen=True):
    """One release: `sigma` protects a record under the declared trust model."""

    kind: str
    attributes: tuple[str, ...]
    sensitivity: float
    sigma: float
    integers: int
    rho: float


class SiteCharge(msgspec.Struct, frozen=True):
    """One query that the site was asked; one without an answer may have been charged as well."""

    label: str
    rho: float
    parts: tuple[ChargedPart, ...]


class SiteAccount(msgspec.Struct, frozen=True):
    """Everything one site was charged."""

    site: str
    rho: float
    charges: tuple[SiteCharge, ...]


class PrivacyStatement(msgspec.Struct, frozen=True, kw_only=True):
    """The guarantee of a release and the charges it rests on."""

    epsilon: float
    delta: float
    rho: float
    conversion: str
    neighbours: str = "add-or-remove-one"
    unit: str
    rows_per_unit: int
    trust: str
    rho_alone: float
    simulated_noise: bool
    sites: tuple[SiteAccount, ...]

    @property
    def unit_column(self) -> str | None:
        """The column that tells people apart, or None where every row is protected by itself."""
        return unit_column(self.unit)


@dataclass(frozen=True, eq=False)
class Accounts:
    """The rounds of a study so far, as booked by the hub."""

    plan: Plan
    rounds: tuple[Round, ...] = ()

    def book(self, round_: Round) -> Accounts:
        """These accounts and one more round."""
        return replace(self, rounds=(*self.rounds, round_))

    def of(self, site: str) -> SiteAccount:
        """What one site was charged, or may have been: a lost answer can have been paid for."""
        charges = []
        for round_ in self.rounds:
            if round_.asked & {site, SUM}:
                parts = _charged(round_)
                cost = together(Budget(part.rho) for part in parts)
                charges.append(SiteCharge(round_.query.label, cost.rho, parts))
        spent = together(Budget(part.rho) for charge in charges for part in charge.parts)
        return SiteAccount(site, spent.rho, tuple(charges))


def state(plan: Plan, accounts: Accounts, *, simulated: bool) -> PrivacyStatement:
    """The statement of a finished study.

    Raises:
        PrivacyRefusal: if a site was charged more than the study's budget.
    """
    sites = tuple(accounts.of(site) for site in plan.sites)
    budget = plan.budget
    most = max(site.rho for site in sites)
    if most > budget.rho:
        raise PrivacyRefusal(f"a site was charged rho={most}, above the study's {budget.rho}")
    return PrivacyStatement(
        epsilon=plan.epsilon,
        delta=plan.delta,
        rho=budget.rho,
        conversion=plan.conversion,
        unit=unit_name(plan.unit),
        rows_per_unit=plan.rows_per_unit,
        trust=plan.trust,
        rho_alone=budget.times(plan.trust_model.alone_factor).rho,
        simulated_noise=simulated,
        sites=sites,
    )


def _charged(round_: Round) -> tuple[ChargedPart, ...]:
    return tuple(
        ChargedPart(
            kind=kind_of(part.statistic),
            attributes=part.statistic.attributes,
            sensitivity=agreed.sensitivity,
            sigma=agreed.sigma,
            integers=agreed.integers,
            rho=agreed.rho,
        )
        for part, agreed in zip(round_.query.parts, round_.terms, strict=True)
    )
