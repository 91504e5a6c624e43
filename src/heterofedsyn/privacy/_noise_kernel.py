"""Discrete Gaussian draws by rejection (Canonne, Kamath and Steinke 2020, algorithm 3)."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from heterofedsyn._arrays import Integers


@njit(cache=True, nogil=True)
def discrete_gaussian(rng: np.random.Generator, sigma: float, out: Integers) -> None:
    """Fill `out` with draws of probability proportional to exp(-x^2 / (2 sigma^2))."""
    scale = math.floor(sigma) + 1.0
    for i in range(out.size):
        while True:
            # A discrete Laplace draw of this scale: a geometric magnitude and a sign, one zero.
            magnitude = math.floor(-math.log(1.0 - rng.random()) * scale)
            negative = rng.random() < 0.5
            if negative and magnitude == 0.0:
                continue
            gap = magnitude - sigma * sigma / scale
            if rng.random() < math.exp(-gap * gap / (2.0 * sigma * sigma)):
                out[i] = -int(magnitude) if negative else int(magnitude)
                break
