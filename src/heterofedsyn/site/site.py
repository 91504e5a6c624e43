"""How a site answers: count, then charge, then draw noise, then keep the answer, then send it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Protocol

from heterofedsyn.errors import ProtocolError
from heterofedsyn.marginals.counts import Counts, TableCounts
from heterofedsyn.marginals.statistics import moves
from heterofedsyn.privacy.budget import Budget, together
from heterofedsyn.privacy.ledger import Ledger
from heterofedsyn.privacy.noise import Calibration, NoiseSource, add_noise
from heterofedsyn.privacy.trust import Local, Trust
from heterofedsyn.protocol import Answer, Part, Plan, Query, Released, decode, encode
from heterofedsyn.schema import Domain, EncodedTable

MOST_QUERY_BYTES = 2**24
"""The longest query: its parts take some thirty times its bytes of memory once they are read."""

MOST_WORK = 2**26
"""The most cells one answer may be made from, so that no query can exhaust a site's memory."""

MOST_PART_WORK = 2**24
"""The most cells for one part of it; drawing a sketch's matrix of so many takes a gigabyte."""

MOST_INTEGERS = 2**23
"""The most integers in one answer: 64 MiB, and 3.5 minutes at 25 microseconds for each."""

MOST_LABEL = 200


@dataclass(frozen=True)
class Price:
    """What answering one query costs, known before a row is looked at."""

    query: str
    """Fingerprint of the query."""
    label: str
    cost: Budget
    integers: int


class Store(Protocol):
    """Where a site books what it releases and keeps what it said."""

    def kept(self, query: str) -> bytes | None:
        """The answer given to this query before, if any."""
        ...

    def afford(self, price: Price) -> None:
        """Refuse what does not fit; nothing is booked.

        Raises:
            BudgetExceeded: if charging this price would be refused.
        """
        ...

    def charge(self, price: Price) -> None:
        """Book a price, at most once for each query; it is booked for good on return.

        Raises:
            BudgetExceeded: if it does not fit; nothing is booked then.
        """
        ...

    def keep(self, query: str, answer: bytes, asked: bytes) -> None:
        """Keep an answer, and the query as it was asked; both are there for good on return."""
        ...


@dataclass(frozen=True, eq=False)
class Desk:
    """Where the queries of one approved plan are answered, whatever store the site has.

    Sensitivity, sigma and price come from the query and from what the site was set up with;
    nothing the hub says can change them.

    Attributes:
        counts: the exact counts of the rows, asked for only when a query can be paid.
    """

    site: str
    plan: Plan
    domain: Domain
    counts: Callable[[], Counts]
    noise: NoiseSource
    trust: Trust

    def answer(self, query: Query, store: Store) -> bytes:
        """The answer to a query; the same query again gets the same bytes, uncharged.

        Raises:
            ProtocolError: if the query is malformed or belongs to another study.
            PrivacyRefusal: if it does not fit the store's caps; nothing is released then.
        """
        fingerprint = query.fingerprint
        if (kept := store.kept(fingerprint)) is not None:
            return kept
        self._check(query)
        budget = self.plan.budget
        price = Price(
            query=fingerprint,
            label=query.label,
            cost=together(budget.part(part.share) for part in query.parts),
            integers=sum(part.statistic.integers(self.domain) for part in query.parts),
        )
        # What cannot be paid is refused before any work is done for it.
        store.afford(price)
        calibrations = [self._calibrate(part, budget) for part in query.parts]
        # COUNT
        counts = self.counts()
        counts.prepare(view for part in query.parts for view in part.statistic.views())
        exact = [part.statistic.exact(counts) for part in query.parts]
        # CHARGE
        store.charge(price)
        # DRAW
        released = tuple(
            Released.of(
                add_noise(values, calibration, self.noise, f"{fingerprint} {i}".encode()),
                sensitivity=calibration.sensitivity,
                sigma=calibration.sigma,
                rho=calibration.budget.rho,
            )
            for i, (values, calibration) in enumerate(zip(exact, calibrations, strict=True))
        )
        answer = encode(
            Answer(
                study=query.study,
                query=fingerprint,
                site=self.site,
                simulated=self.noise.simulated,
                parts=released,
            )
        )
        # KEEP
        store.keep(fingerprint, answer, encode(query))
        return answer

    def _check(self, query: Query) -> None:
        if len(query.label) > MOST_LABEL:
            raise ProtocolError(f"a label of {len(query.label):,} characters is too long")
        if query.study != self.plan.fingerprint:
            raise ProtocolError(f"query {query.label!r} belongs to another study")
        if query.to not in (None, self.site):
            raise ProtocolError(f"query {query.label!r} is for another site")
        if not query.parts:
            raise ProtocolError(f"query {query.label!r} asks for nothing")
        for part in query.parts:
            if not (math.isfinite(part.share) and 0 < part.share <= 1):
                raise ProtocolError(f"a share of {part.share} must be above 0 and at most 1")
            part.statistic.check(self.domain)
        work = [part.statistic.work(self.domain) for part in query.parts]
        for needed, most in ((max(work), MOST_PART_WORK), (sum(work), MOST_WORK)):
            if needed > most:
                raise ProtocolError(
                    f"query {query.label!r} needs {needed:,} cells, more than {most:,}; ask for "
                    "fewer pairs, smaller sketches or fewer bins"
                )
        integers = sum(part.statistic.integers(self.domain) for part in query.parts)
        if integers > MOST_INTEGERS:
            raise ProtocolError(
                f"query {query.label!r} asks for {integers:,} integers, more than "
                f"{MOST_INTEGERS:,}; ask for fewer pairs at a time or take fewer bins"
            )

    def _calibrate(self, part: Part, budget: Budget) -> Calibration:
        moved, l1 = moves(part.statistic, self.domain, self.plan.rows_per_unit)
        return Calibration.of(
            sensitivity=part.statistic.sensitivity(self.domain) * self.plan.rows_per_unit,
            budget=budget.part(part.share),
            integers=moved,
            trust=self.trust,
            l1=l1,
        )


