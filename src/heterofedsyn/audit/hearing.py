"""An answer of a site, taken apart: every part as it must be, and what a record moved in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import msgspec
import numpy as np

from heterofedsyn._arrays import Integers
from heterofedsyn.audit import prices, reference
from heterofedsyn.audit.findings import require
from heterofedsyn.audit.witness import Passage, at_the_door
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.noise import SimulatedNoise
from heterofedsyn.privacy.terms import Terms
from heterofedsyn.privacy.trust import Trust
from heterofedsyn.protocol import Plan, Query, encode
from heterofedsyn.schema import EncodedTable
from heterofedsyn.site import Site


class Charging(Protocol):
    """A site that says what it has charged."""

    def answer(self, message: bytes) -> bytes:
        """The answer to a query."""
        ...

    @property
    def spent(self) -> Budget:
        """All that was charged."""
        ...


@dataclass(frozen=True, eq=False)
class InMemory:
    """A site of a simulation."""

    site: Site

    def answer(self, message: bytes) -> bytes:
        return self.site.answer(message)

    @property
    def spent(self) -> Budget:
        return self.site.ledger.spent


@dataclass(frozen=True, eq=False)
class Heard:
    """One answer, taken apart."""

    reply: bytes
    unnoised: Any
    """All of it but the noisy integers, of which only the number is left."""
    values: tuple[Integers, ...]
    sigmas: tuple[float, ...]
    charged: Fraction


def hear(site: Charging, query: Query, table: EncodedTable, plan: Plan, seed: int) -> Heard:
    """An answer of the plan's first site whose every part is as it must be.

    Args:
        seed: of the site's noise, which is drawn once more and must be what was added.
    """
    noise = SimulatedNoise(seed, plan.sites[0])
    with at_the_door() as seen:
        reply = site.answer(encode(query))
    found = msgspec.msgpack.decode(reply)
    where = f"query {query.label!r}"
    require(len(found["parts"]) == len(query.parts), f"{where}: another number of parts")
    require(len(seen) == len(query.parts), f"{where}: a part did not pass the door")
    values = []
    for part, released, passage in zip(query.parts, found["parts"], seen, strict=True):
        values.append(_checked(part.statistic, released, passage, table, plan, where))
        _check_noise(released, passage, noise, f"{where}, part {len(values)}")
    sigmas = tuple(float(released["sigma"]) for released in found["parts"])
    charged = sum((Fraction(released["rho"]) for released in found["parts"]), Fraction(0))
    for released in found["parts"]:
        released["data"] = len(released["data"])
    return Heard(reply, found, tuple(values), sigmas, charged)


def _checked(
    statistic: Any,
    released: dict[str, Any],
    passage: Passage,
    table: EncodedTable,
    plan: Plan,
    where: str,
) -> Integers:
    """The noisy integers of one part."""
    data, wanted = released["data"], reference.integers(statistic, table.domain)
    where = f"{where}, {type(statistic).__name__.lower()} of {'-'.join(statistic.attributes)}"
    require(
        isinstance(data, bytes) and len(data) == 8 * wanted,
        f"{where}: not {wanted:,} integers of 8 bytes, every cell and zeros too",
    )
    for array in (passage.exact, passage.noisy):
        require(array.dtype == np.int64, f"{where}: {array.dtype} in the release path, not int64")
    exact = reference.exact(statistic, table)
    require(np.array_equal(passage.exact, exact), f"{where}: counted wrongly")
    values = np.frombuffer(data, dtype="<i8").astype(np.int64)
    require(np.array_equal(values, passage.noisy), f"{where}: not what passed the door")
    squared = Fraction(reference.furthest(statistic, table.domain)) * plan.rows_per_unit**2
    moved, l1 = reference.moved(statistic, table.domain, plan.rows_per_unit)
    price = prices.price_of(squared, released["sigma"], moved, plan.trust_model, l1)
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
    figures = {name: released[name] for name in ("sensitivity", "sigma", "rho")}
    recorded = Terms(kind="", attributes=(), integers=passage.exact.size, **figures)
    drawn_anew = noise.draw(recorded, Budget(recorded.rho), passage.key)
    require(
        np.array_equal(passage.noisy - passage.exact, drawn_anew),
        f"{where}: what was added is not the noise of the recorded sigma",
    )


def check_charges(spent: Budget, heard: Sequence[Heard], budget: Budget, stated: float) -> None:
    """What the answers cost was charged, within the budget, and the statement says so."""
    cost = sum((one.charged for one in heard), Fraction(0))
    require(cost <= Fraction(spent.rho), f"releases cost {float(cost)}, charged was {spent.rho}")
    require(spent <= budget, f"{spent.rho} was charged, the budget is {budget.rho}")
    require(cost <= Fraction(stated) <= Fraction(budget.rho), "privacy.json states another rho")


def compare(one: Heard, other: Heard, trust: Trust, where: str) -> Fraction:
    """What a neighbour's answer to the same query moved: noisy integers alone, within the charge.

    Returns:
        The squared changes over twice the protecting variances.
    """
    require(len(one.reply) == len(other.reply), f"{where}: another length")
    require(one.unnoised == other.unnoised, f"{where}: something un-noised differs")
    found = loss(one.values, other.values, one.sigmas, trust)
    require(found <= one.charged, f"{where}: moved more than was charged for it")
    return found


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
            total += prices.price_of(squared, sigma, moved, trust, int(change.sum()))
    return total
