"""Synthetic rows that break no rule, whoever made them.

A synthesizer that knows which cells are impossible leaves few rows to mend. Each of those keeps as
much as it can. Values out of order are dealt anew among rows of the same groups, the least with the
least; other values are drawn again within their groups: both leave every table on groups as it is.
Then values are dealt anew, or swapped, among any rows, which leaves every 1-way as it is. Then the
columns that the broken rule ties together are taken from another row.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from heterofedsyn._arrays import Codes, Floats, Integers
from heterofedsyn.errors import HeterofedsynWarning
from heterofedsyn.schema import EncodedTable, Rulebook
from heterofedsyn.synthesis.stopping import step
from heterofedsyn.synthesis.targets import Targets

DEALS = 12
REDRAWS = 12
SWAPS = 24
"""Tries; those of a row that keep failing mostly have nothing to be found."""

MADE_UP = 500
"""Rows found by a search, where none of those that were drawn is possible."""

ENOUGH_ROWS = 1_000
"""From so many rows on it counts as the rules' doing that hardly one of them is possible."""

HARDLY = 1e-3
"""Share of possible rows below which to copy them would be to repeat a few."""


def obey(targets: Targets, table: EncodedTable, rng: np.random.Generator) -> EncodedTable:
    """The same rows, except those that break a rule; warns if hardly one of many is possible."""
    book = targets.schema.rulebook
    if not book or not book.any_broken(table.codes).any():
        return table
    codes: Codes = table.codes.copy()
    estimates = targets.estimates
    names = table.domain.names
    ranks = {
        place: _Groups(estimates.groups[names[place]], estimates.values[names[place]])
        for component in book.components
        for place in component
    }
    groups = {place: estimates.groups[names[place]] for place in ranks}
    _deal(book, codes, groups, rng)
    _redraw(book, codes, ranks, rng)
    _deal(book, codes, {}, rng)
    _swap(book, codes, rng)
    _replace(book, codes, {place: ranks[place].weights for place in ranks}, rng)
    return EncodedTable(table.domain, codes)


class _Groups:
    """Draws values of a column within their groups, in proportion to its 1-way."""

    def __init__(self, groups: Integers, values: Floats) -> None:
        self.weights = values + 1e-9
        self._order = np.argsort(groups, kind="stable")
        self._sums = np.concatenate([[0.0], np.cumsum(self.weights[self._order])])
        starts = np.searchsorted(groups[self._order], np.arange(int(groups.max()) + 2))
        self._low, self._high = starts[groups], starts[groups + 1]

    def draw(self, codes: Codes, rng: np.random.Generator) -> Codes:
        """Another code of the group of each."""
        low, high = self._low[codes], self._high[codes]
        below, above = self._sums[low], self._sums[high]
        at = np.searchsorted(self._sums, below + rng.random(codes.size) * (above - below), "right")
        drawn: Codes = self._order[np.clip(at - 1, low, high - 1)].astype(codes.dtype)
        return drawn


def _deal(
    book: Rulebook, codes: Codes, groups: Mapping[int, Integers], rng: np.random.Generator
) -> None:
    """Values that are out of order dealt anew among rows like them: the least to the least.

    To those rows as many others are added, which are in order, so that there is something to deal.
    The two columns of a rule take turns: both stay in their groups, and in all as they were.

    Args:
        groups: of codes, by place; only rows with a value of the same group are dealt it.
    """
    for turn in range(DEALS):
        broken = [law for law in book.orders if law.broken(codes).any()]
        if not broken:
            return
        step()
        before = int(np.count_nonzero(book.any_broken(codes)))
        dealt = codes.copy()
        for law in broken:
            given, place = law.places if turn % 2 else law.places[::-1]
            alike = groups[place][dealt[place]] if groups else np.zeros(dealt.shape[1], np.int64)
            out = law.broken(dealt)
            touched = np.zeros(int(alike.max()) + 1, np.bool_)
            touched[alike[out]] = True
            there = np.flatnonzero(touched[alike] & ~law.missing(dealt))
            rows = there[_with_as_many(out[there], alike[there], rng)]
            cells = alike[rows]
            wanted, offered = (np.lexsort((dealt[p, rows], cells)) for p in (given, place))
            dealt[place, rows[wanted]] = dealt[place, rows[offered]]
        if np.count_nonzero(book.any_broken(dealt)) < before:
            codes[:] = dealt


