"""One exchange with sites: what is said to whom, and what counts as a reply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from heterofedsyn.errors import UsageError
from heterofedsyn.hub.quorum import Roll
from heterofedsyn.hub.replies import ANSWER, SUM, Reply, Round, read_said, receive
from heterofedsyn.hub.sums import check_totals
from heterofedsyn.privacy.terms import Terms
from heterofedsyn.protocol import Answer, Plan, Query, encode
from heterofedsyn.protocol.codec import Said
from heterofedsyn.protocol.limits import check_query
from heterofedsyn.protocol.terms import guaranteed, of_the_sum, terms_of
from heterofedsyn.schema import Domain


@dataclass(frozen=True, eq=False)
class Request:
    """One exchange: what is asked of whom, and on what terms they must answer.

    Attributes:
        roll: who takes part.
        terms: on which each site releases.
        most_rows: that a site may have; one that tells of more has not answered.
        step: which of the exchanges about the query it is.
    """

    kind: ClassVar[type[Said]] = Answer
    """What sites reply with."""

    waits: ClassVar[bool] = False
    """Whether a site that is not there is asked again while there is time: asked later, it gives
    the same bytes, and others need them."""

    query: Query
    asked: tuple[str, ...]
    terms: tuple[Terms, ...]
    plan: Plan
    roll: Roll
    most_rows: int | None = None
    step: str = ANSWER

    @classmethod
    def of(
        cls, query: Query, domain: Domain, plan: Plan, roll: Roll, most_rows: int | None = None
    ) -> Request:
        """The request for a query; it is refused here before hub or site do any work for it.

        Raises:
            ProtocolError: if the method asks for more than any site answers.
        """
        if query.to is not None and query.to not in plan.sites:
            raise UsageError(
                f"query {query.label!r} is for {query.to!r}, which is no site of the study"
            )
        check_query(query, domain)
        asked = roll.asked(query)
        terms = tuple(terms_of(part, domain, plan) for part in query.parts)
        return cls(query, asked, terms, plan, roll, most_rows)

    @property
    def place(self) -> str:
        """What a journal calls this exchange."""
        number = f"{self.query.number + 1:04}"
        return number if self.step == ANSWER else f"{number}-{self.step}"

    @property
    def integers(self) -> int:
        """How many integers each site must draw noise for."""
        return sum(terms.integers for terms in self.terms)

    @property
    def sent(self) -> bytes:
        """What is the same exactly if all messages are."""
        return self._encoded

    @property
    def stated(self) -> tuple[Terms, ...]:
        """The terms with the noise that protects a record for sure."""
        return tuple(guaranteed(terms, self.plan.trust_model) for terms in self.terms)

    def message(self, site: str) -> bytes:
        """What is sent to a site."""
        return self._encoded

    @cached_property
    def _encoded(self) -> bytes:
        # Megabytes, perhaps: once, and not once for every site.
        return encode(self.query)

    def read(self, site: str, data: object, *, simulated: bool = False) -> Reply:
        """What a site's bytes say; a site speaks for itself and with real noise, or not at all.

        Args:
            simulated: whether the noise of a simulation is good enough.
        """
        return read_said(site, data, self.kind, simulated=simulated)

    def enough(self, replies: Sequence[Reply]) -> bool:
        """Whether sites that are not there need not be waited for."""
        return False

    def check(self, replies: Sequence[Reply]) -> Round:
        """The round that comes of these replies; whoever carried them may keep it.

        Raises:
            QuorumLost: if too few sites are left, or they have too few of all rows.
            ProtocolError: if the sum over sites cannot be true.
        """
        members = self.plan.sites if SUM in self.asked else ()
        return self.take(replies, self.asked, members)

    def take(
        self, replies: Sequence[Reply], asked: Sequence[str], members: tuple[str, ...]
    ) -> Round:
        """The round of these answers, each over these sites, or each of one site."""
        many = len(members) or 1
        terms = [of_the_sum(each, many) for each in self.terms]
        most = None if self.most_rows is None else many * self.most_rows
        heard = receive(self.query, terms, replies, asked, self.plan, most)
        if members:
            check_totals(heard)
        return self.roll.take(replace(heard, terms=self.stated, members=members))
