"""Whether integers look like discrete Gaussian noise: for audits, and before an agent serves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from heterofedsyn._arrays import Floats, Integers

_LEAST_EXPECTED = 100
"""Draws that a cell of a chi-square must expect, so that its far tail can be trusted."""

_MOST_CELLS = 60

_THRESHOLDS = tuple(2 + i / 4 for i in range(17))
"""Of the tails, in sigmas: up to 6."""

_NORMAL = NormalDist()
_MODULI = (2, 3, 4, 5, 7, 8, 11, 13, 16)

_WIDE = 4096.0
"""A sigma from which on probabilities of stretches are those of the normal distribution, within
2e-6 of each; before, every value has its own."""


def gaussian_p_value(draws: Integers, sigma: float) -> float:
    """How likely noise this odd is if it is an exact discrete Gaussian.

    The smallest of five p-values, times five: Pearson's chi-square over cells of neighbouring
    values, and over remainders; how many draws are in the tails; the chance that any draw reaches
    as far as the furthest did, and that none reaches further.

    >>> rng = np.random.default_rng(0)
    >>> draws = np.rint(rng.normal(0, 41, 20_000)).astype(np.int64)
    >>> gaussian_p_value(draws, 41.0) > 1e-3, gaussian_p_value(draws, 44.0) < 1e-9
    (True, True)
    >>> gaussian_p_value(draws // 2 * 2, 41.0) < 1e-9
    True
    """
    furthest = int(max(draws.max(), -draws.min()))
    if sigma < _WIDE and furthest > _reach(sigma):
        return 0.0
    far = -math.expm1(_log_within(furthest, draws.size, sigma))
    near = math.exp(_log_within(furthest + 1, draws.size, sigma))
    fit = _pearson(*(_wide_cells if sigma >= _WIDE else _cells)(draws, sigma))
    return min(
        1.0, 5 * min(fit, _remainders(draws, sigma), tails_p_value([(draws, sigma)]), far, near)
    )


def tails_p_value(samples: Sequence[tuple[Integers, float]]) -> float:
    """How likely so few or so many draws far out are, in vectors of discrete Gaussians together.

    Draws beyond so many sigmas, on either side and on both, against the bound of Chernoff and
    Hoeffding, which holds for any number of them, however small, and for sums over several sigmas.

    >>> rng = np.random.default_rng(0)
    >>> draws = np.rint(rng.normal(0, 41, 60_000)).astype(np.int64)
    >>> tails_p_value([(draws, 41.0)]) > 1e-3, tails_p_value([(draws.clip(-143, 143), 41.0)]) < 1e-9
    (True, True)
    """
    every = sum(draws.size for draws, _ in samples)
    seen = np.zeros((2, len(_THRESHOLDS)))
    expected = np.zeros(len(_THRESHOLDS))
    for draws, sigma in samples:
        first = np.floor(np.array(_THRESHOLDS) * sigma).astype(np.int64) + 1
        expected += draws.size * _beyond(first, sigma)
        for side, signed in enumerate((draws, -draws)):
            seen[side] += draws.size - np.searchsorted(np.sort(signed), first)
    looks = [(seen[0], expected), (seen[1], expected), (seen.sum(axis=0), 2 * expected)]
    least = min(
        _chernoff(float(s), float(e), every)
        for beyond, wanted in looks
        for s, e in zip(beyond, wanted, strict=True)
    )
    # A bound for each direction, too many and too few.
    return min(1.0, 2 * len(looks) * len(_THRESHOLDS) * least)


def relation_p_value(one: Integers, two: Integers) -> float:
    """How likely vectors this related are if they are independent noise.

    The largest correlation over all cyclic shifts of one against the other, and the same for
    their absolute values, so that noise that was moved or mirrored is found too.
    """
    chances = []
    for first, second in ((one, two), (np.abs(one), np.abs(two))):
        x, y = np.fft.rfft(_scaled(first)), np.fft.rfft(_scaled(second))
        shifted = np.fft.irfft(x * np.conj(y), one.size)
        # Vectors of length 1 of independent entries: the product is about normal, variance 1/n.
        chances.append(normal_tail(float(np.abs(shifted).max()) * math.sqrt(one.size)) * one.size)
    return min(1.0, 2 * min(chances))


def reuse_p_value(noise: Integers) -> float:
    """How likely noise this related to itself is if its integers are independent.

    The largest correlation with itself at any cyclic shift but 0, and backwards at any shift, of
    values and of absolute values: draws used twice are found wherever in the vector they are.
    """
    n = noise.size
    chances = []
    for values in (noise, np.abs(noise)):
        scaled = _scaled(values)
        x = np.fft.rfft(scaled)
        shifted = np.fft.irfft(x * np.conj(x), n)[1:]
        # Backwards an entry meets itself at most twice at a shift, which tells nothing.
        itself = np.bincount(2 * np.arange(n) % n, scaled**2, n)
        backwards = np.fft.irfft(x * x, n) - itself
        largest = max(np.abs(shifted).max(), np.abs(backwards).max())
        # Each product is there twice, backwards and at half the length: the variance is 2/n.
        chances.append(normal_tail(float(largest) * math.sqrt(n / 2)) * 2 * n)
    return min(1.0, 2 * min(chances))


def chi_square_tail(statistic: float, freedom: int) -> float:
    """The chance that a chi-square of so many degrees of freedom is at least this large.

    Written out here since an agent looks at its noise whenever it starts, without scipy.

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


def _log_within(place: int, draws: int, sigma: float) -> float:
    """The logarithm of the chance that no draw is so far out, on either side."""
    outside = 2 * float(_beyond(np.array([place]), sigma)[0])
    return -math.inf if outside >= 1 else draws * math.log1p(-outside)


def _beyond(first: Integers, sigma: float) -> Floats:
    """The chance of each of these numbers or a larger one."""
    if sigma < _WIDE:
        return _outside(_mass(sigma))[first]
    scaled = (first - 0.5) / (sigma * math.sqrt(2))
    return np.array([math.erfc(place) / 2 for place in scaled.tolist()])


def _cells(draws: Integers, sigma: float) -> tuple[Integers, Floats]:
    """How many draws are in cells of neighbouring values, and how many should be."""
    mass = _mass(sigma)
    edges = _edges(mass, draws.size)
    seen = np.bincount(draws + _reach(sigma), minlength=mass.size)
    return np.add.reduceat(seen, edges), np.add.reduceat(mass, edges) * draws.size


def _wide_cells(draws: Integers, sigma: float) -> tuple[Integers, Floats]:
    """The same for noise so wide that nobody could list its values."""
    cells = max(2, min(_MOST_CELLS, draws.size // _LEAST_EXPECTED))
    edges = np.array([sigma * _NORMAL.inv_cdf(i / cells) for i in range(1, cells)])
    # Where a cell begins: the first integer in it, from which its chance is reckoned.
    first = np.ceil(edges).astype(np.int64)
    below = np.concatenate([[0.0], 1 - _beyond(first, sigma), [1.0]])
    seen = np.bincount(np.searchsorted(first, draws, side="right"), minlength=cells)
    return seen, np.diff(below) * draws.size


def _reach(sigma: float) -> int:
    """As far as values are listed; what lies beyond 12 sigma is below 1e-31."""
    return math.ceil(12 * sigma) + 2


def _mass(sigma: float) -> Floats:
    """The probabilities of values around 0."""
    values = np.arange(-_reach(sigma), _reach(sigma) + 1, dtype=np.float64)
    mass = np.exp(-(values**2) / (2 * sigma**2))
    whole: Floats = mass / mass.sum()
    return whole


def _outside(mass: Floats) -> Floats:
    """The chance of each of 0, 1, 2, ... or a larger number; the last is 0."""
    chances: Floats = np.append(np.cumsum(mass[: mass.size // 2 - 1 : -1])[::-1], 0.0)
    return chances


def _chernoff(seen: float, expected: float, draws: int) -> float:
    """At least the chance of so many hits or more, if more than expected, else of so few."""
    if expected == 0:
        return float(seen == 0)
    hits = 0.0 if seen == 0 else seen * math.log(seen / expected)
    misses = 0.0 if seen == draws else draws - seen
    if misses:
        misses *= math.log(misses / (draws - expected))
    return math.exp(min(0.0, -(hits + misses)))


def _remainders(draws: Integers, sigma: float) -> float:
    """Chi-squares of the remainders by small numbers: noise may not have a grain."""
    chances = []
    for modulus in _MODULI:
        if sigma > 4 * modulus:  # uniform but for exp(-2 (pi sigma / modulus)^2), below 1e-130
            chance = np.full(modulus, 1 / modulus)
        else:
            mass = _mass(sigma)
            chance = np.bincount((np.arange(mass.size) - mass.size // 2) % modulus, mass)
        edges = _edges(chance, draws.size)
        remainders = np.bincount(draws % modulus, minlength=modulus)
        chances.append(
            _pearson(
                np.add.reduceat(remainders, edges), np.add.reduceat(chance, edges) * draws.size
            )
        )
    return min(1.0, len(_MODULI) * min(chances))


def _pearson(observed: Integers, expected: Floats) -> float:
    """The p-value of Pearson's chi-square."""
    if expected.size == 1:
        return 1.0
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return chi_square_tail(statistic, expected.size - 1)


def _scaled(values: Integers) -> Floats:
    """Ranks, centred and of length 1: no far tail can make a correlation by itself."""
    _, place, many = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(many) - many / 2)[place]  # equal numbers share the middle of their ranks
    ranks -= ranks.mean()
    scaled: Floats = ranks / max(float(np.linalg.norm(ranks)), 1.0)
    return scaled


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
