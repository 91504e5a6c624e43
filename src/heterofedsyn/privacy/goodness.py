"""Whether integers look like discrete Gaussian noise: for audits, and before an agent serves."""

from __future__ import annotations

import math

import numpy as np

from heterofedsyn._arrays import Floats, Integers

_LEAST_EXPECTED = 100
"""Draws that a cell of the chi-square must expect, so that its far tail can be trusted."""

_MOST_CELLS = 60


def gaussian_p_value(draws: Integers, sigma: float) -> float:
    """How likely noise this odd is if it is an exact discrete Gaussian.

    The smaller of two p-values, doubled: Pearson's chi-square over cells of neighbouring values,
    and the chance that any draw reaches as far as the furthest did.

    >>> rng = np.random.default_rng(0)
    >>> draws = np.rint(rng.normal(0, 41, 20_000)).astype(np.int64)
    >>> gaussian_p_value(draws, 41.0) > 1e-3, gaussian_p_value(draws, 44.0) < 1e-9
    (True, True)
    """
    furthest = int(max(draws.max(), -draws.min()))
    mass = _mass(sigma, max(furthest, math.ceil(12 * sigma) + 2))
    zero = mass.size // 2
    beyond = float(mass[: zero - furthest + 1].sum() + mass[zero + furthest :].sum())
    reach = 1.0 if furthest == 0 else -math.expm1(draws.size * math.log1p(-min(beyond, 0.5)))
    edges = _edges(mass, draws.size)
    observed = np.add.reduceat(np.bincount(draws + zero, minlength=mass.size), edges)
    expected = np.add.reduceat(mass, edges) * draws.size
    statistic = float(((observed - expected) ** 2 / expected).sum())
    fit = chi_square_tail(statistic, len(edges) - 1) if len(edges) > 1 else 1.0
    return min(1.0, 2 * min(fit, reach))


def chi_square_tail(statistic: float, freedom: int) -> float:
    """The chance that a chi-square of so many degrees of freedom is at least this large.

    >>> round(chi_square_tail(3.841459, 1), 6), round(chi_square_tail(18.307038, 10), 6)
    (0.05, 0.05)
    """
    a, x = freedom / 2, statistic / 2
    if x <= 0:
        return 1.0
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:  # the series of the lower incomplete gamma function
        term = total = 1 / a
        n = a
        while term > total * 1e-16:
            n += 1
            term *= x / n
            total += term
        return max(0.0, 1 - total * scale)
    # Lentz's continued fraction of the upper one
    b = x + 1 - a
    c, d = math.inf, 1 / b
    result = d
    for i in range(1, 10_000):
        step = -i * (i - a)
        b += 2
        d = 1 / (step * d + b)
        c = b + step / c
        result *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return result * scale


def normal_tail(z: float) -> float:
    """The chance that a standard normal number is at least this far from 0, on either side."""
    return math.erfc(abs(z) / math.sqrt(2))


def _mass(sigma: float, reach: int) -> Floats:
    """The probabilities of -reach..reach; what lies beyond 12 sigma is below 1e-31."""
    values = np.arange(-reach, reach + 1, dtype=np.float64)
    mass = np.exp(-(values**2) / (2 * sigma**2))
    whole: Floats = mass / mass.sum()
    return whole


def _edges(mass: Floats, draws: int) -> list[int]:
    """Where cells begin: each expects enough draws, and there are not too many of them."""
    least = max(_LEAST_EXPECTED / draws, 1 / _MOST_CELLS)
    edges, gathered = [0], 0.0
    for place, chance in enumerate(mass):
        if gathered >= least:
            edges.append(place)
            gathered = 0.0
        gathered += float(chance)
    if gathered < least and len(edges) > 1:
        edges.pop()
    return edges
