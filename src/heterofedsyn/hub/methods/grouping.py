"""Columns and pairs on a grid of groups, as `wavetree` asks for them; MATH sections 5.3 and 5.4."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from heterofedsyn._arrays import Floats, Integers
from heterofedsyn.hub.methods.tiers import hierarchy
from heterofedsyn.marginals.statistics import Grouped
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.schema import Clique, Column, Schema
from heterofedsyn.synthesis.denoise import double_centred
from heterofedsyn.synthesis.grid import group_categories, group_ordered, grouped

FEW_VALUES = 4
"""Of a column that is asked value by value, alone and in pairs: first looks and pairs are on one
grid then, and tell of the same."""


def most_groups(schema: Schema, column: Column, groups: float) -> int:
    """The most groups that `synthesis.grid` makes of a column; MATH section 5.3.

    In order, a group of a quarter of the threshold is followed by a full one, so that two hold
    5/4 of it; among categories each kept one holds a quarter. What rules keep apart is one more
    group each, and in order two.
    """
    if column.size <= 2:
        return column.size
    classes = kept_classes(schema, column, groups)
    if column.ordered:
        more = 0 if classes is None else 2 * _stretches(classes)
        return min(column.size, math.floor(1.6 * groups) + 2 + column.nullable + more)
    more = 1 if classes is None else int(classes.max()) + 1
    return min(column.size, math.floor(4 * groups) + more)


def kept_classes(schema: Schema, column: Column, groups: float) -> Integers | None:
    """For every value a number; those with different ones are kept apart, as rules need it.

    None if rules tell no values apart, or so many that there would be more groups than the noise
    allows; rows are then mended after they are drawn.
    """
    classes = schema.rulebook.classes(column.name)
    many = _stretches(classes) if column.ordered else int(classes.max()) + 1
    return classes if 1 < many <= max(4, groups) else None


def _stretches(classes: Integers) -> int:
    """Into how many stretches of one class the values fall."""
    return 1 + int(np.count_nonzero(np.diff(classes)))


def waved(ordered: bool, size: int) -> bool:
    """Whether a column is asked as Haar differences; for few values flat counts are as good."""
    return ordered and size > FEW_VALUES


def grid_of(
    schema: Schema,
    values: Mapping[str, Floats],
    n: float,
    groups: float,
    *,
    by_rules: bool = False,
) -> dict[str, Integers]:
    """A group for every value of every attribute; MATH section 5.3.

    Args:
        by_rules: whether values that rules tell apart stay apart.
    """
    threshold = n / groups
    grid = {}
    for column in schema.measured:
        own = values[column.name]
        classes = kept_classes(schema, column, groups) if by_rules else None
        if column.size <= FEW_VALUES:
            grid[column.name] = np.arange(column.size)
        elif column.ordered:
            last = column.nullable
            grid[column.name] = group_ordered(own, threshold, classes, last_apart=last)
        else:
            levels = hierarchy(schema, column)
            grid[column.name] = group_categories(own, threshold, classes, levels)
    return grid


def grouped_pairs(pairs: Sequence[Clique], grid: Mapping[str, Integers]) -> list[Grouped]:
    """Pairs on a grid; an attribute with one group can depend on nothing."""
    maps = {name: tuple(groups.tolist()) for name, groups in grid.items()}
    return [
        Grouped((first, second), (maps[first], maps[second]))
        for first, second in pairs
        if max(maps[first]) > 0 and max(maps[second]) > 0
    ]


def dependence(
    statistic: Grouped, noisy: Noisy, values: Mapping[str, Floats], n: float, surely: float
) -> float:
    """How far a grouped pair is from independence, 0 if the noise explains it; MATH 5.4.

    Args:
        surely: standard errors from which it does not.
    """
    rows, columns = (
        grouped(values[name], np.array(groups))
        for name, groups in zip(statistic.attributes, statistic.groups, strict=True)
    )
    apart = double_centred(noisy.values.reshape(statistic.shape) - np.outer(rows, columns) / n)
    freedom = (rows.size - 1) * (columns.size - 1)
    energy = float((apart**2).sum()) - freedom * noisy.variance
    error = noisy.variance * math.sqrt(2 * freedom)
    return math.sqrt(energy) / n if energy > surely * error else 0.0
