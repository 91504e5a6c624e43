"""What `privacy.json` must say, worked out anew from the plan and the messages of a study."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import msgspec

from heterofedsyn.audit import prices, reference
from heterofedsyn.audit.carry import Transcript
from heterofedsyn.audit.findings import require
from heterofedsyn.marginals import Dependence, Flat, Grouped, Haar, Sketched, Statistic, Total
from heterofedsyn.protocol import Plan
from heterofedsyn.schema import Domain

_KINDS: dict[type[Statistic], str] = {
    Total: "total",
    Flat: "flat",
    Haar: "haar",
    Grouped: "grouped",
    Sketched: "sketch",
    Dependence: "dependence",
}

_LAST_DIGITS = Fraction(1, 2**45)
"""By which a sum or a root may be above its exact value; below it may never be."""


def check_statement(
    stated: Mapping[str, Any], plan: Plan, domain: Domain, transcript: Transcript
) -> None:
    """Every word and figure of a statement, and nothing else in it."""
    hidden = plan.trust != "local"
    for name, wanted in {
        "epsilon": plan.epsilon,
        "delta": plan.delta,
        "rho": plan.budget.rho,
        "conversion": plan.conversion,
        "neighbours": "add-or-remove-one",
        "unit": plan.unit or "record",
        "rows_per_unit": plan.rows_per_unit,
        "trust": plan.trust,
        "rho_alone": prices.rounded_up(
            Fraction(plan.budget.rho) * (len(plan.sites) if hidden else 1)
        ),
        "simulated_noise": True,
    }.items():
        require(
            stated.get(name) == wanted,
            f"privacy.json states {name} as {stated.get(name)}, it is {wanted}",
        )
    _check_guarantee(stated)
    accounts = stated["sites"]
    require(
        [account["site"] for account in accounts] == list(plan.sites),
        "privacy.json has an account of other sites than the plan's",
    )
    for account in accounts:
        _check_account(account, plan, domain, transcript)
    spoken = {"site", "rho", "charges"}
    require(
        len(stated) == 11 and all({*account} == spoken for account in accounts),
        "privacy.json has keys that nobody checks",
    )


def _check_guarantee(stated: Mapping[str, Any]) -> None:
    """Epsilon and rho belong together, by a second computation."""
    found = prices.epsilon_of(stated["rho"], stated["delta"], stated["conversion"])
    require(
        abs(float(found) / stated["epsilon"] - 1) < 1e-5,
        f"privacy.json states epsilon {stated['epsilon']}, its rho means {found:.9g}",
    )


def _check_account(
    account: Mapping[str, Any], plan: Plan, domain: Domain, transcript: Transcript
) -> None:
    """What one site was charged: every query that it got, and what it answered."""
    site = account["site"]
    where = f"privacy.json, site {site!r}"
    rounds = [
        (query, {name: _parts(reply) for name, reply in said.items()})
        for query, said in zip(transcript.queries, transcript.replies, strict=True)
        if query.to in (None, site)
    ]
    charges = account["charges"]
    require(
        [charge["label"] for charge in charges] == [query.label for query, _ in rounds],
        f"{where}: charges for other queries than were asked",
    )
    for charge, (query, said) in zip(charges, rounds, strict=True):
        require({*charge} == {"label", "rho", "parts"}, f"{where}: a charge with other keys")
        wanted = []
        for i, part in enumerate(query.parts):
            statistic, own = part.statistic, said[site][i]
            length = math.sqrt(reference.furthest(statistic, domain)) * plan.rows_per_unit
            require(
                length * (1 - 1e-12) <= own["sensitivity"] <= length * (1 + 1e-12),
                f"{where}: sensitivity {own['sensitivity']:.9g}, a person can move {length:.9g}",
            )
            wanted.append(
                {
                    "kind": _KINDS[type(statistic)],
                    "attributes": list(statistic.attributes),
                    "sensitivity": own["sensitivity"],
                    "sigma": _protecting([parts[i]["sigma"] for parts in said.values()], own, plan),
                    "integers": reference.integers(statistic, domain),
                    "rho": own["rho"],
                }
            )
        require(len(charge["parts"]) == len(wanted), f"{where}: another number of releases")
        for found, true in zip(charge["parts"], wanted, strict=True):
            for name in {*found, *true}:
                require(
                    found.get(name) == true.get(name),
                    f"{where}: {name} of a release is stated as {found.get(name)}, it is "
                    f"{true.get(name)}",
                )
        _check_sum(charge["rho"], [part["rho"] for part in wanted], where)
    parts = [part["rho"] for charge in charges for part in charge["parts"]]
    _check_sum(account["rho"], parts, where)
    require(account["rho"] <= plan.budget.rho, f"{where}: charged above the study's budget")


def _parts(reply: bytes) -> list[dict[str, Any]]:
    """The parts of an answer, without the software's own reading of it."""
    found: list[dict[str, Any]] = msgspec.msgpack.decode(reply)["parts"]
    return found


def _protecting(sigmas: Sequence[float], own: Mapping[str, Any], plan: Plan) -> float:
    """The noise between a record and whoever sees the answers: that of its site, or of the sum."""
    if plan.trust == "local":
        return float(own["sigma"])
    return math.sqrt(math.fsum(sigma**2 for sigma in sigmas))


def _check_sum(stated: float, parts: Sequence[float], where: str) -> None:
    exact = sum(map(Fraction, parts), Fraction(0))
    require(
        exact <= Fraction(stated) <= exact * (1 + _LAST_DIGITS),
        f"{where}: rho {stated} is stated for releases that cost {float(exact)}",
    )
