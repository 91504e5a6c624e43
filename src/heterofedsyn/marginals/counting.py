"""Exact marginals of an encoded table, each counted once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from heterofedsyn._arrays import Integers, frozen
from heterofedsyn.schema import Clique, EncodedTable

_WORTH_A_THREAD = 1_000_000
"""Rows times pairs below which starting a thread costs more than it saves."""

_BLOCKS_PER_THREAD = 8
"""Pairs are handed out in this many blocks, so that an unlucky thread does not hold up the rest."""


@dataclass(frozen=True, eq=False)
class Marginal:
    """Exact integer counts over the cells of a clique: never leaves a site as it is."""

    clique: Clique
    counts: Integers


def count_pairs(
    table: EncodedTable, pairs: Sequence[Clique] | None = None, threads: int | None = None
) -> tuple[Marginal, ...]:
    """The tables of all pairs (or the given ones) in one pass over the codes."""
    from heterofedsyn.marginals._count_kernel import count_tables

    domain = table.domain
    wanted = domain.pairs() if pairs is None else tuple(pairs)
    left = np.array([domain.index(pair[0]) for pair in wanted], dtype=np.int64)
    right = np.array([domain.index(pair[1]) for pair in wanted], dtype=np.int64)
    sizes = np.array(domain.sizes, dtype=np.int64)
    offsets = np.zeros(len(wanted) + 1, dtype=np.int64)
    np.cumsum(sizes[left] * sizes[right], out=offsets[1:])
    out = np.empty(offsets[-1], dtype=np.int64)

    def count(start: int, stop: int) -> None:
        count_tables(table.codes, left, right, sizes[right], offsets, start, stop, out)

    if threads is None:
        busy = table.rows * len(wanted) >= _WORTH_A_THREAD
        threads = len(os.sched_getaffinity(0)) if busy else 1
    if threads == 1:
        count(0, len(wanted))
    else:
        edges = np.linspace(0, len(wanted), threads * _BLOCKS_PER_THREAD + 1).astype(int)
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(count, edges[:-1], edges[1:]))
    frozen(out)
    return tuple(Marginal(pair, out[offsets[i] : offsets[i + 1]]) for i, pair in enumerate(wanted))


def count_single(table: EncodedTable, name: str) -> Marginal:
    """The table of one attribute."""
    from heterofedsyn.marginals import _count_kernel

    counts = np.zeros(table.domain.size(name), dtype=np.int64)
    _count_kernel.count_single(table.codes[table.domain.index(name)], counts)
    return Marginal((name,), frozen(counts))


class Counts:
    """The exact marginals of one table; each is counted when first needed and then kept."""

    def __init__(self, table: EncodedTable) -> None:
        self.table = table
        self.domain = table.domain
        self._kept: dict[Clique, Integers] = {}

    def prepare(self, cliques: Iterable[Clique]) -> None:
        """Count what is not counted yet, all pairs together."""
        missing = [clique for clique in dict.fromkeys(cliques) if clique not in self._kept]
        for clique in missing:
            if len(clique) == 1:
                self._kept[clique] = count_single(self.table, clique[0]).counts
        pairs = [clique for clique in missing if len(clique) == 2]
        if pairs:
            self._kept |= {found.clique: found.counts for found in count_pairs(self.table, pairs)}

    def of(self, clique: Clique) -> Integers:
        """The counts of a clique, flat, in row-major order."""
        self.prepare([clique])
        return self._kept[clique]
