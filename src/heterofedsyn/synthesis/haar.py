"""1-ways of ordered attributes from noisy Haar differences; MATH section 5.2."""

from __future__ import annotations

from collections.abc import Sequence

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
    leaves = 2 ** len(levels)
    size = possible.size
    real = np.append(possible, np.zeros(leaves - size, np.int64))
    masses = np.array([total])
    for level, noisy in enumerate(levels):
        block = leaves >> level
        children = real.reshape(2 * masses.size, -1).sum(axis=1).astype(np.float64)
        left, right = children[0::2], children[1::2]
        expected = masses * (left - right) / np.maximum(left + right, 1)
        expected += np.clip(slope(masses, left + right, block) / 4, -masses, masses)
        expected = np.clip(expected, -masses, masses)
        difference = np.empty_like(masses)
        posterior_means(
            masses,
            expected,
            noisy.values,
            float(np.sqrt(noisy.variance)),
            spread * calm**level,
            edge,
            difference,
        )
        difference = np.where(right == 0, masses, np.where(left == 0, -masses, difference))
        masses = np.stack([(masses + difference) / 2, (masses - difference) / 2], axis=1).ravel()
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
