"""What a study promises against whom, in words."""

from __future__ import annotations

import math

from heterofedsyn.marginals.counts import TRIPLES
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.trust import SecureAggregation
from heterofedsyn.protocol.plan import Plan, protected


def asked_words(plan: Plan) -> str:
    """What consent to a study lets its hub ask for."""
    most = ", of up to three columns together," if plan.together == TRIPLES else ""
    return f"the agent answers any statistic{most} that the hub asks for within it"


def promise(plan: Plan, *, rho: bool = True) -> list[str]:
    """What is promised against whom.

    Args:
        rho: whether it stands beside each epsilon.
    """
    trust, unit = plan.trust_model, protected(plan.unit)
    stated = _amount(f"{plan.epsilon:g}", plan.budget, rho)
    if not isinstance(trust, SecureAggregation):
        return [
            f"local trust: every {unit} is protected by {stated}, by the noise of this "
            "site alone, against the hub, all other sites together and every reader; no promise of "
            "anybody is needed",
            "the hub sees each answer of this site by itself, and so its noisy size and figures",
        ]
    alone = plan.budget_alone
    seen = _amount(f"{alone.epsilon(plan.delta, plan.conversion):.4g}", alone, rho)
    sites, colluding = trust.sites, trust.colluding
    lines = [
        f"secure aggregation: whatever the hub does, together with up to {colluding} of the "
        f"{sites} sites, all it learns are sums over at least {trust.quorum} sites, those among "
        f"them; in these sums every "
        f"{unit} is protected by {stated}, by the noise of at least {trust.honest} sites together",
        f"if more than {colluding} of the sites collude, or keys leak, answers of this site may be "
        f"seen by themselves: then every {unit} is protected by {seen} "
        "and no better",
        f"noise of a sum over all sites: {math.sqrt(trust.variance_factor):.3g} times that of all "
        f"rows in one place; under local trust it would be {math.sqrt(sites):.3g} times",
    ]
    if trust.quorum < sites:
        lines.append(
            f"since a sum may be over {trust.quorum} of the {sites} sites, the hub, and readers of "
            "a release in which a site missed a round, can compare sums over different sets of "
            "sites and so see a site's noisy size and figures; records stay protected as said"
        )
    return lines


def _amount(epsilon: str, budget: Budget, with_rho: bool) -> str:
    return f"epsilon {epsilon} (rho {budget.rho:.4g})" if with_rho else f"epsilon {epsilon}"
