"""What follows from equations: sums of unknowns, some of which hide the others."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeAlias

_PRIME = 2**61 - 1
"""Coefficients are -1, 0 and 1, so that what holds modulo it holds."""

Equation: TypeAlias = Mapping[Hashable, int]
"""The coefficients of a sum whose value is known."""


def implied(equations: Sequence[Equation], hiding: Iterable[Hashable]) -> list[dict[Hashable, int]]:
    """All that equations tell of unknowns that do not hide, as the fewest sums they follow from.

    Each sum has a first unknown with coefficient 1 that no other sum has.
    """
    masks = list(dict.fromkeys(hiding))
    secret = {*masks}
    plain = list(dict.fromkeys(u for eq in equations for u in eq if u not in secret))
    order = {unknown: place for place, unknown in enumerate([*masks, *plain])}
    rows = [[0] * len(order) for _ in equations]
    for row, equation in zip(rows, equations, strict=True):
        for unknown, coefficient in equation.items():
            row[order[unknown]] = coefficient % _PRIME
    _reduce(rows)
    told = [row for row in rows if any(row) and not any(row[: len(masks)])]
    return [
        {unknown: _signed(row[place]) for unknown, place in order.items() if row[place]}
        for row in told
    ]


def _reduce(rows: list[list[int]]) -> None:
    """Reduced row echelon form, in place."""
    done = 0
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((i for i in range(done, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[done], rows[pivot] = rows[pivot], rows[done]
        inverse = pow(rows[done][column], -1, _PRIME)
        rows[done] = [value * inverse % _PRIME for value in rows[done]]
        for i, row in enumerate(rows):
            if i != done and (factor := row[column]):
                rows[i] = [
                    (value - factor * own) % _PRIME
                    for value, own in zip(row, rows[done], strict=True)
                ]
        done += 1


def _signed(value: int) -> int:
    return value if value <= _PRIME // 2 else value - _PRIME
