"""The smooth shape of an ordered attribute; MATH section 5.2."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn._arrays import Floats
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.synthesis.haar import rebuild_haar
from heterofedsyn.synthesis.profile import profile

pytestmark = pytest.mark.sweep

PRIOR = (0.3, 0.7, 0.05)


def differences(counts: Floats) -> list[Floats]:
    """The exact Haar levels of counts."""
    depth = int(np.ceil(np.log2(counts.size)))
    padded = np.append(counts, np.zeros(2**depth - counts.size))
    halves = [padded.reshape(2**level, 2, -1).sum(axis=2) for level in range(depth)]
    return [own[:, 0] - own[:, 1] for own in halves]


def answers(counts: Floats, sigma: float, rng: np.random.Generator) -> list[Noisy]:
    return [Noisy(d + rng.normal(0, sigma, d.size), sigma**2) for d in differences(counts)]


@given(
    st.lists(st.integers(0, 5_000), min_size=2, max_size=200),
    st.lists(st.booleans(), min_size=200, max_size=200),
    st.floats(1e-3, 1e6),
    st.floats(20, 1e9),
    st.integers(0, 2**32),
)
def test_possible_values_have_a_frequency_and_others_none(
    values: list[int], can: list[bool], sigma: float, total: float, seed: int
) -> None:
    counts = np.array(values, dtype=np.float64)
    possible = np.array(can[: counts.size], dtype=np.int64)
    possible[0] = 1
    shape = profile(answers(counts, sigma, np.random.default_rng(seed)), possible, total)
    assert np.isfinite(shape).all()
    assert ((shape > 0) == (possible > 0)).all()


def test_a_shape_without_piles_is_found_in_noise_that_hides_every_value() -> None:
    rng = np.random.default_rng(0)
    truth = 2_000 * np.exp(-np.arange(100) / 20) / np.exp(-np.arange(100) / 20).sum()
    off = []
    for _ in range(30):
        levels = answers(truth, 60.0, rng)
        shape = profile(levels, np.ones(100, np.int64), truth.sum())
        off.append(np.abs(shape / shape.sum() - truth / truth.sum()).sum() / 2)
    error = np.std(off) / np.sqrt(len(off))
    assert np.mean(off) + 4 * error < 0.12


@pytest.mark.parametrize("size", [26, 101])  # with and without much padding beyond the end
def test_a_tail_that_hides_in_the_noise_does_not_swell(size: int) -> None:
    rng = np.random.default_rng(1)
    shares = np.exp(-5 * np.arange(size) / size)
    truth = 2_000 * shares / shares.sum()
    tail = np.arange(size) >= size * 0.96
    got = []
    for _ in range(100):
        levels = answers(truth, 60.0, rng)
        got.append(rebuild_haar(levels, np.ones(size, np.int64), truth.sum(), PRIOR)[tail].sum())
    error = np.std(got) / np.sqrt(len(got))
    assert truth[tail].sum() < 3
    assert np.mean(got) + 4 * error < 9
