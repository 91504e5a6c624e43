"""How each site differs from all others together, beyond noise and the luck of which rows it has.

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
from heterofedsyn.hub.replies import SUM, Round
from heterofedsyn.marginals.statistics import haar_levels
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.schema import Schema
from heterofedsyn.synthesis import Consistency, Measured, Measurement, Targets
from heterofedsyn.synthesis.precision import haar_weights

MOST_GROUPS = 8
"""Groups per attribute in which sites are compared."""


class AttributeDifference(msgspec.Struct, frozen=True):
    """How far a site's distribution of one attribute is from that of all other sites together.

    Values are put into at most 8 groups: ordered ones into equal stretches, categories by noisy
    count, the most frequent alone and the rest together. Let S be the squared Euclidean distance
    between the two distributions over groups, as the answers tell them.

    Chance is the noise of the answers, and that a site holds these rows and not others of the
    population they come from, as if they were drawn from it one by one.

    Attributes:
        distance: the root of S less what chance adds to S on average, or 0 if nothing is left.
        noise: the root of the standard deviation of S due to chance alone. Where the rows of all
            sites come from one population, a distance above twice this comes up in about one case
            of a hundred.
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
    seen = _seen(schema, sites, rounds)
    if not all(targets.tells_total for targets in seen):
        return ()
    totals = [Noisy(np.array([targets.total]), targets.total_variance) for targets in seen]
    compared: list[list[AttributeDifference]] = [[] for _ in sites]
    for name in schema.domain.names:
        flats = [targets.marginals[(name,)] for targets in seen if (name,) in targets.marginals]
        waves = [targets.ladders[name] for targets in seen if name in targets.ladders]
        if len(flats) == len(sites):
            sums = _flat_sums(_groups(schema, name, flats), flats, totals)
        elif len(waves) == len(sites):
            sums = _haar_sums(schema.domain.size(name), waves, totals)
        else:
            continue
        together = _Sums.together(sums)
        for own, attributes in zip(sums, compared, strict=True):
            attributes.append(_difference(name, own, together.without(own)))
    return tuple(
        SiteSummary(
            site, max(1, round(targets.total)), math.sqrt(total.variance), tuple(attributes)
        )
        for site, targets, total, attributes in zip(sites, seen, totals, compared, strict=True)
    )


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over groups, as weight * total + contrast; the noise of total and contrast is apart.

    Attributes:
        weight: the same at every site.
        covariance: of the contrasts.
    """

    weight: Floats
    contrast: Floats
    covariance: Floats
    total: float
    variance: float

    @classmethod
    def together(cls, parts: Sequence[_Sums]) -> _Sums:
        """The sums of all sites."""
        return cls(
            parts[0].weight,
            np.sum([part.contrast for part in parts], axis=0),
            np.sum([part.covariance for part in parts], axis=0),
            math.fsum(part.total for part in parts),
            math.fsum(part.variance for part in parts),
        )

    def without(self, part: _Sums) -> _Sums:
        """The sums of all sites but one."""
        return _Sums(
            self.weight,
            self.contrast - part.contrast,
            self.covariance - part.covariance,
            self.total - part.total,
            self.variance - part.variance,
        )

    def shares(self) -> tuple[Floats, Floats]:
        """The distribution over groups, and its covariance by noise and by the draw of rows."""
        # A total below its own noise, or below one row, tells nothing to divide by.
        divisor = max(self.total, math.sqrt(self.variance), 1.0)
        moved = self.contrast / divisor
        # To first order d(contrast / total) = (d contrast - contrast / total * d total) / total.
        noise = (self.covariance + self.variance * np.outer(moved, moved)) / divisor**2
        shares = self.weight + moved
        likely = np.maximum(shares, 0.0)
        likely /= likely.sum()
        # Of n rows drawn one by one, shares p have covariance (diag(p) - p p') / n.
        draw = (np.diag(likely) - np.outer(likely, likely)) / divisor
        return shares, noise + draw


def _flat_sums(groups: Integers, flats: Sequence[Noisy], totals: Sequence[Noisy]) -> list[_Sums]:
    """Counts of each site, shifted to add up to its total, about which they say nothing more."""
    members = np.bincount(groups).astype(np.float64)
    spread = np.diag(members) - np.outer(members, members) / groups.size
    return [
        _Sums(
            members / groups.size,
            np.bincount(groups, flat.values - flat.values.mean()).astype(np.float64),
            flat.variance * spread,
            float(total.values[0]),
            total.variance,
        )
        for flat, total in zip(flats, totals, strict=True)
    ]


def _haar_sums(size: int, waves: Sequence[Sequence[Noisy]], totals: Sequence[Noisy]) -> list[_Sums]:
    """Masses of dyadic blocks of each site, about which few differences say all."""
    groups = np.arange(size) >> max(0, haar_levels(size) - 3)
    many = int(groups.max()) + 1
    weight, parts = np.zeros(many), []
    for part in haar_weights(size, groups):
        if part.level < 0:
            weight[part.group] = part.weight
        elif part.weight.any():
            matrix = np.zeros((many, 1 << part.level))
            matrix[part.group, part.node] = part.weight
            parts.append((part.level, matrix, matrix @ matrix.T))
    return [
        _Sums(
            weight,
            np.sum([matrix @ wave[level].values for level, matrix, _ in parts], axis=0),
            np.sum([wave[level].variance * square for level, _, square in parts], axis=0),
            float(total.values[0]),
            total.variance,
        )
        for wave, total in zip(waves, totals, strict=True)
    ]


def _difference(name: str, site: _Sums, others: _Sums) -> AttributeDifference:
    (own, own_chance), (rest, rest_chance) = site.shares(), others.shares()
    covariance = own_chance + rest_chance
    square = float(((own - rest) ** 2).sum()) - float(np.trace(covariance))
    # The variance of a normal vector's square is 2 tr(covariance^2).
    noise = (2 * float((covariance**2).sum())) ** 0.25
    return AttributeDifference(name, math.sqrt(max(0.0, square)), noise)


def _seen(schema: Schema, sites: Sequence[str], rounds: Sequence[Round]) -> list[Targets]:
    """What the answers of each site tell of its total and 1-ways."""
    told: dict[str, list[Measurement]] = {site: [] for site in sites}
    for round_ in rounds:
        for answer in round_.answers:
            for part, released in zip(round_.query.parts, answer.parts, strict=True):
                statistic = part.statistic
                if isinstance(statistic, Measured) and len(statistic.attributes) < 2:
                    noisy = Noisy(released.values.astype(np.float64), released.sigma**2)
                    told[answer.site].append(Measurement(statistic, noisy))
    return [Targets(schema, tuple(told[site]), Consistency()) for site in sites]


def _groups(schema: Schema, name: str, flats: Sequence[Noisy]) -> Integers:
    """A group for every value: stretches, or the categories with the largest noisy counts."""
    size = schema.domain.size(name)
    if size <= MOST_GROUPS:
        return np.arange(size)
    if schema.column(name).ordered:
        return np.arange(size) * MOST_GROUPS // size
    counts = np.sum([flat.values for flat in flats], axis=0)
    largest = np.sort(np.argsort(-counts, kind="stable")[: MOST_GROUPS - 1])
    groups = np.full(size, MOST_GROUPS - 1)
    groups[largest] = np.arange(MOST_GROUPS - 1)
    return groups
