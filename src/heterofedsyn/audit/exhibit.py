"""One statistic of every kind, a plan that pays for them, and queries that ask for them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import get_args

import numpy as np

from heterofedsyn.audit.findings import require
from heterofedsyn.marginals import (
    Dependence,
    Flat,
    Grouped,
    Haar,
    Sketched,
    SketchKind,
    Statistic,
    Total,
)
from heterofedsyn.protocol import Part, Plan, Query
from heterofedsyn.schema import CategoricalColumn, Domain, EncodedTable, Schema

SITE = "elm"
DELTA = 1e-9
MOST_EPSILON = 100.0
"""What a plan may spend at most: enough for noise of any size that is looked at."""


@cache
def plain_schema(*sizes: int) -> Schema:
    """A schema of categorical attributes a0, a1, ... of these sizes."""
    return Schema(
        tuple(
            CategoricalColumn(f"a{i}", values=tuple(f"v{j}" for j in range(size)))
            for i, size in enumerate(sizes)
        )
    )


def plan_of(schema: Schema, seed: int, *sites: str, epsilon: float = MOST_EPSILON) -> Plan:
    """A plan for these sites."""
    return Plan(
        schema=schema.fingerprint,
        epsilon=epsilon,
        delta=DELTA,
        sites=sites or (SITE,),
        method="independent",
        seed=seed,
    )


def table_of(schema: Schema, rows: int, rng: np.random.Generator) -> EncodedTable:
    """Random rows."""
    codes = np.stack([rng.integers(0, size, rows) for size in schema.domain.sizes])
    return EncodedTable.from_codes(schema.domain, codes)


def ask(plan: Plan, number: int, statistics: Sequence[Statistic], rho: float) -> Query:
    """A query in which every statistic may cost this much."""
    share = rho / plan.budget.rho
    parts = tuple(Part(statistic, share) for statistic in statistics)
    return Query(study=plan.fingerprint, number=number, label=f"query {number}", parts=parts)


def every_kind(domain: Domain, seed: int) -> dict[str, tuple[Statistic, ...]]:
    """The classes of releases over the first two attributes, each by its statistics."""
    pair = domain.names[0], domain.names[1]
    first, second = domain.shape(pair)
    halves = (
        tuple(i * 3 // first for i in range(first)),
        tuple(i // 2 for i in range(second)),
    )
    levels = (first - 1).bit_length()
    found: dict[str, tuple[Statistic, ...]] = {
        "total": (Total(),),
        "one-way": (Flat((pair[0],)),),
        "haar": tuple(Haar((pair[0],), level) for level in range(levels)),
        "pair": (Flat(pair),),
        "grouped pair": (Grouped(pair, halves),),
        "sketch of signs": (Sketched(pair, 10, seed),),
        "gaussian sketch": (Sketched(pair, 10, seed, SketchKind.GAUSSIAN),),
        "dependence": (Dependence(pair),),
    }
    shown = {type(statistic) for statistics in found.values() for statistic in statistics}
    require(shown == {*get_args(Statistic)}, "there is a kind of statistic that no audit looks at")
    return found
