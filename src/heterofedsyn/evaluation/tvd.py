"""Total variation distance between marginals, on the schema's grid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heterofedsyn.errors import UsageError
from heterofedsyn.marginals.counting import Marginal, count_pairs, count_single
from heterofedsyn.schema import EncodedTable


@dataclass(frozen=True)
class TotalVariation:
    """Mean distance over all attributes and over all pairs; 0 is equal, 1 is disjoint."""

    one_way: float
    two_way: float


def total_variation(real: EncodedTable, synthetic: EncodedTable) -> TotalVariation:
    """How far two tables of one domain are apart."""
    if real.domain != synthetic.domain:
        raise UsageError("tables of different schemas cannot be compared")

    def singles(table: EncodedTable) -> list[Marginal]:
        return [count_single(table, name) for name in table.domain.names]

    def distance(first: Marginal, second: Marginal) -> float:
        apart = first.counts / max(1, real.rows) - second.counts / max(1, synthetic.rows)
        return 0.5 * float(np.abs(apart).sum())

    one_way = [distance(*both) for both in zip(singles(real), singles(synthetic), strict=True)]
    pairs = zip(count_pairs(real), count_pairs(synthetic), strict=True)
    two_way = [distance(*both) for both in pairs] or [0.0]
    return TotalVariation(float(np.mean(one_way)), float(np.mean(two_way)))
