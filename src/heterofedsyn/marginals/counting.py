"""Exact marginals of an encoded table, each counted once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np

from heterofedsyn._arrays import Integers, frozen
from heterofedsyn.schema import Clique, Domain, EncodedTable

_WORTH_A_THREAD = 1_000_000
"""Rows times pairs below which starting a thread costs more than it saves."""

_BLOCKS_PER_THREAD = 8
"""Pairs are handed out in this many blocks, so that an unlucky thread does not hold up the rest."""


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Threads that wait for the next table: starting them costs as much as counting a small one."""
    return ThreadPoolExecutor(threads)


os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked process has none of the threads


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
        work = table.rows * len(wanted) // threads
        blocks = threads * min(_BLOCKS_PER_THREAD, 1 + work // _WORTH_A_THREAD)
        edges = np.linspace(0, len(wanted), blocks + 1).astype(int)
        list(_pool(threads).map(count, edges[:-1], edges[1:]))
    frozen(out)
    return tuple(Marginal(pair, out[offsets[i] : offsets[i + 1]]) for i, pair in enumerate(wanted))


def count_single(table: EncodedTable, name: str) -> Marginal:
    """The table of one attribute."""
    from heterofedsyn.marginals import _count_kernel

    counts = np.zeros(table.domain.size(name), dtype=np.int64)
    _count_kernel.count_single(table.codes[table.domain.index(name)], counts)
    return Marginal((name,), frozen(counts))


_MOST_KEPT = 2**25
"""Cells of exact counts, and what their keys weigh, kept for later queries: 256 MiB."""

_CELLS_PER_GROUP_NUMBER = 5
"""What a number in the map of a key weighs: up to 40 bytes, its object and a reference to it."""

_MOST_COPIED = 2**28
"""Bytes of mapped codes that are made for one pass."""

Side: TypeAlias = tuple[str, tuple[int, ...] | None]
"""An attribute, and the group number of each of its values if they are merged."""

View: TypeAlias = tuple[Side, ...]
"""What a marginal is over: one or two attributes, values merged or not."""


def whole(clique: Clique) -> View:
    """The view of a clique with all its values."""
    return tuple((name, None) for name in clique)


class Counts:
    """The exact marginals of one table, counted when first needed and kept while there is room."""

    def __init__(self, table: EncodedTable) -> None:
        self.table = table
        self.domain = table.domain
        self._kept: dict[View, Integers] = {}
        self._weight = 0

    def prepare(self, views: Iterable[View]) -> None:
        """Count what is not counted yet, as many pairs in one pass as memory allows."""
        if self._weight > _MOST_KEPT:
            self._kept.clear()
            self._weight = 0
        missing = [view for view in dict.fromkeys(views) if view not in self._kept]
        while missing:
            some = self._some(missing)
            self._count(missing[:some])
            missing = missing[some:]

    def _some(self, views: Sequence[View]) -> int:
        """How many of the views can be counted at once without copying too many codes."""
        sides: set[Side] = set()
        for many, view in enumerate(views):
            sides.update(view)
            if many and len(sides) * 2 * self.table.rows > _MOST_COPIED:
                return many
        return len(views)

    def _count(self, missing: Sequence[View]) -> None:
        sides = dict.fromkeys(side for view in missing for side in view)
        table = self._mapped(list(sides))
        name = dict(zip(sides, table.domain.names, strict=True))
        for view in missing:
            if len(view) == 1:
                self._keep(view, count_single(table, name[view[0]]).counts)
        pairs = [view for view in missing if len(view) == 2]
        found = count_pairs(table, [tuple(name[side] for side in view) for view in pairs])
        for view, marginal in zip(pairs, found, strict=True):
            self._keep(view, marginal.counts)

    def _keep(self, view: View, counts: Integers) -> None:
        # A hub chooses the maps, and pays next to nothing for long ones.
        numbers = sum(len(groups) for _, groups in view if groups is not None)
        self._kept[view] = counts
        self._weight += counts.size + _CELLS_PER_GROUP_NUMBER * numbers

    def of(self, view: View) -> Integers:
        """The counts of a view, flat, in row-major order."""
        if view not in self._kept:
            self.prepare([view])
        return self._kept[view]

    def _mapped(self, sides: Sequence[Side]) -> EncodedTable:
        """These attributes, each after its map, as a table of their own."""
        codes, sizes = [], []
        for name, groups in sides:
            own = self.table.codes[self.domain.index(name)]
            sizes.append(self.domain.size(name) if groups is None else max(groups) + 1)
            codes.append(own if groups is None else np.array(groups, dtype=np.uint16)[own])
        kind = np.uint8 if max(sizes) <= 256 else np.uint16
        stacked = np.stack([column.astype(kind, copy=False) for column in codes])
        return EncodedTable(Domain(tuple(map(str, range(len(sizes)))), tuple(sizes)), stacked)
