"""A column of very many values takes no more memory than a machine has, whatever the method."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from heterofedsyn.bench.fresh_process import in_fresh_process
from heterofedsyn.errors import UsageError
from heterofedsyn.hub import METHODS
from heterofedsyn.hub.methods.base import Value
from heterofedsyn.schema import CategoricalColumn, Column, EncodedTable, IntegerColumn, Schema
from heterofedsyn.simulate import FederatedSynthesizer
from heterofedsyn.synthesis import SYNTHESIZERS

WIDE = 60_000
ROWS = 300_000
MOST = 2**10
"""MiB: one GiB."""


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


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["categorical", "integer"])
@pytest.mark.parametrize("synthesizer", sorted(SYNTHESIZERS))
@pytest.mark.parametrize("method", sorted(METHODS))
def test_sixty_thousand_values_fit_into_a_gibibyte_or_are_refused_before_anything_is_spent(
    method: str, synthesizer: str, kind: str
) -> None:
    cost = in_fresh_process(wide_study, method, kind, {"synthesizer": synthesizer})
    assert cost.peak < MOST, cost
    if cost.result:
        assert synthesizer == "pgm", cost.result
        assert "180,000 cells" in cost.result


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["categorical", "integer"])
def test_the_finest_grid_of_sixty_thousand_values_fits_too(kind: str) -> None:
    cost = in_fresh_process(wide_study, "wavetree", kind, {"finest": 1_000})
    assert cost.peak < MOST, cost
    assert not cost.result
