"""The posterior mean of a Haar difference; MATH section 5.2."""

from __future__ import annotations

import math

from numba import njit

from heterofedsyn._arrays import Floats

_ROOT_2 = math.sqrt(2.0)
_ROOT_2_PI = math.sqrt(2.0 * math.pi)


@njit(cache=True, nogil=True)
def posterior_means(
    masses: Floats,
    expected: Floats,
    around: Floats,
    observed: Floats,
    variance: float,
    spread: float,
    edge: float,
    out: Floats,
    chances: Floats,
) -> None:
    """For every node, the mean of its true difference given the noisy one.

    The prior is a normal part around `expected` with its own variance, a uniform part of weight
    `spread` on [-mass, mass], and both ends of it with weight `edge` / 2 each; the noise is normal.

    Args:
        chances: is given what each of the three parts has to do with every node.
    """
    sigma = math.sqrt(variance)
    for node in range(masses.size):
        mass, mean, seen = masses[node], expected[node], observed[node]
        chances[:, node] = 0.0
        if mass <= 0.0:
            out[node] = 0.0
            continue
        low, high = (-mass - seen) / sigma, (mass - seen) / sigma
        inside = _between(low, high)
        cut = min(max(seen, -mass), mass)
        if inside > 0.0:
            shift = (_density(low) - _density(high)) / inside
            cut = min(max(seen + sigma * shift, -mass), mass)
        both = math.sqrt(variance + around[node])
        near = mean + around[node] / (variance + around[node]) * (seen - mean)
        near = min(max(near, -mass), mass)
        smooth = (1.0 - spread - edge) * _density((seen - mean) / both) / both
        in_range = spread * inside / (2.0 * mass)
        at_high = 0.5 * edge * _density((seen - mass) / sigma) / sigma
        at_low = 0.5 * edge * _density((seen + mass) / sigma) / sigma
        whole = smooth + in_range + at_high + at_low
        if whole > 0.0:
            top = smooth * near + in_range * cut + (at_high - at_low) * mass
            out[node] = min(max(top / whole, -mass), mass)
            chances[0, node] = smooth / whole
            chances[1, node] = in_range / whole
            chances[2, node] = (at_high + at_low) / whole
        else:
            out[node] = cut
            chances[1, node] = 1.0


@njit(cache=True, nogil=True)
def _density(x: float) -> float:
    return math.exp(-0.5 * x * x) / _ROOT_2_PI


@njit(cache=True, nogil=True)
def _between(low: float, high: float) -> float:
    """The normal probability of an interval, accurate in both tails."""
    if low > 0.0:
        return 0.5 * (math.erfc(low / _ROOT_2) - math.erfc(high / _ROOT_2))
    if high < 0.0:
        return 0.5 * (math.erfc(-high / _ROOT_2) - math.erfc(-low / _ROOT_2))
    return 0.5 * (math.erf(high / _ROOT_2) - math.erf(low / _ROOT_2))
