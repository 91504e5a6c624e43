"""How good the methods are on public tables, so that a change that costs accuracy is noticed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from heterofedsyn.bench.tables import real_table
from heterofedsyn.evaluation import total_variation
from heterofedsyn.schema import Encoded, encode
from heterofedsyn.simulate import FederatedSynthesizer
from heterofedsyn.simulate.synthesizer import name_sites

SEEDS = 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "most"),
    [
        ("fedprivsyn", {"insurance": 0.60, "shoppers": 0.28, "adult": 0.16}),
        ("independent", {"insurance": 0.51, "shoppers": 0.15, "adult": 0.112}),
        ("privsyn", {"insurance": 0.54, "shoppers": 0.24, "adult": 0.12}),
    ],
)
@pytest.mark.parametrize("name", ["insurance", "shoppers", "adult"])
def test_two_way_error_at_epsilon_1_with_five_sites(
    data_folder: Path, name: str, method: str, most: dict[str, float]
) -> None:
    schema, table = real_table(data_folder, name)
    errors = []
    for seed in range(SEEDS):
        synthesizer = FederatedSynthesizer(
            schema, epsilon=1, delta=1e-10, conversion="paper", method=method, noise_seed=seed
        )
        whole = Encoded(table, rows_read=table.rows)
        synthesizer.fit_encoded(name_sites(synthesizer.split(whole, 5, "uniform")))
        made = encode(schema, synthesizer.sample(seed=seed).to_batches()).table
        errors.append(total_variation(table, made).two_way)
    print(
        f"{name} {method}: 2-way {np.mean(errors):.4f}, from {min(errors):.4f} to {max(errors):.4f}"
    )
    assert np.mean(errors) <= most[name]
