"""A one-parameter guess of a pair of ordered attributes: a normal copula with their 1-ways.

The mean product of normal scores is a weighted sum of a pair's noisy counts, so it is known far
better than any cell. A normal copula with that mean is a better place to start from than
independence when attributes rise and fall together; what the data say beyond it is kept as a
residual in either case.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from heterofedsyn._arrays import Floats
from heterofedsyn.privacy.noisy import Noisy

NODES = 12
"""Points per group at which the normal distribution is evaluated."""

STRONGEST = 0.995
"""Correlations beyond this cannot be told apart on a grid."""

STANDS_OUT = 2.0
"""Standard deviations that the mean product must be away from 0."""


def normal_base(
    noisy: Noisy,
    rows: Floats,
    columns: Floats,
    total: float,
    missing: tuple[bool, bool] = (False, False),
) -> Floats | None:
    """The normal copula with these 1-ways that fits the noisy pair, or None if nothing shows.

    Args:
        missing: whether the last group of rows, of columns, stands for missing values, which are
            neither large nor small and stay independent.
    """
    if any(missing):
        inner = np.s_[: rows.size - missing[0], : columns.size - missing[1]]
        first, second = rows[inner[0]], columns[inner[1]]
        mass = float(first.sum() * second.sum()) / total
        if mass <= 0 or min(first.size, second.size) < 2:
            return None
        known = Noisy(noisy.values[inner], noisy.variance)
        present = normal_base(
            known, first * (mass / first.sum()), second * (mass / second.sum()), mass
        )
        if present is None:
            return None
        base: Floats = np.outer(rows, columns) / total
        base[inner] = present
        return base
    independent = np.outer(rows, columns) / total
    first, second = _scores(rows), _scores(columns)
    observed = float(first @ (noisy.values - independent) @ second) / total
    error = math.sqrt(noisy.variance * float(first @ first) * float(second @ second)) / total
    if not abs(observed) > STANDS_OUT * error:
        return None
    low, high = (0.0, STRONGEST) if observed > 0 else (-STRONGEST, 0.0)
    for _ in range(14):
        middle = (low + high) / 2
        apart = _cells(rows, columns, total, middle) - independent
        if float(first @ apart @ second) / total < observed:
            low = middle
        else:
            high = middle
    return _cells(rows, columns, total, (low + high) / 2)


def _cells(rows: Floats, columns: Floats, total: float, correlation: float) -> Floats:
    """The pair of a normal copula with this correlation."""
    from heterofedsyn.synthesis._copula_kernel import normal_cells

    ends = np.concatenate([[0.0], np.cumsum(rows)]) / max(total, 1e-300)
    inside = (np.arange(NODES) + 0.5) / NODES
    nodes = _quantiles(ends[:-1, None] + np.diff(ends)[:, None] * inside)
    cuts = _quantiles(np.cumsum(columns)[:-1] / max(total, 1e-300))
    out = np.empty((rows.size, columns.size))
    normal_cells(nodes, cuts, correlation, out)
    cells: Floats = out * rows[:, None]
    return cells


def _scores(counts: Floats) -> Floats:
    """The mean normal score of every group."""
    ends = np.concatenate([[0.0], np.cumsum(counts)]) / max(float(counts.sum()), 1e-300)
    inside = (np.arange(NODES) + 0.5) / NODES
    scores: Floats = _quantiles(ends[:-1, None] + np.diff(ends)[:, None] * inside).mean(axis=1)
    return scores


def _quantiles(shares: Floats) -> Floats:
    quantile = NormalDist().inv_cdf
    flat = [quantile(min(max(share, 1e-9), 1 - 1e-9)) for share in shares.ravel().tolist()]
    return np.array(flat, dtype=np.float64).reshape(shares.shape)