def read_query(message: bytes) -> Query:
    """The query in a message.

    Raises:
        ProtocolError: if it is anything else, or longer than any query need be.
    """
    if len(message) > MOST_QUERY_BYTES:
        raise ProtocolError(
            f"a query of {len(message):,} bytes is over the limit of {MOST_QUERY_BYTES:,}"
        )
    return decode(message, Query)


class Site:
    """One organisation's side of a study, in memory: what it spent ends with the process."""

    def __init__(
        self,
        name: str,
        rows: EncodedTable | Counts,
        plan: Plan,
        noise: NoiseSource,
        *,
        cap: Budget | None = None,
        trust: Trust | None = None,
    ) -> None:
        """Set up a site for one approved plan.

        Args:
            rows: encoded, or counted already.
            cap: the most this table may ever spend; the plan's own budget unless given.
            trust: `Local` unless the caller itself forms the sum over sites.
        """
        self.name = name
        counts = TableCounts(rows) if isinstance(rows, EncodedTable) else rows
        trust = trust or Local(len(plan.sites))
        self._desk = Desk(name, plan, counts.domain, lambda: counts, noise, trust)
        self._store = _Memory(Ledger(name, plan.budget if cap is None else min(cap, plan.budget)))
        self._turn = Lock()

    @property
    def ledger(self) -> Ledger:
        """What was charged so far."""
        return self._store.ledger

    def answer(self, message: bytes) -> bytes:
        """The answer to an encoded query; the same query again gets the same bytes, uncharged.

        Raises:
            ProtocolError: if the query is malformed or belongs to another study.
            PrivacyRefusal: if it does not fit the ledger; nothing is released then.
        """
        # One query at a time: two that fit alone must not both be answered if they do not together.
        with self._turn:
            try:
                return self._desk.answer(read_query(message), self._store)
            except MemoryError:
                raise ProtocolError("the query is too large") from None


class _Memory:
    """A store that lasts as long as its process."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._charged: set[str] = set()
        self._answers: dict[str, bytes] = {}

    def kept(self, query: str) -> bytes | None:
        return self._answers.get(query)

    def afford(self, price: Price) -> None:
        if price.query not in self._charged:
            self.ledger.charge(price.label, price.cost)

    def charge(self, price: Price) -> None:
        if price.query not in self._charged:
            self.ledger = self.ledger.charge(price.label, price.cost)
            self._charged.add(price.query)

    def keep(self, query: str, answer: bytes, asked: bytes) -> None:
        self._answers[query] = answer
