"""What a synthesizer is given, and what it must be able to do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np

from heterofedsyn.marginals.statistics import Flat
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.schema import Clique, Domain, EncodedTable


@dataclass(frozen=True, eq=False)
class Measurement:
    """A noisy marginal, summed over sites."""

    statistic: Flat
    noisy: Noisy


@dataclass(frozen=True, eq=False)
class Targets:
    """Everything measured about one population; holds no row and no exact count."""

    domain: Domain
    measurements: tuple[Measurement, ...]

    @cached_property
    def marginals(self) -> dict[Clique, Noisy]:
        """The measured marginals as tables; repeated ones combined by inverse variance."""
        found: dict[Clique, Noisy] = {}
        for measurement in self.measurements:
            clique = measurement.statistic.attributes
            noisy = measurement.noisy.shaped(self.domain.shape(clique))
            found[clique] = found[clique].combine(noisy) if clique in found else noisy
        return found

    @cached_property
    def pairs(self) -> tuple[Clique, ...]:
        """The measured pairs, in the order in which they were measured."""
        return tuple(clique for clique in self.marginals if len(clique) == 2)

    @cached_property
    def total(self) -> float:
        """The noisy number of records, at least 1: the inverse-variance mean of the 1-way sums."""
        singles = [noisy for clique, noisy in self.marginals.items() if len(clique) == 1]
        weights = np.array([1 / (noisy.variance * noisy.values.size) for noisy in singles])
        sums = np.array([noisy.values.sum() for noisy in singles])
        return max(1.0, float(weights @ sums / weights.sum()))


class Synthesizer(Protocol):
    """Turns targets into rows; a frozen dataclass of its settings, all with defaults."""

    name: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def synthesize(self, targets: Targets, rows: int, rng: np.random.Generator) -> EncodedTable:
        """So many rows whose marginals come close to the targets."""
        ...
