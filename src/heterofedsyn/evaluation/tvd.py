"""Total variation distance between marginals: the part of the rows that lie elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from heterofedsyn._arrays import Integers
from heterofedsyn.errors import UsageError
from heterofedsyn.marginals.counting import Marginal, count_pairs, count_single
from heterofedsyn.schema import Clique, EncodedTable

MOST_CELLS = 2**24
"""Pairs of more cells are counted by the rows that occur."""


@dataclass(frozen=True)
class TotalVariation:
    """Distances of all attributes and of all pairs; 0 is equal, 1 is disjoint."""

    attributes: dict[str, float]
    pairs: dict[Clique, float]

    @property
    def one_way(self) -> float:
        """The mean over attributes."""
        return _mean(self.attributes.values())

    @property
    def two_way(self) -> float:
        """The mean over pairs; 0 if there is none."""
        return _mean(self.pairs.values())


def total_variation(real: EncodedTable, synthetic: EncodedTable) -> TotalVariation:
    """How far two tables of one domain are apart."""
    if real.domain != synthetic.domain:
        raise UsageError("tables of different schemas cannot be compared")

    def distance(first: Marginal, second: Marginal) -> float:
        apart = first.counts / max(1, real.rows) - second.counts / max(1, synthetic.rows)
        return 0.5 * float(np.abs(apart).sum())

    domain = real.domain
    small = [pair for pair in domain.pairs() if math.prod(domain.shape(pair)) <= MOST_CELLS]
    counted = zip(count_pairs(real, small), count_pairs(synthetic, small), strict=True)
    known = {first.clique: distance(first, second) for first, second in counted}
    return TotalVariation(
        {
            name: distance(count_single(real, name), count_single(synthetic, name))
            for name in domain.names
        },
        {
            pair: known[pair] if pair in known else _sparse(pair, real, synthetic)
            for pair in domain.pairs()
        },
    )


def _sparse(pair: Clique, real: EncodedTable, synthetic: EncodedTable) -> float:
    """The distance of a pair that has far more cells than rows."""
    first, second = (real.domain.names.index(name) for name in pair)
    width = real.domain.sizes[second]

    def cells(table: EncodedTable) -> Integers:
        return np.asarray(table.codes[first].astype(np.int64) * width + table.codes[second])

    both = np.concatenate([cells(real), cells(synthetic)])
    weights = np.repeat([1 / real.rows, -1 / synthetic.rows], [real.rows, synthetic.rows])
    _, which = np.unique(both, return_inverse=True)
    return 0.5 * float(np.abs(np.bincount(which, weights)).sum())


def _mean(distances: Iterable[float]) -> float:
    return float(np.mean([*distances] or [0.0]))
