"""Estimates from Haar 1-ways and grouped pairs with known noise; MATH sections 5.2 and 5.6."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from heterofedsyn._arrays import Floats, Integers
from heterofedsyn.errors import ReleaseError, UsageError
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.schema import Clique
from heterofedsyn.synthesis.asides import check_asides, sums_of
from heterofedsyn.synthesis.consistency import norm_sub
from heterofedsyn.synthesis.copula import normal_base
from heterofedsyn.synthesis.estimates import Estimates, missing_apart
from heterofedsyn.synthesis.grid import grouped
from heterofedsyn.synthesis.haar import rebuild_haar
from heterofedsyn.synthesis.hierarchy import rebuild_tiers, within
from heterofedsyn.synthesis.precision import variance_of
from heterofedsyn.synthesis.shrinkage import shrink
from heterofedsyn.synthesis.targets import Targets
from heterofedsyn.synthesis.triples import Triple, laid_out, triple
from heterofedsyn.synthesis.zeros import (
    Mask,
    centred,
    fitted,
    possible_cells,
    possible_groups,
)

SMALLEST_TOTAL = 20.0
"""Below so many records nothing can be told; estimates are scaled to it."""

FITTING_ROUNDS = 10
"""Turns of fitting a pair's rows and columns to its 1-ways."""

ROUNDS_WITH_ZEROS = 50
"""The same where rules forbid cells: it takes longer to get around them."""

MOST_CELLS = 2**22
"""Of a table of groups of the label and two others: pairs tell it by fitting all of its cells."""

FLOOR = 1e-6
"""What every cell of a pair keeps, so that fitting can always move it."""


@dataclass(frozen=True)
class Denoising:
    """Bayesian 1-ways, pairs shrunk to what stands out of the noise, all fitted together.

    The prior of a Haar difference is a mixture of smooth, anything goes, and all on one side.

    Attributes:
        spread: weight of a difference that could be anything, at the root.
        calm: how this weight shrinks with each level, since finer differences are smoother.
        edge: weight of all mass lying on one side.
    """

    name: ClassVar[str] = "denoising"
    leans: ClassVar[bool] = True

    spread: float = 0.3
    calm: float = 0.7
    edge: float = 0.05

    def __post_init__(self) -> None:
        for name, share in dataclasses.asdict(self).items():
            if not 0 <= share <= 1:
                raise UsageError(f"{name} ({share:g}) must be in 0..1")

    def check(self, targets: Targets) -> None:
        """Differences of every level or flat counts of every attribute, and pairs on one grid."""
        if any(len(clique) != 1 for clique in targets.marginals):
            raise ReleaseError("the model holds a pair that is on no grid")
        grid: dict[str, tuple[int, ...]] = {}
        for pair in targets.grids:
            for name, own in zip(pair.attributes, pair.groups, strict=True):
                if grid.setdefault(name, own) != own:
                    raise ReleaseError("the model's pairs are not on one grid")
        check_asides(targets)
        _check_triples(targets, grid)
        if targets.levels.keys() != targets.ladders.keys():
            raise ReleaseError("the model does not hold every difference of a column")
        if any({*own} != {*range(max(own) + 1)} for own in grid.values()):
            raise ReleaseError("the model's grid has a group without values")
        for name, tiers in targets.tiers.items():
            maps = [groups for groups, _ in tiers]
            if name in targets.levels:
                raise ReleaseError("the model holds differences and groups of one column")
            if any(np.unique(groups).size != groups.max() + 1 for groups in maps):
                raise ReleaseError("the model's grid has a group without values")
            if not all(within(finer, coarser) for coarser, finer in pairwise(maps)):
                raise ReleaseError("the model's groups of a column do not lie within each other")

    def estimate(self, targets: Targets) -> Estimates:
        """1-ways over values, pairs over groups."""
        total = max(SMALLEST_TOTAL, targets.total)
        values = self.one_ways(targets)
        observed: dict[Clique, Noisy] = {}
        groups: dict[str, Integers] = {n: np.arange(v.size) for n, v in values.items()}
        for grid, noisy in targets.grids.items():
            observed[grid.attributes] = noisy
            for name, own in zip(grid.attributes, grid.groups, strict=True):
                groups[name] = np.array(own)
        apart = missing_apart(targets.schema, groups)
        cells = possible_cells(targets.schema, groups, observed)
        there = possible_groups(targets.schema, groups, cells)
        singles = {}
        for name in targets.domain.names:
            sums = [grouped(values[name], groups[name])]
            weights: list[float | Floats] = [1 / variance_of(targets, name, groups[name])]
            for pair, noisy in observed.items():
                if name in pair:
                    axis = 1 - pair.index(name)
                    summed, weight = _summed(noisy, axis, cells.get(pair))
                    sums.append(summed)
                    weights.append(weight)
            for noisy in sums_of(targets, name):
                sums.append(noisy.values)
                weights.append(1 / noisy.variance)
            mean = weighted(sums, weights)
            can = there.get(name)
            possible = np.ones(mean.size, np.bool_) if can is None else can
            singles[name] = _norm_sub_where(mean, possible, total)
        pairs: dict[Clique, Floats] = {
            (a, b): fitted_pair(
                noisy,
                singles[a],
                singles[b],
                total,
                (apart[a], apart[b]) if a in apart and b in apart else None,
                cells.get((a, b)),
            )
            for (a, b), noisy in observed.items()
        }
        known = Estimates(targets.schema, total, values, groups, singles, pairs)
        return dataclasses.replace(known, triples=triples_of(targets, known))

    def one_ways(self, targets: Targets) -> dict[str, Floats]:
        """Every attribute's counts over its values."""
        total = max(SMALLEST_TOTAL, targets.total)
        values: dict[str, Floats] = {}
        for name in targets.domain.names:
            never = targets.schema.rulebook.never_alone(name)
            if name in targets.tiers:
                tiers = targets.tiers[name]
                can = np.ones(targets.domain.size(name), np.bool_) if never is None else ~never
                values[name] = rebuild_tiers(tiers, targets.marginals.get((name,)), total, can)
            elif (name,) in targets.marginals:  # the one whose error a release states
                flat = targets.marginals[(name,)]
                if never is None:
                    shift = (total - flat.values.sum()) / flat.values.size
                    values[name] = norm_sub(flat.values + shift, total)
                else:
                    values[name] = _norm_sub_where(flat.values, ~never, total)
            else:
                ladder = targets.ladders[name]
                prior = (self.spread, self.calm, self.edge)
                size = targets.domain.size(name)
                real = np.ones(size, np.int64) if never is None else (~never).astype(np.int64)
                values[name] = rebuild_haar(ladder, real, total, prior)
        return values


