"""How a site answers: count, then charge, then draw noise, then keep the answer."""

from __future__ import annotations

import math
from threading import Lock

from heterofedsyn.errors import ProtocolError
from heterofedsyn.marginals.counting import Counts
from heterofedsyn.privacy.budget import Budget, together
from heterofedsyn.privacy.ledger import Ledger
from heterofedsyn.privacy.noise import Calibration, NoiseSource, add_noise
from heterofedsyn.privacy.trust import Local, Trust
from heterofedsyn.protocol import Answer, Part, Plan, Query, Released, decode, encode
from heterofedsyn.schema import Domain, EncodedTable

MOST_WORK = 2**26
"""The most cells one answer may be made from, so that no query can exhaust a site's memory."""

MOST_LABEL = 200


class Site:
    """One organisation's side of a study.

    Sensitivity, sigma and price come from the query and from what the site was set up with;
    nothing the hub says can change them.
    """

    def __init__(
        self,
        name: str,
        table: EncodedTable,
        plan: Plan,
        noise: NoiseSource,
        *,
        cap: Budget | None = None,
        trust: Trust | None = None,
    ) -> None:
        """Set up a site for one approved plan.

        Args:
            cap: the most this table may ever spend; the plan's own budget unless given.
            trust: `Local` unless the caller itself forms the sum over sites.
        """
        self.name = name
        self._plan = plan
        self._study = plan.fingerprint
        self._budget = plan.budget
        self._domain = table.domain
        self._counts = Counts(table)
        self._noise = noise
        self._trust = trust or Local(len(plan.sites))
        self.ledger = Ledger(name, plan.budget if cap is None else min(cap, plan.budget))
        self._answers: dict[str, bytes] = {}
        self._turn = Lock()

    def answer(self, message: bytes) -> bytes:
        """The answer to an encoded query; the same query again gets the same bytes, uncharged.

        Raises:
            ProtocolError: if the query is malformed or belongs to another study.
            PrivacyRefusal: if it does not fit the ledger; nothing is released then.
        """
        # One query at a time: two that fit alone must not both be answered if they do not together.
        with self._turn:
            query = decode(message, Query)
            fingerprint = query.fingerprint
            if fingerprint not in self._answers:
                try:
                    self._answers[fingerprint] = encode(self._answer(query, fingerprint))
                except MemoryError:
                    raise ProtocolError(f"query {query.label!r} is too large") from None
            return self._answers[fingerprint]

    def _answer(self, query: Query, fingerprint: str) -> Answer:
        self._check(query)
        # What cannot be paid is refused before any work is done for it.
        cost = together(self._budget.part(part.share) for part in query.parts)
        charged = self.ledger.charge(query.label, cost)
        calibrations = [self._calibrate(part) for part in query.parts]
        # COUNT
        self._counts.prepare(view for part in query.parts for view in part.statistic.views())
        exact = [part.statistic.exact(self._counts) for part in query.parts]
        # CHARGE
        self.ledger = charged
        # DRAW
        released = tuple(
            Released.of(
                add_noise(counts, calibration, self._noise, f"{fingerprint} {i}".encode()),
                sensitivity=calibration.sensitivity,
                sigma=calibration.sigma,
                rho=calibration.budget.rho,
            )
            for i, (counts, calibration) in enumerate(zip(exact, calibrations, strict=True))
        )
        # KEEP
        return Answer(
            study=self._study,
            query=fingerprint,
            site=self.name,
            simulated=self._noise.simulated,
            parts=released,
        )

    def _check(self, query: Query) -> None:
        if query.study != self._study:
            raise ProtocolError(f"query {query.label!r} belongs to another study")
        if query.to not in (None, self.name):
            raise ProtocolError(f"query {query.label!r} is for another site")
        if not query.parts:
            raise ProtocolError(f"query {query.label!r} asks for nothing")
        if len(query.label) > MOST_LABEL:
            raise ProtocolError(f"a label of {len(query.label):,} characters is too long")
        for part in query.parts:
            if not (math.isfinite(part.share) and 0 < part.share <= 1):
                raise ProtocolError(f"a share of {part.share} must be above 0 and at most 1")
            part.statistic.check(self._domain)
        work = sum(part.statistic.work(self._domain) for part in query.parts)
        if work > MOST_WORK:
            raise ProtocolError(
                f"query {query.label!r} needs {work:,} cells, more than {MOST_WORK:,}; ask for "
                "fewer pairs or take fewer bins"
            )

    def _calibrate(self, part: Part) -> Calibration:
        domain: Domain = self._domain
        return Calibration.of(
            sensitivity=part.statistic.sensitivity(domain) * self._plan.rows_per_unit,
            budget=self._budget.part(part.share),
            integers=part.statistic.integers(domain),
            trust=self._trust,
        )
