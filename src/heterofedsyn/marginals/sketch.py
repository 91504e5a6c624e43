"""Random projections that every party draws alike from a public seed; MATH section 2."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from heterofedsyn._arrays import Floats, Integers, frozen
from heterofedsyn.schema import Clique, Domain

_GAUSSIAN_UNIT = 2.0**12
"""Gaussian entries are rounded to multiples of its inverse, so that sketches are integers."""


_WORTH_KEEPING = 2**18
"""Entries of a matrix up to which the last few hundred are kept for the next site that asks."""


class SketchKind(StrEnum):
    """Entries of the matrix: random signs, or the paper's Gaussian ones."""

    SIGNS = "signs"
    GAUSSIAN = "gaussian"


@dataclass(frozen=True, eq=False)
class Sketch:
    """An integer matrix R that shortens a marginal x to x . R; `scale` makes it an isometry.

    >>> sketch = Sketch.draw(Domain(("a", "b"), (4, 5)), ("a", "b"), width=10, seed=7)
    >>> sketch.matrix.shape, round(sketch.sensitivity**2, 9)
    ((20, 10), 10.0)
    """

    matrix: NDArray[np.int32]
    scale: float
    sensitivity: float
    """The largest row norm of the matrix, rounded up: what one record can move."""
    l1: int
    """The largest sum of absolute values in a row."""

    @classmethod
    def draw(
        cls,
        domain: Domain,
        clique: Clique,
        width: int,
        seed: int,
        kind: SketchKind = SketchKind.SIGNS,
    ) -> Sketch:
        """The sketch of a clique: the same at every party on every machine."""
        return _drawn(clique, domain.shape(clique), width, seed, kind)

    @staticmethod
    def lengths(
        domain: Domain, clique: Clique, width: int, seed: int, kind: SketchKind
    ) -> tuple[float, int]:
        """The sensitivity and the L1 of a sketch, which is drawn once for both if at all."""
        return _lengths(clique, domain.shape(clique), width, seed, kind)

    def count(self, counts: Integers) -> Integers:
        """The sketch of exact counts: integers.

        Empty cells are multiplied too: how many there are would show in the time it takes.
        """
        from heterofedsyn.marginals._exact_kernel import multiply

        out = np.zeros(self.matrix.shape[1], dtype=np.int64)
        multiply(np.ascontiguousarray(counts), self.matrix, out)
        return out

    def project(self, values: Floats) -> Floats:
        """The sketch of any values, scaled so that squared length is kept on average."""
        return self.scale * (values.ravel() @ self.matrix.astype(np.float64))


def _draw(
    clique: Clique, shape: tuple[int, ...], width: int, seed: int, kind: SketchKind
) -> Sketch:
    cells = math.prod(shape)
    terms = ["heterofedsyn sketch 1", kind.value, width, seed, clique, shape]
    name = json.dumps(terms).encode()
    if kind is SketchKind.SIGNS:
        stream = hashlib.shake_256(name).digest(-(-cells * width // 8))
        bits = np.unpackbits(np.frombuffer(stream, dtype=np.uint8), count=cells * width)
        signs = bits.astype(np.int32).reshape(cells, width) * 2 - 1
        return Sketch(frozen(signs), 1 / math.sqrt(width), _root_up(width), width)
    entries = np.rint(_normals(name, cells * width) * (_GAUSSIAN_UNIT / math.sqrt(width)))
    matrix = entries.astype(np.int32).reshape(cells, width)
    longest = int((matrix.astype(np.int64) ** 2).sum(axis=1).max())
    l1 = int(np.abs(matrix).sum(axis=1, dtype=np.int64).max())
    return Sketch(frozen(matrix), 1 / _GAUSSIAN_UNIT, _root_up(longest), l1)


_kept = lru_cache(maxsize=256)(_draw)


def _drawn(
    clique: Clique, shape: tuple[int, ...], width: int, seed: int, kind: SketchKind
) -> Sketch:
    small = math.prod(shape) * width <= _WORTH_KEEPING
    return (_kept if small else _draw)(clique, shape, width, seed, kind)


@lru_cache(maxsize=1024)
def _lengths(
    clique: Clique, shape: tuple[int, ...], width: int, seed: int, kind: SketchKind
) -> tuple[float, int]:
    if kind is SketchKind.SIGNS:  # every row is as long, whichever its signs are
        return _root_up(width), width
    sketch = _drawn(clique, shape, width, seed, kind)
    return sketch.sensitivity, sketch.l1


def largest_norm(width: int, kind: SketchKind) -> float:
    """No less than the sensitivity of any sketch of this width, without drawing one.

    A normal number of `_normals` is at most sqrt(-2 log s) with s at least 2^-104, so below 12.1.
    """
    if kind is SketchKind.SIGNS:
        return _root_up(width)
    return 12.1 * _GAUSSIAN_UNIT + math.sqrt(width)  # rounding moves an entry by at most 1/2


def _root_up(square: int) -> float:
    """The square root of an integer, never less than it."""
    root = math.sqrt(square)
    return (
        root if root.is_integer() and int(root) ** 2 == square else math.nextafter(root, math.inf)
    )


def _normals(name: bytes, count: int) -> Floats:
    """Standard normal numbers by Marsaglia's polar method, from one extendable hash.

    Only correctly rounded operations are used (a library's `log` differs between machines).
    """
    pairs = int(count / 2 / 0.75) + 64
    while True:
        stream = np.frombuffer(hashlib.shake_256(name).digest(16 * pairs), dtype="<u8")
        points = ((stream >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1).reshape(-1, 2)
        square = points[:, 0] * points[:, 0] + points[:, 1] * points[:, 1]
        inside = (square > 0) & (square < 1)
        if 2 * int(inside.sum()) >= count:
            break
        pairs *= 2
    square = square[inside]
    factor = np.sqrt(-2 * _log(square) / square)
    return (points[inside] * factor[:, None]).ravel()[:count]


def _log(values: Floats) -> Floats:
    """Natural logarithm from additions, multiplications and divisions alone."""
    mantissa, exponent = np.frexp(values)
    small = mantissa < math.sqrt(0.5)
    mantissa = np.where(small, 2 * mantissa, mantissa)
    exponent = exponent - small
    ratio = (mantissa - 1) / (mantissa + 1)
    square = ratio * ratio
    series = np.zeros_like(values)
    for odd in range(25, 0, -2):
        series = series * square + 1 / odd
    result: Floats = 2 * ratio * series + exponent * 0.6931471805599453
    return result
