"""How each site differs from all others together, seen through the noise of its own answers.

Made from answers that everyone may see under trust `local`, so it costs nothing more. Where only
sums over sites are seen, or there is one site, there is nothing to compare.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from heterofedsyn._arrays import Floats, Integers
from heterofedsyn.hub.accuracy import haar_ladder, haar_weights, total_variance
from heterofedsyn.hub.rounds import SUM, Round
from heterofedsyn.marginals.statistics import Flat, Haar, Total, haar_levels
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.schema import Schema
from heterofedsyn.synthesis import Consistency, Measurement, Targets

MOST_GROUPS = 8
"""Groups per attribute in which sites are compared."""


class AttributeDifference(msgspec.Struct, frozen=True):
    """How far a site's distribution of one attribute is from that of all other sites together.

    Values are put into at most 8 groups: ordered ones into equal stretches, categories by noisy
    count, the most frequent alone and the rest together. Let S be the squared Euclidean distance
    between the two distributions over groups, as the answers tell them.

    Attributes:
        distance: the root of S less what noise adds to S on average, or 0 if nothing is left.
        noise: the root of the standard deviation of S due to noise alone. Where sites are alike, a
            distance above twice this comes up in at most about one case of a hundred.
    """

    name: str
    distance: float
    noise: float


class SiteSummary(msgspec.Struct, frozen=True):
    """One site beside the others.

    Attributes:
        total: its noisy number of records, at least 1.
        total_error: the standard error of the total.
        attributes: in the order of the schema.
    """

    site: str
    total: int
    total_error: float
    attributes: tuple[AttributeDifference, ...]


def differences(
    schema: Schema, sites: Sequence[str], rounds: Sequence[Round]
) -> tuple[SiteSummary, ...]:
    """Every site beside the others, in the order given; none where sites were not seen singly."""
    if len(sites) < 2 or any(answer.site == SUM for r in rounds for answer in r.answers):
        return ()
    seen = {site: _seen(schema, site, rounds) for site in sites}
    if not all(_tells_total(targets) for targets in seen.values()):
        return ()
    found: dict[str, list[AttributeDifference]] = {site: [] for site in sites}
    for name in schema.domain.names:
        if all(_told(targets, name) for targets in seen.values()):
            groups = _groups(schema, name, list(seen.values()))
            shares = {site: _Sums.of(targets, name, groups) for site, targets in seen.items()}
            for site in sites:
                others = [shares[other] for other in sites if other != site]
                found[site].append(_difference(name, shares[site], _Sums.together(others)))
    return tuple(
        SiteSummary(
            site,
            max(1, round(seen[site].total)),
            math.sqrt(total_variance(seen[site])),
            tuple(found[site]),
        )
        for site in sites
    )


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over groups, as weight * total + contrast; the noise of total and contrast is apart.

    Attributes:
        covariance: of the contrasts.
    """

    weight: Floats
    contrast: Floats
    covariance: Floats
    total: Noisy

    @classmethod
    def of(cls, targets: Targets, name: str, groups: Integers) -> _Sums:
        """What one site's answers tell of an attribute, unbiased."""
        total = Noisy(np.array([targets.total]), total_variance(targets))
        size, many = groups.size, int(groups.max()) + 1
        flat = targets.marginals.get((name,))
        if flat is not None:
            # Counts shifted to add up to the total, about which they say nothing more.
            members = np.bincount(groups).astype(np.float64)
            apart = np.bincount(groups, flat.values - flat.values.mean()).astype(np.float64)
            spread = np.diag(members) - np.outer(members, members) / size
            return cls(members / size, apart, flat.variance * spread, total)
        ladder = haar_ladder(targets, name)
        weight, contrast = np.zeros(many), np.zeros(many)
        covariance = np.zeros((many, many))
        for part in haar_weights(size, groups):
            if part.level < 0:
                weight[part.group] = part.weight
                continue
            noisy = ladder[part.level]
            matrix = np.zeros((many, noisy.values.size))
            matrix[part.group, part.node] = part.weight
            contrast += matrix @ noisy.values
            covariance += noisy.variance * (matrix @ matrix.T)
        return cls(weight, contrast, covariance, total)

    @classmethod
    def together(cls, parts: Sequence[_Sums]) -> _Sums:
        """The sums of several sites; weights are the same at all of them."""
        return cls(
            parts[0].weight,
            np.sum([part.contrast for part in parts], axis=0),
            np.sum([part.covariance for part in parts], axis=0),
            Noisy(
                np.sum([part.total.values for part in parts], axis=0),
                math.fsum(part.total.variance for part in parts),
            ),
        )

    def shares(self) -> tuple[Floats, Floats]:
        """The distribution over groups, and the covariance of its noise to first order."""
        total, variance = float(self.total.values[0]), self.total.variance
        # A total below its own noise tells nothing to divide by.
        divisor = max(total, math.sqrt(variance))
        share = self.weight + self.contrast / divisor
        # d(contrast / total) = (d contrast - (share - weight) d total) / total
        moved = share - self.weight
        return share, (self.covariance + variance * np.outer(moved, moved)) / divisor**2


def _difference(name: str, site: _Sums, others: _Sums) -> AttributeDifference:
    (own, own_noise), (rest, rest_noise) = site.shares(), others.shares()
    covariance = own_noise + rest_noise
    square = float(((own - rest) ** 2).sum()) - float(np.trace(covariance))
    # The variance of a normal vector's square is 2 tr(covariance^2).
    noise = (2 * float((covariance**2).sum())) ** 0.25
    return AttributeDifference(name, math.sqrt(max(0.0, square)), noise)


def _seen(schema: Schema, site: str, rounds: Sequence[Round]) -> Targets:
    """What one site's answers tell of totals and 1-ways."""
    measurements = []
    for round_ in rounds:
        for answer in round_.answers:
            if answer.site != site:
                continue
            for part, released in zip(round_.query.parts, answer.parts, strict=True):
                statistic = part.statistic
                if isinstance(statistic, Total | Haar | Flat) and len(statistic.attributes) < 2:
                    noisy = Noisy(released.values.astype(np.float64), released.sigma**2)
                    measurements.append(Measurement(statistic, noisy))
    return Targets(schema, tuple(measurements), Consistency())


def _tells_total(targets: Targets) -> bool:
    return any(isinstance(found.statistic, Total | Flat) for found in targets.measurements)


def _told(targets: Targets, name: str) -> bool:
    return (name,) in targets.marginals or bool(haar_ladder(targets, name))


def _groups(schema: Schema, name: str, seen: Sequence[Targets]) -> Integers:
    """A group for every value: stretches, or the categories with the largest noisy counts."""
    size = schema.domain.size(name)
    if any((name,) not in targets.marginals for targets in seen):
        # Dyadic blocks, about which few differences say all.
        blocks: Integers = np.arange(size) >> max(0, haar_levels(size) - 3)
        return blocks
    if size <= MOST_GROUPS:
        return np.arange(size)
    if schema.column(name).ordered:
        return np.arange(size) * MOST_GROUPS // size
    counts = np.sum([targets.marginals[(name,)].values for targets in seen], axis=0)
    largest = np.sort(np.argsort(-counts, kind="stable")[: MOST_GROUPS - 1])
    groups = np.full(size, MOST_GROUPS - 1)
    groups[largest] = np.arange(MOST_GROUPS - 1)
    return groups
