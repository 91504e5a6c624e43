"""What a synthesizer is given, and what it must be able to do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np

from heterofedsyn.marginals.statistics import Flat, Grouped, Haar, Total, haar_levels
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.schema import Clique, Domain, EncodedTable, Schema
from heterofedsyn.synthesis.estimates import Estimates

Measured: TypeAlias = Flat | Total | Haar | Grouped
"""The statistics that a model keeps."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """A noisy statistic, summed over sites."""

    statistic: Measured
    noisy: Noisy


class Rebuild(Protocol):
    """Turns noisy measurements into estimates; a frozen dataclass of its settings."""

    name: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]

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

    @property
    def domain(self) -> Domain:
        """The attributes and their sizes."""
        return self.schema.domain

    @cached_property
    def marginals(self) -> dict[Clique, Noisy]:
        """The flat marginals as tables; repeated ones combined by inverse variance."""
        found: dict[Clique, Noisy] = {}
        for measurement in self.measurements:
            if isinstance(measurement.statistic, Flat):
                clique = measurement.statistic.attributes
                noisy = measurement.noisy.shaped(self.domain.shape(clique))
                found[clique] = found[clique].combine(noisy) if clique in found else noisy
        return found

    @cached_property
    def pairs(self) -> tuple[Clique, ...]:
        """The measured pairs, in the order in which they were first measured."""
        cliques = (measurement.statistic.attributes for measurement in self.measurements)
        return tuple(dict.fromkeys(clique for clique in cliques if len(clique) == 2))

    @cached_property
    def total(self) -> float:
        """The noisy number of records, at least 1: the inverse-variance mean of what tells it."""
        sums, weights = [], []
        for measurement in self.measurements:
            statistic, noisy = measurement.statistic, measurement.noisy
            if isinstance(statistic, Total) or (
                isinstance(statistic, Flat) and len(statistic.attributes) == 1
            ):
                sums.append(noisy.values.sum())
                weights.append(1 / (noisy.variance * noisy.values.size))
        return max(1.0, float(np.average(sums, weights=weights)))

    @property
    def complete(self) -> bool:
        """Whether every attribute has a 1-way, and something tells the number of records."""
        found = {measurement.statistic for measurement in self.measurements}
        flat = [name for name in self.domain.names if Flat((name,)) in found]
        waves = [
            name
            for name, size in zip(self.domain.names, self.domain.sizes, strict=True)
            if size > 1 and all(Haar((name,), level) in found for level in range(haar_levels(size)))
        ]
        told = bool(flat) or Total() in found
        return told and {*flat, *waves} == {*self.domain.names}

    @cached_property
    def estimates(self) -> Estimates:
        """What is believed about the population after the noise was dealt with."""
        return self.rebuild.estimate(self)

    def with_measured(self, measurements: tuple[Measurement, ...]) -> Targets:
        """These targets and further measurements."""
        more = (*self.measurements, *measurements)
        return Targets(self.schema, more, self.rebuild)


class Synthesizer(Protocol):
    """Turns targets into rows; a frozen dataclass of its settings, all with defaults."""

    name: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def synthesize(self, targets: Targets, rows: int, rng: np.random.Generator) -> EncodedTable:
        """So many rows whose marginals come close to the targets."""
        ...
