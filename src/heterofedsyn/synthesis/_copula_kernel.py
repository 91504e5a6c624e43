"""Cell probabilities of a bivariate normal distribution."""

from __future__ import annotations

import math

from numba import njit

from heterofedsyn._arrays import Floats

_ROOT_2 = math.sqrt(2.0)


@njit(cache=True, nogil=True)
def normal_cells(nodes: Floats, cuts: Floats, correlation: float, out: Floats) -> None:
    """For every stretch of the first variable the mean chance of each interval of the second.

    Args:
        nodes: values of the first variable, equally likely, a row of them per stretch.
        cuts: inner ends of the intervals of the second variable.
        out: stretches by intervals; rows add up to 1.
    """
    spread = math.sqrt(1.0 - correlation * correlation)
    stretches, many = nodes.shape
    for i in range(stretches):
        for j in range(cuts.size + 1):
            out[i, j] = 0.0
        for node in range(many):
            mean = correlation * nodes[i, node]
            below = 0.0
            for j in range(cuts.size):
                upto = 0.5 * math.erfc(-(cuts[j] - mean) / (spread * _ROOT_2))
                out[i, j] += (upto - below) / many
                below = upto
            out[i, cuts.size] += (1.0 - below) / many
