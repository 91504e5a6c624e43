"""How strongly attributes depend on each other, from noisy answers alone; MATH section 3."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from heterofedsyn._arrays import Floats
from heterofedsyn.marginals.statistics import Flat, Sketched
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.schema import Domain


@dataclass(frozen=True, eq=False)
class Glimpse:
    """A pair seen through a noisy projection z, in frequencies."""

    statistic: Flat | Sketched
    domain: Domain
    seen: Noisy

    @classmethod
    def of(cls, statistic: Flat | Sketched, noisy: Noisy, domain: Domain, total: float) -> Glimpse:
        """Summed counts of a statistic, scaled to frequencies of a total."""
        return cls(statistic, domain, noisy.scaled(statistic.scale(domain) / total))

    def indif2(self, a: Noisy, b: Noisy) -> float:
        """The squared distance from independence, unbiased over projection and noise.

        score2 = |z - (M_a x M_b) P|^2
                 - [k v_z + v_b s_b |M_a|^2 + v_a s_a |M_b|^2 - s_a s_b v_a v_b]

        Args:
            a: the raw 1-way of the first attribute in frequencies.
            b: that of the second.
        """
        s_a, s_b, v_a, v_b = a.values.size, b.values.size, a.variance, b.variance
        noise = (
            v_b * s_b * float(a.values @ a.values)
            + v_a * s_a * float(b.values @ b.values)
            - s_a * s_b * v_a * v_b
        )
        return self.distance2(np.outer(a.values, b.values)) - noise

    def distance2(self, table: Floats) -> float:
        """The squared distance of the pair from a table of frequencies, less z's own noise."""
        gap = self.seen.values - self.statistic.project(table, self.domain)
        return float(gap @ gap) - gap.size * self.seen.variance


def root(score2: float) -> float:
    """The score itself: an unbiased square can be negative, a score cannot."""
    return math.sqrt(max(0.0, score2))
