"""Which pairs are counted together: three attributes in one pass give three pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations, islice
from typing import TypeAlias

Pair: TypeAlias = tuple[int, int]
Group: TypeAlias = tuple[int, ...]
"""Attributes by their places in a table, two or three of them in order."""

MOST_CELLS = 2**17
"""Of a table of three attributes: two lanes of 32-bit counts then fit a megabyte of cache."""

MOST_CHOICES = 32
"""Attributes among which a third one is chosen; looking at all would take cubic time."""

ROWS_PER_CELL = 2
"""A larger table takes longer to clear and to add up than its rows take to count."""


def cover(pairs: tuple[Pair, ...], sizes: tuple[int, ...], rows: int) -> tuple[Group, ...]:
    """Groups in which every pair occurs once: as many triples as a greedy choice finds.

    >>> cover(((0, 1), (0, 2), (1, 2), (2, 3)), (9, 9, 9, 9), 10**6)
    ((0, 1, 2), (2, 3))
    """
    most = min(MOST_CELLS, rows // ROWS_PER_CELL)
    beside: dict[int, set[int]] = {place: set() for pair in pairs for place in pair}
    for one, other in pairs:
        beside[one].add(other)
        beside[other].add(one)
    groups: list[Group] = []
    for one, other in pairs:
        if other not in beside[one]:
            continue  # in a triple already
        cells = sizes[one] * sizes[other]
        group: Group = (one, other)
        fitting = (c for c in beside[one] if c in beside[other] and cells * sizes[c] <= most)
        if (third := _choose(fitting, beside)) is not None:
            group = tuple(sorted((one, other, third)))
        for a, b in combinations(group, 2):
            beside[a].discard(b)
            beside[b].discard(a)
        groups.append(group)
    return tuple(groups)


def _choose(fitting: Iterable[int], beside: Mapping[int, set[int]]) -> int | None:
    """Whoever has most pairs left: the easiest to place now, and the easiest to strand later."""
    some = islice(fitting, MOST_CHOICES)
    return max(some, key=lambda place: (len(beside[place]), -place), default=None)
