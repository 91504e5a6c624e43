"""Which pairs are worth measuring, from noisy scores; MATH sections 5.4 and 5.5."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist

from heterofedsyn.hub.methods.attempts import Mode
from heterofedsyn.schema import Clique, Domain
from heterofedsyn.synthesis.forest import spanning_forest

BY_CHANCE = 5.0
"""How many of all scored pairs may look dependent though they are not."""

LEAST_CERTAIN = 1.0
"""Standard errors that a score needs however few are scored."""

WORTH = 0.5
"""How much of the squared error that one more pair adds to the others its own score must save: the
rest of that error is what is shrunk to nothing anyway."""

MOST_EXTRAS = 6
"""Pairs beyond the forest, per column: with more, answers get long and rows take long to weigh."""


def stands_out(scored: int) -> float:
    """Standard errors from which a score is taken for dependence if so many pairs are scored."""
    chance = min(0.5, BY_CHANCE / max(1, scored))
    return max(LEAST_CERTAIN, NormalDist().inv_cdf(1 - chance))


def choose(
    domain: Domain, label: str | None, scores: Mapping[Clique, float], mode: Mode, n: float
) -> list[Clique]:
    """What is certain, a spanning forest of the others, and of the rest what is worth its noise.

    Certain are pairs with the label, where they are worth it, and those that must be measured.
    """
    certain = [*mode.forced]
    if not mode.independent:
        certain = [*(pair for pair in domain.pairs() if label in pair), *certain]
    joined = dict.fromkeys(mode.forced, math.inf)
    forest = [pair for pair in spanning_forest({**joined, **scores}) if pair not in joined]
    within = {*forest}
    best = sorted((p for p in scores if scores[p] > 0), key=lambda pair: -scores[pair])
    extras = [pair for pair in best if pair not in within]
    chosen = [*certain, *forest]
    for pair in extras[: most_extras(domain)]:
        if scores[pair] ** 2 < WORTH * _added_error(len(chosen) + 1, domain.cells(pair), mode, n):
            break
        chosen.append(pair)
    return chosen


def most_extras(domain: Domain) -> int:
    """The most pairs that are chosen beyond those that are certain and the forest."""
    return MOST_EXTRAS * len(domain)


def _added_error(pairs: int, cells: int, mode: Mode, n: float) -> float:
    """What the last of so many pairs adds to the squared error of all of them, in frequencies.

    Of m pairs with c cells each, noise is m c sigma^2 / n^2 in all, and sigma^2 grows with m: its
    slope is 2 c sigma^2 / n^2. The grid leaves a pair n / (4 sigma) cells at most.
    """
    sigma = mode.noise_of(pairs)
    return 2 * min(cells, n / (4 * sigma)) * (sigma / n) ** 2
