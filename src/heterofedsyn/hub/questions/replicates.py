"""Replicates: tables like the synthetic one from other worlds that the noisy answers allow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from heterofedsyn._arrays import stream
from heterofedsyn.hub.methods.base import Model
from heterofedsyn.hub.questions.within_bins import decode_tilted
from heterofedsyn.hub.questions.within_groups import lean
from heterofedsyn.hub.questions.worlds import Plausible
from heterofedsyn.hub.release.sampling import rows_of, shares
from heterofedsyn.schema import EncodedTable, Schema
from heterofedsyn.synthesis import Targets

if TYPE_CHECKING:
    import pyarrow as pa

SEED = 0
"""Of the replicates behind answers: the same question has the same answer."""


@dataclass(frozen=True, eq=False)
class Replicate:
    """Rows of one world, each of which stands for `weight` records."""

    table: pa.Table
    weight: int


def world(model: Model, number: int, seed: int) -> Model:
    """The same model in another world: its estimates are as likely to be true as those of ours."""
    populations = tuple(
        Targets(rebuild.ours.schema, rebuild.ours.measurements, rebuild)
        for rebuild in plausible(model, number, seed)
    )
    return Model(model.synthesizer, populations)


def plausible(model: Model, number: int, seed: int) -> list[Plausible]:
    """What rebuilds that world, for every population."""
    return [
        Plausible(targets, seed, f"world {number} of population {place}")
        for place, targets in enumerate(model.targets)
    ]


def draw_replicate(
    schema: Schema,
    model: Model,
    number: int,
    seed: int,
    *,
    rows: int | None = None,
    weight: int = 1,
) -> Replicate:
    """One replicate.

    Args:
        rows: how many records it tells of; those of its world unless given.
        weight: how many records each of its rows stands for.
    """
    import pyarrow as pa

    other = world(model, number, seed)
    totals = [targets.estimates.total for targets in other.targets]
    wanted = max(1, round((rows or math.fsum(totals)) / weight))
    parts, first = [], 1
    for part, counts in enumerate(shares(totals, wanted)):
        rng = stream(seed, f"replicate {number}, part {part}")
        parts.append(decode_tilted(schema, other, rows_of(other, counts, rng, _lean), rng, first))
        first += sum(counts)
    return Replicate(pa.concat_tables(parts), weight)


def _lean(targets: Targets, table: EncodedTable, rng: np.random.Generator) -> EncodedTable:
    return lean(targets.estimates, table, rng)
