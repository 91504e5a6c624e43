"""Giving piles at the lower end of a range a code of their own; MATH section 5.1."""

from __future__ import annotations

from dataclasses import replace

from heterofedsyn.schema._checks import MOST_CODES
from heterofedsyn.schema.binned import BinnedColumn, IntegerColumn, NumberColumn
from heterofedsyn.schema.columns import Column
from heterofedsyn.schema.rules import Order
from heterofedsyn.schema.schema import Schema

NUMERIC = (IntegerColumn.kind, NumberColumn.kind)


def with_atoms(schema: Schema) -> Schema:
    """The schema with an atom at the minimum of every numeric column whose first bin is wider.

    A pile of zeros (no capital gain, no page viewed) is the usual shape of such columns, and
    spreading it over a bin loses more than noise does. Columns that name atoms keep theirs.
    """
    in_order = {name for rule in schema.rules if isinstance(rule, Order) for name in rule.columns}
    return replace(
        schema,
        columns=tuple(
            column if column.name in in_order else _with_atom(column) for column in schema.columns
        ),
    )


def _with_atom(column: Column) -> Column:
    if not isinstance(column, BinnedColumn) or column.kind not in NUMERIC:
        return column
    if column.size == MOST_CODES:
        return column
    edges = column.grid.edges
    if column.atoms or edges[1] <= column.grid.after(edges[0]):  # the first bin is one value
        return column
    return replace(column, atoms=(column.min,))
