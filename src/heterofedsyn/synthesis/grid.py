"""Grouping values so that no group is smaller than the noise allows; MATH section 5.3."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heterofedsyn._arrays import Floats, Integers


def group_ordered(
    counts: Floats,
    threshold: float,
    classes: Integers | None = None,
    *,
    last_apart: bool = False,
) -> Integers:
    """A group number for every value of an ordered attribute; groups are stretches.

    Args:
        classes: values of different ones are not put together.
        last_apart: the last value is no neighbour of the one before it (it stands for missing).

    >>> group_ordered(np.array([5.0, 5, 1, 1, 1, 9]), 8.0).tolist()
    [0, 0, 1, 1, 1, 2]
    """
    if counts.size <= 2:
        return np.arange(counts.size)
    if classes is not None:
        stretches = np.split(counts, np.flatnonzero(np.diff(classes)) + 1)
        parts = [group_ordered(own, threshold) for own in stretches[:-1]]
        return _numbered([*parts, group_ordered(stretches[-1], threshold, last_apart=last_apart)])
    groups = np.zeros(counts.size, dtype=np.int64)
    current = float(counts[0])
    for value in range(1, counts.size):
        following = float(counts[value])
        full = current >= threshold
        stands_out = following >= threshold and current >= threshold / 4
        apart = last_apart and value == counts.size - 1
        start = full or stands_out or apart
        groups[value] = groups[value - 1] + start
        current = following if start else current + following
    if current < threshold / 4 and groups[-1] > 0:
        groups[groups == groups[-1]] -= 1
    return groups


def group_categories(
    counts: Floats,
    threshold: float,
    classes: Integers | None = None,
    levels: Sequence[Integers] = (),
) -> Integers:
    """A group number for every category: frequent ones alone, the rest together.

    Args:
        classes: categories of different ones are not put together.
        levels: coarser groups, those with the fewest first; the rest of one stays together, if
            that is frequent.

    >>> group_categories(np.array([50.0, 1, 40, 2]), 20.0).tolist()
    [0, 2, 1, 2]
    """
    if counts.size <= 2:
        return np.arange(counts.size)
    if classes is None:
        return _rare_together(counts, threshold, levels)
    members = [np.flatnonzero(classes == own) for own in range(int(classes.max()) + 1)]
    groups = np.empty(counts.size, dtype=np.int64)
    groups[np.concatenate(members)] = _numbered(
        [
            _rare_together(counts[own], threshold, [level[own] for level in levels])
            for own in members
            if own.size
        ]
    )
    return groups


def _rare_together(counts: Floats, threshold: float, levels: Sequence[Integers] = ()) -> Integers:
    if levels:
        return _rare_upwards(counts, threshold, levels)
    kept = counts >= threshold / 4
    groups = np.cumsum(kept) - 1
    rest = float(counts[~kept].sum())
    if not kept.all():
        together = int(kept.sum())
        if rest < threshold / 16 and kept.any():
            smallest = np.flatnonzero(kept)[int(counts[kept].argmin())]
            together = int(groups[smallest])
        groups[~kept] = together
    return groups


def _rare_upwards(counts: Floats, threshold: float, levels: Sequence[Integers]) -> Integers:
    """What is rare among values joins others of its group, level by level up to all of them."""
    groups = np.full(counts.size, -1, np.int64)
    masses: list[float] = []
    for level in (np.arange(counts.size), *reversed(levels)):
        left = np.flatnonzero(groups < 0)
        mass = np.bincount(level[left], counts[left], int(level.max()) + 1)
        kept = mass >= threshold / 4
        number = np.where(kept, len(masses) + np.cumsum(kept) - 1, -1)
        groups[left] = number[level[left]]
        masses += mass[kept].tolist()
    rest = groups < 0
    if rest.any():
        small = bool(masses) and float(counts[rest].sum()) < threshold / 16
        groups[rest] = int(np.argmin(masses)) if small else len(masses)
    return groups


def _numbered(parts: list[Integers]) -> Integers:
    """Groups of several parts, each with numbers of its own."""
    many = np.cumsum([0, *(int(part.max()) + 1 for part in parts)])
    return np.concatenate([part + first for part, first in zip(parts, many[:-1], strict=True)])


def grouped(counts: Floats, groups: Integers) -> Floats:
    """Counts of groups from counts of values."""
    return np.bincount(groups, counts, int(groups.max()) + 1).astype(np.float64)


def coarser(finer: Integers, groups: Integers) -> Integers | None:
    """For each of the finer groups of values the one of the coarser that holds it, if one does.

    >>> coarser(np.array([0, 1, 1, 2]), np.array([0, 0, 0, 1])).tolist()
    [0, 0, 1]
    """
    held = np.zeros(int(finer.max()) + 1, np.int64)
    held[finer] = groups
    return held if np.array_equal(held[finer], groups) else None


def halved(groups: Integers, counts: Floats) -> Integers:
    """The same groups, or, where there is only one, two of about the same size.

    >>> halved(np.zeros(4, dtype=np.int64), np.array([0.0, 1, 8, 1])).tolist()
    [0, 0, 1, 1]
    """
    if groups.size < 2 or groups.max() > 0:
        return groups
    before = np.cumsum(counts)[:-1]
    cut = int(np.abs(2 * before - counts.sum()).argmin())
    return (np.arange(groups.size) > cut).astype(np.int64)
