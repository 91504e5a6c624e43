"""Tables of the label and two other attributes: what pairs tell of them, and what is beyond it.

All tables here have the label along the first axis; MATH section 5.7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from heterofedsyn._arrays import Floats, Integers
from heterofedsyn.errors import ReleaseError
from heterofedsyn.marginals.statistics import Grouped
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.schema import Clique
from heterofedsyn.synthesis.grid import coarser
from heterofedsyn.synthesis.shrinkage import shrink

JOINT_ROUNDS = 15
"""Turns of fitting a table to its three pairs."""

FLOOR = 1e-6
"""What every cell keeps, so that fitting can always move it."""


Maps: TypeAlias = tuple[Integers, Integers, Integers]
"""For the label and the two others, the coarser group of each of their groups."""


@dataclass(frozen=True, eq=False)
class Triple:
    """What a measured table tells beyond its pairs.

    Attributes:
        table: of coarser groups, as it was measured where that stands out of the noise.
        lift: for each of its cells, by what the table that pairs tell is multiplied there.
    """

    maps: Maps
    table: Floats
    lift: Floats

    @property
    def turned(self) -> Triple:
        """The same with the two others in the other order."""
        label, first, second = self.maps
        return Triple((label, second, first), self.table.swapaxes(1, 2), self.lift.swapaxes(1, 2))

    def lifted(self, joint: Floats) -> Floats:
        """A table of groups that pairs tell, and this as well; its pairs are no longer exact."""
        table: Floats = joint * self.lift[np.ix_(*self.maps)]
        return table


def joint_of(label_first: Floats, label_second: Floats, pair: Floats) -> Floats:
    """The table of largest entropy with these three pairs."""
    return fitted(
        label_first[:, :, None] * label_second[:, None, :], label_first, label_second, pair
    )


def fitted(table: Floats, label_first: Floats, label_second: Floats, pair: Floats) -> Floats:
    """A table with about these pairs, and dependence of all three as it was."""
    table = table.copy()
    for _ in range(JOINT_ROUNDS):
        table *= _ratio(pair, table.sum(axis=0))[None, :, :]
        table *= _ratio(label_second, table.sum(axis=1))[:, None, :]
        table *= _ratio(label_first, table.sum(axis=2))[:, :, None]
    return table


def _ratio(wanted: Floats, found: Floats) -> Floats:
    return np.divide(wanted, found, out=np.zeros_like(wanted), where=found > 0)


def summed(table: Floats, maps: Maps) -> Floats:
    """A table of coarser groups."""
    for own in maps:  # the first axis becomes the last, three times
        table = np.tensordot(table, np.eye(int(own.max()) + 1)[own], axes=(0, 0))
    return table


def laid_out(
    label: str, groups: Mapping[str, Integers], grid: Grouped, noisy: Noisy
) -> tuple[Clique, Noisy, Maps]:
    """A measured table with the label first: its two other attributes, the table and its groups.

    Args:
        groups: for attributes whose values are put into groups before, the group of each.

    Raises:
        ReleaseError: if it is without the label, or not made of these groups.
    """
    if label not in grid.attributes:
        raise ReleaseError("the model holds a table of three columns without the label")
    own = grid.attributes.index(label)
    order = (own, *(place for place in range(3) if place != own))
    maps = []
    for place in order:
        merged = np.array(grid.groups[place])
        finer = groups.get(grid.attributes[place])
        held = coarser(np.arange(merged.size) if finer is None else finer, merged)
        if held is None:
            raise ReleaseError("the model's three columns are not on the grid of its pairs")
        maps.append(held)
    pair = tuple(grid.attributes[place] for place in order[1:])
    table = noisy.values.reshape(grid.shape).transpose(order)
    return pair, Noisy(table, noisy.variance), (maps[0], maps[1], maps[2])


def triple(joint: Floats, noisy: Noisy, maps: Maps) -> Triple:
    """What of a measured table stands out of the noise beyond the one that pairs tell.

    Args:
        joint: what pairs tell, of groups.
        noisy: of coarser groups.
    """
    believed = summed(joint, maps)
    apart = noisy.values.reshape(believed.shape) - believed
    unfolded = apart.reshape(len(believed), -1)
    kept = shrink(unfolded, noisy.variance**0.5, fixed=0).reshape(believed.shape)
    table = np.maximum(believed + kept, 0.0) + FLOOR
    ends = [believed.sum(axis=axes) for axes in ((1, 2), (0, 2), (0, 1))]
    for _ in range(JOINT_ROUNDS):
        table *= _ratio(ends[0], table.sum(axis=(1, 2)))[:, None, None]
        table *= _ratio(ends[1], table.sum(axis=(0, 2)))[None, :, None]
        table *= _ratio(ends[2], table.sum(axis=(0, 1)))[None, None, :]
    lift = np.divide(table, believed, out=np.ones_like(table), where=believed > FLOOR)
    return Triple(maps, table, lift)
