"""What a study promises against whom, and whether the caps allow it, in words and as figures."""

from __future__ import annotations

import math
from typing import Any

from heterofedsyn.masking.identity import key_fingerprint
from heterofedsyn.privacy.budget import Budget, large_delta
from heterofedsyn.privacy.trust import SecureAggregation
from heterofedsyn.protocol.plan import Plan, protected
from heterofedsyn.site.ledger.entries import Account
from heterofedsyn.site.roster import Standing, roster_of
from heterofedsyn.site.settings import SiteSettings


def promise(plan: Plan) -> list[str]:
    """What is promised against whom."""
    trust, unit = plan.trust_model, protected(plan.unit)
    if not isinstance(trust, SecureAggregation):
        return [
            f"local trust: every {unit} is protected by epsilon {plan.epsilon:g} (rho "
            f"{plan.budget.rho:.4g}), by the noise of this site alone, against the hub, all other "
            "sites together and every reader; no promise of anybody is needed",
            "the hub sees each answer of this site by itself, and so its noisy size and figures",
        ]
    alone = plan.budget_alone
    sites, colluding = trust.sites, trust.colluding
    lines = [
        f"secure aggregation: whatever the hub does, together with up to {colluding} of the "
        f"{sites} sites, all it learns are sums over at least {trust.quorum} sites, those among "
        f"them; in these sums every "
        f"{unit} is protected by epsilon {plan.epsilon:g} (rho {plan.budget.rho:.4g}), by the "
        f"noise of at least {trust.honest} sites together",
        f"if more than {colluding} of the sites collude, or keys leak, answers of this site may be "
        f"seen by themselves: then every {unit} is protected by epsilon "
        f"{alone.epsilon(plan.delta, plan.conversion):.4g} (rho {alone.rho:.4g}) and no better",
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


def remarks(plan: Plan, settings: SiteSettings, account: Account) -> list[str]:
    """Which cap has too little left for all that the study may still ask; a delta too large."""
    study, cap, alone_cap = plan.fingerprint, settings.cap.rho, settings.alone_cap
    spent, alone = account.spent.rho, account.spent_alone.rho
    found = []
    if spent - account.spent_on(study).rho + plan.budget.rho > cap:
        found.append((f"the table's rho {cap:.4g}", cap - spent))
    if alone_cap is not None:
        others = alone - account.spent_alone_on(study).rho
        if others + plan.budget_alone.rho > alone_cap.rho:
            words = f"the rho {alone_cap.rho:.4g} for answers seen by themselves"
            found.append((words, alone_cap.rho - alone))
    return [
        *(f"remark: {remark}" for remark in large_delta(plan.delta, settings.rows or 1)),
        *_refused(found),
    ]


def _refused(found: list[tuple[str, float]]) -> list[str]:
    return [
        f"remark: of {words} only {max(0.0, rest):.4g} is left, so the study will be refused "
        "before its end"
        for words, rest in found
    ]


def cap_lines(plan: Plan, settings: SiteSettings, account: Account) -> list[list[str]]:
    """What a study may spend and what is spent against the caps: words, rho, epsilon."""
    return [
        _line(words, amount.rho, settings.delta)
        for words, amount in (
            ("this study, at most", plan.budget),
            ("cap per study", settings.study_cap),
            ("spent on this study so far", account.spent_on(plan.fingerprint)),
            ("spent in all so far", account.spent),
            ("cap of the table", settings.cap),
        )
    ]


def alone_lines(plan: Plan, settings: SiteSettings, account: Account) -> list[list[str]]:
    """The same if each answer is seen by itself; none where that has no price of its own."""
    cap = settings.alone_cap
    if cap is None and not isinstance(plan.trust_model, SecureAggregation):
        return []
    return [
        _line(words, rho, settings.delta)
        for words, rho in (
            ("this study, at most", plan.budget_alone.rho),
            ("spent in all so far", account.spent_alone.rho),
            ("cap of the table", None if cap is None else cap.rho),
        )
    ]


def _line(words: str, rho: float | None, delta: float) -> list[str]:
    if rho is None:
        return [words, "none", "none"]
    return [words, f"{rho:.4g}", f"{Budget(rho).epsilon(delta):.4g}"]


def promise_json(plan: Plan, settings: SiteSettings, account: Account) -> dict[str, Any]:
    """The promise in figures: both prices against their caps, whose keys are confirmed."""
    trust, cap = plan.trust_model, settings.alone_cap
    found: dict[str, Any] = {
        "trust": plan.trust,
        "spent_alone_rho": account.spent_alone.rho,
        "alone_cap_rho": None if cap is None else cap.rho,
    }
    if not isinstance(trust, SecureAggregation):
        return found
    standing = roster_of(settings, plan)
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
                "confirmed": None if name == settings.name else standing[name].good,
                "own": standing[name] is Standing.OWN,
                "standing": standing[name].value,
            }
            for name, key in sorted(plan.roster.items())
        ],
    }
