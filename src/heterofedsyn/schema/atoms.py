"""Giving piles at the lower end of a range a code of their own; MATH section 5.1."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import chain, combinations, islice

from heterofedsyn.schema._checks import MOST_CODES
from heterofedsyn.schema.binned import BinnedColumn, IntegerColumn, NumberColumn
from heterofedsyn.schema.columns import Column
from heterofedsyn.schema.rules import Order
from heterofedsyn.schema.schema import Schema, fingerprint_of

NUMERIC = (IntegerColumn.kind, NumberColumn.kind)

MOST_TRIED = 2_048
"""Schemas that are looked at to find the public one."""

MOST_LETTERS = 2**26
"""Of all of them together."""


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


def comes_from(schema: Schema, public: str) -> bool:
    """Whether a schema is the one of this fingerprint, or may be what `with_atoms` makes of it.

    Which of the atoms at a minimum the public one names itself is not known. All ways are tried,
    those first that leave most to `with_atoms`; where there are too many, it may be.
    """
    if schema.fingerprint == public:
        return True
    settings = schema.settings
    piles = [
        place
        for place, column in enumerate(schema.columns)
        if isinstance(column, BinnedColumn)
        and column.kind in NUMERIC
        and column.atoms == (column.min,)
    ]
    tried = min(MOST_TRIED, 1 + MOST_LETTERS // len(schema.to_toml()))
    every = (combinations(piles, many) for many in range(len(piles), 0, -1))
    for left in islice(chain.from_iterable(every), tried):
        columns = [*settings["columns"]]
        for place in left:
            columns[place] = {k: v for k, v in columns[place].items() if k != "atoms"}
        earlier = {**settings, "columns": columns}
        if fingerprint_of(earlier) == public:
            return with_atoms(Schema.of(earlier)).fingerprint == schema.fingerprint
    return len(piles) > math.log2(1 + tried)
