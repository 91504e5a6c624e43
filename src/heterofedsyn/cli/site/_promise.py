"""What a study under secure aggregation promises against whom, in words and as figures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from heterofedsyn._words import aloud
from heterofedsyn.cli._show import protected, say, show_table

if TYPE_CHECKING:
    from heterofedsyn.protocol.plan import Plan
    from heterofedsyn.site.ledger.entries import Account
    from heterofedsyn.site.settings import SiteSettings


def promise(plan: Plan) -> list[str]:
    """What is promised against whom; nothing where every site protects its records by itself."""
    from heterofedsyn.privacy.trust import SecureAggregation

    trust = plan.trust_model
    if not isinstance(trust, SecureAggregation):
        return []
    alone = plan.budget_alone
    sites, colluding = trust.sites, trust.colluding
    return [
        f"secure aggregation: whatever the hub does, together with up to {colluding} of the "
        f"{sites} sites, all it learns are sums over at least {trust.quorum} sites; in them every "
        f"{protected(plan.unit)} is protected by epsilon {plan.epsilon:g} (rho "
        f"{plan.budget.rho:.4g}), by the noise of at least {trust.honest} sites together",
        f"if more than {colluding} of the sites collude, or keys leak, answers of this site may be "
        f"seen by themselves: then by epsilon {alone.epsilon(plan.delta, plan.conversion):.4g} "
        f"(rho {alone.rho:.4g}) and no better",
        f"noise of a sum over all sites: {math.sqrt(trust.variance_factor):.3g} times that of all "
        f"rows in one place; under local trust it would be {math.sqrt(sites):.3g} times",
    ]


def show_promise(plan: Plan, settings: SiteSettings, account: Account) -> None:
    """The promise, both prices against their caps, and whose keys are confirmed."""
    lines = promise(plan)
    if not lines:
        return
    figures = promise_json(plan, settings, account)
    delta = settings.delta
    show_table(
        "If each answer is seen by itself",
        ["", "rho", f"epsilon at delta {delta:g}"],
        [
            [words, "none", "none"] if rho is None else [words, f"{rho:.4g}", _epsilon(rho, delta)]
            for words, rho in (
                ("this study, at most", plan.budget_alone.rho),
                ("spent in all so far", figures["spent_alone_rho"]),
                ("cap of the table", figures["alone_cap_rho"]),
            )
        ],
    )
    show_table(
        "Roster",
        ["site", "fingerprint of its key", "confirmed"],
        [
            [entry["site"], aloud(entry["fingerprint"]), _confirmed(entry)]
            for entry in figures["roster"]
        ],
    )
    for line in lines:
        say(line)


def promise_json(plan: Plan, settings: SiteSettings, account: Account) -> dict[str, Any]:
    """The same for programs."""
    from heterofedsyn.masking.identity import key_fingerprint
    from heterofedsyn.privacy.trust import SecureAggregation
    from heterofedsyn.site.roster import roster_of

    trust, cap = plan.trust_model, settings.alone_cap
    found: dict[str, Any] = {
        "trust": plan.trust,
        "spent_alone_rho": account.spent_alone.rho,
        "alone_cap_rho": None if cap is None else cap.rho,
    }
    if not isinstance(trust, SecureAggregation):
        return found
    confirmed = dict(roster_of(settings, plan))
    return {
        **found,
        "colluding": trust.colluding,
        "quorum": trust.quorum,
        "epsilon_alone": plan.budget_alone.epsilon(plan.delta, plan.conversion),
        "noise_of_sum": math.sqrt(trust.variance_factor),
        "roster": [
            {
                "site": name,
                "key": key,
                "fingerprint": key_fingerprint(key),
                "confirmed": confirmed.get(name),
                "own": name == settings.name,
            }
            for name, key in sorted(plan.roster.items())
        ],
    }


def _epsilon(rho: float, delta: float) -> str:
    from heterofedsyn.privacy.budget import Budget

    return f"{Budget(rho).epsilon(delta):.4g}"


def _confirmed(entry: dict[str, Any]) -> str:
    return "this site" if entry["own"] else "yes" if entry["confirmed"] else "NO"
