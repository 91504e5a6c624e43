"""Studies of columns with very many values, as work for a process of its own."""

from __future__ import annotations

import warnings

import numpy as np

from heterofedsyn.errors import UsageError
from heterofedsyn.hub import METHODS
from heterofedsyn.hub.methods.base import Value
from heterofedsyn.schema import (
    CategoricalColumn,
    Column,
    Determines,
    EncodedTable,
    IntegerColumn,
    Schema,
)
from heterofedsyn.simulate import FederatedSynthesizer

WIDE = 60_000
ROWS = 300_000


def wide_study(method: str, kind: str, settings: dict[str, Value]) -> str:
    """A study of a column of 60,000 values beside one of three, to its last row."""
    warnings.simplefilter("ignore")
    wide: Column = IntegerColumn("wide", 0, WIDE - 1, bins=WIDE)
    if kind == "categorical":
        wide = CategoricalColumn("wide", tuple(f"c{place}" for place in range(WIDE)))
    schema = Schema((wide, CategoricalColumn("three", ("x", "y", "z"))), label="three")
    terms = {"method": method, "settings": settings, "epsilon": 50.0, "delta": 1e-9}
    try:
        synthesizer = FederatedSynthesizer(schema, noise_seed=1, **terms)  # type: ignore[arg-type]
    except UsageError as refusal:
        return str(refusal)
    rng = np.random.default_rng(0)
    # Half of the rows pile up, so that there are as many groups as there can be.
    piles = rng.integers(0, 85, ROWS) * 700
    spread = np.where(rng.random(ROWS) < 0.9, piles, rng.integers(0, WIDE, ROWS))
    codes = np.stack([spread, (spread // 7_000 + rng.integers(0, 2, ROWS)) % 3])
    whole = EncodedTable.from_codes(synthesizer.encoding.domain, codes)
    sites = {f"site-{i + 1}": whole.take(np.arange(i, ROWS, 3)) for i in range(3)}
    tables = {"pooled": whole} if METHODS[method].pools else sites
    synthesizer.fit_encoded(tables)
    assert synthesizer.sample(ROWS, seed=1).num_rows == ROWS
    return ""


def wide_hierarchy(codes: int) -> float:
    """A study of very many codes in as many chapters as have a hundred each."""
    warnings.simplefilter("ignore")
    icd = CategoricalColumn("icd", tuple(f"{i}" for i in range(codes)))
    chapters = CategoricalColumn("chapter", tuple(f"c{i}" for i in range(codes // 100)))
    ward = CategoricalColumn("ward", ("a", "b", "c"))
    rule = Determines("icd", "chapter", tuple(f"c{i // 100}" for i in range(codes)))
    schema = Schema((icd, chapters, ward), rules=(rule,))
    rng = np.random.default_rng(0)
    table = np.stack([np.minimum(rng.pareto(1.0, 50_000) * 20, codes - 1).astype(int)] * 2)
    table[1] = rng.integers(0, 3, 50_000)
    made = FederatedSynthesizer(schema, epsilon=1.0, delta=1e-9, noise_seed=1)
    encoded = EncodedTable.from_codes(made.encoding.domain, table)
    return float(made.fit_encoded({"one": encoded}).sample(50_000, seed=1).num_rows)
