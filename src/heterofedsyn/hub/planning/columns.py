"""What would be known of each column, and how many values the budget can tell apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heterofedsyn.hub.methods.grouping import waved
from heterofedsyn.hub.planning.cost import Planned
from heterofedsyn.hub.planning.dryrun import Finding
from heterofedsyn.marginals.statistics import haar_levels
from heterofedsyn.schema import Column, Schema

WIDEST_TOLD = 1_000
"""No more values than that are ever said to be enough."""


@dataclass(frozen=True)
class ColumnForecast:
    """What would be known of one column.

    Attributes:
        values: codes, an added one for the minimum included.
        way: `flat` counts, `haar` differences from the root to single values, or `levels` of a
            hierarchy.
        sum_sigma: noise on the sum over sites, of the first and of the last of its releases.
        noise: on the count of one value, before anything is smoothed.
        typical: rows per value.
        groups: in measured pairs, on average over dry runs; None if it was in none.
        one_way: expected total variation.
        enough: how many bins (or values) the budget can tell apart, if fewer than there are; 1 is
            none.
    """

    name: str
    values: int
    way: str
    sum_sigma: tuple[float, float]
    noise: float
    typical: float
    groups: float | None
    one_way: float | None
    enough: int | None


def column_forecasts(
    schema: Schema, rows: int, parts: Sequence[Planned], findings: Sequence[Finding]
) -> tuple[ColumnForecast, ...]:
    """A forecast for each column of the schema by which sites encode.

    Args:
        parts: all releases that are fixed in advance.
    """
    own: dict[str, list[Planned]] = {name: [] for name in schema.domain.names}
    for part in parts:
        if len(part.terms.attributes) == 1:
            own[part.terms.attributes[0]].append(part)
    noise = {
        name: _Noise([part.sum_sigma for part in told], told[0].terms.kind)
        for name, told in own.items()
    }
    growth = _growth(schema, noise)
    whole = math.fsum(column.size**growth for column in schema.measured)
    return tuple(
        _forecast(column, rows, noise[column.name], growth, whole, findings)
        for column in schema.measured
    )


@dataclass(frozen=True)
class _Noise:
    """On the sum over sites, of all releases of one column."""

    sigmas: Sequence[float]
    kind: str

    @property
    def haar(self) -> bool:
        return self.kind == "haar"

    @property
    def way(self) -> str:
        """What people call it."""
        return "levels" if self.kind == "grouped" else self.kind

    @property
    def price(self) -> float:
        """What it costs, in units of its own."""
        return math.fsum(1 / sigma**2 for sigma in self.sigmas)

    @property
    def on_a_value(self) -> float:
        return value_noise(self.sigmas if self.haar else self.sigmas[-1:], haar=self.haar)


def _forecast(
    column: Column,
    rows: int,
    noise: _Noise,
    growth: float,
    whole: float,
    findings: Sequence[Finding],
) -> ColumnForecast:
    groups = [f.groups[column.name] for f in findings if column.name in f.groups]
    too_wide = noise.on_a_value > rows / column.size and column.size > 1
    return ColumnForecast(
        name=column.name,
        values=column.size,
        way=noise.way,
        sum_sigma=(noise.sigmas[0], noise.sigmas[-1]),
        noise=noise.on_a_value,
        typical=rows / column.size,
        groups=float(np.mean(groups)) if groups else None,
        one_way=float(np.mean([finding.errors[column.name] for finding in findings])),
        enough=_enough(column, rows, noise, growth, whole) if too_wide else None,
    )


def _enough(column: Column, rows: int, noise: _Noise, growth: float, whole: float) -> int:
    """The most values at which the noise on one is not larger than its share of the rows."""
    # A column's share goes with a power of its size, and its levels keep their proportions.
    prices = [1 / sigma**2 for sigma in noise.sigmas]
    others = whole - column.size**growth
    unit = noise.price * whole / column.size**growth
    for size in range(min(column.size - 1, WIDEST_TOLD), 1, -1):
        price = unit * size**growth / (others + size**growth)
        haar = noise.haar and waved(column.ordered, size)
        kept = prices[: haar_levels(size) if haar else 1]
        sigmas = [math.sqrt(sum(kept) / (part * price)) for part in kept]
        if value_noise(sigmas, haar=haar) <= rows / size:
            step = int(10 ** max(0, len(str(size)) - 2))
            return size // step * step
    return 1


def _growth(schema: Schema, noise: dict[str, _Noise]) -> float:
    """With which power of its size a column's share of the budget grows, as it is planned."""
    narrow, *_, wide = sorted([*schema.measured] * 2, key=lambda column: column.size)
    if narrow.size == wide.size:
        return 0.5
    ratio = noise[wide.name].price / noise[narrow.name].price
    return math.log(ratio) / math.log(wide.size / narrow.size)


def value_noise(sigmas: Sequence[float], *, haar: bool) -> float:
    """The noise on the count of one value, from that on its releases.

    A value is half the sum or difference of a node and its Haar difference, and so on upwards.
    """
    if not haar:
        return sigmas[0]
    return math.sqrt(sum((sigma / 2**step) ** 2 for step, sigma in enumerate(reversed(sigmas), 1)))
