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
    for row in range(rows):
        for k in range(attributes):
            mean = 0.0
            for j in range(attributes):
                mean += weights[k, j] * latent[j, row]
            group = groups[k, row]
            low = (lower[k, group] - mean) / spread[k]
            high = (upper[k, group] - mean) / spread[k]
            latent[k, row] = mean + spread[k] * _draw_between(low, high, rng)


@njit(cache=True, nogil=True)
def _draw_between(low: float, high: float, rng: np.random.Generator) -> float:
    """A standard normal value between two ends, by rejection from a uniform one."""
    nearest = min(max(0.0, low), high)
    reach = 5.0 if nearest == 0.0 else 8.0 / max(1.0, abs(nearest))
    begin, end = max(low, nearest - reach), min(high, nearest + reach)
    for _ in range(_MOST_TRIES):
        value = begin + (end - begin) * rng.random()
        if rng.random() < math.exp(0.5 * (nearest * nearest - value * value)):
            return value
    return nearest
