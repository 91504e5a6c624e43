"""What a receipt that holds says, in words and for programs."""

from __future__ import annotations

import math
from typing import Any

from msgspec import UNSET

from heterofedsyn._words import count
from heterofedsyn.protocol.plan import protected, unit_column
from heterofedsyn.site.receipt import Receipt, SignedReceipt


def verified_lines(signed: SignedReceipt, *, key_known: bool) -> list[str]:
    """What to say of a receipt that was checked.

    Args:
        key_known: whether it was checked against a key that somebody vouched for.
    """
    made = signed.receipt
    known = "the key given" if key_known else f"key {signed.key}, which nobody vouched for"
    lines = [
        f"the receipt holds, signed with {known}",
        f"site {made.site!r}, study {made.study}, issued {made.issued}",
        *made.said_about.lines,
        f"consent by {made.consent_by} on {made.consent_when}",
        f"{count(len(made.releases), 'answer')} with {count(_integers(made), 'noisy integer')}: "
        f"rho {made.spent_rho:.4g}, epsilon {made.spent_epsilon:.4g} at delta {made.delta:g} for "
        f"every {protected(unit_column(made.unit))}",
        *hidden_lines(made),
    ]
    lines += [
        f"remark: the ledger was repaired ({booked.when}, entry {booked.number:,}, rho "
        f"{booked.rho:.4g} booked): entries may be missing, and more may have been released than "
        "is said here"
        for booked in made.repairs
    ]
    if made.simulated_noise:
        lines.append("remark: its noise was simulated and protects nobody")
    return lines


def verified_json(signed: SignedReceipt, *, key_known: bool) -> dict[str, Any]:
    """The same for programs."""
    made = signed.receipt
    return {
        "valid": True,
        "key": signed.key,
        "key_known": key_known,
        "site": made.site,
        "study": made.study,
        "about": dict(made.said_about.said),
        "spent_rho": made.spent_rho,
        "spent_epsilon": made.spent_epsilon,
        "delta": made.delta,
        "answers": len(made.releases),
        "integers": _integers(made),
        "repairs": [
            {"number": booked.number, "when": booked.when, "rho": booked.rho}
            for booked in made.repairs
        ],
        **_hidden_json(made),
    }


def hidden_lines(made: Receipt) -> list[str]:
    """What is said of a study that hides answers in sums; nothing of any other."""
    study = made.aggregation
    if study is UNSET:
        return []
    hidden = [one.hidden for one in made.releases if one.hidden is not UNSET]
    signed, opened = sum(bool(one.set) for one in hidden), sum(one.opened for one in hidden)
    honest = study.quorum - study.colluding
    lines = [
        f"{count(len(hidden), 'answer')} left under masks, {signed:,} in a set that was signed "
        f"here, of at least {study.quorum} of {len(study.sites)} sites, {opened:,} signed and "
        "opened here; others may have opened the rest",
        "sigma in the receipt is that of the noise which this site added itself; what protects is "
        f"the noise of at least {honest} sites, {math.sqrt(honest):.3g} times as much, if at most "
        f"{study.colluding} of the sites collude",
        f"if each answer is seen by itself: rho {study.spent_rho_alone:.4g}, epsilon "
        f"{study.spent_epsilon_alone:.4g} at delta {made.delta:g}",
    ]
    if left_out := sorted({name for one in hidden for name in one.outside}):
        lines.append(f"not in every sum: {', '.join(left_out)}")
    return lines


def _hidden_json(made: Receipt) -> dict[str, Any]:
    """The same for programs."""
    study = made.aggregation
    if study is UNSET:
        return {}
    return {
        "colluding": study.colluding,
        "quorum": study.quorum,
        "spent_rho_alone": study.spent_rho_alone,
        "spent_epsilon_alone": study.spent_epsilon_alone,
        "sums": [
            {
                "query": one.query,
                "sites": one.hidden.sites,
                "opened": one.hidden.opened,
                "outside": one.hidden.outside,
            }
            for one in made.releases
            if one.hidden is not UNSET
        ],
    }


def _integers(made: Receipt) -> int:
    return sum(part.integers for answer in made.releases for part in answer.parts)
