"""How far each column and pair of a release can be trusted, from its published noise alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from heterofedsyn import drawing
from heterofedsyn._arrays import Floats
from heterofedsyn._words import percent
from heterofedsyn.hub.release import Release
from heterofedsyn.report.bars import bars_of
from heterofedsyn.report.pair_noise import expected_noise, mean_noise
from heterofedsyn.schema import Clique

MOST_GOOD = 0.015
"""Share of rows that noise puts into the wrong bar of a good column, at most."""

MOST_ROUGH = 0.10
"""The same of a rough one; beyond it a column is not to be used alone."""

MOST_OF_SPREAD = 0.10
"""A good column's noise is at most this part of the rows outside its most frequent bar."""

MOST_IN_PAIR = 0.05
"""Share of rows that noise puts into the wrong cell of a pair's table that can be trusted."""

CAREFUL = 3
"""Columns that are named as the weakest."""


class Word(StrEnum):
    """What a column is good for by itself."""

    GOOD = "good"
    ROUGH = "rough"
    NOT_ALONE = "do not use alone"


@dataclass(frozen=True)
class Verdict:
    """One column: what it is good for, why, and how much of it is noise.

    Attributes:
        noise: the share of rows that noise is expected to put into the wrong bar.
        blur: the same as a part of the rows outside the most frequent bar, by which columns are
            ranked; infinite where nothing was measured.
    """

    name: str
    word: Word
    reason: str
    noise: float
    blur: float


def column_verdicts(release: Release) -> tuple[Verdict, ...]:
    """One verdict for each column of the table, in its order."""
    return tuple(_verdict(release, column.name) for column in release.schema.columns)


def judged(name: str, labels: Sequence[str], shares: Floats, errors: Floats) -> Verdict:
    """The verdict on a column whose bars have these shares of all rows and standard errors."""
    if len(labels) == 1:
        return Verdict(name, Word.GOOD, "it has one value only", 0.0, 0.0)
    noise, spread = noise_of(shares, errors), max(0.0, 1.0 - float(shares.max()))
    blur = noise / spread if spread > 0 else math.inf
    off = f"{percent(noise)} of rows off"
    if noise > MOST_GOOD:
        word = Word.ROUGH if noise <= MOST_ROUGH else Word.NOT_ALONE
        return Verdict(name, word, off, noise, blur)
    if blur > MOST_OF_SPREAD:
        most = drawing.short(labels[int(shares.argmax())], 24)
        reason = f"{off}, of {percent(spread)} that are not “{most}”"
        return Verdict(name, Word.ROUGH, reason, noise, blur)
    return Verdict(name, Word.GOOD, off, noise, blur)


def noise_of(shares: Floats, errors: Floats) -> float:
    """The total variation distance from the truth that noise of bars is expected to cause.

    A bar is off by 0.8 standard errors on average as it came. A bar that is smaller than its
    standard error was shrunk towards what its neighbours say, so it counts for less.
    """
    own = np.maximum(shares, 0.0)
    weights = np.sqrt(own / np.maximum(own + errors, 1e-300))
    return min(1.0, mean_noise(errors * weights))


def _verdict(release: Release, name: str) -> Verdict:
    for rule, _ in release.schema.rulebook.derived:
        if rule.target == name:  # a function of its source is off by no more than that
            reason = f"follows from {drawing.short(rule.source, 40)}"
            return replace(_verdict(release, rule.source), name=name, reason=reason)
    if name not in release.schema.domain.names:
        reason = "made up to tell rows apart; it says nothing of anybody"
        return Verdict(name, Word.NOT_ALONE, reason, 1.0, math.inf)
    bars = bars_of(release, name)
    return judged(name, bars.display.labels, bars.shares, bars.errors)


def careful(verdicts: Sequence[Verdict]) -> str:
    """The weakest columns, even where all are good."""
    ranked = sorted(verdicts, key=lambda verdict: (-[*Word].index(verdict.word), -verdict.blur))
    weakest = ranked[:CAREFUL]
    named = "; ".join(
        f"{drawing.short(verdict.name, 40)} ({_weakness(verdict)})" for verdict in weakest
    )
    best = all(verdict.word is Word.GOOD for verdict in weakest)
    return f"{named}." + (
        " They are the weakest for what they tell, yet good by themselves." if best else ""
    )


def _weakness(verdict: Verdict) -> str:
    noise = _share_of_noise(verdict)
    return noise if verdict.word is Word.GOOD else f"{verdict.word}: {noise}"


def _share_of_noise(verdict: Verdict) -> str:
    """How much noise there is for what a column tells, in words."""
    if math.isinf(verdict.blur):
        return verdict.reason
    if verdict.blur >= 1:
        return "all that it tells may be noise"
    return f"noise is about {percent(verdict.blur)} of what it tells"


def trusted_pairs(release: Release) -> dict[Clique, float]:
    """The measured pairs that can be trusted, with their expected noise, the least noisy first."""
    noises = {
        pair.attributes: expected_noise(release, pair.attributes)
        for pair in release.run.pairs
        if pair.measured
    }
    kept = {pair: noise for pair, noise in noises.items() if noise is not None}
    ranked = sorted(kept, key=lambda pair: (kept[pair], pair))
    return {pair: kept[pair] for pair in ranked if kept[pair] <= MOST_IN_PAIR}
