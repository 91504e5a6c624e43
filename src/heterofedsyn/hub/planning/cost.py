"""What a study takes beside privacy: bytes, seconds and memory; and whether it can be run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from heterofedsyn._words import count
from heterofedsyn.errors import ProtocolError, UsageError
from heterofedsyn.hub.methods.base import Later, Method, Setting, check_trust
from heterofedsyn.hub.replies import Ask, make_query
from heterofedsyn.marginals.counts import PAIRS
from heterofedsyn.marginals.statistics import Flat, Statistic, works
from heterofedsyn.privacy.terms import Terms
from heterofedsyn.protocol import Part, Plan
from heterofedsyn.protocol.limits import (
    BYTES_OF_A_PART,
    MOST_PARTS,
    MOST_QUERY_BYTES,
    NOISE_SECONDS,
    check_query,
)
from heterofedsyn.protocol.terms import check_noise, guaranteed, of_the_sum, terms_of
from heterofedsyn.schema import Domain, Schema
from heterofedsyn.synthesis import Pgm

COUNT_SECONDS = 1.2e-9
"""For one row in one table, on one core; measured 0.7 to 1.2. Reading the rows is not in it."""

MOST_HUB_MEMORY = 2**35
"""Bytes; a study that surely needs more is none that anybody could finish."""

ANY_ROWS = 1e9
"""For questions whose size does not hang on the number of rows."""


@dataclass(frozen=True)
class Planned:
    """The terms of a release at each site, and what they mean for the sum.

    Attributes:
        sum_sigma: noise on the sum over all sites.
        stated_sigma: that which protects a record for sure.
    """

    terms: Terms
    level: int | None
    sum_sigma: float
    stated_sigma: float

    @classmethod
    def of(cls, part: Part, domain: Domain, plan: Plan) -> Planned:
        """A release as everyone can compute it from the query."""
        terms = terms_of(part, domain, plan)
        return cls(
            terms,
            part.statistic.level,
            sum_sigma=of_the_sum(terms, len(plan.sites)).sigma,
            stated_sigma=guaranteed(terms, plan.trust_model).sigma,
        )

    def as_dict(self) -> dict[str, object]:
        """For programs."""
        terms = msgspec.structs.asdict(self.terms)
        sigmas = {
            "site_sigma": terms.pop("sigma"),
            "sum_sigma": self.sum_sigma,
            "stated_sigma": self.stated_sigma,
        }
        return {**terms, "level": self.level, **sigmas}


@dataclass(frozen=True)
class Effort:
    """What a stage takes, beyond what a program takes that does nothing.

    Attributes:
        received: bytes of answers at the hub, of all sites.
        site_seconds: at one site with its share of the rows: noise and counting on one core.
        site_memory: bytes, beside the rows.
        hub_memory: bytes, of which those of earlier stages are kept.
    """

    received: int
    site_seconds: float
    site_memory: int
    hub_memory: int

    @classmethod
    def of(cls, sites: int, rows: int, size: Size, sent: int) -> Effort:
        """Of a stage of this size, with answers of so many bytes."""
        counting = COUNT_SECONDS * size.releases * rows / sites
        return cls(
            received=sites * sent,
            site_seconds=NOISE_SECONDS * size.integers + counting,
            # A cell is counted in four parts of 4 bytes, added up in 8 and kept in 8; an integer
            # is exact, noise, their sum and a message; a sketch's matrix is of 4 bytes.
            site_memory=32 * size.cells + 32 * size.integers + 4 * size.largest,
            # The bytes of every site are kept and added up; tables are fitted in some ten copies;
            # a sketch's matrix is of 4 bytes and then of 8.
            hub_memory=8 * size.integers * (2 * sites + 10) + 12 * size.largest,
        )


@dataclass(frozen=True)
class Size:
    """How large a stage is.

    Attributes:
        cells: that a site counts.
        largest: cells that the largest of its releases is made from, a sketch's matrix included.
    """

    releases: int
    integers: int
    cells: int
    largest: int = 0

    @classmethod
    def of(cls, statistics: Sequence[Statistic], domain: Domain) -> Size:
        """Of a stage that asks for these statistics."""
        few = {each.attributes for each in statistics if len(each.attributes) <= PAIRS}
        # Three columns are counted after their maps.
        merged = [each for each in statistics if len(each.attributes) > PAIRS]
        return cls(
            releases=len(statistics),
            integers=sum(statistic.integers(domain) for statistic in statistics),
            cells=sum(map(domain.cells, few)) + sum(each.integers(domain) for each in merged),
            largest=max(works(statistics, domain)),
        )


def check_feasible(schema: Schema, plan: Plan, method: Method) -> None:
    """Refuse a study that would fail after its first rounds were paid for.

    Args:
        schema: the one by which sites encode.

    Raises:
        UsageError: naming the widest column, or what else is too much.
        PrivacyRefusal: if what is known to be asked cannot be noised.
    """
    check_trust(method, plan.trust)
    setting = Setting.of(schema, plan)
    statistics: list[Statistic] = []
    ahead = method.ahead_of(setting, ANY_ROWS)
    if isinstance(method.synthesizer, Pgm) and any(map(_flat_pairs, ahead)):
        method.synthesizer.check_pairs(setting.domain)
    for part in ahead:
        try:
            if isinstance(part, Ask):
                query = make_query(part, plan, 0)
                check_query(query, setting.domain)
                check_noise(query, setting.domain, plan, plan.trust_model)
                statistics += [statistic for statistic, _ in part.parts]
                _check_memory(Size.of(statistics, setting.domain), len(plan.sites))
            else:
                _check_later(part, setting.together)
        except ProtocolError as error:
            widest = max(schema.measured, key=lambda column: column.size)
            raise UsageError(
                f"method {method.name!r} would ask for more than sites answer: {error} (column "
                f"{widest.name!r} has {count(widest.size, 'value')})"
            ) from None


def _flat_pairs(part: Ask | Later) -> bool:
    """Whether pairs with all their cells may be measured."""
    if isinstance(part, Later):
        return part.kinds == ("flat",)
    return any(isinstance(each, Flat) and len(each.attributes) == 2 for each, _ in part.parts)


def _check_memory(size: Size, sites: int) -> None:
    needed = Effort.of(sites, 0, size, 0).hub_memory
    if needed > MOST_HUB_MEMORY:
        raise ProtocolError(
            f"{size.integers:,} integers from {count(sites, 'site')} need {needed / 2**30:,.0f} "
            f"GiB at the hub, more than {MOST_HUB_MEMORY >> 30}; take fewer bins"
        )


def _check_later(later: Later, together: int) -> None:
    """Refuse what no site answers, whatever the noisy answers before it will be."""
    if later.columns is not None and later.columns > together:
        raise ProtocolError(
            f"query {later.label!r} is for counts of {later.columns} columns together, and the "
            f"study's plan allows no more than {together}"
        )
    releases = later.releases if later.rounds == 1 else None
    if releases is not None and releases > MOST_PARTS:
        raise ProtocolError(
            f"query {later.label!r} may have {releases:,} parts, more than {MOST_PARTS:,}; take "
            "fewer columns"
        )
    if releases:
        # A group number takes a byte at least.
        length = later.numbers + BYTES_OF_A_PART * releases
        if length > MOST_QUERY_BYTES:
            raise ProtocolError(
                f"query {later.label!r} may have {length:,} bytes, more than "
                f"{MOST_QUERY_BYTES:,}; take fewer bins"
            )
