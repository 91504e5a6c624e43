"""1-ways of ordered attributes from noisy Haar differences; MATH section 5.2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from heterofedsyn._arrays import Floats, Integers
from heterofedsyn.privacy.noisy import Noisy


def rebuild_haar(
    levels: Sequence[Noisy], possible: Integers, total: float, prior: tuple[float, float, float]
) -> Floats:
    """Counts of values that add up to the total, from the root downwards.

    Args:
        levels: left-minus-right differences, level 0 first (the root's).
        possible: 1 for every value that a row can have, 0 for one that it never has.
        prior: weight of "anything goes" at the root, its factor per level, weight of the edges.
    """
    from heterofedsyn.synthesis._haar_kernel import posterior_means

    spread, calm, edge = prior

    def mean(nodes: Nodes, noisy: Noisy) -> Floats:
        difference = np.empty_like(nodes.masses)
        posterior_means(
            nodes.masses,
            nodes.smooth(nodes.masses),
            noisy.values,
            float(np.sqrt(noisy.variance)),
            spread * calm**nodes.level,
            edge,
            difference,
        )
        return difference

    return descend(levels, possible, total, mean)


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of one level on the way down.

    Attributes:
        masses: how many records each has.
        left, right: how many of the values that a row can have are below each of its children.
        block: values below a node, those that pad included.
    """

    level: int
    masses: Floats
    left: Floats
    right: Floats
    block: int

    def smooth(self, masses: Floats) -> Floats:
        """The difference of every node if nothing stands out in it and these are its records."""
        even = masses * (self.left - self.right) / np.maximum(self.left + self.right, 1)
        bend = np.clip(slope(masses, self.left + self.right, self.block) / 4, -masses, masses)
        return np.clip(even + bend, -masses, masses)


def descend(
    levels: Sequence[Noisy],
    possible: Integers,
    total: float,
    difference: Callable[[Nodes, Noisy], Floats],
) -> Floats:
    """Counts of values that add up to the total: each node divides its records among two children.

    Args:
        difference: left minus right of every node of a level, given what was measured there.
    """
    leaves = 2 ** len(levels)
    size = possible.size
    real = np.append(possible, np.zeros(leaves - size, np.int64))
    masses = np.array([total])
    for level, noisy in enumerate(levels):
        children = real.reshape(2 * masses.size, -1).sum(axis=1).astype(np.float64)
        left, right = children[0::2], children[1::2]
        own = difference(Nodes(level, masses, left, right, leaves >> level), noisy)
        own = np.where(right == 0, masses, np.where(left == 0, -masses, own))
        masses = np.stack([(masses + own) / 2, (masses - own) / 2], axis=1).ravel()
    counts: Floats = np.maximum(masses[:size], 0.0)
    return counts


def slope(masses: Floats, real: Floats, block: int) -> Floats:
    """A limited slope through a node and its two neighbours; 0 at the ends and beside padding."""
    limited_slope = np.zeros_like(masses)
    if masses.size < 3:
        return limited_slope
    full = masses * block / np.maximum(real, 1)
    before, own, after = full[:-2], full[1:-1], full[2:]
    a, b = before - own, own - after
    limited = np.sign(a) * np.minimum(np.minimum(2 * np.abs(a), 2 * np.abs(b)), np.abs(a + b) / 2)
    usable = (a * b > 0) & (real[1:-1] == block) & (real[2:] > 0)
    limited_slope[1:-1] = np.where(usable, limited, 0.0)
    return limited_slope
