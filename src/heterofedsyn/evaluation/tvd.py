"""Total variation distance between marginals: the part of the rows that lie elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from heterofedsyn.errors import UsageError
from heterofedsyn.marginals.counting import Marginal, count_pairs, count_single
from heterofedsyn.schema import Clique, EncodedTable


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

    names = real.domain.names
    return TotalVariation(
        {name: distance(count_single(real, name), count_single(synthetic, name)) for name in names},
        {
            first.clique: distance(first, second)
            for first, second in zip(count_pairs(real), count_pairs(synthetic), strict=True)
        },
    )


def _mean(distances: Iterable[float]) -> float:
    return float(np.mean([*distances] or [0.0]))
