"""Values of columns that a rule puts in order: also those of one bin come out in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from heterofedsyn.schema.binned import BinnedColumn
from heterofedsyn.schema.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

DRAWS = 8
"""Tries of drawing all of a row's values anew; then one after the other from what is left."""


def in_order(
    schema: Schema, codes: Mapping[str, NDArray[Any]], rng: np.random.Generator
) -> dict[str, pa.Array]:
    """The columns that stand in a rule of order, by name; each code becomes one of its values.

    The codes break no rule: there are values in order for every row.
    """
    book = schema.rulebook
    if not book.orders:
        return {}
    names = [book.domain.names[place] for place in _sorted([law.places for law in book.orders])]
    known = {column.name: column for column in schema.columns if isinstance(column, BinnedColumn)}
    columns = {name: known[name] for name in names}
    grids: dict[str, Any] = {name: column.grid for name, column in columns.items()}
    missing = {name: codes[name] == columns[name].size - columns[name].nullable for name in names}
    shown = {name: np.where(missing[name], 0, codes[name]).astype(np.int64) for name in names}
    before = [tuple(book.domain.names[place] for place in law.places) for law in book.orders]
    numbers = {name: grids[name].decode(shown[name], rng) for name in names}
    for _ in range(DRAWS):
        rows = np.flatnonzero(_disordered(numbers, missing, before))
        if not rows.size:
            break
        for name in names:
            numbers[name][rows] = grids[name].decode(shown[name][rows], rng)
    rows = np.flatnonzero(_disordered(numbers, missing, before))
    ends = {name: [own[shown[name][rows]] for own in grids[name].spans] for name in names}
    for name in names if rows.size else ():
        first, last = ends[name]
        for one, other in before:
            if other == name:
                least = np.maximum(first, numbers[one][rows])
                first = np.where(missing[one][rows], first, least)
            if one == name:
                most = np.minimum(last, ends[other][1])
                last = np.where(missing[other][rows], last, most)
        free = np.where(missing[name][rows], first, last)  # nobody sees what is missing
        numbers[name][rows] = grids[name].between(first, np.maximum(first, free), rng)
    return {name: columns[name].written(numbers[name], missing[name]) for name in names}


def _disordered(
    numbers: Mapping[str, NDArray[Any]],
    missing: Mapping[str, NDArray[np.bool_]],
    before: list[tuple[str, ...]],
) -> NDArray[np.bool_]:
    found = np.zeros(len(next(iter(numbers.values()))), np.bool_)
    for one, other in before:
        found |= (numbers[one] > numbers[other]) & ~missing[one] & ~missing[other]
    return found


def _sorted(pairs: list[tuple[int, int]]) -> list[int]:
    """The places so that none comes before one that is less; the pairs hold all that follows."""
    places = dict.fromkeys(place for pair in pairs for place in pair)
    less = Counter(other for _, other in pairs)
    return sorted(places, key=less.__getitem__)
