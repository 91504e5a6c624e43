"""Other worlds that the noisy answers allow: estimates that could as well be the truth.

A world is ours with an error of the kind that ours may have. Its parts: the noise, whose variance
is recorded; what was taken for noise and left out, whose size shows in how far the answers are from
the estimates; and what no answer tells. All of it is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from heterofedsyn._arrays import Floats, Integers, stream
from heterofedsyn.marginals.statistics import Flat, Total
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.schema import Clique
from heterofedsyn.synthesis import Denoising, Measurement, Rebuild, Targets
from heterofedsyn.synthesis.asides import sums_of
from heterofedsyn.synthesis.consistency import norm_sub
from heterofedsyn.synthesis.denoise import (
    FLOOR,
    ROUNDS_WITH_ZEROS,
    SMALLEST_TOTAL,
    double_centred,
    weighted,
)
from heterofedsyn.synthesis.estimates import Estimates, missing_apart
from heterofedsyn.synthesis.grid import grouped
from heterofedsyn.synthesis.haar import Nodes, descend
from heterofedsyn.synthesis.hierarchy import rebuild_tiers
from heterofedsyn.synthesis.precision import variance_of
from heterofedsyn.synthesis.profile import profile
from heterofedsyn.synthesis.triples import laid_out, triple
from heterofedsyn.synthesis.zeros import Mask, fitted, possible_cells

SURE = 4.0
"""Standard errors that are added to the size of what shows beyond the noise: it is told badly."""

ROUGHNESS = (0.1, 1.0)
"""Least and most standard deviation of how two halves of a smooth stretch differ, as a share of its
records; between them it is what the answers show beyond their noise."""


@dataclass(frozen=True, eq=False)
class Plausible:
    """Rebuilds another world from the measurements of ours; see `synthesis.targets.Rebuild`."""

    name: ClassVar[str] = "plausible"
    leans: ClassVar[bool] = False

    ours: Targets
    seed: int
    purpose: str

    def check(self, targets: Targets) -> None:
        """What ours could be made from, others can."""

    def estimate(self, targets: Targets) -> Estimates:
        """The tables of that world."""
        rng = stream(self.seed, self.purpose)
        rebuild = self.ours.rebuild
        if isinstance(rebuild, Denoising):
            return _World(self.ours, rebuild, rng).whole()
        return _measured_again(self.ours, rebuild, rng)

    def only(self, clique: Clique) -> Estimates:
        """One column or measured pair in such a world, without the work for all others."""
        rng = stream(self.seed, f"{self.purpose}: {' and '.join(clique)}")
        rebuild = self.ours.rebuild
        if isinstance(rebuild, Denoising):
            pairs = [clique] if len(clique) == 2 else []
            return _World(self.ours, rebuild, rng).estimates(clique, pairs)
        return _measured_again(self.ours, rebuild, rng)


def _measured_again(ours: Targets, rebuild: Rebuild, rng: np.random.Generator) -> Estimates:
    """What the same method makes of other noise, if our estimates were the truth."""
    known = ours.estimates
    measurements = []
    for statistic, noisy in ours.combined.items():
        values = noisy.values
        if isinstance(statistic, Total):
            values = np.array([known.total])
        elif isinstance(statistic, Flat) and len(statistic.attributes) == 1:
            values = known.values[statistic.attributes[0]]
        elif isinstance(statistic, Flat) and statistic.attributes in known.pairs:
            values = known.pairs[statistic.attributes].ravel()
        again = values + rng.normal(0.0, math.sqrt(noisy.variance), values.shape)
        measurements.append(Measurement(statistic, Noisy(again, noisy.variance)))
    return rebuild.estimate(Targets(ours.schema, tuple(measurements), rebuild))


@dataclass(frozen=True, eq=False)
class _World:
    """A world beside one that was rebuilt by `Denoising`."""

    ours: Targets
    rebuild: Denoising
    rng: np.random.Generator

    def estimates(self, names: Sequence[str], pairs: Sequence[Clique]) -> Estimates:
        """Of these columns and pairs alone."""
        known, rng = self.ours.estimates, self.rng
        total = self._total()
        values = {name: self._values(name, total) for name in names}
        scale = total / known.total
        tables = {pair: known.pairs[pair] for pair in pairs}
        cells = possible_cells(self.ours.schema, known.groups, tables)
        observed = {grid.attributes: noisy for grid, noisy in self.ours.grids.items()}
        singles = {}
        for name in names:
            own, groups = known.singles[name], known.groups[name]
            errors = [grouped(values[name] / scale - known.values[name], groups)]
            weights: list[float | Floats] = [1 / variance_of(self.ours, name, groups)]
            for pair, noisy in observed.items():
                if name in pair:
                    across = noisy.values.shape[1 - pair.index(name)]
                    variance = noisy.variance * across
                    errors.append(rng.normal(0.0, math.sqrt(variance), own.size))
                    weights.append(1 / variance)
            for noisy in sums_of(self.ours, name):
                errors.append(rng.normal(0.0, math.sqrt(noisy.variance), own.size))
                weights.append(1 / noisy.variance)
            error = weighted(errors, weights)
            moved = np.where(own > 0, own + error, np.maximum(error, 0.0) * 0.5)
            singles[name] = norm_sub(moved * scale, total) if own.size > 1 else np.array([total])
        trends = {
            name: _trend(singles[name].size, missing=missing)
            for name, missing in missing_apart(self.ours.schema, known.groups).items()
            if name in singles
        }
        others = {
            pair: _other_pair(
                table * scale,
                observed[pair].scaled(scale),
                (singles[pair[0]], singles[pair[1]]),
                (trends.get(pair[0]), trends.get(pair[1])),
                cells.get(pair),
                rng,
            )
            for pair, table in tables.items()
        }
        return replace(known, total=total, values=values, singles=singles, pairs=others, triples={})

    def whole(self) -> Estimates:
        """Of all columns and pairs, and of three columns what the method makes of other noise."""
        known = self.ours.estimates
        world = self.estimates([*known.singles], [*known.pairs])
        scale = world.total / known.total
        found = {}
        for grid, noisy in self.ours.triples.items():
            pair, table, maps = laid_out(world.label or "", world.groups, grid, noisy)
            ours = known.triples[pair].table.ravel() * scale
            again = _again(ours, table.scaled(scale), self.rng)
            found[pair] = triple(world.joint(*pair), again.shaped(table.values.shape), maps)
        return replace(world, triples=found)

    def _total(self) -> float:
        error = self.rng.normal(0.0, math.sqrt(self.ours.total_variance))
        return max(SMALLEST_TOTAL, self.ours.total + error)

    def _values(self, name: str, total: float) -> Floats:
        """A 1-way over values."""
        ours, known, rng = self.ours, self.ours.estimates.values[name], self.rng
        scale = total / ours.estimates.total
        never = ours.schema.rulebook.never_alone(name)
        can = np.ones(known.size, np.bool_) if never is None else ~never
        if name in ours.tiers:
            tiers = [
                (groups, _again(grouped(known, groups) * scale, noisy, rng))
                for groups, noisy in ours.tiers[name]
            ]
            flat = ours.marginals.get((name,))
            codes = None if flat is None else _again(known * scale, flat, rng)
            return rebuild_tiers(tiers, codes, total, can)
        if (name,) in ours.marginals:
            sigma = math.sqrt(ours.marginals[(name,)].variance)
            moved = known * scale + rng.normal(0.0, sigma, known.size)
            values = np.zeros(known.size)
            values[can] = norm_sub(moved[can], total)
            return values
        prior = (self.rebuild.spread, self.rebuild.calm, self.rebuild.edge)
        return drawn_haar(ours.ladders[name], known, can.astype(np.int64), total, prior, rng)


def _again(values: Floats, noisy: Noisy, rng: np.random.Generator) -> Noisy:
    return Noisy(values + rng.normal(0.0, math.sqrt(noisy.variance), values.size), noisy.variance)


def drawn_haar(
    levels: list[Noisy],
    known: Floats,
    possible: Integers,
    total: float,
    prior: tuple[float, float, float],
    rng: np.random.Generator,
) -> Floats:
    """Counts of values, drawn from a posterior like that of which `rebuild_haar` takes the mean.

    Here its weights are not learnt, and roughness is taken for more than shows: no level tells it
    well, and nothing is smooth to the last record.

    Args:
        known: the mean itself.
    """
    spread, calm, edge = prior
    padded = np.append(known, np.zeros(2 ** len(levels) - known.size))

    def drawn(nodes: Nodes, noisy: Noisy) -> Floats:
        ours = padded.reshape(nodes.masses.size, -1).sum(axis=1)
        both = (nodes.left > 0) & (nodes.right > 0)
        apart = (noisy.values - nodes.expected(ours, noisy))[both]
        rough = _roughness(apart, ours[both], noisy.variance) * nodes.masses
        expected = nodes.expected(nodes.masses, noisy)
        node = _Node(nodes.masses, expected, rough, noisy)
        return node.difference(spread * calm**nodes.level, edge, rng)

    return descend(levels, profile(levels, possible, total), total, drawn)


def _roughness(apart: Floats, masses: Floats, variance: float) -> float:
    """How rough a level is: what shows beyond the noise, and some standard errors of that."""
    freedom = max(1, apart.size)
    energy = float((apart**2).sum()) + variance * (SURE * math.sqrt(2 * freedom) - freedom)
    share = energy / max(float((masses**2).sum()), 1e-9)
    return float(np.clip(math.sqrt(max(0.0, share)), *ROUGHNESS))


@dataclass(frozen=True, eq=False)
class _Node:
    """Nodes of one level, and what is known of their differences."""

    masses: Floats
    expected: Floats
    rough: Floats
    noisy: Noisy

    def difference(self, spread: float, edge: float, rng: np.random.Generator) -> Floats:
        """A draw of each from its posterior; MATH section 6."""
        mass, seen = np.maximum(self.masses, 1e-9), self.noisy.values
        sigma = math.sqrt(self.noisy.variance)
        wide = np.sqrt(sigma**2 + self.rough**2)
        likely = np.stack(
            [
                (1 - spread - edge) * np.exp(-0.5 * ((seen - self.expected) / wide) ** 2) / wide,
                spread * _inside(mass, seen, sigma) * math.sqrt(2 * math.pi) / (2 * mass),
                0.5 * edge * np.exp(-0.5 * ((seen - mass) / sigma) ** 2) / sigma,
                0.5 * edge * np.exp(-0.5 * ((seen + mass) / sigma) ** 2) / sigma,
            ]
        )
        likely[1] = np.where(likely.sum(axis=0) > 0, likely[1], 1.0)
        chances = np.cumsum(likely / likely.sum(axis=0), axis=0)
        kind = (rng.random(mass.size) > chances[:3]).sum(axis=0)
        trust = self.rough**2 / (self.rough**2 + sigma**2)
        smooth = _within(
            self.expected + trust * (seen - self.expected), np.sqrt(trust) * sigma, mass, rng
        )
        anything = _within(seen, np.full(mass.size, sigma), mass, rng)
        drawn = np.choose(kind, [smooth, anything, mass, -mass])
        return np.where(self.masses > 0, np.clip(drawn, -mass, mass), 0.0)


def _within(middle: Floats, sigma: Floats, mass: Floats, rng: np.random.Generator) -> Floats:
    """Normal numbers from -mass to mass; drawn again where they are not, as often as it helps."""
    drawn = middle + sigma * rng.standard_normal(mass.size)
    for _ in range(8):
        outside = np.abs(drawn) > mass
        drawn = np.where(outside, middle + sigma * rng.standard_normal(mass.size), drawn)
    return drawn


def _inside(mass: Floats, seen: Floats, sigma: float) -> Floats:
    """The chance that a normal number around what was seen lies in -mass to mass."""
    root = sigma * math.sqrt(2.0)
    chances = [
        0.5 * (math.erf((m - s) / root) - math.erf((-m - s) / root))
        for m, s in zip(mass.tolist(), seen.tolist(), strict=True)
    ]
    return np.array(chances)


def _other_pair(
    table: Floats,
    noisy: Noisy,
    margins: tuple[Floats, Floats],
    trends: tuple[Floats | None, Floats | None],
    possible: Mask | None,
    rng: np.random.Generator,
) -> Floats:
    """A pair's table with other sums and another dependence.

    Args:
        trends: for each side that has an order, a unit vector that rises along it.
    """
    if min(table.shape) > 1:
        apart = double_centred((noisy.values - table) * (1 if possible is None else possible))
        table = table + _error(apart, table, margins, trends, math.sqrt(noisy.variance), rng)
    moved: Floats = np.maximum(table, 0.0) + FLOOR
    if possible is not None:
        moved = moved * possible
    return fitted(moved, *margins, ROUNDS_WITH_ZEROS)


def _error(
    apart: Floats,
    table: Floats,
    margins: tuple[Floats, Floats],
    trends: tuple[Floats | None, Floats | None],
    sigma: float,
    rng: np.random.Generator,
) -> Floats:
    """How far a table may be from the truth.

    In directions that stand out of the noise it is wrong by noise. In the others it is 0, and wrong
    by what is there. That shows in what was measured beyond the noise, separately for what rises
    along a side with an order, which is where most hides.
    """
    noise = double_centred(rng.normal(0.0, sigma, table.shape))
    dependence = double_centred(table - np.outer(*margins) / margins[0].sum())
    u, size, v = np.linalg.svd(dependence, full_matrices=False)
    short, long = sorted(side - 1 for side in table.shape)
    known = int(np.count_nonzero(size > sigma * (math.sqrt(long) + math.sqrt(short))))
    rows = np.eye(table.shape[0]) - u[:, :known] @ u[:, :known].T
    columns = np.eye(table.shape[1]) - v[:known].T @ v[:known]
    left, hidden = rows @ apart @ columns, rows @ noise @ columns
    error: Floats = noise - hidden
    freedom = (table.shape[0] - 1 - known) * (table.shape[1] - 1 - known)
    for axis, trend in enumerate(trends):
        if trend is not None:
            along = np.outer(trend, trend)
            some = (along @ left, along @ hidden) if axis == 0 else (left @ along, hidden @ along)
            own = max(1, table.shape[1 - axis] - 1 - known)
            error = error + _hidden(*some, own, sigma)
            left, hidden = left - some[0], hidden - some[1]
            freedom -= own
    return error + _hidden(left, hidden, max(1, freedom), sigma)


def _hidden(seen: Floats, noise: Floats, freedom: int, sigma: float) -> Floats:
    """A draw of what was left out, given what was seen of it; see `_roughness` on its size."""
    energy = float((seen**2).sum()) + sigma**2 * (SURE * math.sqrt(2 * freedom) - freedom)
    there = max(0.0, energy / freedom)
    trust = there / (there + sigma**2)
    drawn: Floats = trust * seen + math.sqrt(trust) * noise
    return drawn


def _trend(size: int, *, missing: bool) -> Floats | None:
    """A unit vector that rises along groups in order; the last, if it means missing, has no place.

    >>> _trend(3, missing=False).round(3).tolist()
    [-0.707, 0.0, 0.707]
    """
    rising = np.arange(size - missing) - (size - missing - 1) / 2
    if rising.size < 2:
        return None
    trend: Floats = np.append(rising, np.zeros(int(missing)))
    return trend / float(np.linalg.norm(trend))
