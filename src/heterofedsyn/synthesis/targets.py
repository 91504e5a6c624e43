"""What a synthesizer is given, and what it must be able to do."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol, TypeAlias, TypeVar

import numpy as np

from heterofedsyn._arrays import Integers
from heterofedsyn._registry import Named
from heterofedsyn.marginals.statistics import Flat, Grouped, Haar, Total, haar_levels
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.schema import Clique, Domain, EncodedTable, Schema
from heterofedsyn.synthesis.estimates import Estimates

Measured: TypeAlias = Flat | Total | Haar | Grouped
"""The statistics that a model keeps."""

Kind = TypeVar("Kind", Flat, Haar, Grouped)


@dataclass(frozen=True, eq=False)
class Measurement:
    """A noisy statistic, summed over sites.

    Attributes:
        aside: a first look at a pair that does not count as measured; see `synthesis.asides`.
    """

    statistic: Measured
    noisy: Noisy
    aside: bool = False


class Rebuild(Named, Protocol):
    """Turns noisy measurements into estimates."""

    leans: ClassVar[bool]
    """Whether rows may be closer to the measurements than to the estimates."""

    def check(self, targets: Targets) -> None:
        """Refuse measurements from which it cannot make estimates.

        Raises:
            ReleaseError: saying what is too much or missing.
        """
        ...

    def estimate(self, targets: Targets) -> Estimates:
        """Non-negative tables of one total that agree with each other."""
        ...


@dataclass(frozen=True, eq=False)
class Targets:
    """Everything measured about one population; holds no row and no exact count."""

    schema: Schema
    measurements: tuple[Measurement, ...]
    rebuild: Rebuild
    known: Estimates | None = None
    """What `rebuild` made of these measurements before; nothing is made again then."""

    @property
    def domain(self) -> Domain:
        """The attributes and their sizes."""
        return self.schema.domain

    @cached_property
    def combined(self) -> dict[Measured, Noisy]:
        """Every statistic once, measurements of the same one combined by inverse variance.

        Whatever reads measurements reads them here: what is measured again is known better, and
        the error that is stated is that of what is used.
        """
        combined: dict[Measured, Noisy] = {}
        for measurement in self.measurements:
            if measurement.aside:
                continue
            statistic, noisy = measurement.statistic, measurement.noisy
            known = combined.get(statistic)
            combined[statistic] = noisy if known is None else known.combine(noisy)
        return combined

    @cached_property
    def asides(self) -> tuple[Measurement, ...]:
        """First looks at pairs, as they are in the model."""
        return tuple(own for own in self.measurements if own.aside)

    @cached_property
    def looks(self) -> dict[Clique, Noisy]:
        """What was seen at first of pairs that were not measured then, as tables."""
        return {
            own.statistic.attributes: own.noisy.shaped(own.statistic.shape)
            for own in self.asides
            if isinstance(own.statistic, Grouped)
        }

    @cached_property
    def marginals(self) -> dict[Clique, Noisy]:
        """The flat marginals, as tables."""
        return {
            flat.attributes: noisy.shaped(self.domain.shape(flat.attributes))
            for flat, noisy in self._all(Flat)
        }

    @cached_property
    def levels(self) -> dict[str, dict[int, Noisy]]:
        """The differences of attributes, by their levels of halving."""
        levels: dict[str, dict[int, Noisy]] = {}
        for haar, noisy in self._all(Haar):
            levels.setdefault(haar.attributes[0], {})[haar.level] = noisy
        return levels

    @cached_property
    def ladders(self) -> dict[str, list[Noisy]]:
        """The differences of every attribute that has all of them, from the root downwards."""
        return {
            name: [levels[level] for level in sorted(levels)]
            for name, levels in self.levels.items()
            if len(levels) == haar_levels(self.domain.size(name))
        }

    @cached_property
    def grids(self) -> dict[Grouped, Noisy]:
        """The pairs that were measured on groups of values, as tables."""
        return self._on_groups(2)

    @cached_property
    def triples(self) -> dict[Grouped, Noisy]:
        """Three attributes that were measured together on groups of values, as tables."""
        return self._on_groups(3)

    def _on_groups(self, attributes: int) -> dict[Grouped, Noisy]:
        return {
            grid: noisy.shaped(grid.shape)
            for grid, noisy in self._all(Grouped)
            if len(grid.attributes) == attributes
        }

    @cached_property
    def tiers(self) -> dict[str, list[tuple[Integers, Noisy]]]:
        """Attributes that were measured on groups of values, those with the fewest groups first."""
        tiers: dict[str, list[tuple[Integers, Noisy]]] = {}
        for grid, noisy in self._all(Grouped):
            if len(grid.attributes) == 1:
                own = tiers.setdefault(grid.attributes[0], [])
                own.append((np.array(grid.groups[0]), noisy))
        return {name: sorted(own, key=lambda t: t[1].values.size) for name, own in tiers.items()}

    def _all(self, kind: type[Kind]) -> list[tuple[Kind, Noisy]]:
        return [
            (statistic, noisy)
            for statistic, noisy in self.combined.items()
            if isinstance(statistic, kind)
        ]

    @cached_property
    def pairs(self) -> tuple[Clique, ...]:
        """The measured pairs, in the order in which they were first measured."""
        cliques = (statistic.attributes for statistic in self.combined)
        return tuple(dict.fromkeys(clique for clique in cliques if len(clique) == 2))

    @cached_property
    def _told(self) -> list[Noisy]:
        """What tells the number of records."""
        return [noisy for statistic, noisy in self.combined.items() if statistic.tells_total]

    @cached_property
    def total(self) -> float:
        """The noisy number of records, at least 1: the inverse-variance mean of what tells it."""
        sums = [told.values.sum() for told in self._told]
        weights = [1 / (told.variance * told.values.size) for told in self._told]
        return max(1.0, float(np.average(sums, weights=weights)))

    @property
    def total_variance(self) -> float:
        """The variance of the noisy number of records."""
        return 1 / math.fsum(1 / (told.variance * told.values.size) for told in self._told)

    @property
    def tells_total(self) -> bool:
        """Whether anything tells the number of records."""
        return bool(self._told)

    @property
    def complete(self) -> bool:
        """Whether every attribute has a 1-way, and something tells the number of records."""
        flat = {name for name in self.domain.names if (name,) in self.marginals}
        return self.tells_total and flat | {*self.ladders, *self.tiers} == {*self.domain.names}

    @cached_property
    def estimates(self) -> Estimates:
        """What is believed about the population after the noise was dealt with."""
        return self.rebuild.estimate(self) if self.known is None else self.known

    def knowing(self, estimates: Estimates) -> Targets:
        """These targets, with what their rebuild made of them before."""
        return Targets(self.schema, self.measurements, self.rebuild, estimates)

    def with_measured(self, measurements: tuple[Measurement, ...]) -> Targets:
        """These targets and further measurements."""
        more = (*self.measurements, *measurements)
        return Targets(self.schema, more, self.rebuild)


class Synthesizer(Named, Protocol):
    """Turns targets into rows."""

    def synthesize(self, targets: Targets, rows: int, rng: np.random.Generator) -> EncodedTable:
        """So many rows whose marginals come close to the targets."""
        ...
