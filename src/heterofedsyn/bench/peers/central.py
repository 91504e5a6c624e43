"""What central methods have in common: exact tables, simulated noise, a choice among candidates.

Noise is numpy's, from a seed: these are for figures on public rows, and nothing else calls them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from heterofedsyn._arrays import Floats
from heterofedsyn.bench.peers.field import Measured
from heterofedsyn.marginals import count_pairs
from heterofedsyn.marginals.counting import count_single
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.schema import Clique, EncodedTable


@dataclass(frozen=True, eq=False)
class Made:
    """Synthetic codes, and how many different pairs were measured for them."""

    table: EncodedTable
    pairs: int


class Peer(Protocol):
    """A central method: it sees all rows, and spends a budget on a record added or removed."""

    @property
    def settings(self) -> Mapping[str, float]:
        """What limits it, beyond what its authors say."""
        ...

    def run(self, table: EncodedTable, budget: Budget, rng: np.random.Generator) -> Made:
        """Synthetic codes for a table."""
        ...


def singles_of(table: EncodedTable) -> dict[Clique, Floats]:
    """The exact counts of every attribute."""
    return {
        (name,): count_single(table, name).counts.astype(np.float64) for name in table.domain.names
    }


def pairs_of(table: EncodedTable) -> dict[Clique, Floats]:
    """The exact counts of every pair, as tables."""
    return {
        own.clique: own.counts.reshape(table.domain.shape(own.clique)).astype(np.float64)
        for own in count_pairs(table)
    }


def measure(clique: Clique, exact: Floats, sigma: float, rng: np.random.Generator) -> Measured:
    """A table with Gaussian noise: rho = 1 / (2 sigma^2), since a record is in one cell."""
    return Measured(clique, exact.ravel() + rng.normal(0, sigma, exact.size), sigma)


def choose(
    scores: Sequence[float], epsilon: float, sensitivity: float, rng: np.random.Generator
) -> int:
    """The exponential mechanism, by Gumbel noise: rho = epsilon^2 / 8; the place of its choice."""
    weights = 0.5 * epsilon / sensitivity * np.asarray(scores, dtype=np.float64)
    return int(np.argmax(weights + rng.gumbel(size=weights.size)))
