"""Answers of a site taken apart, compared with a neighbour's, and held against `privacy.json`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np

from heterofedsyn._arrays import Integers
from heterofedsyn.audit import oracle
from heterofedsyn.audit.cases import Transcript
from heterofedsyn.audit.findings import require
from heterofedsyn.audit.fixtures import Charging, InMemory, noise_terms
from heterofedsyn.audit.patches import Passage, at_the_door
from heterofedsyn.marginals import (
    Counts,
    Dependence,
    Flat,
    Grouped,
    Haar,
    Sketched,
    Statistic,
    Total,
)
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.noise import SimulatedNoise
from heterofedsyn.privacy.trust import SecureAggregation, Trust
from heterofedsyn.protocol import Plan, Query, encode
from heterofedsyn.schema import Domain, EncodedTable
from heterofedsyn.site import Site


@dataclass(frozen=True, eq=False)
class Examined:
    """One answer, taken apart."""

    reply: bytes
    unnoised: Any
    """All of it but the noisy integers, of which only the number is left."""
    values: tuple[Integers, ...]
    sigmas: tuple[float, ...]
    charged: Fraction


def examine(site: Charging, query: Query, table: EncodedTable, plan: Plan, seed: int) -> Examined:
    """An answer of the plan's first site whose every part is as it must be.

    Args:
        seed: of the site's noise, which is drawn once more and must be what was added.
    """
    noise = SimulatedNoise(seed, plan.sites[0])
    with at_the_door() as seen:
        reply = site.answer(encode(query))
    message = msgspec.msgpack.decode(reply)
    parts = message["parts"]
    where = f"query {query.label!r}"
    require(len(parts) == len(query.parts), f"{where}: another number of parts")
    require(len(seen) == len(query.parts), f"{where}: a part did not pass the door")
    values = []
    for part, released, passage in zip(query.parts, parts, seen, strict=True):
        values.append(_checked(part.statistic, released, passage, table, plan, where))
        _check_noise(released, passage, noise, f"{where}, part {len(values)}")
    sigmas = tuple(float(released["sigma"]) for released in parts)
    charged = sum((Fraction(released["rho"]) for released in parts), Fraction(0))
    for released in parts:
        released["data"] = len(released["data"])
    return Examined(reply, message, tuple(values), sigmas, charged)


def _checked(
    statistic: Any,
    released: dict[str, Any],
    passage: Passage,
    table: EncodedTable,
    plan: Plan,
    where: str,
) -> Integers:
    """The noisy integers of one part."""
    data, wanted = released["data"], oracle.integers(statistic, table.domain)
    where = f"{where}, {type(statistic).__name__.lower()} of {'-'.join(statistic.attributes)}"
    require(
        isinstance(data, bytes) and len(data) == 8 * wanted,
        f"{where}: not {wanted:,} integers of 8 bytes, every cell and zeros too",
    )
    for array in (passage.exact, passage.noisy):
        require(array.dtype == np.int64, f"{where}: {array.dtype} in the release path, not int64")
    exact = oracle.exact(statistic, table)
    require(np.array_equal(passage.exact, exact), f"{where}: counted wrongly")
    values = np.frombuffer(data, dtype="<i8").astype(np.int64)
    require(np.array_equal(values, passage.noisy), f"{where}: not what passed the door")
    squared = Fraction(oracle.furthest(statistic, table.domain)) * plan.rows_per_unit**2
    moved, l1 = oracle.moved(statistic, table.domain, plan.rows_per_unit)
    price = oracle.price_of(squared, released["sigma"], moved, plan.trust_model, l1)
    require(
        price <= Fraction(released["rho"]),
        f"{where}: sigma {released['sigma']:.6g} costs rho {float(price):.12g}, "
        f"{released['rho']:.12g} was charged",
    )
    return values


def _check_noise(
    released: dict[str, Any], passage: Passage, noise: SimulatedNoise, where: str
) -> None:
    """What is recorded is what the noise was drawn with, and that noise was added, all of it."""
    used = passage.terms
    for name, drawn in (
        ("sensitivity", used.sensitivity),
        ("sigma", used.sigma),
        ("rho", used.rho),
    ):
        require(
            drawn == released[name],
            f"{where}: noise was drawn at {name} {drawn:.6g}, recorded is {released[name]:.6g}",
        )
    # As if the answer were seen by itself: whom it is hidden from must not change what is drawn.
    figures = (released["sigma"], passage.exact.size, released["sensitivity"], released["rho"])
    drawn_anew = noise.draw(*noise_terms(*figures), passage.key)
    require(
        np.array_equal(passage.noisy - passage.exact, drawn_anew),
        f"{where}: what was added is not the noise of the recorded sigma",
    )


def examine_in_memory(
    rows: EncodedTable | Counts, query: Query, table: EncodedTable, plan: Plan, seed: int
) -> Examined:
    """The only answer of a new site in memory, which the statement must not leave out.

    Args:
        rows: as the site has them.
        table: as they must be.
    """
    name = plan.sites[0]
    site = Site(name, rows, plan, SimulatedNoise(seed, name), trust=plan.trust_model)
    answer = examine(InMemory(site), query, table, plan, seed)
    check_charges(site.ledger.spent, [answer], plan.budget, plan.budget.rho)
    return answer


def check_charges(
    spent: Budget, answers: Sequence[Examined], budget: Budget, stated: float
) -> None:
    """What the answers cost was charged, within the budget, and the statement says so."""
    cost = sum((one.charged for one in answers), Fraction(0))
    require(cost <= Fraction(spent.rho), f"releases cost {float(cost)}, charged was {spent.rho}")
    require(spent <= budget, f"{spent.rho} was charged, the budget is {budget.rho}")
    require(cost <= Fraction(stated) <= Fraction(budget.rho), "privacy.json states another rho")


def compare(one: Examined, other: Examined, trust: Trust, where: str) -> Fraction:
    """What a neighbour's answer to the same query moved: noisy integers alone, within the charge.

    Returns:
        The squared changes over twice the protecting variances.
    """
    require(len(one.reply) == len(other.reply), f"{where}: another length")
    require(one.unnoised == other.unnoised, f"{where}: something un-noised differs")
    moved = loss(one.values, other.values, one.sigmas, trust)
    require(moved <= one.charged, f"{where}: moved more than was charged for it")
    return moved


def loss(
    values: Sequence[Integers], others: Sequence[Integers], sigmas: Sequence[float], trust: Trust
) -> Fraction:
    """What it costs that integers are others: the squared changes over twice the variances.

    Args:
        sigmas: the noise that a site adds to each vector.
    """
    total = Fraction(0)
    for first, second, sigma in zip(values, others, sigmas, strict=True):
        change = np.abs(first - second)
        if moved := int(np.count_nonzero(change)):
            squared = Fraction(int((change**2).sum()))
            total += oracle.price_of(squared, sigma, moved, trust, int(change.sum()))
    return total


_KINDS: dict[type[Statistic], str] = {
    Total: "total",
    Flat: "flat",
    Haar: "haar",
    Grouped: "grouped",
    Sketched: "sketch",
    Dependence: "dependence",
}

_ROUNDED = Fraction(1, 2**45)
"""By which a sum or a root may be above its exact value; below it may never be."""


def check_statement(
    stated: Mapping[str, Any], plan: Plan, domain: Domain, transcript: Transcript
) -> None:
    """Every word and figure of a statement, and nothing else in it."""
    for name, wanted in {
        "epsilon": plan.epsilon,
        "delta": plan.delta,
        "rho": plan.budget.rho,
        "conversion": plan.conversion,
        "neighbours": "add-or-remove-one",
        "unit": plan.unit or "record",
        "rows_per_unit": plan.rows_per_unit,
        "trust": plan.trust,
        "rho_alone": oracle.rounded_up(Fraction(plan.budget.rho) * oracle.shares(plan.trust_model)),
        "simulated_noise": True,
        **_of_sums(plan, transcript),
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
        len(stated) == 11 + len(_of_sums(plan, transcript))
        and all({*account} == spoken for account in accounts),
        "privacy.json has keys that nobody checks",
    )


def _of_sums(plan: Plan, transcript: Transcript) -> dict[str, Any]:
    """What is said where only sums are seen: nobody is ever missing from one here."""
    trust = plan.trust_model
    if not isinstance(trust, SecureAggregation):
        return {}
    sums = [{"label": query.label, "sites": list(plan.sites)} for query in transcript.queries]
    return {"colluding": trust.colluding, "quorum": trust.quorum, "sums": sums}


def _check_guarantee(stated: Mapping[str, Any]) -> None:
    """Epsilon and rho belong together, by a second computation."""
    meant = oracle.epsilon_of(stated["rho"], stated["delta"], stated["conversion"])
    require(
        abs(float(meant) / stated["epsilon"] - 1) < 1e-5,
        f"privacy.json states epsilon {stated['epsilon']}, its rho means {meant:.9g}",
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
    for charge, (query, replies) in zip(charges, rounds, strict=True):
        require({*charge} == {"label", "rho", "parts"}, f"{where}: a charge with other keys")
        wanted = []
        for i, part in enumerate(query.parts):
            statistic, own = part.statistic, replies[site][i]
            length = math.sqrt(oracle.furthest(statistic, domain)) * plan.rows_per_unit
            require(
                length * (1 - 1e-12) <= own["sensitivity"] <= length * (1 + 1e-12),
                f"{where}: sensitivity {own['sensitivity']:.9g}, a person can move {length:.9g}",
            )
            wanted.append(
                {
                    "kind": _KINDS[type(statistic)],
                    "attributes": list(statistic.attributes),
                    "sensitivity": own["sensitivity"],
                    "sigma": _protecting(
                        [parts[i]["sigma"] for parts in replies.values()], own, plan
                    ),
                    "integers": oracle.integers(statistic, domain),
                    "rho": own["rho"],
                }
            )
        require(len(charge["parts"]) == len(wanted), f"{where}: another number of releases")
        for said, true in zip(charge["parts"], wanted, strict=True):
            for name in {*said, *true}:
                require(
                    said.get(name) == true.get(name),
                    f"{where}: {name} of a release is stated as {said.get(name)}, it is "
                    f"{true.get(name)}",
                )
        _check_sum(charge["rho"], [part["rho"] for part in wanted], where)
    parts = [part["rho"] for charge in charges for part in charge["parts"]]
    _check_sum(account["rho"], parts, where)
    require(account["rho"] <= plan.budget.rho, f"{where}: charged above the study's budget")


def _parts(reply: bytes) -> list[dict[str, Any]]:
    """The parts of an answer, without the software's own reading of it."""
    parts: list[dict[str, Any]] = msgspec.msgpack.decode(reply)["parts"]
    return parts


def _protecting(sigmas: Sequence[float], own: Mapping[str, Any], plan: Plan) -> float:
    """The noise between a record and whoever sees the answers: that of its site, or of the sum.

    Of a sum, so many are taken off as may be missing or collude: those with most noise.
    """
    if plan.trust == "local":
        return float(own["sigma"])
    sure = sorted(sigmas)[: oracle.shares(plan.trust_model)]
    return math.sqrt(math.fsum(sigma**2 for sigma in sure))


def _check_sum(stated: float, parts: Sequence[float], where: str) -> None:
    exact = sum(map(Fraction, parts), Fraction(0))
    require(
        exact <= Fraction(stated) <= exact * (1 + _ROUNDED),
        f"{where}: rho {stated} is stated for releases that cost {float(exact)}",
    )
