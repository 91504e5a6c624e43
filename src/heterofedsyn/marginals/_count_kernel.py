"""Counting loops over codes; FACTS of the machine decide their shape, not style."""

from __future__ import annotations

import numpy as np
from numba import njit

from heterofedsyn._arrays import Codes, Integers


@njit(cache=True, nogil=True)
def count_single(codes: Codes, out: Integers) -> None:
    """Add the counts of one attribute's codes to `out`."""
    for code in codes:
        out[code] += 1


@njit(cache=True, nogil=True)
def count_tables(
    codes: Codes,
    left: Integers,
    right: Integers,
    widths: Integers,
    offsets: Integers,
    start: int,
    stop: int,
    out: Integers,
) -> None:
    """Write the tables of pairs `start` to `stop` into their places in the flat vector `out`.

    Two equal cells in a row would wait for each other's store, so each table is counted in four
    lanes that are added up at the end; a table too large for that to pay has one lane.
    """
    rows = codes.shape[1]
    largest = 0
    for pair in range(start, stop):
        largest = max(largest, offsets[pair + 1] - offsets[pair])
    lanes = np.empty(4 * largest, dtype=np.int32)
    for pair in range(start, stop):
        first = codes[left[pair]]
        second = codes[right[pair]]
        width = np.uint32(widths[pair])
        begin = offsets[pair]
        cells = offsets[pair + 1] - begin
        if 8 * cells > rows:
            table = lanes[:cells]
            table[:] = 0
            for row in range(rows):
                table[np.uint32(first[row]) * width + np.uint32(second[row])] += 1
            for cell in range(cells):
                out[begin + cell] = table[cell]
            continue
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
            out[begin + cell] = lane0[cell] + lane1[cell] + lane2[cell] + lane3[cell]
