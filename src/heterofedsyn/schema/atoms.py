"""Giving piles at the lower end of a range a code of their own; MATH section 5.1."""

from __future__ import annotations

from dataclasses import replace

from heterofedsyn.schema._checks import MOST_CODES
from heterofedsyn.schema.columns import Column, IntegerColumn, NumberColumn
from heterofedsyn.schema.schema import Schema


def with_atoms(schema: Schema) -> Schema:
    """The schema with an atom at the minimum of every numeric column whose first bin is wider.

    A pile of zeros (no capital gain, no page viewed) is the usual shape of such columns, and
    spreading it over a bin loses more than noise does. Columns that name atoms keep theirs.
    """
    return replace(schema, columns=tuple(_with_atom(column) for column in schema.columns))


def _with_atom(column: Column) -> Column:
    if column.size == MOST_CODES:
        return column
    if isinstance(column, NumberColumn) and not column.atoms and column.max > column.min:
        return replace(column, atoms=(column.min,))
    if isinstance(column, IntegerColumn) and not column.atoms:
        wide = column.max - column.min > (column.bins or 1)
        return replace(column, atoms=(column.min,)) if wide else column
    return column
