"""The exact marginals of one table, each counted once, whatever holds the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from heterofedsyn._arrays import Integers, frozen
from heterofedsyn.marginals.counting import Block, Marginal, PairTables, count_single, rounded_up
from heterofedsyn.schema import Clique, Domain, EncodedTable
from heterofedsyn.schema.table import code_type

_MOST_KEPT = 2**25
"""Cells of exact counts, and what their keys weigh, kept for later queries: 256 MiB."""

_CELLS_PER_GROUP_NUMBER = 5
"""What a number in the map of a key weighs: up to 40 bytes, its object and a reference to it."""

MOST_MAPS = 4
"""Views of one clique that are counted each by itself; more are added up from its table."""

_MOST_WHOLE_CELLS = 2**24
"""Of tables from which views are added up: 128 MiB."""

_MOST_COPIED = 2**28
"""Bytes of mapped codes that are made for one pass."""

Side: TypeAlias = tuple[str, tuple[int, ...] | None]
"""An attribute, and the group number of each of its values if they are merged."""

View: TypeAlias = tuple[Side, ...]
"""What a marginal is over: one or two attributes, values merged or not."""


def whole(clique: Clique) -> View:
    """The view of a clique with all its values."""
    return tuple((name, None) for name in clique)


def clique_of(view: View) -> Clique:
    """The attributes of a view."""
    return tuple(name for name, _ in view)


def shape(view: View, domain: Domain) -> tuple[int, ...]:
    """How many values or groups each side of a view has."""
    return tuple(domain.size(name) if groups is None else max(groups) + 1 for name, groups in view)


class Counts(ABC):
    """The exact marginals of one table, counted when first needed and kept while there is room.

    Args:
        size: at least `rows`, and not exact: it steers how views are counted, since whoever asks
            sees how long that takes. A power of two unless given.
    """

    def __init__(self, domain: Domain, rows: int, size: int | None = None) -> None:
        self.domain = domain
        self.rows = rows
        self.size = rounded_up(rows) if size is None else size
        self._kept: dict[View, Integers] = {}
        self._weight = 0

    @abstractmethod
    def _count(self, views: Sequence[View]) -> Sequence[Integers]:
        """The counts of each view, flat, in row-major order."""

    def prepare(self, views: Iterable[View]) -> None:
        """Count what is not counted yet, all of it together."""
        if self._weight > _MOST_KEPT:
            self._kept.clear()
            self._weight = 0
        missing = [view for view in dict.fromkeys(views) if view not in self._kept]
        for view, counts in self._found(missing).items():
            # A hub chooses the maps, and pays next to nothing for long ones.
            numbers = sum(len(groups) for _, groups in view if groups is not None)
            self._kept[view] = frozen(counts)
            self._weight += counts.size + _CELLS_PER_GROUP_NUMBER * numbers

    def _found(self, views: Sequence[View]) -> dict[View, Integers]:
        """The counts of each view; those of a clique with many maps are added up from its table.

        A hub pays next to nothing for a map, and each would cost a pass over the rows.
        """
        cliques = Counter(clique_of(view) for view in views)
        often: dict[Clique, View] = {}
        room = _MOST_WHOLE_CELLS
        for clique, times in cliques.items():
            cells = self.domain.cells(clique)
            if times > MOST_MAPS and cells <= min(room, self.size):
                often[clique] = whole(clique)
                room -= cells
        asked = [view for view in views if clique_of(view) not in often]
        asked += often.values()
        counted = dict(zip(asked, self._count(asked) if asked else (), strict=True))
        return {
            view: counted[view]
            if view in counted
            else _added_up(counted[often[clique_of(view)]], clique_of(view), view, self.domain)
            for view in views
        }

    def of(self, view: View) -> Integers:
        """The counts of a view, flat, in row-major order."""
        if view not in self._kept:
            self.prepare([view])
        return self._kept[view]


class TableCounts(Counts):
    """Counts of rows that are at hand as codes, in one table or in several."""

    def __init__(self, *tables: EncodedTable | Block) -> None:
        self._tables = [Block.of(table) for table in tables]
        rows = sum(block.rows for block in self._tables)
        super().__init__(tables[0].domain, rows, sum(block.size for block in self._tables))

    def _count(self, views: Sequence[View]) -> list[Integers]:
        plain: list[View] = []
        merging: list[View] = []
        for view in views:
            (plain if all(groups is None for _, groups in view) else merging).append(view)
        counted = dict(zip(plain, count_views(self._tables, plain, self.domain), strict=True))
        while merging:
            some = merging[: self._at_once(merging)]
            merging = merging[len(some) :]
            counted |= zip(some, count_views(self._tables, some, self.domain), strict=True)
        return [counted[view] for view in views]

    def _at_once(self, views: Sequence[View]) -> int:
        """How many of the views can be counted at once without copying too many codes."""
        longest = max(block.size for block in self._tables)
        sides: set[Side] = set()
        for many, view in enumerate(views):
            sides.update(view)
            if many and len(sides) * 2 * longest > _MOST_COPIED:
                return many
        return len(views)


class PairCounts(Counts):
    """Counts of rows that are gone: the tables of all pairs hold all that is ever asked for."""

    def __init__(
        self, domain: Domain, rows: int, tables: Sequence[Marginal], size: int | None = None
    ) -> None:
        super().__init__(domain, rows, size)
        self._tables = {table.clique: table.counts for table in tables}

    def _count(self, views: Sequence[View]) -> list[Integers]:
        return [self._view(view) for view in views]

    def _view(self, view: View) -> Integers:
        clique = clique_of(view)
        if clique not in self._tables:
            # One attribute: any pair with it knows its counts.
            clique = next(pair for pair in self._tables if clique[0] in pair)
        return _added_up(self._tables[clique], clique, view, self.domain)


def count_views(
    tables: Iterable[EncodedTable | Block],
    views: Sequence[View],
    domain: Domain,
    threads: int | None = None,
) -> list[Integers]:
    """The counts of views over all tables, in one pass over each."""
    sides = sorted({side for view in views for side in view}, key=lambda s: domain.index(s[0]))
    as_it_is = all(groups is None for _, groups in sides)
    name = {side: side[0] if as_it_is else str(place) for place, side in enumerate(sides)}
    sizes = (shape((side,), domain)[0] for side in sides)
    inner = domain if as_it_is else Domain(tuple(name.values()), tuple(sizes))
    single: dict[View, Integers] = {
        view: np.zeros(inner.size(name[view[0]]), np.int64) for view in views if len(view) == 1
    }
    pairs: list[View] = [view for view in views if len(view) == 2]
    joint = PairTables(inner, [tuple(name[side] for side in view) for view in pairs])
    for table in tables:
        mapped = table if as_it_is else _mapped(Block.of(table), sides, inner)
        for view in single:
            single[view] += count_single(mapped, name[view[0]]).counts
        if pairs:
            joint.add(mapped, threads)
    counted = single | {v: both.counts for v, both in zip(pairs, joint.close(), strict=True)}
    return [counted[view] for view in views]


def _mapped(block: Block, sides: Sequence[Side], inner: Domain) -> Block:
    """These attributes, each after its map, as a block of their own."""
    kind = code_type(inner)
    # Of the size, not of the rows; what is never written takes no memory.
    codes = np.empty((len(sides), block.size), dtype=kind)
    for place, (name, groups) in enumerate(sides):
        own = block.codes[block.domain.index(name), : block.rows]
        to = np.arange(block.domain.size(name)) if groups is None else np.array(groups)
        # Codes are within the domain; clipping them only spares numpy a copy.
        np.take(to.astype(kind), own, out=codes[place, : block.rows], mode="clip")
    return Block(inner, frozen(codes), block.rows, block.size)


def _added_up(counts: Integers, clique: Clique, view: View, domain: Domain) -> Integers:
    """The counts of a view from those of a clique of one or two that has all its attributes."""
    from heterofedsyn.marginals._exact_kernel import merge

    groups = dict(view)
    maps = [_map(groups.get(name, ()), domain.size(name)) for name in clique]
    down, across = maps if len(maps) == 2 else (*maps, _map((), 1))
    merged = np.zeros((int(down.max()) + 1, int(across.max()) + 1), np.int64)
    merge(np.ascontiguousarray(counts).reshape(len(down), len(across)), down, across, merged)
    return merged.ravel()


def _map(groups: tuple[int, ...] | None, size: int) -> Integers:
    """The group of each value: as given, each its own for None, or one for all if none is given."""
    if groups is None:
        return np.arange(size)
    return np.array(groups, np.int64) if groups else np.zeros(size, np.int64)