def triples_of(targets: Targets, known: Estimates) -> dict[Clique, Triple]:
    """What was measured of the label and two others, beyond what pairs tell of them."""
    found = {}
    for grid, noisy in targets.triples.items():
        pair, table, maps = laid_out(known.label or "", known.groups, grid, noisy)
        found[pair] = triple(known.joint(*pair), table, maps)
    return found


def _check_triples(targets: Targets, grid: dict[str, tuple[int, ...]]) -> None:
    """Each has the label in it, and its groups are made of those of pairs."""
    groups = {name: np.array(own) for name, own in grid.items()}
    for own, noisy in targets.triples.items():
        _, _, maps = laid_out(targets.schema.label or "", groups, own, noisy)
        if math.prod(held.size for held in maps) > MOST_CELLS:
            raise ReleaseError("the model holds three columns with too many groups")


def fitted_pair(
    noisy: Noisy,
    rows: Floats,
    columns: Floats,
    total: float,
    missing: tuple[bool, bool] | None = None,
    possible: Mask | None = None,
) -> Floats:
    """Independence, or a normal copula, plus what of the residual stands out of the noise.

    Where rules forbid cells, both are of the others alone.

    Args:
        missing: for ordered attributes, whether the last groups stand for missing values.
        possible: the cells that a row can be in; all of them unless given.
    """
    if possible is not None:
        noisy = Noisy(noisy.values * possible, noisy.variance)
    copula = None if missing is None else normal_base(noisy, rows, columns, total, missing)
    base = np.outer(rows, columns) / total if copula is None else copula
    sigma = math.sqrt(noisy.variance)
    if possible is None:
        kept = shrink(double_centred(noisy.values - base), sigma)
    else:
        base = fitted(base * possible, rows, columns, ROUNDS_WITH_ZEROS)
        kept = shrink(centred(noisy.values - base, possible), sigma) * possible
    if copula is None and not kept.any():
        return base
    table: Floats = np.maximum(base + kept, 0.0) + FLOOR
    if possible is None:
        return fitted(table, rows, columns, FITTING_ROUNDS)
    return fitted(table * possible, rows, columns, ROUNDS_WITH_ZEROS)


def _summed(noisy: Noisy, axis: int, possible: Mask | None) -> tuple[Floats, float | Floats]:
    """Sums of a pair along one side, and their inverse variance."""
    if possible is None:
        sums: Floats = noisy.values.sum(axis=axis)
        return sums, 1 / (noisy.variance * noisy.values.shape[axis])
    cells = np.maximum(possible.sum(axis=axis), 1)
    sums = (noisy.values * possible).sum(axis=axis)
    return sums, 1 / (noisy.variance * cells)


def weighted(sums: list[Floats], weights: Sequence[float | Floats]) -> Floats:
    """The mean of several estimates of the same groups."""
    stacked = np.stack(sums)
    own = np.stack([np.broadcast_to(weight, stacked.shape[1]) for weight in weights])
    mean: Floats = np.average(stacked, axis=0, weights=own)
    return mean


def _norm_sub_where(values: Floats, possible: Mask, total: float) -> Floats:
    """The same as `norm_sub`, after a shift to the total, of the possible ones; 0 elsewhere."""
    own = values[possible]
    result = np.zeros_like(values)
    result[possible] = norm_sub(own + (total - own.sum()) / own.size, total)
    return result


def double_centred(table: Floats) -> Floats:
    """A table less its row means and column means."""
    centred: Floats = (
        table - table.mean(axis=1, keepdims=True) - table.mean(axis=0, keepdims=True) + table.mean()
    )
    return centred
