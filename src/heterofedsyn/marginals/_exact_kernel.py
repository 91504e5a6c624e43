"""Exact figures of counts; no step depends on what a count is, so that time tells nothing of it."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from heterofedsyn._arrays import Integers

_HALF = np.uint64(32)
_LOW = np.uint64(2**32 - 1)
_TOP = np.uint64(63)
_ZERO = np.uint64(0)


@njit(cache=True, nogil=True)
def multiply(counts: Integers, matrix: NDArray[np.int32], out: Integers) -> None:
    """Add counts . matrix to `out`, every cell of it."""
    for cell in range(matrix.shape[0]):
        many = counts[cell]
        for column in range(matrix.shape[1]):
            out[column] += many * np.int64(matrix[cell, column])


@njit(cache=True, nogil=True)
def merge(
    table: Integers, ahead: Integers, down: Integers, across: Integers, out: Integers
) -> None:
    """Add every cell of a table of three to the cell of `out` that its sides are mapped to."""
    for h in range(table.shape[0]):
        for i in range(table.shape[1]):
            for j in range(table.shape[2]):
                out[ahead[h], down[i], across[j]] += table[h, i, j]


@njit(cache=True, nogil=True)
def distance(joint: Integers, rows: Integers, columns: Integers) -> tuple[np.uint64, np.uint64]:
    """sum |n C - A B| of a table C with sums A and B and total n, in two words of 64 bits."""
    total = np.uint64(rows.sum())
    high, low = _ZERO, _ZERO
    for i in range(joint.shape[0]):
        for j in range(joint.shape[1]):
            high1, low1 = _times(total, np.uint64(joint[i, j]))
            high2, low2 = _times(np.uint64(rows[i]), np.uint64(columns[j]))
            apart = low1 - low2
            over = high1 - high2 - np.uint64(low1 < low2)
            # The absolute value without a branch: a negative number is inverted, and 1 added.
            sign = over >> _TOP
            mask = _ZERO - sign
            below = (apart ^ mask) + sign
            above = (over ^ mask) + np.uint64(below < sign)
            low += below
            high += above + np.uint64(low < below)
    return high, low


@njit(cache=True, nogil=True)
def _times(one: np.uint64, other: np.uint64) -> tuple[np.uint64, np.uint64]:
    """The product of two words, in two words."""
    one0, one1, other0, other1 = one & _LOW, one >> _HALF, other & _LOW, other >> _HALF
    low = one0 * other0
    cross, across = one0 * other1, one1 * other0
    middle = (low >> _HALF) + (cross & _LOW) + (across & _LOW)
    high = one1 * other1 + (cross >> _HALF) + (across >> _HALF) + (middle >> _HALF)
    return high, one * other
