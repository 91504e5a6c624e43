"""1-ways of ordered attributes from noisy Haar differences; MATH section 5.2."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from heterofedsyn._arrays import Floats, Integers
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.synthesis.profile import profile

SMALLEST_MASS = 1e-9
"""Keeps what is divided by a mass finite where there is none."""

LEARNING_TURNS = 4
"""Turns of learning how much of a level is smooth; more changed nothing measurable."""

PRIOR_NODES = 4.0
"""What the prior counts for when a level's own weights are learnt, in nodes."""

FEWEST_TEETH = 8
TEETH = 3.0
"""Nodes that may be a comb, and standard errors by which both halves of them must show it."""

STANDS_OUT = 2.0
"""Standard errors by which a level must be rougher than its noise to be called rough."""


def rebuild_haar(
    levels: Sequence[Noisy], possible: Integers, total: float, prior: tuple[float, float, float]
) -> Floats:
    """Counts of values that add up to the total, from the root downwards.

    Args:
        levels: left-minus-right differences, level 0 first (the root's).
        possible: 1 for every value that a row can have, 0 for one that it never has.
        prior: weight of "anything goes" at the root, its factor per level, weight of the edges.
    """
    spread, calm, edge = prior

    def mean(nodes: Nodes, noisy: Noisy) -> Floats:
        return _posterior(nodes, noisy, (spread * calm**nodes.level, edge))

    return descend(levels, profile(levels, possible, total), total, mean)


def _posterior(nodes: Nodes, noisy: Noisy, prior: tuple[float, float]) -> Floats:
    """The mean difference of every node of a level, whose nodes tell together how rough it is.

    What is smooth differs from its expectation as a sample does from its population, and by the
    level's roughness. How many nodes are smooth, anything, or on one side is learnt with it.

    Args:
        prior: weights of "anything goes" and of the edges.
    """
    from heterofedsyn.synthesis._haar_kernel import posterior_means

    masses, expected = nodes.masses, nodes.expected(nodes.masses, noisy)
    sampled = np.maximum(masses - expected**2 / np.maximum(masses, SMALLEST_MASS), 0.0)
    open_ = (masses > 0) & (nodes.left > 0) & (nodes.right > 0)
    many = int(np.count_nonzero(open_))
    mean, chances = np.empty_like(masses), np.empty((3, masses.size))
    weights, rough = prior, 0.0
    for _ in range(1 + LEARNING_TURNS * (many > 1)):
        around = sampled + rough * masses**2
        posterior_means(
            masses, expected, around, noisy.values, noisy.variance, *weights, mean, chances
        )
        smooth, *others = chances[:, open_]
        weights = tuple(
            (PRIOR_NODES * before + own.sum()) / (PRIOR_NODES + many)
            for before, own in zip(prior, others, strict=True)
        )
        apart = (noisy.values - expected)[open_] ** 2 - noisy.variance - sampled[open_]
        error = noisy.variance * np.sqrt(2 * smooth.sum())
        squares = masses[open_] ** 2
        scale = smooth @ squares + PRIOR_NODES * squares.mean() if many else 1.0
        rough = max(0.0, float(smooth @ apart) - STANDS_OUT * error) / max(scale, SMALLEST_MASS)
    return mean


def _teeth(apart: Floats, masses: Floats, variance: float) -> Floats:
    """By how much the nodes of a level differ from a smooth shape if they are a comb.

    Where values are rounded, of two neighbours always the same has most records. Both halves of
    the nodes, taken in turn, must show it, since one pile is no comb.
    """
    if masses.size < FEWEST_TEETH:
        return np.zeros_like(masses)
    one, other = (_lean(apart[t::2], masses[t::2], variance) for t in (0, 1))
    return masses * (_lean(apart, masses, variance) if one * other > 0 else 0.0)


def _lean(apart: Floats, masses: Floats, variance: float) -> float:
    """Which part of their records lies left of where it was expected; 0 if that may be noise."""
    squares = max(SMALLEST_MASS, float(masses @ masses))
    lean = float(apart @ masses) / squares
    # What is there is a sample too: a difference varies by as much as its node has records.
    error = math.sqrt((variance + float(masses @ masses**2) / squares) / squares)
    return lean if abs(lean) > TEETH * error else 0.0


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of one level on the way down.

    Attributes:
        masses: how many records each has.
        left, right: what the children of each would have, in any unit, if nothing stood out.
    """

    level: int
    masses: Floats
    left: Floats
    right: Floats

    def expected(self, masses: Floats, noisy: Noisy) -> Floats:
        """The difference of every node if nothing stands out in it and these are its records."""
        both = np.maximum(self.left + self.right, SMALLEST_MASS)
        even: Floats = masses * (self.left - self.right) / both
        open_ = (masses > 0) & (self.left > 0) & (self.right > 0)
        even[open_] += _teeth((noisy.values - even)[open_], masses[open_], noisy.variance)
        return np.clip(even, -masses, masses)


def descend(
    levels: Sequence[Noisy],
    shape: Floats,
    total: float,
    difference: Callable[[Nodes, Noisy], Floats],
) -> Floats:
    """Counts of values that add up to the total: each node divides its records among two children.

    Args:
        shape: how frequent values would be if nothing stood out; 0 for those that no row can have.
        difference: left minus right of every node of a level, given what was measured there.
    """
    size = shape.size
    padded = np.append(shape, np.zeros(2 ** len(levels) - size))
    masses = np.array([total])
    for level, noisy in enumerate(levels):
        children = padded.reshape(2 * masses.size, -1).sum(axis=1)
        left, right = children[0::2], children[1::2]
        own = difference(Nodes(level, masses, left, right), noisy)
        own = np.where(right == 0, masses, np.where(left == 0, -masses, own))
        masses = np.stack([(masses + own) / 2, (masses - own) / 2], axis=1).ravel()
    counts: Floats = np.maximum(masses[:size], 0.0)
    return counts
