"""How a site answers: count, then charge, then draw noise, then keep the answer, then send it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Protocol

from heterofedsyn.errors import ProtocolError
from heterofedsyn.marginals.counts import Counts, TableCounts
from heterofedsyn.privacy.budget import Budget, together
from heterofedsyn.privacy.ledger import Ledger
from heterofedsyn.privacy.noise import NoiseSource, add_noise
from heterofedsyn.privacy.terms import Noised, Terms
from heterofedsyn.privacy.trust import Local, Trust
from heterofedsyn.protocol import Answer, Plan, Query, Released, decode, encode
from heterofedsyn.protocol.limits import (
    check_query,
    check_together,
    most_answer_bytes,
    most_hidden_bytes,
)
from heterofedsyn.protocol.messages import query_fingerprint
from heterofedsyn.protocol.terms import check_noise, cost_of, terms_of
from heterofedsyn.schema import Domain, EncodedTable


@dataclass(frozen=True)
class Price:
    """What answering one query costs, known before a row is looked at."""

    query: str
    """Fingerprint of the query."""
    label: str
    cost: Budget
    alone: Budget
    """What it costs if somebody sees the answer by itself."""
    integers: int
    least: Budget
    """What its cheapest part costs."""
    bytes: int
    """That query and answer take at most when they are kept."""


Pack = Callable[[Query, str, Sequence[Noised]], bytes]
"""What is kept as the answer to a query of this fingerprint."""


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

    def answer(self, query: Query, store: Store, pack: Pack | None = None) -> bytes:
        """The answer to a query; the same query again gets the same bytes, uncharged.

        Args:
            pack: makes what is kept of the noisy integers; a plain answer unless given.

        Raises:
            ProtocolError: if the query is malformed or belongs to another study.
            PrivacyRefusal: if it does not fit the store's caps; nothing is released then.
        """
        asked = encode(query)  # megabytes, perhaps: once
        fingerprint = query_fingerprint(asked)
        if (kept := store.kept(fingerprint)) is not None:
            return kept
        self._check(query, asked)
        integers = sum(part.statistic.integers(self.domain) for part in query.parts)
        costs = [cost_of(part, self.plan) for part in query.parts]
        cost = together(costs)
        price = Price(
            query=fingerprint,
            label=query.label,
            cost=cost,
            alone=cost.times(self.trust.alone_factor),
            integers=integers,
            least=min(costs),
            bytes=len(asked) + self._most_bytes(integers, len(query.parts), len(asked)),
        )
        # What cannot be noised or paid is refused before any work is done for it.
        check_noise(query, self.domain, self.plan, self.trust)
        store.afford(price)
        terms = [terms_of(part, self.domain, self.plan, self.trust) for part in query.parts]
        # COUNT
        counts = self.counts()
        counts.prepare(view for part in query.parts for view in part.statistic.views())
        exact = [part.statistic.exact(counts) for part in query.parts]
        # CHARGE
        store.charge(price)
        # DRAW
        noised = [
            add_noise(values, each, self._alone(each), self.noise, f"{fingerprint} {i}".encode())
            for i, (values, each) in enumerate(zip(exact, terms, strict=True))
        ]
        answer = (pack or self._plain)(query, fingerprint, noised)
        # KEEP
        store.keep(fingerprint, answer, asked)
        return answer

    def _plain(self, query: Query, fingerprint: str, noised: Sequence[Noised]) -> bytes:
        """An answer that everyone may see."""
        return encode(
            Answer(
                study=query.study,
                query=fingerprint,
                site=self.site,
                simulated=self.noise.simulated,
                parts=tuple(map(Released.of, noised)),
            )
        )

    def _check(self, query: Query, encoded: bytes) -> None:
        if query.study != self.plan.fingerprint:
            raise ProtocolError(f"query {query.label!r} belongs to another study")
        if query.to not in (None, self.site):
            raise ProtocolError(f"query {query.label!r} is for another site")
        # Its own noise alone would cost more than is booked.
        if query.to is not None and self.trust.alone_factor > 1:
            raise ProtocolError(
                f"query {query.label!r} is for one site, where only sums over sites may be seen"
            )
        check_together(query, self.plan)
        check_query(query, self.domain, encoded)

    def _most_bytes(self, integers: int, parts: int, asked: int) -> int:
        """That what is kept of an answer takes."""
        sites = len(self.plan.roster)
        if not sites:
            return most_answer_bytes(integers, parts)
        return most_hidden_bytes(integers, parts, sites, asked)

    def _alone(self, terms: Terms) -> Budget:
        """What a release costs if somebody sees this site's message by itself."""
        return Budget(terms.rho).times(self.trust.alone_factor)


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
        self._store = InMemory(Ledger(name, plan.budget if cap is None else min(cap, plan.budget)))
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
                return self._desk.answer(decode(message, Query), self._store)
            except MemoryError:
                raise ProtocolError("the query is too large") from None


class InMemory:
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
