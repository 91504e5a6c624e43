"""Who asks about two columns that were measured together is told of the measurement."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn.hub.questions.dealing import chosen, dealt
from heterofedsyn.hub.questions.replicates import Replicate
from heterofedsyn.simulate import FederatedSynthesizer
from heterofedsyn.simulate.hospitals import hospital_schema, hospitals

pytestmark = pytest.mark.thorough


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers(0, 2**32))
def test_every_cell_has_its_share_of_as_many_rows(cells: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    of_rows, wanted = np.array(cells), rng.random(6) * (rng.random(6) < 0.7)
    found = chosen(of_rows, wanted, rng)
    there = np.bincount(of_rows, minlength=6)
    shares = np.where(there > 0, wanted, 0.0)
    assert found.size == of_rows.size
    if shares.sum() > 0:
        many = np.bincount(of_rows[found], minlength=6)
        assert np.all(np.abs(many - shares / shares.sum() * of_rows.size) < 1)
        times = np.bincount(found, minlength=of_rows.size)
        for cell in {*cells}:  # no row stands out among those of its cell
            assert np.ptp(times[of_rows == cell]) <= 1


def test_an_answer_about_a_measured_pair_is_that_of_its_table() -> None:
    made = FederatedSynthesizer(
        hospital_schema(), epsilon=20, delta=1e-9, measure=[("ward", "cost")], noise_seed=1
    ).fit(hospitals(patients=4_000))
    release = made.release
    estimates = release.model.targets[0].estimates
    rows = Replicate(release.sample(seed=1), 1)
    apart = []
    for table in (rows, dealt(rows, release.schema, release.model, ("ward", "cost"), 0)):
        seen = np.zeros(estimates.pairs["ward", "cost"].shape)
        places = [
            estimates.groups[name][
                release.schema.column(name).read(table.table[name].combine_chunks()).codes
            ]
            for name in ("ward", "cost")
        ]
        np.add.at(seen, tuple(places), 1)
        fitted = estimates.pairs["ward", "cost"]
        apart.append(np.abs(seen / seen.sum() - fitted / fitted.sum()).sum() / 2)
        assert table.table.num_rows == rows.table.num_rows
    assert apart[1] < 0.01 < apart[0]
