"""Rows dealt anew, so that one or two columns are as they were measured.

Synthetic rows cannot agree with all measured tables at once: a pair that the tree of the synthesis
does not follow may be off by more than its noise. Who asks about this pair is told of the
measurement: rows of cells that are too full are left out, those of others repeated.
"""

from __future__ import annotations

import numpy as np

from heterofedsyn._arrays import Floats, Integers, arrow_of, stream
from heterofedsyn.hub.methods.base import Model
from heterofedsyn.hub.questions.replicates import SEED, Replicate, plausible
from heterofedsyn.schema import Clique, Schema
from heterofedsyn.synthesis.estimates import Estimates


def dealt(
    replicate: Replicate, schema: Schema, model: Model, clique: Clique, number: int
) -> Replicate:
    """The synthetic table, or a replicate, with a column or measured pair as its world has it.

    Where sites were asked separately each has tables of its own, and rows stay as they are.

    Args:
        number: of the replicate, from 1; 0 is the synthetic table.
    """
    table = replicate.table
    if len(model.targets) > 1 or not {*clique} <= {*table.column_names}:
        return replicate
    ours = model.targets[0].estimates
    world = plausible(model, number - 1, SEED)[0].only(clique) if number else ours
    wanted = _wanted(world, clique)
    places = []
    for name in clique:
        codes = schema.column(name).read(table.column(name).combine_chunks()).codes
        places.append(codes if len(clique) == 1 else ours.groups[name][codes])
    cells = np.ravel_multi_index(places, wanted.shape)
    rows = chosen(cells, wanted.ravel(), stream(SEED, f"dealing {number}"))
    return Replicate(table.take(arrow_of(rows)), replicate.weight)


def _wanted(estimates: Estimates, clique: Clique) -> Floats:
    return estimates.pairs[clique] if len(clique) == 2 else estimates.fitted(clique[0])


def chosen(cells: Integers, wanted: Floats, rng: np.random.Generator) -> Integers:
    """As many rows as there are, those of each cell as often as is wanted of it.

    What is wanted of a cell without rows goes to the others.

    Args:
        cells: of each row.
        wanted: of each cell, in any unit.
    """
    there = np.bincount(cells, minlength=wanted.size)
    shares = np.where(there > 0, wanted, 0.0)
    if not shares.sum() > 0:
        return np.arange(cells.size)
    exact = shares / shares.sum() * cells.size
    # One lot for all: counts add up, and each is off by less than one row.
    ends = np.floor(np.cumsum(exact) + rng.random())
    ends[-1] = cells.size
    many = np.diff(ends, prepend=0.0).astype(np.int64)
    order = rng.permutation(cells.size)
    order = order[np.argsort(cells[order], kind="stable")]
    rank = np.arange(cells.size) - np.repeat(np.cumsum(there) - there, there)
    whole, rest = np.divmod(many, np.maximum(there, 1))
    own = cells[order]
    return np.repeat(order, whole[own] + (rank < rest[own]))
