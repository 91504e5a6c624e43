"""The smooth shape of an ordered attribute, from all its Haar differences; MATH section 5.2.

A node of few records cannot tell noise from a pile, but all nodes together tell how smooth an
attribute is, and how fast its tails fall. The logarithm of the counts is a line that bends little;
how little is what makes the answers most likely.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from heterofedsyn._arrays import Floats, Integers, frozen
from heterofedsyn.privacy.noisy import Noisy

DEPTH = 5
"""Levels of halving that are read: finer ones tell piles, not the shape."""

STIFFNESS = tuple(10.0**power for power in range(4, -1, -1))
"""What a unit of squared bend may cost, the smoothest shape first."""

FIRST_STEPS, STEPS = 8, 4
"""Newton steps for the smoothest shape, and for each that starts from the one before."""

LONGEST_STEP = 1.5
"""Most by which the logarithm of a count moves in a step."""

EVEN = 1e-4
"""What a unit of squared distance from even frequencies costs: without it slopes cost nothing."""

HOPELESS = 8.0
"""Logarithms by which a shape may be less likely than the best before no other is tried."""

RAREST = 20.0
"""Logarithms between the most frequent and the rarest value at most."""


def profile(levels: Sequence[Noisy], possible: Integers, total: float) -> Floats:
    """How frequent values would be if nothing stood out; 0 for those that no row can have.

    Args:
        levels: left-minus-right differences, level 0 first (the root's).
        possible: 1 for every value that a row can have, 0 for one that it never has.
    """
    used = levels[:DEPTH]
    cells, leaves = 2 ** len(used), 2 ** len(levels)
    padded = np.append(possible, np.zeros(leaves - possible.size, np.int64)).reshape(cells, -1)
    many = padded.sum(axis=1).astype(np.float64)
    there = np.flatnonzero(many)
    if there.size < 3:
        return possible.astype(np.float64)
    seen = np.concatenate([*(noisy.values for noisy in used), [total]])
    # The population is a sample of the shape, so nothing tells it better than its own records do.
    variances = [
        *(np.full(2**level, noisy.variance + total / 2**level) for level, noisy in enumerate(used)),
        np.array([total]),
    ]
    logs = _likeliest(_sums(len(used))[:, there], seen, np.concatenate(variances), many[there])
    values = np.arange(possible.size)
    middles = (padded * np.arange(leaves).reshape(cells, -1)).sum(axis=1)[there] / many[there]
    shape: Floats = np.exp(np.interp(values, middles, logs)) * (possible > 0)
    return shape


def _likeliest(sums: Floats, seen: Floats, variances: Floats, many: Floats) -> Floats:
    """Logarithms of the frequency of a value in each cell, at the best stiffness.

    Args:
        sums: which cells each answer adds and subtracts.
        many: values in each cell.
    """
    weighted = sums.T / variances
    known, wanted = weighted @ sums, weighted @ seen
    bends = np.diff(np.eye(many.size), 2, axis=0)
    bent, even = bends.T @ bends, EVEN * np.eye(many.size)
    counts = many * (seen[-1] / many.sum())
    logs = best = np.zeros(many.size)
    most = -np.inf
    for stiffness in STIFFNESS:
        prior = stiffness * bent + even
        for _ in range(FIRST_STEPS if stiffness == STIFFNESS[0] else STEPS):
            own = counts * np.exp(logs)
            uphill = own * (wanted - known @ own) - prior @ logs
            curvature = own[:, None] * known * own + prior
            step = np.linalg.solve(curvature, uphill)
            logs = np.clip(logs + np.clip(step, -LONGEST_STEP, LONGEST_STEP), -RAREST, RAREST)
        own = counts * np.exp(logs)
        curvature = own[:, None] * known * own + prior
        cost = float(((seen - sums @ own) ** 2 / variances).sum() + logs @ prior @ logs)
        chance = float(np.linalg.slogdet(prior)[1] - np.linalg.slogdet(curvature)[1]) - cost
        if chance > most:
            most, best = chance, logs
        elif chance < most - 2 * HOPELESS:
            break
    relative: Floats = np.maximum(best - best.max(), -RAREST)
    return relative


@cache
def _sums(depth: int) -> Floats:
    """What the differences of so many levels, and their total, add and subtract of every cell."""
    cells = np.arange(2**depth)
    rows = [
        np.where(
            cells >> (depth - level) == node, 1.0 - 2.0 * ((cells >> (depth - level - 1)) & 1), 0.0
        )
        for level in range(depth)
        for node in range(2**level)
    ]
    return frozen(np.stack([*rows, np.ones(cells.size)]))
