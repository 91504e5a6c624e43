"""Small things several test modules share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from heterofedsyn._arrays import Integers
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.terms import Noised, NoisyIntegers, Terms
from heterofedsyn.protocol import Plan, Released
from heterofedsyn.schema import CategoricalColumn, Domain, EncodedTable, Schema


class NoNoise:
    """Shows what a site would add noise to."""

    simulated = True

    def draw(self, terms: Terms, alone: Budget, key: bytes) -> Integers:
        return np.zeros(terms.integers, dtype=np.int64)


def released(values: Any, sigma: float = 1.0, rho: float = 0.1) -> Released:
    """Integers as if a site had noised them."""
    noisy = NoisyIntegers(np.asarray(values, dtype=np.int64))
    return Released.of(Noised(noisy, Terms("flat", (), 1.0, sigma, noisy.size, rho)))


def categories(*sizes: int, label: int | None = None) -> Schema:
    """A schema of categorical attributes a0, a1, ... of these sizes."""
    names = tuple(f"a{i}" for i in range(len(sizes)))
    return as_schema(Domain(names, sizes), None if label is None else names[label])


def as_schema(domain: Domain, label: str | None = None) -> Schema:
    """A schema of categorical attributes with this domain."""
    columns = tuple(
        CategoricalColumn(name, values=tuple(f"v{j}" for j in range(size)))
        for name, size in zip(domain.names, domain.sizes, strict=True)
    )
    return Schema(columns, label=label)


def dependent_table(domain: Domain, rows: int, seed: int = 0) -> EncodedTable:
    """Rows whose attributes all lean on the first one."""
    rng = np.random.default_rng(seed)
    base = rng.random(rows) ** 2
    codes = [
        np.clip((base + 0.1 * rng.standard_normal(rows)) * size, 0, size - 1).astype(np.int64)
        for size in domain.sizes
    ]
    return EncodedTable.from_codes(domain, np.stack(codes))


def deal(table: EncodedTable, sites: int, seed: int = 0) -> list[EncodedTable]:
    """The rows dealt to sites at random."""
    site = np.random.default_rng(seed).integers(0, sites, table.rows)
    return [table.take(np.flatnonzero(site == i)) for i in range(sites)]


def make_plan(schema: Schema, sites: Sequence[str] = ("one",), **terms: Any) -> Plan:
    """A plan with usual terms unless others are given."""
    usual = {"epsilon": 1.0, "delta": 1e-9, "method": "independent", "seed": 7}
    return Plan(schema=schema.fingerprint, sites=tuple(sites), **{**usual, **terms})


@st.composite
def tables(draw: st.DrawFn, most_rows: int = 30) -> EncodedTable:
    """Small tables of two to four attributes."""
    sizes = tuple(draw(st.lists(st.integers(1, 6), min_size=2, max_size=4)))
    domain = Domain(tuple(f"a{i}" for i in range(len(sizes))), sizes)
    rows = draw(st.integers(0, most_rows))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    codes = np.stack([rng.integers(0, size, rows) for size in sizes])
    return EncodedTable.from_codes(domain, codes)
