"""`run.json`: how a release came about, and what its readers should know of it."""

from __future__ import annotations

import msgspec

from heterofedsyn._version import __version__
from heterofedsyn.hub.methods.base import Outcome, Value
from heterofedsyn.hub.release.differences import SiteSummary
from heterofedsyn.privacy.budget import large_delta
from heterofedsyn.protocol import Plan
from heterofedsyn.protocol.about import About
from heterofedsyn.protocol.terms import hears_sums

POOLED = "pooled"
"""The name of the one party that holds all rows, where a method has no sites."""


class ScoredPair(msgspec.Struct, frozen=True):
    """How strongly a pair seemed to depend, and whether it was measured."""

    attributes: tuple[str, ...]
    score: float | None
    measured: bool


class Missed(msgspec.Struct, frozen=True):
    """A round without a site, and why, in words that fit after the site's name."""

    site: str
    round: int
    label: str
    reason: str


class Scaled(msgspec.Struct, frozen=True):
    """A round whose sums over other sites were multiplied by a ratio of noisy totals."""

    round: int
    label: str
    factor: float


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`run.json`: how a release came about."""

    version: str
    method: str
    settings: dict[str, Value]
    sites: tuple[str, ...]
    seed: int
    study: str
    schema: str = ""
    """Fingerprint of the public schema; empty if the release was made before it was told."""
    about: About | msgspec.UnsetType = msgspec.UNSET
    """What the study was for, if that was said."""
    columns: int | msgspec.UnsetType = msgspec.UNSET
    """How many columns counts might be of together, if the study's plan said so."""
    noisy_total: int
    pairs: tuple[ScoredPair, ...]
    remarks: tuple[str, ...]
    differences: tuple[SiteSummary, ...] = ()
    """How each site differs from the others; empty where sites are not seen singly."""
    missed: tuple[Missed, ...] | msgspec.UnsetType = msgspec.UNSET
    scaled: tuple[Scaled, ...] | msgspec.UnsetType = msgspec.UNSET
    """Neither is there when every site answered every round."""
    safe_csv: bool | msgspec.UnsetType = msgspec.UNSET
    """Whether `synthetic.csv` has apostrophes before what looks like a formula; else not there."""

    @property
    def said_about(self) -> About:
        """What the study said of itself, each text empty where it did not."""
        return About() if isinstance(self.about, msgspec.UnsetType) else self.about

    @property
    def pooled(self) -> bool:
        """Whether one party held all rows, so that there were no sites."""
        return self.sites == (POOLED,)

    @classmethod
    def of(
        cls,
        plan: Plan,
        outcome: Outcome,
        differences: tuple[SiteSummary, ...] = (),
        missed: tuple[Missed, ...] = (),
        scaled: tuple[Scaled, ...] = (),
    ) -> RunRecord:
        """The record of a finished study."""
        measured = {pair for targets in outcome.model.targets for pair in targets.pairs}
        pairs = [
            ScoredPair(pair, outcome.scores.get(pair), pair in measured)
            for pair in outcome.model.targets[0].domain.pairs()
            if pair in measured or pair in outcome.scores
        ]
        total = max(1, round(outcome.model.total))
        return cls(
            version=__version__,
            method=plan.method,
            settings=plan.settings,
            sites=plan.sites,
            seed=plan.seed,
            study=plan.fingerprint,
            schema=plan.schema,
            about=plan.about,
            columns=plan.columns,
            noisy_total=total,
            pairs=tuple(pairs),
            remarks=(
                *outcome.remarks,
                *_absences(missed, scaled, again=hears_sums(plan)),
                *large_delta(plan.delta, total),
            ),
            differences=differences,
            missed=missed or msgspec.UNSET,
            scaled=scaled if missed else msgspec.UNSET,
        )


def _absences(missed: tuple[Missed, ...], scaled: tuple[Scaled, ...], *, again: bool) -> list[str]:
    """What a reader of the release must know about sites that missed a round.

    Args:
        again: whether who misses one round is asked again in the next.
    """
    first = missed if again else {absence.site: absence for absence in reversed(missed)}.values()
    after = "is not in its sum" if again else "was left out from then on"
    remarks = [
        f"{absence.site} {absence.reason} in round {absence.round} ({absence.label}) and {after}"
        for absence in sorted(first, key=lambda absence: (absence.round, absence.site))
    ]
    if scaled:
        rounds = ", ".join(f"round {s.round} ({s.label}) by {s.factor:.4g}" for s in scaled)
        what = "different" if again else "fewer"
        remarks.append(
            f"sums over {what} sites were multiplied by the ratio of noisy totals, as if the "
            f"missing sites looked like the others: {rounds}"
        )
    return remarks
