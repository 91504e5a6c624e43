"""Exact marginals of encoded tables.

Whoever asks a site sees when its answer comes. So how rows are counted (threads, groups, lanes,
buffers) is chosen by `Block.size`, a rounded or declared number, and never by how many there are:
one row more is one more turn of a loop, and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import accumulate, combinations

import numpy as np

from heterofedsyn._arrays import Codes, Integers, cores, frozen
from heterofedsyn.errors import UsageError
from heterofedsyn.marginals.cover import Pair, cover
from heterofedsyn.schema import Clique, Domain, EncodedTable

_WORTH_A_THREAD = 1_000_000
"""Expected rows times groups below which starting a thread costs more than it saves."""

_BLOCKS_PER_THREAD = 8
"""Groups are handed out in this many blocks, so that no unlucky thread holds up the rest."""

_MOST_AT_ONCE = 2**30
"""Rows that the kernel counts in 32 bits."""


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


@dataclass(frozen=True, eq=False)
class Block:
    """Codes of some rows, in a buffer that may have room for more.

    Attributes:
        codes: one C-contiguous row for each attribute; only the first `rows` codes of it count.
        size: at least `rows`, and not exact: rounded up, or declared. It alone steers work.
    """

    domain: Domain
    codes: Codes
    rows: int
    size: int

    @classmethod
    def of(cls, table: EncodedTable | Block) -> Block:
        """A table as a block; a plain table's size is rounded up to a power of two."""
        if isinstance(table, Block):
            return table
        return cls(table.domain, table.codes, table.rows, rounded_up(table.rows))

    @property
    def expected(self) -> int:
        """About how many rows there are, as work is planned for."""
        return self.size // 2


def rounded_up(rows: int) -> int:
    """The next power of two above a number of rows."""
    return 1 << rows.bit_length()


def at_least(rows: int, declared: int | None) -> int:
    """A size for so many rows that is not exact: as declared, doubled until they fit.

    >>> at_least(900, 1000), at_least(999, 1000), at_least(1001, 1000), at_least(900, None)
    (1000, 1000, 2000, 1024)
    """
    if declared is None:
        return rounded_up(rows)
    size = max(1, declared)
    while size < rows:
        size *= 2
    return size


def count_pairs(
    table: EncodedTable, pairs: Sequence[Clique] | None = None, threads: int | None = None
) -> tuple[Marginal, ...]:
    """The tables of all pairs, or of the given ones."""
    return PairTables(table.domain, pairs).add(table, threads).close()


class PairTables:
    """Tables of pairs that rows are added to, block after block."""

    def __init__(self, domain: Domain, pairs: Sequence[Clique] | None = None) -> None:
        self.pairs = domain.pairs() if pairs is None else tuple(pairs)
        if len({*self.pairs}) < len(self.pairs):
            raise UsageError("a pair is asked for twice; ask for each pair once")
        self._sizes = domain.sizes
        self._places = tuple((domain.index(one), domain.index(other)) for one, other in self.pairs)
        self._starts = _starts(self._places, self._sizes)
        self._counts = np.zeros(self._starts[-1], dtype=np.int64)

    def add(self, table: EncodedTable | Block, threads: int | None = None) -> PairTables:
        """Count more rows, by as many threads as there are cores unless told otherwise."""
        block = Block.of(table)
        for begin in range(0, block.size, _MOST_AT_ONCE):
            end = max(begin, min(begin + _MOST_AT_ONCE, block.rows))
            self._add(block, begin, end, threads)
        return self

    def _add(self, block: Block, begin: int, end: int, threads: int | None) -> None:
        from heterofedsyn.marginals._count_kernel import count_groups

        expected = block.expected
        groups, places = _plan(self._places, self._sizes, expected)
        sizes = np.array(self._sizes, dtype=np.int64)

        def count(start: int, stop: int) -> None:
            count_groups(
                block.codes, begin, end, expected, groups, sizes, places, start, stop, self._counts
            )

        work = expected * len(groups)
        if threads is None:
            threads = cores() if work >= _WORTH_A_THREAD else 1
        if threads == 1:
            count(0, len(groups))
        else:
            blocks = threads * min(_BLOCKS_PER_THREAD, 1 + work // threads // _WORTH_A_THREAD)
            edges = np.linspace(0, len(groups), blocks + 1).astype(int)
            list(_pool(threads).map(count, edges[:-1], edges[1:]))

    def close(self) -> tuple[Marginal, ...]:
        """The tables of all rows so far; no more can be added."""
        counts = frozen(self._counts)
        edges = zip(self._starts[:-1], self._starts[1:], strict=True)
        return tuple(
            Marginal(pair, counts[start:stop])
            for pair, (start, stop) in zip(self.pairs, edges, strict=True)
        )


@lru_cache(maxsize=8)
def _starts(pairs: tuple[Pair, ...], sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Where each pair's table begins in one flat vector, and where the last one ends."""
    return tuple(accumulate((sizes[one] * sizes[other] for one, other in pairs), initial=0))


@lru_cache(maxsize=8)
def _plan(
    pairs: tuple[Pair, ...], sizes: tuple[int, ...], expected: int
) -> tuple[Integers, Integers]:
    """Groups that cover the pairs, and where their tables begin, as the kernel takes them."""
    groups = cover(pairs, sizes, expected)
    start = dict(zip(pairs, _starts(pairs, sizes), strict=False))
    places = [[start[pair] for pair in combinations(group, 2)] for group in groups]
    return (
        np.array([(*group, -1)[:3] for group in groups], dtype=np.int64).reshape(-1, 3),
        np.array([(*own, -1, -1)[:3] for own in places], dtype=np.int64).reshape(-1, 3),
    )


def count_single(table: EncodedTable | Block, name: str) -> Marginal:
    """The table of one attribute."""
    from heterofedsyn.marginals import _count_kernel

    counts = np.zeros(table.domain.size(name), dtype=np.int64)
    _count_kernel.count_single(table.codes[table.domain.index(name)], table.rows, counts)
    return Marginal((name,), frozen(counts))
