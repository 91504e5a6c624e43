"""Drawing a column with as little randomness as its distribution allows; MATH section 5.6."""

from __future__ import annotations

import numpy as np

from heterofedsyn._arrays import Floats, Integers


def allocate(weights: Floats, rows: int, rng: np.random.Generator) -> Integers:
    """Codes for so many rows, each as often as its weight says up to less than one row, shuffled.

    >>> sorted(allocate(np.array([1.0, 3.0]), 8, np.random.default_rng(0)).tolist())
    [0, 0, 1, 1, 1, 1, 1, 1]
    """
    mass = weights.sum()
    expected = rows * (weights / mass if mass > 0 else np.full(weights.size, 1 / weights.size))
    counts = np.floor(expected + 1e-9).astype(np.int64)
    rest = rows - int(counts.sum())
    if rest > 0:
        parts = np.maximum(expected - counts, 0)
        whole = parts.sum()
        chances = parts / whole if whole > 0 else np.full(parts.size, 1 / parts.size)
        counts += rng.multinomial(rest, chances)
    codes = np.repeat(np.arange(weights.size), counts)[:rows]
    rng.shuffle(codes)
    return codes
