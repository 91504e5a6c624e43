"""Rules that a value of one column goes with one end of a column of numbers only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heterofedsyn._arrays import Integers

_LEAST_SHARE = 0.1
"""Of all rows that lie beyond a threshold, so that a value without any is odd."""

_EDGE = 0.1
_AT_EDGE = 0.03
"""Of a value's rows that must lie in the outermost tenth of their range: a tail has fewer."""


class Threshold(NamedTuple):
    """Values of one column, beyond whose threshold they have no rows, though chance would."""

    codes: tuple[int, ...]
    side: str
    limit: float
    by_chance: float


def thresholds(
    codes: Integers, size: int, numbers: NDArray[np.float64], expected: float
) -> list[Threshold]:
    """All of one pair of columns, those that chance would break most first.

    Args:
        codes: of every row; what is not below `size` is missing.
        numbers: of every row, NaN where missing.
        expected: rows that chance alone must bring against a rule.
    """
    known = (codes < size) & np.isfinite(numbers)
    codes, numbers = codes[known], numbers[known]
    order = np.argsort(codes, kind="stable")
    codes, numbers = codes[order], numbers[order]
    found: dict[tuple[str, float], list[tuple[int, float]]] = {}
    for side, values in (("above", numbers), ("below", -numbers)):
        for code, limit, by_chance in _edges(codes, values, expected):
            own = limit if side == "above" else -limit
            found.setdefault((side, own), []).append((code, by_chance))
    merged = [
        Threshold(tuple(code for code, _ in each), side, limit, sum(rows for _, rows in each))
        for (side, limit), each in found.items()
    ]
    return sorted(merged, key=lambda one: -one.by_chance)


def _edges(
    codes: Integers, values: NDArray[np.float64], expected: float
) -> Iterator[tuple[int, float, float]]:
    """Codes, in order, with the value that none of their rows exceeds; and the rows of chance."""
    if not len(codes):
        return
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    highest, lowest = np.maximum.reduceat(values, starts), np.minimum.reduceat(values, starts)
    rows = np.diff(starts, append=len(codes))
    beyond = 1 - np.searchsorted(np.sort(values), highest, side="right") / len(values)
    for place in np.flatnonzero((rows * beyond >= expected) & (beyond >= _LEAST_SHARE)):
        start, many, top = starts[place], rows[place], highest[place]
        own = values[start : start + many]
        at_edge = np.count_nonzero(own >= top - _EDGE * (top - lowest[place]))
        if at_edge >= _AT_EDGE * many:
            yield int(codes[start]), float(top), float(many * beyond[place])
