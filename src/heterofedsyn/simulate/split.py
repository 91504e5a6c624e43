"""Ways to deal the rows of one table to sites that differ."""

from __future__ import annotations

from enum import StrEnum
from itertools import pairwise

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
    """One table per site, some of them perhaps empty; all rows of a person stay together.

    Every person is dealt by a draw of their own, with chances that are public or follow from their
    own label: one more is one more at one site, and changes nothing for the others. `uniform` gives
    all sites the same chance; `sizes` chances of 1 : 2 : ... : sites; `label` every site its own
    stretch of the label's domain; `dirichlet` draws chances at random for every value of it.
    """
    if kind not in list(Split):
        known = [str(split) for split in Split]
        raise UsageError(f"there is no split {kind!r}; {did_you_mean(kind, known)}")
    if not 1 <= sites <= MOST_SITES:
        raise UsageError(f"sites ({sites}) must be in 1..{MOST_SITES}")
    if Split(kind) in (Split.LABEL, Split.DIRICHLET) and label is None:
        raise UsageError(f"split {kind!r} needs a label; add `label = ...` to the schema")
    table = encoded.table
    person: Integers = np.arange(table.rows)
    if encoded.units is not None:
        person = np.unique(encoded.units, return_inverse=True)[1]
    labels: Integers = np.zeros(table.rows, np.int64)
    many = 1
    if label is not None:
        place = table.domain.index(label)
        labels, many = table.codes[place].astype(np.int64), table.domain.sizes[place]
    site = _deal(_smallest(labels, person), many, sites, Split(kind), rng)[person]
    return [table.take(np.flatnonzero(site == number)) for number in range(sites)]


def _smallest(labels: Integers, person: Integers) -> Integers:
    """A label for every person that depends on their own rows alone, and not on their order."""
    first = np.full(person.max(initial=-1) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, person, labels)
    return first


def _deal(
    labels: Integers, many: int, sites: int, kind: Split, rng: np.random.Generator
) -> Integers:
    """The site of every person, of whose label there are so many values in the domain."""
    # Streams of their own: no person's draw moves because of what else is drawn.
    for_shares, for_persons = rng.spawn(2)
    drawn = for_persons.random(labels.size)
    if kind is Split.LABEL:
        return np.minimum((labels + drawn) / many * sites, sites - 1).astype(np.int64)
    if kind is not Split.DIRICHLET:
        shares = np.arange(1.0, sites + 1) if kind is Split.SIZES else np.ones(sites)
        return _chosen(shares, drawn)
    site = np.empty(labels.size, dtype=np.int64)
    order = np.argsort(labels, kind="stable")
    ends = np.searchsorted(labels[order], np.arange(many + 1))
    for begin, end in pairwise(ends):
        # For every value of the domain: shares tell nothing of which values occur.
        shares = for_shares.dirichlet(np.full(sites, DIRICHLET_CONCENTRATION))
        members = order[begin:end]
        site[members] = _chosen(shares, drawn[members])
    return site


def _chosen(shares: Floats, drawn: Floats) -> Integers:
    """A site for every draw from [0, 1), with chances in proportion to the shares."""
    edges = np.cumsum(shares)[:-1] / np.sum(shares)
    return np.searchsorted(edges, drawn, side="right").astype(np.int64)
