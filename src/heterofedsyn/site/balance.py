"""What a table has spent and what is left, entry by entry and against its caps."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from heterofedsyn._words import short
from heterofedsyn.errors import HeterofedsynError
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.protocol.about import About
from heterofedsyn.site.consent import CONSENT, consent_folder, read_consent, recorded
from heterofedsyn.site.ledger.entries import Account, Charged, Repaired
from heterofedsyn.site.settings import SiteSettings


def ledger_head(settings: SiteSettings, account: Account) -> list[str]:
    """What stands above `ledger_lines`."""
    alone = ["rho alone"] if tells_alone(settings, account) else []
    return ["when", "entry", "study", "for", "rho", *alone]


def ledger_lines(settings: SiteSettings, account: Account) -> list[list[str]]:
    """Every charge and repair in order: when, entry, study, for what, rho, and rho if seen alone.

    The last only where answers seen by themselves have a price of their own, or a cap.
    """
    alone = tells_alone(settings, account)
    lines: list[tuple[int, str, str, str, Charged | Repaired]] = [
        (charged.number, charged.when, short(charged.study), charged.label, charged)
        for charged in account.charges
    ]
    lines += [(booked.number, booked.when, "", "repair", booked) for booked in account.repairs]
    lines.sort(key=lambda line: line[0])
    return [
        [
            when,
            f"{number:,}",
            study,
            label,
            f"{booked.rho:.4g}",
            *([f"{booked.budget_alone.rho:.4g}"] if alone else []),
        ]
        for number, when, study, label, booked in lines
    ]


def balances(settings: SiteSettings, account: Account) -> list[tuple[float | None, str]]:
    """What is left under either cap: the share, where there is a cap, and words."""
    delta = settings.delta
    share, words = balance(account.spent, settings.cap, settings.epsilon, delta)
    lines: list[tuple[float | None, str]] = [(share, words)]
    if (cap := settings.alone_cap) is not None:
        share, words = balance(account.spent_alone, cap, settings.alone_epsilon or 0.0, delta)
        lines.append((share, f"{words}, if each answer is seen by itself"))
    elif tells_alone(settings, account):
        alone = account.spent_alone
        words = (
            f"if each answer is seen by itself: rho {alone.rho:.4g} is spent, epsilon "
            f"{alone.epsilon(delta):.4g} at delta {delta:g}; no cap is set on that"
        )
        lines.append((None, words))
    return lines


def balance(spent: Budget, cap: Budget, epsilon: float, delta: float) -> tuple[float, str]:
    """What is left of a cap of this epsilon: the share, and in words."""
    share = max(0.0, cap.rho - spent.rho) / cap.rho
    return share, (
        f"{share:.1%} left: rho {spent.rho:.4g} of {cap.rho:.4g} is spent, epsilon "
        f"{spent.epsilon(delta):.4g} of {epsilon:g} at delta {delta:g}"
    )


def left(settings: SiteSettings, account: Account) -> float:
    """The rho that the table may still spend."""
    return max(0.0, settings.cap.rho - account.spent.rho)


def schemas_of(settings: SiteSettings, account: Account) -> dict[str, str]:
    """The fingerprint of the public schema of every study with a charge, as its consent has it."""
    found = {}
    for study in dict.fromkeys(charged.study for charged in account.charges):
        found[study] = ""
        with suppress(HeterofedsynError):  # what is damaged is told of where it matters
            found[study] = read_consent(consent_folder(settings, study) / CONSENT).schema
    return found


def abouts_of(settings: SiteSettings, account: Account) -> dict[str, About]:
    """What every study with a charge says of itself; one that changed since says nothing."""
    found = {}
    for study in dict.fromkeys(charged.study for charged in account.charges):
        found[study] = About()
        with suppress(HeterofedsynError):  # what is damaged is told of where it matters
            found[study] = recorded(settings, study)[0].plan.said_about
    return found


def ledger_json(settings: SiteSettings, account: Account) -> dict[str, Any]:
    """All that the ledger says, for programs."""
    return {
        "site": settings.name,
        "spent_rho": account.spent.rho,
        "cap_rho": settings.cap.rho,
        "left_rho": left(settings, account),
        "spent_epsilon": account.spent.epsilon(settings.delta),
        "cap_epsilon": settings.epsilon,
        "delta": settings.delta,
        "spent_alone_rho": account.spent_alone.rho,
        "spent_alone_epsilon": account.spent_alone.epsilon(settings.delta),
        "alone_cap_rho": None if settings.alone_cap is None else settings.alone_cap.rho,
        "alone_cap_epsilon": settings.alone_epsilon,
        "number": account.number,
        "head": account.head,
        "schemas": schemas_of(settings, account),
        "about": {study: dict(about.said) for study, about in abouts_of(settings, account).items()},
        "charges": [
            {
                "number": charged.number,
                "when": charged.when,
                "study": charged.study,
                "query": charged.query,
                "label": charged.label,
                "integers": charged.integers,
                "rho": charged.rho,
                "rho_alone": charged.budget_alone.rho,
            }
            for charged in account.charges
        ],
        "repairs": [
            {
                "number": booked.number,
                "when": booked.when,
                "rho": booked.rho,
                "rho_alone": booked.budget_alone.rho,
            }
            for booked in account.repairs
        ],
    }


def tells_alone(settings: SiteSettings, account: Account) -> bool:
    """Whether answers seen by themselves have a price of their own here, or a cap."""
    return settings.alone_cap is not None or account.booked_alone != account.booked
