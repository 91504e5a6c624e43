"""Who takes part in a study, and what becomes of sums when some no longer do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from heterofedsyn.errors import QuorumLost
from heterofedsyn.hub.replies import SUM, Round
from heterofedsyn.protocol import Plan, Query

MOST_FACTOR = 10.0
"""By which sums over fewer sites may be multiplied: beyond, too little is known of the others."""


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
        totals: each site's own noisy total, as `(sum of precision * total, sum of precision)`.
    """

    sites: tuple[str, ...]
    quorum: int
    missing: frozenset[str] = frozenset()
    totals: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan, quorum: int | None, *, summed: bool) -> Roll:
        """Everyone, or their sum; all must answer unless a quorum is given."""
        if summed:
            return cls((SUM,), 1)
        return cls(plan.sites, len(plan.sites) if quorum is None else quorum)

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
        present = {answer.site for answer in round_.answers}
        if (
            round_.query.to is not None
            or not present <= {*self.totals}
            or present == {*self.totals}
        ):
            return round_
        whole = math.fsum(total / precision for total, precision in self.totals.values())
        part = math.fsum(self.totals[site][0] / self.totals[site][1] for site in present)
        error = math.sqrt(math.fsum(1 / self.totals[site][1] for site in present))
        # A total below its own noise tells nothing to divide by.
        factor = max(1.0, whole / max(part, error))
        if factor > MOST_FACTOR:
            gone = ", ".join(repr(site) for site in self.sites if site not in present)
            raise QuorumLost(
                f"query {round_.query.label!r}: the sites that answered told of {part:,.0f} rows, "
                f"all of {whole:,.0f}, which is beyond {MOST_FACTOR:g} times as many; resume when "
                f"{gone} can answer, or make the study anew without"
            )
        return replace(round_, factor=factor)

    def _told(self, round_: Round) -> dict[str, tuple[float, float]]:
        """The totals after this round, by inverse variance."""
        totals = dict(self.totals)
        for answer in round_.answers:
            for part, released in zip(round_.query.parts, answer.parts, strict=True):
                if part.statistic.tells_total:
                    values = released.values
                    precision = 1 / (released.sigma**2 * values.size)
                    told, weight = totals.get(answer.site, (0.0, 0.0))
                    told += precision * float(values.sum())
                    totals[answer.site] = (told, weight + precision)
        return totals
