"""Who takes part in a study, and what becomes of sums when some no longer do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from heterofedsyn.errors import ProtocolError, QuorumLost
from heterofedsyn.hub.replies import SUM, Round
from heterofedsyn.protocol import Part, Plan, Query, Released

MOST_FACTOR = 10.0
"""By which sums over fewer sites may be multiplied: beyond, too little is known of the others."""


@dataclass(frozen=True)
class _Told:
    """A total by inverse variance.

    Attributes:
        weighed: the sum of precision times total.
    """

    weighed: float = 0.0
    precision: float = 0.0

    @property
    def total(self) -> float:
        return self.weighed / self.precision

    @property
    def error(self) -> float:
        return math.sqrt(1 / self.precision)

    def and_more(self, released: Released) -> _Told:
        """The same with what another table tells."""
        values = released.values
        precision = 1 / (released.sigma**2 * values.size)
        weighed = self.weighed + precision * float(values.sum())
        return _Told(weighed, self.precision + precision)


@dataclass(frozen=True, eq=False)
class Roll:
    """Who takes part in a study: a site that misses a round is not asked again.

    Methods combine sums of earlier rounds with sums of later ones. When sites are missing from a
    later one, its sums are multiplied by the ratio of noisy totals: of all sites that told one,
    over those that answered. The absent are so assumed to look like the present. A ratio below 1
    is noise and counts as 1; one above `MOST_FACTOR` ends the study; where no total is known there
    is no ratio.

    Attributes:
        sites: all sites of the plan, or the one name under which their sum answers.
        totals: noisy totals by whom they are over, in the order in which they were told.
    """

    sites: tuple[str, ...]
    quorum: int
    missing: frozenset[str] = frozenset()
    totals: Mapping[frozenset[str], _Told] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan, quorum: int | None, *, summed: bool, masked: bool = False) -> Roll:
        """Everyone, or their sum; all must answer unless a quorum is given.

        Args:
            summed: whether whoever drives adds up the answers of all sites.
            masked: whether sites hide their answers in sums.
        """
        needed = len(plan.sites) if quorum is None else quorum
        if masked:
            return Sets(plan.sites, needed)
        return cls((SUM,), 1) if summed else cls(plan.sites, needed)

    def take(self, round_: Round) -> Round:
        """The round with the factor that its sums need, and with who takes part after it.

        Raises:
            QuorumLost: if too few are left, or they have too few of all rows.
        """
        # Who is left is asked first: nobody's rows have no ratio.
        after = self._after(round_)
        return replace(self._fitted(round_), roll=after)

    def asked(self, query: Query) -> tuple[str, ...]:
        """Whom a query goes to."""
        meant = self.sites if query.to is None else (query.to,)
        return tuple(site for site in meant if site not in self.missing)

    def _after(self, round_: Round) -> Roll:
        """Who takes part after this round, if enough are left."""
        missing = self.missing | {absence.site for absence in round_.absent}
        left = len(self.sites) - len(missing)
        if left < self.quorum:
            why = "; ".join(f"site {a.site!r} {a.reason}" for a in round_.absent)
            earlier = f"; missing since earlier: {', '.join(sorted(self.missing))}"
            raise QuorumLost(
                f"query {round_.query.label!r} needs one answer each from at least {self.quorum} "
                f"of {len(self.sites)} sites, but {left} are left: {why}"
                f"{earlier if self.missing else ''}"
            )
        return replace(self, missing=missing, totals=self._told(round_))

    def _fitted(self, round_: Round) -> Round:
        """The round with the factor that its sums need, if those who answered can speak for all."""
        present = {frozenset({answer.site}) for answer in round_.answers}
        if (
            round_.query.to is not None
            or not present <= {*self.totals}
            or present == {*self.totals}
        ):
            return round_
        whole = math.fsum(told.total for told in self.totals.values())
        part = math.fsum(self.totals[site].total for site in present)
        error = math.sqrt(math.fsum(1 / self.totals[site].precision for site in present))
        # A total below its own noise tells nothing to divide by.
        factor = max(1.0, whole / max(part, error))
        if factor > MOST_FACTOR:
            gone = ", ".join(repr(site) for site in self.sites if frozenset({site}) not in present)
            raise QuorumLost(
                f"query {round_.query.label!r}: the sites that answered told of {part:,.0f} rows, "
                f"all of {whole:,.0f}, which is beyond {MOST_FACTOR:g} times as many; resume when "
                f"{gone} can answer, or make the study anew without"
            )
        return replace(round_, factor=factor)

    def _told(self, round_: Round) -> dict[frozenset[str], _Told]:
        """The totals after this round, by inverse variance."""
        totals = dict(self.totals)
        for answer in round_.answers:
            over = frozenset(round_.members or {answer.site})
            for part, released in zip(round_.query.parts, answer.parts, strict=True):
                if self._tells(part):
                    totals[over] = totals.get(over, _Told()).and_more(released)
        return totals

    def _tells(self, part: Part) -> bool:
        """Whether totals are taken from the answer to a part."""
        return part.statistic.tells_total


@dataclass(frozen=True, eq=False)
class Sets(Roll):
    """Who takes part where sites hide their answers in sums: all of them, in every round.

    A site that misses a sum is asked again for the next, so sums may be over different sets. Each
    is multiplied by the ratio of noisy totals: of the first set that told one, over its own. What
    a table of pairs adds up to counts as well: often nothing else is known of a set.
    """

    def take(self, round_: Round) -> Round:
        """The round with the factor that its sum needs, and with what is known after it.

        Raises:
            ProtocolError: if the sum cannot be true, or is over too few of all rows.
        """
        if round_.absent:
            raise ProtocolError(
                f"the sum of query {round_.query.label!r} over {len(round_.members)} sites cannot "
                f"be true: it {round_.absent[0].reason}; nobody can say which site is at fault, so "
                "make the study anew with sites that you are sure of"
            )
        after = replace(self, totals=self._told(round_))
        return replace(round_, factor=after._factor(round_), roll=after)

    def _factor(self, round_: Round) -> float:
        """What makes this sum comparable with the first; 1 where there is nothing to go by."""
        own = frozenset(round_.members)
        first = next(iter(self.totals), own)
        if own == first or own not in self.totals:
            return 1.0
        # A total below its own noise tells nothing to divide by.
        whole, part = (
            max(told.total, told.error) for told in (self.totals[s] for s in (first, own))
        )
        factor = whole / part
        if own < first:
            factor = max(1.0, factor)
        elif own > first:
            factor = min(1.0, factor)
        if not 1 / MOST_FACTOR <= factor <= MOST_FACTOR:
            raise ProtocolError(
                f"query {round_.query.label!r}: the sites of its sum told of {part:,.0f} rows, "
                f"those of the first sum of {whole:,.0f}, which is beyond {MOST_FACTOR:g} times as "
                "many or as few; make the study anew, with a larger quorum"
            )
        return factor

    def _tells(self, part: Part) -> bool:
        return part.statistic.partitions
