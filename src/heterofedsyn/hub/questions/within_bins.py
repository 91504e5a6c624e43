"""Values within a bin, where nobody knows how they lie: each world leans another way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from heterofedsyn._arrays import Floats
from heterofedsyn.hub.methods.base import Model
from heterofedsyn.schema import EncodedTable, Schema, decode
from heterofedsyn.schema.binned import BinnedColumn

if TYPE_CHECKING:
    import pyarrow as pa

LEANING = 0.35
"""Standard deviation of how far a bin leans beyond its neighbours' slope; 1 is to nothing at one
end."""


def decode_tilted(
    schema: Schema, model: Model, table: EncodedTable, rng: np.random.Generator, first: int
) -> pa.Table:
    """The same as `schema.decode`, except that bins lean.

    Of two values of a bin, all equally likely, the greater has a density that rises from 0 to 2: to
    take it now and then, else the first, gives any slope there can be.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    decoded = decode(schema, table, rng, first)
    ordered = {schema.domain.names[p] for law in schema.rulebook.orders for p in law.places}
    for place, column in enumerate(schema.measured):
        if not isinstance(column, BinnedColumn) or column.name in ordered:
            continue
        codes = table.codes[place]
        masses = sum(targets.estimates.values[column.name] for targets in model.targets)
        lean = _leans(column, np.asarray(masses), rng)[codes]
        one = decoded.column(column.name).combine_chunks()
        other = column.decode(codes, rng)
        chosen = pa.array(rng.random(codes.size) < np.abs(lean))
        greater, less = pc.max_element_wise(one, other), pc.min_element_wise(one, other)
        leant = pc.if_else(pa.array(lean > 0), greater, less)
        values = pc.if_else(chosen, leant, one)
        position = decoded.column_names.index(column.name)
        decoded = decoded.set_column(position, decoded.schema.field(position), values)
    return decoded


def _leans(column: BinnedColumn, masses: Floats, rng: np.random.Generator) -> Floats:
    """How far every code leans, from -1 to 1."""
    layout = column.grid.layout
    own = masses[layout.code_of_bin]
    beside = np.concatenate([own[:1], own, own[-1:]])
    rise = (beside[2:] - beside[:-2]) / np.maximum(4 * own, 1.0)
    leans = np.zeros(column.size)
    drawn = np.clip(rise, -1, 1) + LEANING * rng.standard_normal(own.size)
    leans[layout.code_of_bin] = np.clip(drawn, -1, 1)
    return leans
