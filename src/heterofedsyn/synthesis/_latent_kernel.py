"""Gibbs sampling of normal latent values that lie in known intervals."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from heterofedsyn._arrays import Codes, Floats

_MOST_TRIES = 200


@njit(cache=True, nogil=True)
def sweep(
    latent: Floats,
    groups: Codes,
    lower: Floats,
    upper: Floats,
    weights: Floats,
    spread: Floats,
    rng: np.random.Generator,
) -> None:
    """Redraw every latent value given the others of its row, within the interval of its group.

    Args:
        latent: attributes by rows, changed in place.
        lower, upper: for every attribute and group the ends of the interval.
        weights: the mean of attribute k is weights[k] times the row's values (0 for its own).
        spread: the standard deviation of each attribute given the others.
    """
    attributes, rows = latent.shape
    own, means = np.empty(attributes), np.empty(attributes)
    # What a unit of attribute k adds to every mean lies together, so that it is added at once.
    adds = np.ascontiguousarray(weights.T)
    for row in range(rows):
        means[:] = 0.0
        for k in range(attributes):
            own[k] = latent[k, row]
            for j in range(attributes):
                means[j] += adds[k, j] * own[k]
        for k in range(attributes):
            group, mean = groups[k, row], means[k]
            low = (lower[k, group] - mean) / spread[k]
            high = (upper[k, group] - mean) / spread[k]
            drawn = mean + spread[k] * _draw_between(low, high, rng)
            for j in range(attributes):
                means[j] += adds[k, j] * (drawn - own[k])
            latent[k, row] = drawn


@njit(cache=True, nogil=True)
def _draw_between(low: float, high: float, rng: np.random.Generator) -> float:
    """A standard normal value between two ends, by rejection from a uniform one."""
    nearest = min(max(0.0, low), high)
    reach = 5.0 if nearest == 0.0 else 8.0 / max(1.0, abs(nearest))
    begin, end = max(low, nearest - reach), min(high, nearest + reach)
    for _ in range(_MOST_TRIES):
        value = begin + (end - begin) * rng.random()
        chance = rng.random()
        drop = 0.5 * (value * value - nearest * nearest)
        # Bounds of exp(-drop) decide most cases without it: above 1 - drop, below 1 / (1 + ...).
        if chance < 1.0 - drop:
            return value
        if chance * (1.0 + drop * (1.0 + 0.5 * drop)) < 1.0 and chance < math.exp(-drop):
            return value
    return nearest
