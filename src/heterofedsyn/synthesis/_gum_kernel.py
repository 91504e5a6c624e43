"""One step of GUM: move records of a table from over-full to under-full cells of one pair."""

from __future__ import annotations

import numpy as np
from numba import njit

from heterofedsyn._arrays import Codes, Floats, Integers


@njit(cache=True, nogil=True)
def move_records(
    codes: Codes,
    first: int,
    second: int,
    width: int,
    target: Floats,
    alpha: float,
    copying: float,
    rng: np.random.Generator,
) -> None:
    """Bring the counts of the pair (first, second) closer to `target`; MATH section 5.6.

    Args:
        alpha: at most this share of a cell's records is added to it.
        copying: the chance that a moved record becomes a copy of one in its new cell.
    """
    attributes, rows = codes.shape
    cells = target.size
    one, two = codes[first], codes[second]
    starts = np.zeros(cells + 1, dtype=np.int64)
    cell_of = np.empty(rows, dtype=np.int32)
    for row in range(rows):
        place = np.int32(one[row]) * np.int32(width) + np.int32(two[row])
        cell_of[row] = place
        starts[place + 1] += 1

    change = np.zeros(cells)
    gained = 0.0
    excess = 0.0
    crowd = 0.0
    for cell in range(cells):
        count = starts[cell + 1]
        gap = target[cell] - count
        if gap > 0.0:
            change[cell] = min(gap, alpha * count) if count > 0 else alpha * gap
            gained += change[cell]
        elif gap < 0.0:
            change[cell] = gap
            excess -= gap
            crowd += count
    beta = _giving_rate(starts, change, min(gained, excess), crowd)

    # Systematic rounding: unbiased cell by cell, and both totals are the rounded sum.
    moves = np.zeros(cells, dtype=np.int64)
    offset = rng.random()
    given_so_far = gained_so_far = offset
    for cell in range(cells):
        if change[cell] < 0.0:
            upto = given_so_far + min(-change[cell], beta * starts[cell + 1])
            moves[cell] = -(int(upto) - int(given_so_far))
            given_so_far = upto
        elif change[cell] > 0.0:
            upto = gained_so_far + change[cell]
            moves[cell] = int(upto) - int(gained_so_far)
            gained_so_far = upto
    if int(given_so_far) == 0 or int(gained_so_far) == 0:
        return

    for cell in range(cells):
        starts[cell + 1] += starts[cell]
    filled = starts[:-1].copy()
    members = np.empty(rows, dtype=np.int32)
    for row in range(rows):
        place = cell_of[row]
        members[filled[place]] = row
        filled[place] += 1

    moving = np.empty(int(given_so_far) + 1, dtype=np.int32)
    many = 0
    for cell in range(cells):
        begin, end = starts[cell], starts[cell + 1]
        for spot in range(begin, min(begin - moves[cell], end)):
            other = spot + int(rng.random() * (end - spot))
            members[spot], members[other] = members[other], members[spot]
            moving[many] = members[spot]
            many += 1
    for spot in range(many - 1, 0, -1):
        other = int(rng.random() * (spot + 1))
        moving[spot], moving[other] = moving[other], moving[spot]

    used = 0
    for cell in range(cells):
        begin, count = starts[cell], starts[cell + 1] - starts[cell]
        for _ in range(moves[cell]):
            if used == many:
                return
            row = moving[used]
            used += 1
            if count > 0 and rng.random() < copying:
                donor = members[begin + int(rng.random() * count)]
                for attribute in range(attributes):
                    codes[attribute, row] = codes[attribute, donor]
            else:
                one[row] = cell // width
                two[row] = cell % width


@njit(cache=True, nogil=True)
def _giving_rate(starts: Integers, change: Floats, wanted: float, crowd: float) -> float:
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
                count = starts[cell + 1]
                if beta * count < -change[cell]:
                    given += beta * count
                    crowd += count
                else:
                    given -= change[cell]
    return min(beta, 1.0) if crowd > 0.0 else 1.0
