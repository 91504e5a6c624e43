"""The smooth shape of an ordered attribute; MATH section 5.2."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn._arrays import Floats
from heterofedsyn.hub.questions.worlds import drawn_haar
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.synthesis.haar import Nodes, rebuild_haar
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


def off_by(truth: Floats, sigma: float, seeds: int) -> tuple[float, float]:
    """How far single values are off, of all records; also if values come in another order."""
    found = []
    for order in (np.arange(truth.size), np.random.default_rng(5).permutation(truth.size)):
        rng = np.random.default_rng(2)
        off = [
            np.abs(
                rebuild_haar(
                    answers(truth[order], sigma, rng),
                    np.ones(truth.size, np.int64),
                    truth.sum(),
                    PRIOR,
                )
                - truth[order]
            ).sum()
            for _ in range(seeds)
        ]
        found.append(float(np.mean(off) / (2 * truth.sum())))
    return found[0], found[1]


@pytest.mark.parametrize("tooth", [0, 1])  # which of two neighbours has most
def test_a_comb_is_found_in_noise_that_hides_every_tooth(tooth: int) -> None:
    values = np.arange(96)
    shares = np.exp(-(((values - 45) / 25) ** 2)) * np.where(values % 2 == tooth, 0.95, 0.05)
    truth = 5_000 * shares / shares.sum()
    comb, mixed = off_by(truth, 80.0, 20)
    assert comb < 0.12
    assert comb < mixed / 2


@pytest.mark.parametrize("tooth", [0, 1])
def test_worlds_have_the_comb_that_ours_has(tooth: int) -> None:
    """Where noise hides every tooth, a world that expects none would lose a third of it."""
    values, everything = np.arange(96), np.ones(96, np.int64)
    shares = np.exp(-(((values - 45) / 25) ** 2)) * np.where(values % 2 == tooth, 0.95, 0.05)
    truth, rng = 5_000 * shares / shares.sum(), np.random.default_rng(2)
    found = []
    for _ in range(10):
        levels = answers(truth, 80.0, rng)
        ours = rebuild_haar(levels, everything, truth.sum(), PRIOR)
        world = drawn_haar(levels, ours, everything, truth.sum(), PRIOR, rng)
        found.append(world[tooth::2].sum() / world.sum())
    assert np.mean(found) > 0.77


def test_what_differs_as_a_sample_does_is_no_comb() -> None:
    """Else of every second column without noise halves would be moved by chance."""
    rng, masses = np.random.default_rng(0), np.full(64, 100.0)
    nodes = Nodes(6, masses, masses / 2, masses / 2)
    combs = 0
    for _ in range(200):
        apart = np.asarray(2 * rng.binomial(100, 0.5, 64) - 100, np.float64)
        combs += bool(nodes.expected(masses, Noisy(apart, 1e-6)).any())
    assert combs <= 2


def test_one_pile_is_no_comb() -> None:
    """Else of all other neighbours the same one would be thought to have most."""
    truth = np.full(64, 50.0)
    truth[20] = 4_000.0
    rng, everything = np.random.default_rng(3), np.ones(64, np.int64)
    made = [
        rebuild_haar(answers(truth, 80.0, rng), everything, truth.sum(), PRIOR) for _ in range(20)
    ]
    others = np.mean(made, axis=0)[[*range(20), *range(22, 64)]]
    assert abs(others[0::2].mean() - others[1::2].mean()) < 10
