"""How far the noise can have moved a released marginal: exact, since all noise is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from heterofedsyn._arrays import Floats, Integers, frozen
from heterofedsyn.errors import UsageError
from heterofedsyn.marginals.statistics import haar_levels
from heterofedsyn.schema import Clique, Domain
from heterofedsyn.synthesis import Targets


@dataclass(frozen=True, eq=False)
class Accuracy:
    """The standard error of a released marginal due to its noise alone.

    It is that of the unbiased estimate, before anything is smoothed, clipped or sampled; about two
    in three cells are within one standard error of the truth, 19 in 20 within two.

    Attributes:
        attributes: in the order of the schema.
        standard_error: in counts, one for every cell; a pair that was released on a grid of groups
            has one for every cell of that grid.
        fraction: the same divided by the noisy total.
    """

    attributes: Clique
    standard_error: Floats
    fraction: Floats


def accuracy_of(
    populations: Sequence[Targets],
    attributes: str | Sequence[str],
    groups: Sequence[int] | None,
    total: float,
) -> Accuracy:
    """The accuracy of a marginal summed over populations; see `Release.accuracy`.

    Args:
        total: the noisy number of records in all populations.
    """
    domain = populations[0].domain
    names = (attributes,) if isinstance(attributes, str) else tuple(attributes)
    clique = domain.clique(*names)
    if len(clique) > 2:
        raise UsageError(f"marginals are of at most two columns, not {len(clique)}: {clique}")
    maps = None if groups is None else _checked(groups, clique, domain)
    variances = [_variance(targets, clique, maps) for targets in populations]
    if len({variance.shape for variance in variances}) > 1:
        raise UsageError(
            f"pair {clique} was released on different grids; ask for its columns singly"
        )
    error = frozen(np.sqrt(np.sum(variances, axis=0)))
    return Accuracy(clique, error, frozen(error / total))


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


def _variance(targets: Targets, clique: Clique, groups: Integers | None) -> Floats:
    """The variance of every cell, or of every group of values, in one population."""
    if not clique:
        return np.array([targets.total_variance])
    if len(clique) == 2:
        return _pair_variance(targets, clique)
    size = targets.domain.size(clique[0])
    maps = np.arange(size) if groups is None else groups
    whole = targets.total_variance
    if clique in targets.marginals:
        members = np.bincount(maps)
        # A group of all values is the number of records, which other answers tell as well.
        return np.where(members == size, whole, members * targets.marginals[clique].variance)
    ladder = targets.ladders.get(clique[0])
    if clique[0] in targets.tiers:
        return _tier_variance(targets, clique[0], maps)
    if ladder is None:
        raise UsageError(f"column {clique[0]!r} was not measured by itself; ask for another")
    variance = np.zeros(maps.max() + 1)
    for part in haar_weights(size, maps):
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


def _pair_variance(targets: Targets, pair: Clique) -> Floats:
    if pair in targets.marginals:
        return np.full(targets.domain.shape(pair), targets.marginals[pair].variance)
    tables = [noisy for grid, noisy in targets.grids.items() if grid.attributes == pair]
    if not tables:
        raise UsageError(
            f"pair {pair} was not measured (at every site, if sites were asked separately); "
            "release.run.pairs says which were: ask for those, or for its columns singly"
        )
    return np.full(tables[-1].values.shape, tables[-1].variance)


def _checked(groups: Sequence[int], clique: Clique, domain: Domain) -> Integers:
    """The group numbers, if they are a map of one attribute's values."""
    if len(clique) != 1:
        raise UsageError(f"groups are of one column's values; {clique} has {len(clique)} columns")
    size = domain.size(clique[0])
    maps = np.asarray(groups)
    if maps.shape != (size,) or not np.issubdtype(maps.dtype, np.integer):
        raise UsageError(
            f"groups of {clique[0]!r} must be {size} whole numbers, one for each of its values"
        )
    if not 0 <= maps.min() <= maps.max() < size:
        raise UsageError(f"group numbers of {clique[0]!r} must be in 0..{size - 1}")
    return maps.astype(np.int64)
