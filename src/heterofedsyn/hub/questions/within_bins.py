"""Values within a bin, where nobody knows how they lie: each world leans another way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from heterofedsyn._arrays import Codes, Floats, Integers, arrow_of
from heterofedsyn.hub.methods.base import Model
from heterofedsyn.schema import EncodedTable, Schema, decode
from heterofedsyn.schema.binned import BinnedColumn

if TYPE_CHECKING:
    import pyarrow as pa

LEANING = 0.35
"""Standard deviation of how far a bin leans beyond its neighbours' slope; 1 is to nothing at one
end."""


STANDS_OUT = 3.0
"""How many times what its neighbours hold a bin holds, that has a favourite value."""


def decode_tilted(
    schema: Schema, model: Model, table: EncodedTable, rng: np.random.Generator, first: int
) -> pa.Table:
    """The same as `schema.decode`, except that bins lean.

    Of two values of a bin, all equally likely, the greater has a density that rises from 0 to 2: to
    take it now and then, else the first, gives any slope there can be.
    """
    import pyarrow.compute as pc

    decoded = decode(schema, table, rng, first)
    ordered = {schema.domain.names[p] for law in schema.rulebook.orders for p in law.places}
    for place, column in enumerate(schema.measured):
        if not isinstance(column, BinnedColumn) or column.name in ordered:
            continue
        codes = table.codes[place]
        masses = np.sum([t.estimates.values[column.name] for t in model.targets], axis=0)
        lean = _leans(column, masses, rng)[codes]
        one = decoded.column(column.name).combine_chunks()
        other = column.decode(codes, rng)
        chosen = arrow_of(rng.random(codes.size) < np.abs(lean))
        greater, less = pc.max_element_wise(one, other), pc.min_element_wise(one, other)
        leant = pc.if_else(arrow_of(lean > 0), greater, less)
        values = _with_favourites(column, masses, codes, pc.if_else(chosen, leant, one), rng)
        position = decoded.column_names.index(column.name)
        decoded = decoded.set_column(position, decoded.schema.field(position), values)
    return decoded


def _leans(column: BinnedColumn, masses: Floats, rng: np.random.Generator) -> Floats:
    """How far every code leans, from -1 to 1."""
    layout = column.grid.layout
    own, before, after = _beside(column, masses)
    rise = (after - before) / np.maximum(4 * own, 1.0)
    leans = np.zeros(column.size)
    drawn = np.clip(rise, -1, 1) + LEANING * rng.standard_normal(own.size)
    leans[layout.code_of_bin] = np.clip(drawn, -1, 1)
    return leans


def _beside(column: BinnedColumn, masses: Floats) -> tuple[Floats, Floats, Floats]:
    """The records of every bin, and of those before and after it."""
    own = masses[column.grid.layout.code_of_bin]
    padded = np.concatenate([own[:1], own, own[-1:]])
    return own, padded[:-2], padded[2:]


def standing_out(column: BinnedColumn, masses: Floats) -> Integers:
    """The bins that hold far more than their neighbours."""
    own, before, after = _beside(column, masses)
    return np.flatnonzero((own > STANDS_OUT * np.maximum(before, after)) & (own > 1.0))


def _with_favourites(
    column: BinnedColumn, masses: Floats, codes: Codes, values: pa.Array, rng: np.random.Generator
) -> pa.Array:
    """The same values, only that a bin that stands out has what is too much at one of them."""
    own, before, after = _beside(column, masses)
    usual = np.maximum(before, after)
    peaks = standing_out(column, masses)
    places = np.arange(codes.size)
    for peak in peaks:
        rows = np.flatnonzero(codes == column.grid.layout.code_of_bin[peak])
        if rows.size:
            many = rng.random(rows.size) < 1 - usual[peak] / own[peak]
            places[rows[many]] = rng.choice(rows)
    return values.take(arrow_of(places)) if peaks.size else values
