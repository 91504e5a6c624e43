"""Ways to cut one table into sites that differ."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from heterofedsyn._arrays import Floats, Integers
from heterofedsyn.errors import UsageError, did_you_mean
from heterofedsyn.schema import Encoded, EncodedTable

DIRICHLET_CONCENTRATION = 0.5
"""Smaller means more skewed; 0.5 is the usual choice in federated benchmarks."""

MOST_SITES = 10_000
"""More than any federation has; already some hundred take patience."""


class Split(StrEnum):
    """How rows are dealt to sites."""

    UNIFORM = "uniform"
    SIZES = "sizes"
    LABEL = "label"
    DIRICHLET = "dirichlet"


def split(
    encoded: Encoded, sites: int, kind: str, label: str | None, rng: np.random.Generator
) -> list[EncodedTable]:
    """One table per site; all rows of a person stay together.

    `uniform` deals at random; `sizes` in proportion 1 : 2 : ... : sites; `label` gives every site
    its own stretch of the sorted label; `dirichlet` draws each label value's shares at random.
    """
    if kind not in list(Split):
        known = [str(split) for split in Split]
        raise UsageError(f"there is no split {kind!r}; {did_you_mean(kind, known)}")
    if not 1 <= sites <= MOST_SITES:
        raise UsageError(f"sites ({sites}) must be in 1..{MOST_SITES}")
    table = encoded.table
    persons = np.arange(table.rows) if encoded.units is None else encoded.units
    _, first, person = np.unique(persons, return_index=True, return_inverse=True)
    if Split(kind) in (Split.LABEL, Split.DIRICHLET) and label is None:
        raise UsageError(f"split {kind!r} needs a label; add `label = ...` to the schema")
    values = np.zeros(first.size, dtype=np.int64)
    if label is not None:
        values = table.codes[table.domain.index(label)][first].astype(np.int64)
    site = _deal(values, sites, Split(kind), rng)[person]
    return [table.take(np.flatnonzero(site == number)) for number in range(sites)]


def _deal(values: Integers, sites: int, kind: Split, rng: np.random.Generator) -> Integers:
    """The site of every person."""
    order = rng.permutation(values.size)
    if kind is Split.LABEL:
        order = order[np.argsort(values[order], kind="stable")]
    shares = np.arange(1.0, sites + 1) if kind is Split.SIZES else np.ones(sites)
    site = np.empty(values.size, dtype=np.int64)
    if kind is not Split.DIRICHLET:
        site[order] = _stretches(values.size, shares)
        return site
    for value in np.unique(values):
        members = order[values[order] == value]
        concentration = np.full(sites, DIRICHLET_CONCENTRATION)
        site[members] = _stretches(members.size, rng.dirichlet(concentration))
    return site


def _stretches(many: int, shares: Floats) -> Integers:
    """0, ..., 0, 1, ..., 1, ... in proportion to the shares."""
    edges = np.rint(np.cumsum(shares) / np.sum(shares) * many).astype(np.int64)
    return np.searchsorted(edges, np.arange(many), side="right").astype(np.int64)
