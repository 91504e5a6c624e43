"""What first looks at pairs tell that were not measured then: more of their columns, at no cost.

A score is a whole table of counts with known noise. Where its groups are those of the model, its
sums are further counts of both columns, and it says a little of what no measured pair does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from heterofedsyn.errors import ReleaseError
from heterofedsyn.marginals.statistics import Grouped
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.schema import Domain
from heterofedsyn.synthesis.targets import Measurement, Targets


def looked_at(
    seen: Sequence[Measurement], chosen: Sequence[Grouped], domain: Domain
) -> tuple[Measurement, ...]:
    """The first looks on the groups of the model, in their order, if these pairs are measured next.

    A look at a pair that is measured again is one more measurement of it.
    """
    grid, again = _grid(chosen, domain), {*chosen}
    return tuple(
        own if own.statistic in again else dataclasses.replace(own, aside=True)
        for own in seen
        if isinstance(own.statistic, Grouped) and _lies_on(own.statistic, grid)
    )


def check_asides(targets: Targets) -> None:
    """Looks are at pairs that were not measured, each one, on the groups of the model.

    Raises:
        ReleaseError: if one is not.
    """
    grid = _grid(targets.grids, targets.domain)
    known = {*targets.pairs}
    for own in targets.asides:
        looked = own.statistic
        if not isinstance(looked, Grouped) or len(looked.attributes) != 2:
            raise ReleaseError("the model holds something else than pairs as first looks")
        if looked.attributes in known or not _lies_on(looked, grid):
            raise ReleaseError("the model holds a first look that is of no use to it")
        known.add(looked.attributes)


def sums_of(targets: Targets, name: str) -> Iterator[Noisy]:
    """Counts of the groups of a column, from every such table."""
    for pair, table in targets.looks.items():
        if name in pair:
            axis = 1 - pair.index(name)
            yield Noisy(table.values.sum(axis=axis), table.variance * table.values.shape[axis])


def _grid(pairs: Iterable[Grouped], domain: Domain) -> dict[str, tuple[int, ...]]:
    """The group of every value of a column, of which measured pairs may have fewer."""
    grid = {name: tuple(range(size)) for name, size in zip(domain.names, domain.sizes, strict=True)}
    for pair in pairs:
        grid |= dict(zip(pair.attributes, pair.groups, strict=True))
    return grid


def _lies_on(looked: Grouped, grid: dict[str, tuple[int, ...]]) -> bool:
    return looked.groups == tuple(grid[name] for name in looked.attributes)
