"""Cells that a schema's rules make impossible: known to be zero, whatever the noise says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from heterofedsyn._arrays import Floats, Integers
from heterofedsyn.schema import Clique, Schema

Mask = NDArray[np.bool_]

CENTRING_ROUNDS = 20
"""Turns of taking row means and column means out of a table with holes."""

TINY = 1e-300
"""Keeps an empty row or column empty instead of dividing by nothing."""


def possible_cells(
    schema: Schema, groups: Mapping[str, Integers], pairs: Iterable[Clique]
) -> dict[Clique, Mask]:
    """The cells that a row can be in, of those pairs that have others."""
    found: dict[Clique, Mask] = {}
    for first, second in pairs:
        never = schema.rulebook.impossible(first, second, groups[first], groups[second])
        if never is not None:
            found[first, second] = ~never
    return found


def possible_groups(
    schema: Schema, groups: Mapping[str, Integers], cells: Mapping[Clique, Mask]
) -> dict[str, Mask]:
    """The groups that a row can be in, of those attributes that have others.

    Args:
        cells: the possible ones of measured pairs; a group without any is impossible too.
    """
    found: dict[str, Mask] = {}
    for name in schema.domain.names:
        never = schema.rulebook.never_alone(name)
        if never is not None:
            found[name] = np.bincount(groups[name], ~never) > 0
    for pair, can in cells.items():
        for axis, name in enumerate(pair):
            here: Mask = np.asarray(can.any(axis=1 - axis))
            found[name] = np.asarray(found[name] & here) if name in found else here
    # Rules that leave nothing are for whoever draws rows to refuse.
    return {name: can for name, can in found.items() if can.any() and not can.all()}


def fitted(table: Floats, rows: Floats, columns: Floats, rounds: int) -> Floats:
    """A table with about these sums, its zeros kept, by iterative fitting."""
    for _ in range(rounds):
        table = table * (rows / np.maximum(table.sum(axis=1), TINY))[:, None]
        table = table * (columns / np.maximum(table.sum(axis=0), TINY))[None, :]
    return table


def centred(table: Floats, possible: Mask) -> Floats:
    """A table less its row means and column means, where cells are possible; 0 elsewhere."""
    apart: Floats = table * possible
    across = np.maximum(possible.sum(axis=1, keepdims=True), 1)
    down = np.maximum(possible.sum(axis=0, keepdims=True), 1)
    for _ in range(CENTRING_ROUNDS):
        apart = apart - possible * (apart.sum(axis=1, keepdims=True) / across)
        apart = apart - possible * (apart.sum(axis=0, keepdims=True) / down)
    return apart
