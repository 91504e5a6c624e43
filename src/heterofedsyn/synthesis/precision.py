"""How well single columns were measured: the variance of counts of groups of values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from heterofedsyn._arrays import Floats, Integers
from heterofedsyn.errors import UsageError
from heterofedsyn.marginals.statistics import haar_levels
from heterofedsyn.synthesis.targets import Targets


def variance_of(targets: Targets, name: str, groups: Integers) -> Floats:
    """Of what the measurements of a column by itself tell of each group of its values.

    Raises:
        UsageError: if there is none.
    """
    size, whole = targets.domain.size(name), targets.total_variance
    if (name,) in targets.marginals:
        members = np.bincount(groups)
        # A group of all values is the number of records, which other answers tell as well.
        return np.where(members == size, whole, members * targets.marginals[(name,)].variance)
    if name in targets.tiers:
        return _tier_variance(targets, name, groups)
    if name not in targets.ladders:
        raise UsageError(f"column {name!r} was not measured by itself; ask for another")
    ladder, variance = targets.ladders[name], np.zeros(groups.max() + 1)
    for part in haar_weights(size, groups):
        noise = whole if part.level < 0 else ladder[part.level].variance
        variance += np.bincount(part.group, part.weight**2, variance.size) * noise
    return variance


def _tier_variance(targets: Targets, name: str, maps: Integers) -> Floats:
    """Of groups of values that were measured on other groups, within which they share alike."""
    groups, noisy = targets.tiers[name][-1]
    if maps.max() == 0:
        return np.array([targets.total_variance])
    cells, members = np.unique(np.stack([maps, groups]), axis=1, return_counts=True)
    shares = members / np.bincount(groups)[cells[1]]
    return np.bincount(cells[0], shares**2).astype(np.float64) * noisy.variance


@dataclass(frozen=True, eq=False)
class Weights:
    """What differences of one level add to sums over groups: sparse, one entry per non-zero.

    A node's left half holds (mass + difference) / 2 and its right half (mass - difference) / 2; if
    the right half is padding, the left one holds all. So a sum over values is a linear combination
    of the total and the differences, and one over a whole node needs nothing below that node.
    """

    level: int
    group: Integers
    node: Integers
    weight: Floats


def haar_weights(size: int, groups: Integers) -> Iterator[Weights]:
    """For every level, the finest first, the weights of differences in sums over groups.

    The last one, of level -1, holds the weights of the total.
    """
    group, node, weight = groups, np.arange(size), np.ones(size)
    levels = haar_levels(size)
    for level in reversed(range(levels)):
        keys, place = np.unique((group << level) + (node >> 1), return_inverse=True)
        left = np.bincount(place, weight * (node & 1 == 0))
        right = np.bincount(place, weight * (node & 1))
        group, node = keys >> level, keys & ((1 << level) - 1)
        # Values of the right half start at this leaf.
        halved = (2 * node + 1) << (levels - level - 1) < size
        yield Weights(level, group, node, np.where(halved, (left - right) / 2, 0.0))
        weight = np.where(halved, (left + right) / 2, left)
    yield Weights(-1, group, node, weight)
