"""Which levels of a public hierarchy are worth measuring, as the noise allows."""

from __future__ import annotations

import math
from dataclasses import dataclass

from heterofedsyn._arrays import Integers
from heterofedsyn.marginals.statistics import Flat, Grouped, Statistic
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.schema import Column, Schema
from heterofedsyn.synthesis.hierarchy import within

LEVELS_SHARE = 0.2
"""Of a column's budget, for the levels above its values: few counts, of which each is large."""

CLEAR = 16.0
"""Standard deviations from which a usual value stands out so far that sums of values do too."""

COULD_SHOW = 2.0
"""Standard deviations that the first value of a usual group must have for any to be measured."""


@dataclass(frozen=True, eq=False)
class Tiers:
    """What is asked of one column that is in no order.

    Attributes:
        levels: the groups of its values, the fewest first; none if values alone are asked.
        values: whether they are asked one by one.
    """

    name: str
    levels: tuple[Integers, ...]
    values: bool = True

    def statistics(self) -> tuple[Statistic, ...]:
        """From the top downwards."""
        groups = [Grouped((self.name,), (tuple(own.tolist()),)) for own in self.levels]
        return *groups, *([Flat((self.name,))] if self.values else [])

    def parts(self, budget: Budget) -> list[tuple[Statistic, Budget]]:
        """The same, each with its price."""
        asked = self.statistics()
        if len(asked) == 1:
            return [(asked[0], budget)]
        if not self.values:
            return list(zip(asked, budget.evenly(len(asked)), strict=True))
        above, last = budget.split(LEVELS_SHARE, 1 - LEVELS_SHARE)
        prices = above.evenly(len(self.levels))
        return list(zip(asked, [*prices, last], strict=True))

    def width(self, column: Column) -> int:
        """How many counts the finest of them has."""
        return column.size if self.values else int(self.levels[-1].max()) + 1


def hierarchy(schema: Schema, column: Column) -> tuple[Integers, ...]:
    """The groups of values that other columns follow from, the fewest first, each within the last.

    What follows from every value in its own way says nothing of groups.
    """
    levels: list[Integers] = []
    for groups in schema.rulebook.levels(column.name):
        many = int(groups.max()) + 1
        if 2 <= many <= column.size / 2 and (not levels or within(groups, levels[-1])):
            levels.append(groups)
    return tuple(levels)


def worth_asking(levels: tuple[Integers, ...], column: Column, n: float, sigma: float) -> Tiers:
    """The levels that stand out of the noise.

    Args:
        sigma: noise on a count if the values alone were asked.
    """
    if not levels or n / column.size >= CLEAR * sigma:
        return Tiers(column.name, ())
    groups = int(levels[-1].max()) + 1
    # The first of k values that follow Zipf's law has 1 / (1 + ln k) of their rows.
    first = n / groups / (1 + math.log(column.size / groups))
    return Tiers(column.name, levels, first >= COULD_SHOW * sigma / math.sqrt(1 - LEVELS_SHARE))
