"""Values of columns that a rule puts in order: also those of one bin come out in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from heterofedsyn.schema.binned import BinnedColumn
from heterofedsyn.schema.laws import Before
from heterofedsyn.schema.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

Mask = NDArray[np.bool_]

DRAWS = 8
"""Tries of drawing all of a row's values anew; then one after the other from what is left."""


def in_order(
    schema: Schema, codes: Mapping[str, NDArray[Any]], rng: np.random.Generator
) -> dict[str, pa.Array]:
    """The columns that stand in a rule of order, by name; each code becomes one of its values.

    The codes break no rule: there are values in order for every row.
    """
    names, laws = schema.domain.names, schema.rulebook.orders
    if not laws:
        return {}
    by_place = [codes[name] for name in names]
    active = [(law, ~law.missing(by_place)) for law in laws]
    columns: dict[int, BinnedColumn] = {}
    for place in _sorted({law.places for law in laws}):
        column = schema.column(names[place])
        assert isinstance(column, BinnedColumn)
        columns[place] = column
    missing = {
        place: by_place[place] >= column.grid.layout.size for place, column in columns.items()
    }
    shown = {place: np.where(missing[place], 0, by_place[place]).astype(int) for place in columns}
    numbers: dict[int, NDArray[Any]] = {
        place: column.grid.decode(shown[place], rng) for place, column in columns.items()
    }
    for _ in range(DRAWS):
        rows = _disordered(numbers, active)
        if not rows.size:
            break
        for place, column in columns.items():
            numbers[place][rows] = column.grid.decode(shown[place][rows], rng)
    rows = _disordered(numbers, active)
    if rows.size:
        _one_by_one(columns, shown, numbers, active, rows, rng)
    return {
        column.name: column.written(numbers[place], missing[place])
        for place, column in columns.items()
    }


def _one_by_one(
    columns: Mapping[int, BinnedColumn],
    shown: Mapping[int, NDArray[Any]],
    numbers: Mapping[int, NDArray[Any]],
    active: list[tuple[Before, Mask]],
    rows: NDArray[np.int64],
    rng: np.random.Generator,
) -> None:
    """Each value from what those before it leave, and those after it need."""
    ends = {p: [own[shown[p][rows]] for own in column.grid.spans] for p, column in columns.items()}
    for place, column in columns.items():
        first, last = ends[place]
        for law, there in active:
            one, other = law.places
            if other == place:
                least = np.maximum(first, numbers[one][rows])
                first = np.where(there[rows], least, first)
            if one == place:
                last = np.where(there[rows], np.minimum(last, ends[other][1]), last)
        # Only where the value is missing, and nobody sees it, may nothing be left.
        numbers[place][rows] = column.grid.between(first, np.maximum(first, last), rng)


def _disordered(
    numbers: Mapping[int, NDArray[Any]], active: list[tuple[Before, Mask]]
) -> NDArray[np.int64]:
    """The rows in which a number is greater than one that it comes before."""
    found = np.zeros(active[0][1].size, np.bool_)
    for law, there in active:
        one, other = law.places
        found |= there & (numbers[one] > numbers[other])
    return np.flatnonzero(found)


def _sorted(pairs: set[tuple[int, int]]) -> list[int]:
    """The places so that none comes before one that is less; the pairs hold all that follows."""
    places = {place for pair in pairs for place in pair}
    return sorted(places, key=lambda place: (sum(other == place for _, other in pairs), place))
