"""The exact marginals of one table, each counted once, whatever holds the rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from heterofedsyn._arrays import Codes, Integers, frozen
from heterofedsyn.errors import UsageError
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
"""What a marginal is over: one to three attributes, values merged or not."""

PAIRS = 2
TRIPLES = 3
"""How many columns counts may be of together: two, or three where a study says so."""


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


def columns(view: View, domain: Domain) -> tuple[View, ...]:
    """The columns of codes that a view is counted from: one of each side, and never three.

    Of three sides the two with the fewest values are put together, so that a table of 2^24 cells
    needs no code of more than 16 bits; theirs is the last column.
    """
    if len(view) < TRIPLES:
        return tuple((side,) for side in view)
    sizes = shape(view, domain)
    alone = sizes.index(max(sizes))
    return (view[alone],), (*view[:alone], *view[alone + 1 :])


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
            (plain if _as_it_is(view) else merging).append(view)
        counted = dict(zip(plain, count_views(self._tables, plain, self.domain), strict=True))
        while merging:
            some = merging[: self._at_once(merging)]
            merging = merging[len(some) :]
            counted |= zip(some, count_views(self._tables, some, self.domain), strict=True)
        return [counted[view] for view in views]

    def _at_once(self, views: Sequence[View]) -> int:
        """How many of the views can be counted at once without copying too many codes."""
        longest = max(block.size for block in self._tables)
        copied: set[View] = set()
        for many, view in enumerate(views):
            copied.update(columns(view, self.domain))
            if many and len(copied) * 2 * longest > _MOST_COPIED:
                return many
        return len(views)


class PairCounts(Counts):
    """Counts of rows that are gone: the tables of all pairs hold all that is ever asked for.

    Where three columns may be asked for together, rows must be kept.
    """

    def __init__(
        self, domain: Domain, rows: int, tables: Sequence[Marginal], size: int | None = None
    ) -> None:
        super().__init__(domain, rows, size)
        self._tables = {table.clique: table.counts for table in tables}

    def _count(self, views: Sequence[View]) -> list[Integers]:
        return [self._view(view) for view in views]

    def _view(self, view: View) -> Integers:
        clique = clique_of(view)
        if len(clique) > PAIRS:
            raise UsageError(f"the rows are gone, and only pairs were counted, not {clique}")
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
    own = {view: columns(view, domain) for view in views}
    each = {column for of_view in own.values() for column in of_view}
    # Those of one side in the order of the domain, and after them those of two.
    ordered = sorted(each, key=lambda column: (len(column), domain.index(column[0][0])))
    as_it_is = all(map(_as_it_is, views))
    name = {c: c[0][0] if as_it_is else str(place) for place, c in enumerate(ordered)}
    sizes = (math.prod(shape(column, domain)) for column in ordered)
    inner = domain if as_it_is else Domain(tuple(name.values()), tuple(sizes))
    single: dict[View, Integers] = {
        view: np.zeros(inner.size(name[view]), np.int64) for view in views if len(view) == 1
    }
    joint: list[View] = [view for view in views if len(view) > 1]
    pairs = PairTables(inner, [tuple(name[column] for column in own[view]) for view in joint])
    for table in tables:
        mapped = table if as_it_is else _mapped(Block.of(table), ordered, inner)
        for view in single:
            single[view] += count_single(mapped, name[view]).counts
        if joint:
            pairs.add(mapped, threads)
    counted = dict(single)
    for view, both in zip(joint, pairs.close(), strict=True):
        counted[view] = both.counts if len(view) < TRIPLES else _of_three(both.counts, view, domain)
    return [counted[view] for view in views]


def _as_it_is(view: View) -> bool:
    """Whether a view can be counted from the codes of rows themselves."""
    return len(view) < TRIPLES and all(groups is None for _, groups in view)


def _of_three(counts: Integers, view: View, domain: Domain) -> Integers:
    """Counts of three sides, in their order, from those of one and of the other two together."""
    alone = view.index(columns(view, domain)[0][0])
    sizes = shape(view, domain)
    table = counts.reshape(sizes[alone], *sizes[:alone], *sizes[alone + 1 :])
    return np.moveaxis(table, 0, alone).ravel()


def _mapped(block: Block, cols: Sequence[View], inner: Domain) -> Block:
    """These columns of one side or two, each after its maps, as a block of their own."""
    kind = code_type(inner)
    # Of the size, not of the rows; what is never written takes no memory.
    codes = np.empty((len(cols), block.size), dtype=kind)
    more = np.empty(block.size, dtype=kind) if any(len(column) > 1 for column in cols) else None
    for place, column in enumerate(cols):
        out = codes[place, : block.rows]
        _take(block, column[0], out, math.prod(shape(column[1:], block.domain)))
        if len(column) > 1:
            assert more is not None
            _take(block, column[1], more[: block.rows])
            out += more[: block.rows]
    return Block(inner, frozen(codes), block.rows, block.size)


def _take(block: Block, side: Side, out: Codes, step: int = 1) -> None:
    """The codes of an attribute after its map, so far apart."""
    name, groups = side
    own = block.codes[block.domain.index(name), : block.rows]
    to = np.arange(block.domain.size(name)) if groups is None else np.array(groups)
    # Codes are within the domain; clipping them only spares numpy a copy.
    np.take((step * to).astype(out.dtype), own, out=out, mode="clip")


def _added_up(counts: Integers, clique: Clique, view: View, domain: Domain) -> Integers:
    """The counts of a view from those of a clique that has all its attributes."""
    from heterofedsyn.marginals._exact_kernel import merge

    groups = dict(view)
    maps = [_map((), 1)] * (TRIPLES - len(clique))
    maps += [_map(groups.get(name, ()), domain.size(name)) for name in clique]
    table = np.ascontiguousarray(counts).reshape([len(to) for to in maps])
    ahead, down, across = maps
    merged = np.zeros([int(to.max()) + 1 for to in maps], np.int64)
    merge(table, ahead, down, across, merged)
    return merged.ravel()


def _map(groups: tuple[int, ...] | None, size: int) -> Integers:
    """The group of each value: as given, each its own for None, or one for all if none is given."""
    if groups is None:
        return np.arange(size)
    return np.array(groups, np.int64) if groups else np.zeros(size, np.int64)
