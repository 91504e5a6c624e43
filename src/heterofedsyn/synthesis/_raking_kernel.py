"""Weights of rows that fit tables, and whole rows that stand for them; see `raking`."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from heterofedsyn._arrays import Codes, Floats, Integers


@njit(cache=True, nogil=True)
def _correct(sums: Floats, wanted: Floats, power: float, most: float) -> None:
    """What is there becomes by what to multiply it."""
    for cell in range(wanted.size):
        ratio = wanted[cell] / sums[cell] if sums[cell] > 0.0 else 1.0
        sums[cell] = min(max(ratio, 1.0 / most), most) ** power


@njit(cache=True, nogil=True)
def rake(
    codes: Codes,
    first: int,
    second: int,
    target: Floats,
    power: float,
    most: float,
    weights: Floats,
) -> None:
    """Multiply the weights of rows so that the table of a pair comes closer to its target."""
    width = target.shape[1]
    factors = np.zeros(target.size)
    for row in range(weights.size):
        factors[np.int64(codes[first, row]) * width + codes[second, row]] += weights[row]
    _correct(factors, target.ravel(), power, most)
    for row in range(weights.size):
        weights[row] *= factors[np.int64(codes[first, row]) * width + codes[second, row]]


@njit(cache=True, nogil=True)
def rake_three(
    codes: Codes,
    places: tuple[int, int, int],
    maps: tuple[Integers, Integers, Integers],
    target: Floats,
    power: float,
    most: float,
    weights: Floats,
) -> None:
    """The same for a table of three columns, whose codes are merged by maps."""
    across, deep = target.shape[1], target.shape[2]
    one, two, three = places
    own, other, last = maps
    cells = np.empty(weights.size, np.int32)
    factors = np.zeros(target.size)
    for row in range(weights.size):
        cell = own[codes[one, row]] * across + other[codes[two, row]]
        cells[row] = cell * deep + last[codes[three, row]]
        factors[cells[row]] += weights[row]
    _correct(factors, target.ravel(), power, most)
    for row in range(weights.size):
        weights[row] *= factors[cells[row]]


@njit(cache=True, nogil=True)
def round_in_turn(
    codes: Codes,
    weights: Floats,
    order: Integers,
    firsts: Integers,
    seconds: Integers,
    widths: Integers,
    offsets: Integers,
    cells: int,
) -> Integers:
    """How often to take each row, so that all tables come close to the weighted ones.

    A row is rounded up where the cells that it is in have too little so far, and down where they
    have enough: of both ways the one with less squared error in all of them.

    Args:
        firsts, seconds, widths, offsets: a table each: a row of it is in cell
            offset + first code * width + second code.
    """
    times = np.empty(weights.size, np.int64)
    beyond = np.zeros(cells)
    tables = firsts.size
    own = np.empty(tables, np.int64)
    for row in order:
        held = 0.0
        for table in range(tables):
            across = np.int64(codes[firsts[table], row]) * widths[table]
            own[table] = offsets[table] + across + codes[seconds[table], row]
            held += beyond[own[table]]
        least = math.floor(weights[row])
        part = weights[row] - least
        up = held < tables * (part - 0.5)
        times[row] = least + up
        for table in range(tables):
            beyond[own[table]] += up - part
    return times
