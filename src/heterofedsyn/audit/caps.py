"""Caps under pressure: what is spent is booked, however little, and a cap holds to its last bit.

A hub that pays next to nothing for a query may ask many; a hub that has a cap's last digit twice
has more than the steward gave. So prices of every size are booked, and all of a cap is asked for,
and then a little more of it, in every place that keeps one.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import count
from pathlib import Path

from heterofedsyn._arrays import stream
from heterofedsyn.audit import prices
from heterofedsyn.audit.disk import Serving, SiteOnDisk
from heterofedsyn.audit.effort import Effort
from heterofedsyn.audit.exhibit import SITE, plain_schema, plan_of, table_of
from heterofedsyn.audit.findings import Check, Finding, require
from heterofedsyn.audit.hearing import Charging, InMemory
from heterofedsyn.errors import PrivacyRefusal
from heterofedsyn.marginals import Flat
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.ledger import Ledger
from heterofedsyn.privacy.noise import SecureNoise
from heterofedsyn.protocol import Part, Plan, Query, encode
from heterofedsyn.protocol.refusal import Reason, Refused
from heterofedsyn.site import Site
from heterofedsyn.site.ledger.books import Books

_SCHEMA = plain_schema(3, 2)
_ROWS = b"a0,a1\nv0,v0\nv1,v1\nv2,v1\n"
_OVER = (*(10.0**-digits for digits in range(15, 0, -1)), 2.0**-52)
"""By which share of a cap somebody asks for more than is left of it."""

_SIZES = 60
"""Prices of all sizes that are booked at one place."""

_Charge = Callable[[Budget], bool]
"""Asks for a charge; whether it was booked."""


def checks(effort: Effort, seed: int) -> Iterator[Check]:
    """Prices of all sizes, caps to their last bit, and what a cap means."""
    yield "a charge of any size", partial(_any_size, seed)
    yield "caps to the last bit", partial(_last_bit, seed)
    yield "caps keep epsilon and delta", partial(_meant, effort, seed)
    yield "repairs count", partial(_repaired, seed)


def _any_size(seed: int) -> Iterator[Finding]:
    """What is charged is booked in full, from the smallest price there is up to the cap."""
    rng = stream(seed, "prices of all sizes")
    plan = plan_of(_SCHEMA, seed, epsilon=1.0)
    cap = plan.budget
    tiniest = math.log10(math.ulp(0.0))
    costs = [
        Budget(float(10 ** rng.uniform(tiniest, math.log10(cap.rho / _SIZES))))
        for _ in range(_SIZES)
    ]
    ledger = Ledger(SITE, cap)
    with _books() as (books, _):
        for number, cost in enumerate(costs):
            ledger = ledger.charge("q", cost)
            books.charge("s", f"query {number}", "q", cost, cap=cap, study_cap=cap)
        wanted = [cost.rho for cost in costs]
        for where, booked in (
            ("in memory", [charge.budget.rho for charge in ledger.charges]),
            ("on disk", [charge.rho for charge in books.account.charges]),
        ):
            require(booked == wanted, f"{where}: a price is booked as another")
        exact = sum(map(Fraction, wanted), Fraction(0))
        for where, spent in (("in memory", ledger.spent), ("on disk", books.account.spent)):
            require(Fraction(spent.rho) >= exact, f"{where}: less is booked than was charged")
    asked = 0
    with _everywhere(plan, seed) as places:
        for where, site in places.items():
            paid = Fraction(0)
            for number in range(_SIZES):
                share = float(10 ** rng.uniform(-13, math.log10(1 / _SIZES)))
                if _answered(site, plan, number, share):
                    asked += 1
                    paid += Fraction(plan.budget.part(share).rho)
                require(
                    Fraction(site.spent.rho) >= paid,
                    f"{where}: an answer left for a price that was not booked",
                )
    yield Finding(
        "a charge of any size", True, f"{2 * _SIZES} prices from 5e-324 on, {asked} answers"
    )


def _last_bit(seed: int) -> Iterator[Finding]:
    """All of a cap can be spent, and nothing above it, by however little."""
    plan, other = (plan_of(_SCHEMA, seed + i, epsilon=1.0) for i in range(2))
    cap, ample = plan.budget, Budget(100.0)
    book = Ledger(SITE, cap)

    def remember(cost: Budget) -> bool:
        nonlocal book
        try:
            book = book.charge("q", cost)
        except PrivacyRefusal:
            return False
        return True

    _press("a ledger in memory", remember, cap)
    for where, table, study in (
        ("the cap of a table on disk", cap, ample),
        ("the cap of a study on disk", ample, cap),
    ):
        with _books() as (books, numbers):
            _press(where, partial(_charge, books, numbers, table, study), cap)
    with _everywhere(plan, seed, more=(other,)) as places:
        for where, site in places.items():
            # An agent's table has the cap of one study: two studies share it.
            second = other if isinstance(site, Serving) else plan
            require(_answered(site, plan, 0, 0.5), f"{where}: half of a cap is refused")
            for number, over in enumerate(_OVER, start=1):
                require(
                    not _answered(site, second, number, 0.5 + over),
                    f"{where}: {over:.0e} of the cap was spent above it",
                )
            require(_answered(site, second, 99, 0.5), f"{where}: the rest of a cap is refused")
            require(site.spent <= cap, f"{where}: more is spent than the cap")
    yield Finding("caps to the last bit", True, f"5 places, each asked for {len(_OVER)} times more")


def _charge(
    books: Books, numbers: Iterator[int], cap: Budget, study_cap: Budget, cost: Budget
) -> bool:
    """Whether books take a charge for one query more."""
    try:
        books.charge("s", f"query {next(numbers)}", "q", cost, cap=cap, study_cap=study_cap)
    except PrivacyRefusal:
        return False
    return True


def _press(where: str, charge: _Charge, cap: Budget) -> None:
    """Half of a cap, more than its rest by ever so little, and its rest."""
    half = cap.rho / 2
    require(charge(Budget(half)), f"{where}: half of a cap is refused")
    for over in (*(cap.rho * share for share in _OVER), math.ulp(half)):
        require(
            not charge(Budget(half + over)),
            f"{where}: {over / cap.rho:.0e} of the cap was spent above it",
        )
    require(charge(Budget(half)), f"{where}: the rest of a cap is refused")
    require(not charge(Budget(math.ulp(0.0))), f"{where}: a spent cap paid for something")


def _meant(effort: Effort, seed: int) -> Iterator[Finding]:
    """What a steward's caps are in rho keeps the epsilon and delta that are set."""
    rng = stream(seed, "caps of stewards")
    plan = plan_of(_SCHEMA, seed, epsilon=1.0)
    many = max(10, effort.prices // 100)
    with tempfile.TemporaryDirectory(prefix="heterofedsyn-audit-") as place:
        made = SiteOnDisk.make(Path(place), SITE, _SCHEMA, plan, _ROWS).settings
        for _ in range(many):
            epsilons = sorted(float(10 ** rng.uniform(-1, 1.5)) for _ in range(2))
            delta = float(10 ** rng.uniform(-12, -2))
            settings = replace(made, study_epsilon=epsilons[0], epsilon=epsilons[1], delta=delta)
            for what, cap, epsilon in (
                ("a study", settings.study_cap, epsilons[0]),
                ("a table", settings.cap, epsilons[1]),
            ):
                found = prices.epsilon_of(cap.rho, delta, "tight")
                require(
                    found * (1 - prices.LAST_DIGITS) <= Decimal(epsilon),
                    f"the cap of {what} is epsilon {epsilon:.6g} at delta {delta:.2g}, its rho "
                    f"means {found:.6g}",
                )
    yield Finding("caps keep epsilon and delta", True, f"{2 * many} caps of {many} sites")


def _repaired(seed: int) -> Iterator[Finding]:
    """What a repair books is spent: the table's cap pays for it as for an answer."""
    plan, other = (plan_of(_SCHEMA, seed + i, epsilon=1.0) for i in range(2))
    with tempfile.TemporaryDirectory(prefix="heterofedsyn-audit-") as place:
        made = SiteOnDisk.make(Path(place), SITE, _SCHEMA, plan, _ROWS, epsilon=1.5)
        settings = made.settings
        with made.serving(SecureNoise()) as agent:
            require(_answered(agent, plan, 0, 0.9), "what was approved is refused")
        settings.anchor.unlink()
        Books.repair(settings.folder, settings.anchor, settings.study_cap)
        made.approve(other, _SCHEMA)
        with made.serving(SecureNoise()) as agent:
            before = agent.spent
            left = (settings.cap.rho - before.rho) / plan.budget.rho
            require(0 < left < 0.9, "a repair leaves more of a cap than it should")
            for number, share in enumerate((0.9, left * 1.5, left * 1.0001), start=1):
                require(
                    not _answered(agent, other, number, share),
                    "what a repair booked was spent once more",
                )
            require(agent.spent == before, "a refused query was charged")
            require(_answered(agent, other, 9, left * 0.5), "the rest of a cap is refused")
            require(agent.spent <= settings.cap, "more is spent than the cap, repairs included")
    yield Finding("repairs count", True, "4 queries after a repair")


@contextmanager
def _books() -> Iterator[tuple[Books, Iterator[int]]]:
    """Books in a folder of their own, and numbers for queries, for a while."""
    with tempfile.TemporaryDirectory(prefix="heterofedsyn-audit-") as place:
        folder, anchor = Path(place) / "site", Path(place) / "anchor"
        Books.create(folder, anchor)
        with Books.open(folder, anchor) as books:
            yield books, count()


@contextmanager
def _everywhere(plan: Plan, seed: int, more: Sequence[Plan] = ()) -> Iterator[dict[str, Charging]]:
    """A site in memory and an agent on disk, each with the budget of one study."""
    table = table_of(_SCHEMA, 20, stream(seed, "few rows"))
    site = Site(SITE, table, plan, SecureNoise())
    with tempfile.TemporaryDirectory(prefix="heterofedsyn-audit-") as place:
        made = SiteOnDisk.make(Path(place), SITE, _SCHEMA, plan, _ROWS, more=more, epsilon=1.0)
        with made.serving(SecureNoise()) as agent:
            yield {"a site in memory": InMemory(site), "an agent": agent}


def _answered(site: Charging, plan: Plan, number: int, share: float) -> bool:
    """Whether a query gets an answer; if not, it must be the budget that refuses it."""
    parts = (Part(Flat(("a0",)), share),)
    query = Query(study=plan.fingerprint, number=number, label="q", parts=parts)
    try:
        site.answer(encode(query))
    except Refused as refused:
        # A price too small to be noised is malformed, or below what a site answers for.
        known = (Reason.OVER_THE_CAP, Reason.MALFORMED)
        require(refused.reason in known, f"a query is refused as {refused.reason}")
        return False
    except PrivacyRefusal:
        return False
    return True
