"""Drawing a column with as little randomness as its distribution allows; MATH section 5.6."""

from __future__ import annotations

import numpy as np

from heterofedsyn._arrays import Codes, Floats, Integers
from heterofedsyn.synthesis.stopping import step


def allocate(weights: Floats, rows: int, rng: np.random.Generator) -> Codes:
    """Codes for so many rows, each as often as its weight says up to less than one row, shuffled.

    >>> sorted(allocate(np.array([1.0, 3.0]), 8, np.random.default_rng(0)).tolist())
    [0, 0, 1, 1, 1, 1, 1, 1]
    """
    return allocate_within(np.zeros(rows, dtype=np.uint16), weights[None, :], rng)


def allocate_within(strata: Integers | Codes, weights: Floats, rng: np.random.Generator) -> Codes:
    """A code for every row, allocated separately among the rows of each stratum.

    Args:
        strata: the stratum of every row.
        weights: one row of weights per stratum; all zero means any code alike.
    """
    from heterofedsyn.synthesis._allocation_kernel import deal

    order = rng.permutation(strata.size)
    counts = allocated(strata, weights, rng)
    places = np.cumsum(counts.sum(axis=1)) - counts.sum(axis=1)
    own: Codes = strata.astype(np.uint16 if len(weights) <= 2**16 else np.uint32)
    codes = np.empty(strata.size, dtype=np.uint16)
    deal(order, own, in_order(counts), places, codes)
    return codes


def allocate_values(
    strata: Codes, groups: Integers, weights: Floats, rng: np.random.Generator
) -> Codes:
    """A value for every row, allocated separately among the rows of each group.

    Args:
        strata: the group of every row.
        groups: that of every value; a table of one by the other would fill any memory.
        weights: of every value.
    """
    from heterofedsyn.synthesis._allocation_kernel import deal

    order = rng.permutation(strata.size)
    counts = allocated_values(strata, groups, weights, rng)
    members = np.concatenate(members_of(groups))
    rows = np.bincount(groups, counts).astype(np.int64)
    codes = np.empty(strata.size, dtype=np.uint16)
    values = np.repeat(members.astype(np.uint16), counts[members])
    deal(order, strata.astype(np.uint16), values, np.cumsum(rows) - rows, codes)
    return codes


def members_of(groups: Integers) -> list[Integers]:
    """The values of every group, in increasing order.

    >>> [own.tolist() for own in members_of(np.array([1, 0, 1]))]
    [[1], [0, 2]]
    """
    sizes = np.bincount(groups)
    return np.split(np.argsort(groups, kind="stable"), np.cumsum(sizes)[:-1])


def allocated_values(
    strata: Codes, groups: Integers, weights: Floats, rng: np.random.Generator
) -> Integers:
    """How many rows of its group each value gets: whole parts first, then what is left by lot."""
    step()
    counts = np.zeros(weights.size, dtype=np.int64)
    members = members_of(groups)
    for own, many in zip(members, np.bincount(strata, minlength=len(members)), strict=True):
        expected = _shares(weights[None, own])[0] * many
        counts[own] = np.floor(expected + 1e-9)
        rest = max(0, int(many - counts[own].sum()))
        left = np.maximum(expected - counts[own], 0)
        if rest:
            # The last of all values has a lot in every group, empty unless it is one of them.
            others = 0 if own[-1] == weights.size - 1 else 1
            lots = rng.multinomial(rest, np.append(_shares(left[None, :])[0], np.zeros(others)))
            counts[own] += lots[: own.size]
            counts[own[-1]] += lots[own.size :].sum()  # what rounding left over
    return counts


def in_order(counts: Integers) -> Codes:
    """The codes of each stratum's rows, in increasing order, stratum by stratum."""
    strata, codes = counts.shape
    return np.repeat(np.tile(np.arange(codes, dtype=np.uint16), strata), counts.ravel())


def allocated(strata: Integers | Codes, weights: Floats, rng: np.random.Generator) -> Integers:
    """How many rows of each stratum get each code: whole parts first, then what is left by lot."""
    step()
    many = np.bincount(strata, minlength=len(weights))
    expected = _shares(weights) * many[:, None]
    counts = np.floor(expected + 1e-9).astype(np.int64)
    rest = np.maximum(many - counts.sum(axis=1), 0)
    counts += rng.multinomial(rest, _shares(np.maximum(expected - counts, 0)))
    return counts


def _shares(weights: Floats) -> Floats:
    """Each row of weights as probabilities."""
    mass = weights.sum(axis=1, keepdims=True)
    even = np.full_like(weights, 1 / weights.shape[1])
    shares: Floats = np.divide(weights, mass, out=even, where=mass > 0)
    return shares
