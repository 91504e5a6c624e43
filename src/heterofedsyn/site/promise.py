"""What a study would cost a site against its caps, in words and as figures."""

from __future__ import annotations

import math
from typing import Any

from heterofedsyn.masking.identity import key_fingerprint
from heterofedsyn.privacy.budget import Budget, large_delta
from heterofedsyn.privacy.trust import SecureAggregation
from heterofedsyn.protocol.plan import Plan
from heterofedsyn.site.ledger.entries import Account
from heterofedsyn.site.roster import Standing, roster_of
from heterofedsyn.site.settings import SiteSettings


def remarks(plan: Plan, settings: SiteSettings, account: Account) -> list[str]:
    """What a steward should know besides: a delta too large, too little left, a repaired ledger."""
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
        *large_delta(plan.delta, settings.rows or 1),
        *(
            f"of {words} only {max(0.0, rest):.4g} is left, so the study will be refused before "
            "its end"
            for words, rest in found
        ),
        *_repaired(plan, account),
    ]


def _repaired(plan: Plan, account: Account) -> list[str]:
    if not account.repairs:
        return []
    known = account.spent_on(plan.fingerprint)
    return [
        f"the ledger was repaired (entry {account.repairs[-1].number:,}), so entries may be "
        f"missing; of this study it knows rho {known.rho:.4g}"
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
