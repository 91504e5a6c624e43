"""1-ways of attributes with a public hierarchy, from the top downwards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from heterofedsyn._arrays import Floats, Integers
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.synthesis.allocation import members_of
from heterofedsyn.synthesis.consistency import norm_sub

STANDS_OUT = 2.5
"""Standard deviations by which a count must differ from an even share to be believed. Of thousands
of counts some differ by so much without cause, but to believe more of those that do cost less."""

_TURNS = 10
"""Counts that are believed leave less to share, from which others may differ then."""


def within(finer: Integers, coarser: Integers) -> bool:
    """Whether every group of one map lies in one group of the other.

    >>> within(np.array([0, 1, 2]), np.array([0, 0, 1])), within(np.array([0, 0]), np.array([0, 1]))
    (True, False)
    """
    first = np.full(int(finer.max()) + 1, -1, np.int64)
    first[finer] = coarser
    return bool(np.all(first[finer] == coarser))


def rebuild_tiers(
    tiers: Sequence[tuple[Integers, Noisy]],
    codes: Noisy | None,
    total: float,
    possible: NDArray[np.bool_],
) -> Floats:
    """Counts of values that add up to the total.

    Args:
        tiers: the groups of values and their noisy counts, each within those before it.
        codes: the noisy counts of values, if they were measured one by one.
        possible: which values a row can have.
    """
    size = possible.size
    above, masses = np.zeros(size, np.int64), np.array([total])
    measured = [*tiers, (np.arange(size), codes)]
    for groups, noisy in measured:
        many = int(groups.max()) + 1
        parent = np.zeros(many, np.int64)
        parent[groups] = above
        there = np.bincount(groups, possible, many) > 0
        finer = np.zeros(many)
        for place, members in enumerate(members_of(parent)):
            own = members[there[members]]
            if not own.size:
                continue
            if noisy is None:
                finer[own] = masses[place] / own.size
            else:
                seen = noisy.values[own]
                finer[own] = stood_out(seen, masses[place], float(np.sqrt(noisy.variance)))
        above, masses = groups, finer
    return masses


def stood_out(counts: Floats, total: float, sigma: float) -> Floats:
    """Counts that differ from an even share by more than the noise; the others share the rest.

    >>> stood_out(np.array([60.0, 14, 13, 14]), 100.0, 5.0).round(6).tolist()
    [60.0, 13.333333, 13.333333, 13.333333]
    """
    believed = np.zeros(counts.size, np.bool_)
    even = total / counts.size
    for _ in range(_TURNS):
        more = ~believed & (np.abs(counts - even) > STANDS_OUT * sigma)
        if not more.any():
            break
        believed |= more
        left = total - float(np.maximum(counts[believed], 0).sum())
        if left <= 0 or believed.all():
            return norm_sub(np.where(believed, counts, 0.0), total)
        even = left / float(np.count_nonzero(~believed))
    return np.where(believed, np.maximum(counts, 0.0), even)