def _with_as_many(
    broken: NDArray[np.bool_], alike: Integers, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """The broken rows and, of those that are alike, as many others, whichever they are."""
    cells = np.unique(alike, return_inverse=True)[1]
    many = np.bincount(cells, broken)
    order = np.lexsort((rng.random(cells.size), ~broken, cells))
    starts = np.searchsorted(cells[order], np.arange(many.size))
    rank = np.empty(cells.size, np.int64)
    rank[order] = np.arange(cells.size) - starts[cells[order]]
    chosen: NDArray[np.bool_] = rank < 2 * many[cells]
    return chosen


def _redraw(
    book: Rulebook, codes: Codes, groups: Mapping[int, _Groups], rng: np.random.Generator
) -> None:
    """Other values of the same groups, where some break no rule."""
    for _ in range(REDRAWS):
        broken = book.broken(codes)
        rows = np.flatnonzero(np.logical_or.reduce(list(broken.values())))
        if not rows.size:
            return
        step()
        tried = codes[:, rows]
        for rule, mask in broken.items():
            own = np.flatnonzero(mask[rows])
            for place in book.places(rule):
                tried[place, own] = groups[place].draw(tried[place, own], rng)
        good = ~book.any_broken(tried)
        codes[:, rows[good]] = tried[:, good]


def _swap(book: Rulebook, codes: Codes, rng: np.random.Generator) -> None:
    """A value exchanged with a possible row, where both rows are possible afterwards."""
    for _ in range(SWAPS):
        broken = book.broken(codes)
        bad = np.logical_or.reduce(list(broken.values()))
        rows, others = np.flatnonzero(bad), np.flatnonzero(~bad)
        if not rows.size or not others.size:
            return
        step()
        some = min(rows.size, others.size)
        rows = rng.permutation(rows)[:some]
        others = rng.choice(others, some, replace=False)
        column = np.zeros(some, np.int64)
        for rule, mask in broken.items():
            own = np.flatnonzero(mask[rows])
            column[own] = rng.choice(book.places(rule), own.size)
        mended, given, every = codes[:, rows], codes[:, others], np.arange(some)
        kept = mended[column, every]
        mended[column, every] = given[column, every]
        given[column, every] = kept
        # In order everything goes with a missing value, which would be handed on for that.
        gone = [law.broken(codes[:, rows]) & law.missing(mended) for law in book.orders]
        bad = np.logical_or.reduce([book.any_broken(mended), book.any_broken(given), *gone])
        good = ~bad
        codes[:, rows[good]] = mended[:, good]
        codes[:, others[good]] = given[:, good]


def _replace(
    book: Rulebook, codes: Codes, weights: Mapping[int, Floats], rng: np.random.Generator
) -> None:
    """What rules tie together is taken from a possible row, or from one that a search finds."""
    broken = book.broken(codes)
    bad = np.logical_or.reduce(list(broken.values()))
    rows, others = np.flatnonzero(bad), np.flatnonzero(~bad)
    if not rows.size:
        return
    if others.size < HARDLY * bad.size and bad.size >= ENOUGH_ROWS:
        rule = max(broken, key=lambda number: int(np.count_nonzero(broken[number])))
        warnings.warn(
            f"rule {rule} ({book.rules[rule - 1].words}) leaves almost nothing of what was drawn, "
            "so rows are put together from single columns; measure the rule's columns together, "
            "with more budget",
            HeterofedsynWarning,
            stacklevel=2,
        )
        others = others[:0]
    if others.size:
        source, donors = codes, rng.choice(others, rows.size)
    else:
        source, donors = _made_up(book, codes, weights, rng), rng.integers(0, MADE_UP, rows.size)
    for component in book.components:
        places = np.array(component)
        codes[np.ix_(places, rows)] = source[np.ix_(places, donors)]


def _made_up(
    book: Rulebook, codes: Codes, weights: Mapping[int, Floats], rng: np.random.Generator
) -> Codes:
    found = np.zeros((codes.shape[0], MADE_UP), codes.dtype)
    for number in range(MADE_UP):
        step()
        for place, code in book.possible(weights, rng).items():
            found[place, number] = code
    return found
