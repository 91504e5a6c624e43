"""The trust models that a study could have: how accurate each is, and what it promises to whom."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from heterofedsyn.hub.methods.base import Method
from heterofedsyn.privacy.trust import LEAST_SITES, Local, SecureAggregation, Trust
from heterofedsyn.protocol import Plan
from heterofedsyn.protocol.plan import Aggregation

if TYPE_CHECKING:
    from heterofedsyn.hub.planning.forecast import Outlook

REFUSED = "refused"
"""In place of a mode where the noise of each site would be too little."""


@dataclass(frozen=True)
class TrustOutlook:
    """What to expect of one trust model, all else being equal.

    Attributes:
        colluding: sites that may pool what they know, with the hub or without; None if any may.
        quorum: sites that must be in every sum; None where there are no sums.
        noise: sigma of a sum over all sites, in units of what it would be in one place.
        rho_alone: of each record if more collude: of the answers by themselves.
        epsilon_alone: the same with the study's delta.
    """

    trust: str
    colluding: int | None
    quorum: int | None
    noise: float
    rho_alone: float
    epsilon_alone: float
    outlook: Outlook


def compare(
    plan: Plan, method: Method, look: Callable[[Plan], Outlook]
) -> tuple[TrustOutlook, ...]:
    """Every trust model that is worth a look, `local` first; the plan's own is among them.

    Args:
        look: at what to expect of a plan.
    """
    return tuple(_outlook(other, look(other)) for other in _alternatives(plan, method))


def trust_advice(sites: int, own: Trust, compared: Sequence[TrustOutlook]) -> Iterable[str]:
    """What to know about the trust model that was chosen, or about the one that was not."""
    local, *hidden = compared
    if isinstance(own, SecureAggregation):
        (chosen,) = (h for h in hidden if (h.colluding, h.quorum) == (own.colluding, own.quorum))
        yield (
            f"if more than {own.colluding} of {sites} sites collude, epsilon "
            f"{chosen.epsilon_alone:.3g} is what stays promised; every steward must have allowed "
            "as much"
        )
        if own.quorum < sites:
            yield (
                f"sums over {own.quorum} of {sites} sites can be compared with sums over others, "
                f"which shows a site's noisy counts; quorum {sites} would hide them"
            )
        return
    usual = next((h for h in hidden if h.outlook.mode != REFUSED), None)
    if usual is not None:
        yield (
            f"secure aggregation would divide the noise by {local.noise / usual.noise:.2g} (sums "
            f"over {usual.quorum} sites, {usual.colluding} may collude): worth as much as epsilon "
            f"{usual.epsilon_alone:.3g} with trust local, which is what stays promised if more "
            "collude"
        )


def _alternatives(plan: Plan, method: Method) -> list[Plan]:
    local = msgspec.structs.replace(plan, trust=Local.name, aggregation=msgspec.UNSET)
    sites = len(plan.sites)
    if sites < LEAST_SITES or method.pools or not method.sums:
        return [local]
    ways = {(t, q) for t in _colluding(sites) for q in (_fewest(sites, t), sites)}
    own = plan.trust_model
    if isinstance(own, SecureAggregation):
        ways.add((own.colluding, own.quorum))
    hidden = [
        msgspec.structs.replace(
            plan, trust=SecureAggregation.name, aggregation=Aggregation(colluding=t, quorum=q)
        )
        for t, q in sorted(ways, key=lambda way: (way[0], -way[1]))
    ]
    return [local, *hidden]


def _colluding(sites: int) -> set[int]:
    """One, a fifth and half of the sites; never more than can be."""
    return {min(max(1, many), sites - 2) for many in (1, sites // 5, sites // 2)}


def _fewest(sites: int, colluding: int) -> int:
    """The smallest quorum."""
    return SecureAggregation(sites, colluding).signatures


def _outlook(plan: Plan, expected: Outlook) -> TrustOutlook:
    trust = plan.trust_model
    hidden = trust if isinstance(trust, SecureAggregation) else None
    return TrustOutlook(
        trust=plan.trust,
        colluding=None if hidden is None else hidden.colluding,
        quorum=None if hidden is None else hidden.quorum,
        noise=trust.variance_factor**0.5,
        rho_alone=plan.budget_alone.rho,
        epsilon_alone=plan.budget_alone.epsilon(plan.delta, plan.conversion),
        outlook=expected,
    )
