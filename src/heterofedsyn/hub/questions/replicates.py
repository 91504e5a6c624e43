"""Replicates: tables like the synthetic one from other worlds that the noisy answers allow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from heterofedsyn._arrays import stream
from heterofedsyn.hub.methods.base import Model
from heterofedsyn.hub.questions.within_bins import decode_tilted
from heterofedsyn.hub.questions.within_groups import lean
from heterofedsyn.hub.questions.worlds import Plausible
from heterofedsyn.hub.release.sampling import shares
from heterofedsyn.schema import EncodedTable, Schema
from heterofedsyn.synthesis import Targets
from heterofedsyn.synthesis.obey import obey

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
        Targets(
            targets.schema,
            targets.measurements,
            Plausible(targets, seed, f"world {number} of population {place}"),
        )
        for place, targets in enumerate(model.targets)
    )
    return Model(model.synthesizer, populations)


def draw(
    schema: Schema, model: Model, number: int, seed: int, *, rows: int | None, most: int
) -> Replicate:
    """One replicate.

    Args:
        rows: how many records it tells of; those of its world unless given.
        most: rows that are drawn at most; each then stands for several.
    """
    import pyarrow as pa

    other = world(model, number, seed)
    wanted = rows or max(1, round(sum(t.estimates.total for t in other.targets)))
    weight = -(-wanted // most)
    parts = list(_parts(schema, other, max(1, round(wanted / weight)), number, seed))
    return Replicate(pa.concat_tables(parts), weight)


def _parts(schema: Schema, model: Model, rows: int, number: int, seed: int) -> Iterator[pa.Table]:
    first = 1
    for part, counts in enumerate(shares(model, rows)):
        rng = stream(seed, f"replicate {number}, part {part}")
        tables = [
            obey(targets, _rows(model, targets, many, rng), rng)
            for targets, many in zip(model.targets, counts, strict=True)
            if many > 0
        ]
        yield decode_tilted(schema, model, EncodedTable.concatenate(tables), rng, first)
        first += sum(counts)


def _rows(model: Model, targets: Targets, many: int, rng: np.random.Generator) -> EncodedTable:
    return lean(targets.estimates, model.synthesizer.synthesize(targets, many, rng), rng)


def all_rows(schema: Schema, model: Model, number: int, seed: int, rows: int | None) -> pa.Table:
    """One replicate with a row for every record."""
    return draw(schema, model, number, seed, rows=rows, most=2**62).table
