"""Caps under pressure: what is spent is booked, however little, and a cap holds to its last bit.

A hub that pays next to nothing for a query may ask many; a hub that has a cap's last digit twice
has more than the steward gave. So prices of every size are booked, and all of a cap is asked for,
and then a little more of it, in every place that keeps one.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import count

from heterofedsyn._arrays import Integers, stream
from heterofedsyn.audit import oracle
from heterofedsyn.audit.effort import Effort
from heterofedsyn.audit.findings import Check, require
from heterofedsyn.audit.fixtures import (
    SITE,
    Charging,
    InMemory,
    Serving,
    SiteOnDisk,
    plain_schema,
    plan_of,
    query_of,
    serving,
    table_of,
    temporary_folder,
)
from heterofedsyn.errors import BudgetExceeded, PrivacyRefusal
from heterofedsyn.marginals import Flat
from heterofedsyn.privacy.budget import Budget, together
from heterofedsyn.privacy.ledger import Ledger
from heterofedsyn.privacy.noise import SecureNoise, SimulatedNoise
from heterofedsyn.privacy.terms import Terms
from heterofedsyn.protocol import Part, Plan, encode
from heterofedsyn.protocol.refusal import Reason, Refused
from heterofedsyn.site import Site
from heterofedsyn.site.ledger.books import Books

_SCHEMA = plain_schema(3, 2)
_ROWS = b"a0,a1\nv0,v0\nv1,v1\nv2,v1\n"
_OVER = (*(10.0**-digits for digits in range(15, 0, -1)), 2.0**-52)
"""By which share of a cap somebody asks for more than is left of it."""

_ROUNDED = 1 - Fraction(1, 2**50)
"""A sum is rounded up, so what fits only just may be refused."""

_MEETING_SECONDS = 0.2
_SIZES = 60
"""Prices of all sizes that are booked at one place."""

_Charge = Callable[[Budget], bool]
"""Asks for a charge; whether it was booked."""


def checks(effort: Effort, seed: int) -> Iterator[Check]:
    """Queries that fit or not, prices of all sizes, caps to their last bit, what a cap means."""
    yield "histories in memory", partial(_in_memory, effort, seed)
    yield "two threads", partial(_at_once, seed)
    yield "a charge of any size", partial(_any_size, seed)
    yield "caps to the last bit", partial(_last_bit, seed)
    yield "caps keep epsilon and delta", partial(_meant, effort, seed)
    yield "repairs count", partial(_repaired, seed)


def _in_memory(effort: Effort, seed: int) -> str:
    """A site of a simulation answers what fits, refuses the rest, and charges each query once."""
    plan = plan_of(_SCHEMA, seed, epsilon=1.0)
    whole = Fraction(plan.budget.rho)
    rng = stream(seed, "histories in memory")
    table = table_of(_SCHEMA, 20, rng)
    asked = refused = 0
    for life in range(10 * effort.lives):
        site = Site(SITE, table, plan, SimulatedNoise(seed + life, SITE))
        paid: dict[bytes, Fraction] = {}
        for number in range(effort.steps):
            shares = rng.uniform(0.01, 0.3, rng.integers(1, 3)).tolist()
            parts = tuple(Part(Flat(("a0",)), share) for share in shares)
            known = int(rng.integers(0, number + 1))
            message = encode(query_of(plan, number=known, parts=parts))
            cost = Fraction(together(plan.budget.part(share) for share in shares).rho)
            fits = message in paid or sum(paid.values()) + cost <= whole
            try:
                site.answer(message)
            except BudgetExceeded:
                require(
                    not fits or sum(paid.values()) + cost > whole * _ROUNDED,
                    "a query that fits was refused",
                )
                refused += 1
            else:
                require(fits, "a query that does not fit was answered")
                paid.setdefault(message, cost)
            asked += 1
            spent = Fraction(site.ledger.spent.rho)
            require(sum(paid.values()) <= spent <= whole, "the ledger books less than was spent")
    return f"{10 * effort.lives:,} histories, {asked:,} queries, {refused:,} of them refused"


@dataclass(frozen=True)
class _Meeting:
    """Noise that is drawn when a second thread wants some too, or when none has come."""

    both: threading.Barrier
    simulated = False

    def draw(self, terms: Terms, alone: Budget, key: bytes) -> Integers:
        with suppress(threading.BrokenBarrierError):
            self.both.wait(_MEETING_SECONDS)
        return SecureNoise().draw(terms, alone, key)


def _at_once(seed: int) -> str:
    """A site of a simulation that is asked by two threads: the same query, and two too dear."""
    plan = plan_of(_SCHEMA, seed, epsilon=1.0)
    table = table_of(_SCHEMA, 20, stream(seed, "histories in memory"))
    first, second = (
        encode(query_of(plan, Flat(("a0",)), share=0.6, number=number)) for number in range(2)
    )
    for messages in ((first, first), (first, second)):
        site = Site(SITE, table, plan, _Meeting(threading.Barrier(2)))

        def answer(message: bytes, site: Site = site) -> bytes | None:
            try:
                return site.answer(message)
            except BudgetExceeded:
                return None

        with ThreadPoolExecutor(2) as threads:
            left = {said for said in threads.map(answer, messages) if said is not None}
        require(len(left) == 1, "two answers left at the price of one")
        require(len(site.ledger.charges) == 1, "one answer left, but not one was charged")
    return "one answer to the same query, and to two too dear together"


def _any_size(seed: int) -> str:
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
    return f"{2 * _SIZES} prices from 5e-324 on, {asked} answers"


def _last_bit(seed: int) -> str:
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
    return f"5 places, each asked for {len(_OVER)} times more"


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


def _meant(effort: Effort, seed: int) -> str:
    """What a steward's caps are in rho keeps the epsilon and delta that are set."""
    rng = stream(seed, "caps of stewards")
    plan = plan_of(_SCHEMA, seed, epsilon=1.0)
    many = max(10, effort.prices // 100)
    with temporary_folder() as place:
        made = SiteOnDisk.make(place, _SCHEMA, _ROWS, plan).settings
        for _ in range(many):
            epsilons = sorted(float(10 ** rng.uniform(-1, 1.5)) for _ in range(2))
            delta = float(10 ** rng.uniform(-12, -2))
            settings = replace(made, study_epsilon=epsilons[0], epsilon=epsilons[1], delta=delta)
            for what, cap, epsilon in (
                ("a study", settings.study_cap, epsilons[0]),
                ("a table", settings.cap, epsilons[1]),
            ):
                meant = oracle.epsilon_of(cap.rho, delta, "tight")
                require(
                    meant * (1 - oracle.LAST_DIGITS) <= Decimal(epsilon),
                    f"the cap of {what} is epsilon {epsilon:.6g} at delta {delta:.2g}, its rho "
                    f"means {meant:.6g}",
                )
    return f"{2 * many} caps of {many} sites"


def _repaired(seed: int) -> str:
    """What a repair books is spent: the table's cap pays for it as for an answer."""
    plan, other = (plan_of(_SCHEMA, seed + i, epsilon=1.0) for i in range(2))
    with temporary_folder() as place:
        made = SiteOnDisk.make(place, _SCHEMA, _ROWS, plan, epsilon=1.5)
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
    return "4 queries after a repair"


@contextmanager
def _books() -> Iterator[tuple[Books, Iterator[int]]]:
    """Books in a folder of their own, and numbers for queries, for a while."""
    with temporary_folder() as place:
        folder, anchor = place / "site", place / "anchor"
        Books.create(folder, anchor)
        with Books.open(folder, anchor) as books:
            yield books, count()


@contextmanager
def _everywhere(plan: Plan, seed: int, more: Sequence[Plan] = ()) -> Iterator[dict[str, Charging]]:
    """A site in memory and an agent on disk, each with the budget of one study."""
    table = table_of(_SCHEMA, 20, stream(seed, "few rows"))
    site = Site(SITE, table, plan, SecureNoise())
    with serving(_SCHEMA, _ROWS, plan, *more, noise=SecureNoise(), epsilon=1.0) as agent:
        yield {"a site in memory": InMemory(site), "an agent": agent}


def _answered(site: Charging, plan: Plan, number: int, share: float) -> bool:
    """Whether a query gets an answer; if not, it must be the budget that refuses it."""
    try:
        site.answer(encode(query_of(plan, Flat(("a0",)), share=share, number=number)))
    except Refused as refused:
        # A price too small to be noised is malformed, or below what a site answers for.
        known = (Reason.OVER_THE_CAP, Reason.MALFORMED)
        require(refused.reason in known, f"a query is refused as {refused.reason}")
        return False
    except PrivacyRefusal:
        return False
    return True
