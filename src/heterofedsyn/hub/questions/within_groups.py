"""Values within a group of the grid: pairs say nothing of them, so each world says another thing.

A pair is measured on groups of values. Rows of one group get its values whatever their other
columns say, but in truth a ward with many in the highest group of costs also has higher costs
within it. How far shows in how its share changes from group to group; a world has about as much of
it as that.
Every 1-way, and every table on groups, stays as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from heterofedsyn._arrays import Codes, Floats, Integers
from heterofedsyn.schema import EncodedTable
from heterofedsyn.synthesis.allocation import members_of
from heterofedsyn.synthesis.estimates import Estimates, missing_apart

AS_FAR = (1.2, 0.8)
"""Mean and standard deviation of the share of what groups suggest that is true within them."""

BESIDES = 0.15
"""Standard deviation of what is true within a group and shows nowhere, in those of the group."""

LEAST_ODDS = 0.4
"""Standard deviation of the logarithm by which values of a group differ, where nothing shows."""

VALUES = 0.7
"""How much of this is each value's own, beside what rises from one end of a column to the other."""

FARTHEST = 2.5
ROUNDS = 3
LARGEST_RATIO = 20.0


def lean(estimates: Estimates, table: EncodedTable, rng: np.random.Generator) -> EncodedTable:
    """The same rows with values dealt anew within groups."""
    codes: Codes = table.codes.copy()
    names = table.domain.names
    groups = {
        name: estimates.groups[name][codes[place]].astype(np.int64)
        for place, name in enumerate(names)
    }
    ordered = missing_apart(estimates.schema, estimates.groups)
    for place, name in enumerate(names):
        own = estimates.groups[name]
        partners = [pair for pair in estimates.pairs if name in pair]
        if not partners or own.max() + 1 == own.size:
            continue
        others = [pair[1 - pair.index(name)] for pair in partners]
        tables = [estimates.table(other, name) for other in others]
        if name in ordered:
            on_groups = [*zip([groups[other] for other in others], tables, strict=True)]
            shift = _shift(groups[name], codes[place], on_groups, rng)
            codes[place] = _dealt(groups[name], codes[place], shift)
        else:
            beside = [
                _Beside(codes[names.index(other)], estimates.groups[other], table)
                for other, table in zip(others, tables, strict=True)
            ]
            codes[place] = _mixed(own, groups[name], codes[place], beside, rng)
    return EncodedTable(table.domain, codes)


@dataclass(frozen=True, eq=False)
class _Beside:
    """Another column: its codes, the group of each value, and its pair with the column at hand."""

    codes: Codes
    groups: Integers
    table: Floats

    def odds(self, many: int, rng: np.random.Generator) -> Floats:
        """For so many values of the column at hand, how much each value of this one likes it."""
        place, _ = _normal_groups(self.table.sum(axis=1) / self.table.sum())
        rising = rng.standard_normal((many, 1)) * place[self.groups]
        own = rng.standard_normal((many, self.groups.size))
        drawn: Floats = _spread(self.table) * (rising + VALUES * own)
        return drawn


def _shift(
    groups: Integers, codes: Codes, beside: list[tuple[Integers, Floats]], rng: np.random.Generator
) -> Floats:
    """For every row how large its value is among those of its group: a standard normal number."""
    many = np.bincount(groups)
    order = np.lexsort((rng.random(codes.size), codes, groups))
    rank = np.empty(codes.size)
    rank[order] = np.arange(codes.size) - np.repeat(np.cumsum(many) - many, many)
    share = (rank + 0.5) / many[groups]
    score: Floats = np.log(share / (1 - share)) / 1.702  # near enough to a normal one
    wanted = []
    for others, table in beside:
        factor = AS_FAR[0] + AS_FAR[1] * rng.standard_normal()
        besides = BESIDES * rng.standard_normal(table.shape)
        apart = np.clip(factor * _suggested(table), -FARTHEST, FARTHEST) + besides
        weights = table / np.maximum(table.sum(axis=0), 1e-9)
        cells = others * table.shape[1] + groups
        wanted.append((cells, (apart - (apart * weights).sum(axis=0)).ravel()))
    for _ in range(ROUNDS):
        for cells, apart in wanted:
            rows = np.maximum(np.bincount(cells, minlength=apart.size), 1)
            now = np.bincount(cells, score, apart.size) / rows
            score = score + (apart - now)[cells]
    return score


def _suggested(table: Floats) -> Floats:
    """How far values within a group are shifted for each row of a table, by its neighbours.

    If the logarithm of a row's share rises by b for each unit of a normal score, values within a
    group of standard deviation s are larger by b s of these.
    """
    rows, columns = table.sum(axis=1, keepdims=True), table.sum(axis=0)
    total = max(float(columns.sum()), 1e-9)
    expected = np.maximum(rows * columns / total, 1e-9)
    ratio = np.log(np.clip(table / expected, 1 / LARGEST_RATIO, LARGEST_RATIO))
    if columns.size < 2:
        return np.zeros_like(table)
    middle, deviation = _normal_groups(columns / total)
    steps = np.maximum(np.diff(middle), 1e-3)
    between = np.diff(ratio, axis=1) / steps
    slope = np.concatenate(
        [between[:, :1], (between[:, 1:] + between[:, :-1]) / 2, between[:, -1:]], axis=1
    )
    return np.asarray(slope * deviation)


def _normal_groups(shares: Floats) -> tuple[Floats, Floats]:
    """The mean and the standard deviation of a normal number within stretches of these shares."""
    ends = np.concatenate([[0.0], np.cumsum(shares)])
    inside = (np.arange(32) + 0.5) / 32
    at = np.clip(ends[:-1, None] + np.diff(ends)[:, None] * inside, 1e-6, 1 - 1e-6)
    scores = np.log(at / (1 - at)) / 1.702
    return scores.mean(axis=1), scores.std(axis=1)


def _dealt(groups: Integers, codes: Codes, score: Floats) -> Codes:
    """The values of each group dealt to its rows, the least to the least score."""
    dealt = np.empty_like(codes)
    dealt[np.lexsort((score, groups))] = codes[np.lexsort((codes, groups))]
    return dealt


def _mixed(
    own: Integers,
    groups: Integers,
    codes: Codes,
    beside: list[_Beside],
    rng: np.random.Generator,
) -> Codes:
    """Values without order dealt anew within each group, some more to one kind of row."""
    dealt = codes.copy()
    for group, members in enumerate(members_of(own)):
        if members.size < 2:
            continue
        rows = np.flatnonzero(groups == group)
        many = np.bincount(codes[rows], minlength=own.size)[members]
        liking = rng.gumbel(size=(members.size, rows.size))
        for other in beside:
            liking += other.odds(members.size, rng)[:, other.codes[rows]]
        free = np.ones(rows.size, np.bool_)
        for place in np.argsort(many, kind="stable"):
            left = np.flatnonzero(free)
            chosen = left[np.argsort(-liking[place, left], kind="stable")[: many[place]]]
            dealt[rows[chosen]] = members[place]
            free[chosen] = False
    return dealt


def _spread(table: Floats) -> float:
    """How much the logarithm of a cell differs from independence, weighted by rows."""
    expected = np.maximum(np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum(), 1e-9)
    ratio = np.log(np.clip(table / expected, 1 / LARGEST_RATIO, LARGEST_RATIO))
    return math.hypot(LEAST_ODDS, float(np.sqrt(np.average(ratio**2, weights=expected))))
