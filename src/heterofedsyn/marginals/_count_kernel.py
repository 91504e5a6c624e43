"""Counting loops over codes; FACTS of the machine decide their shape, not style."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from heterofedsyn._arrays import Codes, Integers

Lanes = NDArray[np.int32]


@njit(cache=True, nogil=True)
def count_single(codes: Codes, rows: int, out: Integers) -> None:
    """Add the counts of the first `rows` codes of one attribute to `out`."""
    for row in range(rows):
        out[codes[row]] += 1


@njit(cache=True, nogil=True)
def count_groups(
    codes: Codes,
    begin: int,
    end: int,
    expected: int,
    groups: Integers,
    sizes: Integers,
    places: Integers,
    start: int,
    stop: int,
    out: Integers,
) -> None:
    """Add the tables of groups `start` to `stop` to their places in the flat vector `out`.

    Args:
        codes: of rows `begin` to `end`, fewer than 2^31; what lies beyond is not looked at.
        expected: about how many rows there are, from public facts: it alone chooses a way to count.
        groups: two or three attributes each; -1 stands for no third one.
        places: where the tables of (first, second), (first, third) and (second, third) begin.
    """
    largest = 0
    for group in range(start, stop):
        largest = max(largest, _cells(groups[group], sizes))
    lanes = np.empty(4 * largest, dtype=np.int32)
    for group in range(start, stop):
        if groups[group, 2] < 0:
            _count_pair(
                codes, begin, end, expected, groups[group], sizes, places[group, 0], lanes, out
            )
        else:
            _count_triple(codes, begin, end, groups[group], sizes, places[group], lanes, out)


@njit(cache=True, nogil=True)
def _cells(group: Integers, sizes: Integers) -> int:
    cells: int = sizes[group[0]] * sizes[group[1]]
    if group[2] >= 0:
        cells *= sizes[group[2]]
    return cells


@njit(cache=True, nogil=True)
def _count_pair(
    codes: Codes,
    begin: int,
    end: int,
    expected: int,
    group: Integers,
    sizes: Integers,
    place: int,
    lanes: Lanes,
    out: Integers,
) -> None:
    """Two equal cells in a row would wait for each other's store, so a table is counted in four
    lanes that are added up at the end; a table too large for that to pay has one lane.
    """
    first, second = codes[group[0]][begin:end], codes[group[1]][begin:end]
    width = np.uint32(sizes[group[1]])
    rows, cells = end - begin, _cells(group, sizes)
    if 8 * cells > expected:
        table = lanes[:cells]
        table[:] = 0
        for row in range(rows):
            table[np.uint32(first[row]) * width + np.uint32(second[row])] += 1
        for cell in range(cells):
            out[place + cell] += table[cell]
        return
    lane0, lane1 = lanes[:cells], lanes[cells : 2 * cells]
    lane2, lane3 = lanes[2 * cells : 3 * cells], lanes[3 * cells : 4 * cells]
    lanes[: 4 * cells] = 0
    whole = rows - rows % 4
    for row in range(0, whole, 4):
        lane0[np.uint32(first[row]) * width + np.uint32(second[row])] += 1
        lane1[np.uint32(first[row + 1]) * width + np.uint32(second[row + 1])] += 1
        lane2[np.uint32(first[row + 2]) * width + np.uint32(second[row + 2])] += 1
        lane3[np.uint32(first[row + 3]) * width + np.uint32(second[row + 3])] += 1
    for row in range(whole, rows):
        lane0[np.uint32(first[row]) * width + np.uint32(second[row])] += 1
    for cell in range(cells):
        out[place + cell] += lane0[cell] + lane1[cell] + lane2[cell] + lane3[cell]


@njit(cache=True, nogil=True)
def _count_triple(
    codes: Codes,
    begin: int,
    end: int,
    group: Integers,
    sizes: Integers,
    places: Integers,
    lanes: Lanes,
    out: Integers,
) -> None:
    """Three pairs for hardly more than the price of one, while the table of three stays in cache.

    Two lanes, for the same reason as four above.
    """
    first, second = codes[group[0]][begin:end], codes[group[1]][begin:end]
    third = codes[group[2]][begin:end]
    height, width, depth = sizes[group[0]], sizes[group[1]], sizes[group[2]]
    wide, deep = np.uint32(width), np.uint32(depth)
    rows, cells = end - begin, height * width * depth
    lane0, lane1 = lanes[:cells], lanes[cells : 2 * cells]
    lanes[: 2 * cells] = 0
    even = rows - rows % 2
    for row in range(0, even, 2):
        one = np.uint32(first[row]) * wide + np.uint32(second[row])
        lane0[one * deep + np.uint32(third[row])] += 1
        two = np.uint32(first[row + 1]) * wide + np.uint32(second[row + 1])
        lane1[two * deep + np.uint32(third[row + 1])] += 1
    for row in range(even, rows):
        one = np.uint32(first[row]) * wide + np.uint32(second[row])
        lane0[one * deep + np.uint32(third[row])] += 1
    _add_pairs(lane0, lane1, height, width, depth, places, out)


@njit(cache=True, nogil=True)
def _add_pairs(
    lane0: Lanes,
    lane1: Lanes,
    height: int,
    width: int,
    depth: int,
    places: Integers,
    out: Integers,
) -> None:
    """Add the three pairs of a table of three; the inner loops are over neighbouring cells."""
    ahead = np.zeros((width, depth), dtype=np.int32)
    side = np.empty(depth, dtype=np.int32)
    cell = 0
    for a in range(height):
        side[:] = 0
        for b in range(width):
            total = 0
            one, two, below = lane0[cell : cell + depth], lane1[cell : cell + depth], ahead[b]
            for c in range(depth):
                many = np.int32(one[c] + two[c])
                side[c] += many
                below[c] += many
                total += int(many)
            out[places[0] + a * width + b] += total
            cell += depth
        for c in range(depth):
            out[places[1] + a * depth + c] += side[c]
    for b in range(width):
        for c in range(depth):
            out[places[2] + b * depth + c] += ahead[b, c]
