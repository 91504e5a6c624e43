"""From groups back to values: ordered attributes that move together keep doing so inside groups.

A group's values could be drawn independently, but attributes that are near copies of each other
(length and diameter) would then agree between groups and not within. So ordered attributes get a
normal latent value each, correlated as their groups are (a polychoric correlation, found by Gibbs
sampling), and within a group the rows are ranked by it. The 1-ways stay exactly as they are. All of
it is post-processing of noisy answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import NormalDist

import numpy as np

from heterofedsyn._arrays import Codes, Floats, Integers
from heterofedsyn.synthesis.allocation import allocate_values, allocated_values, members_of
from heterofedsyn.synthesis.stopping import step

LEARNING_ROWS = 10_000
LEARNING_SWEEPS = 20
"""Rows and sweeps from which the correlations are learnt; more changed nothing measurable."""

FINAL_SWEEPS = 8
"""Sweeps over all rows, once the correlations are known."""

MOST_LATENT = 40
"""A row's work grows with the square of its latent attributes; beyond so many the least
correlated are refined alone."""

SHRINKAGE = 1e-3
"""Keeps the correlations invertible when attributes are copies of each other."""


SMALLEST_SHARE = 1e-9
"""Keeps the proportions within a group of which nothing seems to be there."""


def refine(
    codes: Codes,
    groups: Sequence[Integers],
    values: Sequence[Floats],
    ordered: Mapping[int, bool],
    rng: np.random.Generator,
) -> list[Codes]:
    """A value code for every row and attribute, given the group codes.

    Args:
        groups: for every attribute the group of each value.
        values: for every attribute the 1-way over values.
        ordered: the places of ordered attributes, and whether their last value means missing.
    """
    merged = [place for place in ordered if groups[place][-1] + 1 < groups[place].size]
    latent = _latent(codes, groups, {p: ordered[p] for p in merged if codes[p].any()}, rng)
    columns = []
    for place, (own, counts) in enumerate(zip(groups, values, strict=True)):
        if own.max() + 1 == own.size:
            # A group for every value leaves nothing to choose. The lot that nothing hangs on
            # keeps later ones as they were.
            rng.permutation(codes.shape[1])
            columns.append(own.argsort()[codes[place]].astype(np.uint16))
            continue
        if place in latent:
            many = allocated_values(codes[place], own, counts + SMALLEST_SHARE, rng)
            columns.append(_ranked(codes[place], own, latent[place], many))
        else:
            columns.append(allocate_values(codes[place], own, counts + SMALLEST_SHARE, rng))
    return columns


def _ranked(strata: Codes, groups: Integers, latent: Floats, counts: Integers) -> Codes:
    """So many rows of each value of their group, in the order of the rows' latent values."""
    column = np.empty(strata.size, dtype=np.uint16)
    order, end = np.argsort(strata, kind="stable"), 0
    for members in members_of(groups):
        many = counts[members]
        own = order[end : end + many.sum()]
        end += own.size
        if np.count_nonzero(many) == 1:
            column[own] = members[many.argmax()]
        elif own.size:
            column[own] = members[_by_rank(latent[own], np.cumsum(many)[:-1])]
    return column


def _by_rank(values: Floats, cuts: Integers) -> Integers:
    """For every value how many of the cuts its rank has passed; equal values rank as they come."""
    in_order = np.sort(values)
    within = cuts[(cuts > 0) & (cuts < values.size)]
    if np.all(in_order[within - 1] < in_order[within]):
        first = np.append(in_order, np.inf)[cuts]
        return np.searchsorted(first, values, side="right")
    ranks = np.empty(values.size, dtype=np.int64)
    ranks[np.argsort(values, kind="stable")] = np.arange(values.size)
    return np.searchsorted(cuts, ranks, side="right")


def _latent(
    codes: Codes, groups: Sequence[Integers], ordered: dict[int, bool], rng: np.random.Generator
) -> dict[int, Floats]:
    """Latent values of the ordered attributes, by place; empty if there is nothing to share."""
    from heterofedsyn.synthesis._latent_kernel import sweep

    places = [place for place in ordered if np.ptp(codes[place]) > 0]
    if len(places) < 2 or codes.shape[1] < 2:
        return {}
    own = np.ascontiguousarray(codes[places])
    widest = int(own.max()) + 1
    ends = [_intervals(own[k], widest, missing=ordered[p]) for k, p in enumerate(places)]
    lower, upper = np.stack([low for low, _ in ends]), np.stack([high for _, high in ends])
    middles = np.stack([_middles(low, high) for low, high in ends])

    def start(rows: Codes) -> Floats:
        return np.stack([middle[row] for middle, row in zip(middles, rows, strict=True)])

    some = own
    if own.shape[1] > LEARNING_ROWS:
        chosen = np.sort(rng.choice(own.shape[1], LEARNING_ROWS, replace=False))
        some = np.ascontiguousarray(own[:, chosen])
    latent = start(some)
    correlations = _correlations(latent)
    if len(places) > MOST_LATENT:
        strength = np.abs(correlations - np.eye(len(places))).max(axis=1)
        kept = np.sort(np.argsort(-strength, kind="stable")[:MOST_LATENT])
        return _latent(codes, groups, {places[k]: ordered[places[k]] for k in kept}, rng)
    for _ in range(LEARNING_SWEEPS):
        step()
        sweep(latent, some, lower, upper, *_conditionals(correlations), rng)
        correlations = (correlations + _correlations(latent)) / 2
    latent = start(own)
    terms = _conditionals(correlations)
    for _ in range(FINAL_SWEEPS):
        step()
        sweep(latent, own, lower, upper, *terms, rng)
    return dict(zip(places, latent, strict=True))


def _intervals(codes: Codes, widest: int, *, missing: bool) -> tuple[Floats, Floats]:
    """For every group the ends between which a standard normal value has its share of rows."""
    counts = np.bincount(codes, minlength=widest).astype(np.float64)
    last = int(codes.max())
    if missing:
        counts[last] = 0.0
    shares = np.cumsum(counts) / max(1.0, counts.sum())
    quantile = NormalDist().inv_cdf
    upper = np.array([quantile(s) if 0 < s < 1 else np.inf if s >= 1 else -np.inf for s in shares])
    lower = np.concatenate([[-np.inf], upper[:-1]])
    if missing:
        lower[last], upper[last] = -np.inf, np.inf
    return lower, upper


def _middles(lower: Floats, upper: Floats) -> Floats:
    """A value inside each interval to start from."""
    low, high = np.maximum(lower, -3.0), np.minimum(upper, 3.0)
    return (low + high) / 2


def _correlations(latent: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):  # what never varies depends on nothing
        correlation = np.nan_to_num(np.asarray(np.corrcoef(latent), dtype=np.float64))
    shrunk = correlation * (1 - SHRINKAGE)
    np.fill_diagonal(shrunk, 1.0)
    return shrunk


def _conditionals(correlations: Floats) -> tuple[Floats, Floats]:
    """Weights and spread of each attribute given all others."""
    precision = np.linalg.inv(correlations)
    diagonal = np.diag(precision)
    weights = -precision / diagonal[:, None]
    np.fill_diagonal(weights, 0.0)
    return np.ascontiguousarray(weights), 1 / np.sqrt(diagonal)
