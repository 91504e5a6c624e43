"""One step of GUM: move records of a table from over-full to under-full cells of one pair.

Nothing is sorted. A moved record that becomes a copy takes its values from a record of a gaining
cell, which never moves itself, so all copies of a step may be made attribute by attribute, where
one column fits a cache, instead of record by record.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from heterofedsyn._arrays import Codes, Floats, Integers

_STRETCH = 12
"""Copies are made in the order of 2^12 records at a time that they are taken from."""


class Work(NamedTuple):
    """Arrays of a number per record, made once for many steps."""

    cells: NDArray[np.unsignedinteger[Any]]
    members: NDArray[np.uint32]
    moving: NDArray[np.uint32]
    donors: NDArray[np.uint32]
    spare: NDArray[np.uint32]

    @classmethod
    def of(cls, rows: int, cells: int) -> Work:
        """For tables of so many rows, and pairs of at most so many cells."""
        kind = np.uint16 if cells <= 2**16 else np.uint32
        numbers = [np.empty(rows, dtype=np.uint32) for _ in range(4)]
        return cls(np.empty(rows, dtype=kind), *numbers)


@njit(cache=True, nogil=True)
def move_records(
    codes: Codes,
    first: int,
    second: int,
    width: int,
    target: Floats,
    alpha: float,
    copying: float,
    work: Work,
    rng: np.random.Generator,
) -> None:
    """Bring the counts of the pair (first, second) closer to `target`; MATH section 5.6.

    Args:
        alpha: at most this share of a cell's records is added to it.
        copying: the chance that a moved record becomes a copy of one in its new cell.
    """
    one, two = codes[first], codes[second]
    starts = np.zeros(target.size + 1, dtype=np.int64)
    for row in range(one.size):
        place = np.uint32(one[row]) * np.uint32(width) + np.uint32(two[row])
        work.cells[row] = place
        starts[place + np.uint32(1)] += 1
    moves = _moves(starts, target, alpha, rng)
    if moves.size == 0:
        return
    for cell in range(target.size):
        starts[cell + 1] += starts[cell]
    filled = starts[:-1].copy()
    for row in range(one.size):
        place = np.uint32(work.cells[row])
        work.members[filled[place]] = row
        filled[place] += 1

    many = _choose(starts, moves, work, rng)
    used = copies = 0
    for cell in range(target.size):
        begin, count = starts[cell], starts[cell + 1] - starts[cell]
        upto = max(used, min(used + moves[cell], many))
        for spot in range(used, upto):
            one[work.moving[spot]] = cell // width
        for spot in range(used, upto):
            two[work.moving[spot]] = cell % width
        if count > 0:
            for spot in range(used, upto):
                if rng.random() < copying:
                    work.donors[copies] = work.members[begin + int(rng.random() * count)]
                    work.moving[copies] = work.moving[spot]
                    copies += 1
        used = upto
    _copy(codes, first, second, copies, work)


@njit(cache=True, nogil=True)
def _moves(counts: Integers, target: Floats, alpha: float, rng: np.random.Generator) -> Integers:
    """How many records each cell gains (or gives up, negative); empty if none moves at all.

    Args:
        counts: the records of cell i at place i + 1.
    """
    cells = target.size
    change = np.zeros(cells)
    gained = 0.0
    excess = 0.0
    crowd = 0.0
    for cell in range(cells):
        count = counts[cell + 1]
        gap = target[cell] - count
        if gap > 0.0:
            change[cell] = min(gap, alpha * count) if count > 0 else alpha * gap
            gained += change[cell]
        elif gap < 0.0:
            change[cell] = gap
            excess -= gap
            crowd += count
    beta = _giving_rate(counts, change, min(gained, excess), crowd)

    # Systematic rounding: unbiased cell by cell, and both totals are the rounded sum.
    moves = np.zeros(cells, dtype=np.int64)
    offset = rng.random()
    given_so_far = gained_so_far = offset
    for cell in range(cells):
        if change[cell] < 0.0:
            upto = given_so_far + min(-change[cell], beta * counts[cell + 1])
            moves[cell] = -(int(upto) - int(given_so_far))
            given_so_far = upto
        elif change[cell] > 0.0:
            upto = gained_so_far + change[cell]
            moves[cell] = int(upto) - int(gained_so_far)
            gained_so_far = upto
    nothing = int(given_so_far) == 0 or int(gained_so_far) == 0
    return moves[:0] if nothing else moves


@njit(cache=True, nogil=True)
def _choose(starts: Integers, moves: Integers, work: Work, rng: np.random.Generator) -> int:
    """Put random records of the giving cells into `work.moving`, in random order; how many."""
    members, moving = work.members, work.moving
    many = 0
    for cell in range(moves.size):
        begin, end = starts[cell], starts[cell + 1]
        for spot in range(begin, min(begin - moves[cell], end)):
            other = spot + int(rng.random() * (end - spot))
            members[spot], members[other] = members[other], members[spot]
            moving[many] = members[spot]
            many += 1
    for spot in range(many - 1, 0, -1):
        other = int(rng.random() * (spot + 1))
        moving[spot], moving[other] = moving[other], moving[spot]
    return many


@njit(cache=True, nogil=True)
def _copy(codes: Codes, first: int, second: int, copies: int, work: Work) -> None:
    """Give the first so many records in `work.moving` the other values of those in `work.donors`.

    Overwrites everything in `work`.
    """
    takers, donors = work.spare, work.members
    filled = np.zeros((codes.shape[1] >> _STRETCH) + 2, dtype=np.int64)
    for spot in range(copies):
        filled[(work.donors[spot] >> np.uint32(_STRETCH)) + np.uint32(1)] += 1
    for stretch in range(1, filled.size):
        filled[stretch] += filled[stretch - 1]
    for spot in range(copies):
        stretch = work.donors[spot] >> np.uint32(_STRETCH)
        takers[filled[stretch]] = work.moving[spot]
        donors[filled[stretch]] = work.donors[spot]
        filled[stretch] += 1
    values = work.cells
    for attribute in range(codes.shape[0]):
        if attribute not in (first, second):
            column = codes[attribute]
            for spot in range(copies):
                values[spot] = column[donors[spot]]
            for spot in range(copies):
                column[takers[spot]] = values[spot]


@njit(cache=True, nogil=True)
def _giving_rate(counts: Integers, change: Floats, wanted: float, crowd: float) -> float:
    """The beta at which over-full cells give up `wanted` records, min(excess, beta count) each.

    The sum is concave and piecewise linear in beta, so Newton's steps from 0 only climb and end.
    """
    beta = 0.0
    given = 0.0
    while crowd > 0.0 and wanted - given > 1e-9 * wanted:
        beta += (wanted - given) / crowd
        given = 0.0
        crowd = 0.0
        for cell in range(change.size):
            if change[cell] < 0.0:
                count = counts[cell + 1]
                if beta * count < -change[cell]:
                    given += beta * count
                    crowd += count
                else:
                    given -= change[cell]
    return min(beta, 1.0) if crowd > 0.0 else 1.0
