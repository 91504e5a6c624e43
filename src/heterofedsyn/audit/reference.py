"""What every statistic should be, counted anew from the codes: a second opinion in plain numpy.

Only the matrices of sketches are the software's own: they are public randomness, and their rows
are measured here.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from heterofedsyn._arrays import Integers
from heterofedsyn.marginals import (
    Dependence,
    Flat,
    Grouped,
    Haar,
    Sketched,
    Statistic,
    Total,
)
from heterofedsyn.schema import Domain, EncodedTable

_UNITS = 1024


def exact(statistic: Statistic, table: EncodedTable) -> Integers:
    """The integers before noise."""
    domain = table.domain
    codes = {name: table.codes[domain.index(name)].astype(np.int64) for name in domain.names}
    match statistic:
        case Total():
            return np.array([table.rows], dtype=np.int64)
        case Flat():
            return _counts([codes[name] for name in statistic.attributes], _shape(statistic, table))
        case Grouped():
            maps = [np.array(groups, dtype=np.int64) for groups in statistic.groups]
            merged = [m[codes[name]] for m, name in zip(maps, statistic.attributes, strict=True)]
            return _counts(merged, tuple(int(m.max()) + 1 for m in maps))
        case Haar():
            size = domain.size(statistic.attributes[0])
            width = 1 << (math.ceil(math.log2(size)) if size > 1 else 0)
            node = width >> statistic.level  # leaves under a node
            place = codes[statistic.attributes[0]]
            found = np.zeros(1 << statistic.level, dtype=np.int64)
            np.add.at(found, place // node, np.where(place % node < node // 2, 1, -1))
            return found
        case Sketched():
            joint = _counts(
                [codes[name] for name in statistic.attributes], _shape(statistic, table)
            )
            matrix = statistic.sketch(domain).matrix.astype(np.int64)
            found = (joint[:, None] * matrix).sum(axis=0)
            return np.asarray(found, dtype=np.int64)
        case Dependence():
            shape = _shape(statistic, table)
            joint = _counts([codes[name] for name in statistic.attributes], shape).reshape(shape)
            alone = np.outer(joint.sum(axis=1), joint.sum(axis=0))
            apart = Fraction(int(np.abs(table.rows * joint - alone).sum()), max(1, table.rows))
            return np.array([math.floor(_UNITS * apart + Fraction(1, 2))], dtype=np.int64)


def integers(statistic: Statistic, domain: Domain) -> int:
    """How many integers must leave, whatever the rows are: every cell, zeros too."""
    match statistic:
        case Total() | Dependence():
            return 1
        case Flat():
            return math.prod(domain.size(name) for name in statistic.attributes)
        case Grouped():
            return math.prod(max(groups) + 1 for groups in statistic.groups)
        case Haar():
            return int(2**statistic.level)
        case Sketched():
            return statistic.width


def furthest(statistic: Statistic, domain: Domain) -> int:
    """The square of how far one record can move the integers (L2), exactly."""
    match statistic:
        case Sketched():
            return int(squared_rows(statistic, domain).max())
        case Dependence():
            return (4 * _UNITS + 1) ** 2
        case _:
            return 1


def moved(statistic: Statistic, domain: Domain, rows: int) -> tuple[int, int]:
    """How many integers so many rows can move at most, and how far in all (L1)."""
    match statistic:
        case Sketched():
            matrix = statistic.sketch(domain).matrix.astype(np.int64)
            many = int((matrix != 0).sum(axis=1).max())
            return (statistic.width if rows > 1 else many), rows * int(np.abs(matrix).sum(1).max())
        case Dependence():
            return 1, rows * (4 * _UNITS + 1)
        case _:
            return min(rows, integers(statistic, domain)), rows


def squared_rows(statistic: Sketched, domain: Domain) -> Integers:
    """The squared lengths of a sketch's rows, one per cell."""
    matrix = statistic.sketch(domain).matrix.astype(np.int64)
    return np.asarray((matrix * matrix).sum(axis=1), dtype=np.int64)


def _shape(statistic: Statistic, table: EncodedTable) -> tuple[int, ...]:
    return tuple(table.domain.size(name) for name in statistic.attributes)


def _counts(columns: list[Integers], shape: tuple[int, ...]) -> Integers:
    cells = np.ravel_multi_index(tuple(columns), shape)
    return np.bincount(cells, minlength=math.prod(shape)).astype(np.int64)
