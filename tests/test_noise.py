"""Noise: exact discrete Gaussians from both sources, through one door."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

from heterofedsyn._arrays import Exact, Integers
from heterofedsyn.errors import PrivacyRefusal
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.goodness import gaussian_p_value, reuse_p_value, tails_p_value
from heterofedsyn.privacy.noise import (
    NoiseSource,
    SecureNoise,
    SimulatedNoise,
    add_noise,
)
from heterofedsyn.privacy.terms import Terms

pytestmark = pytest.mark.sweep

SIGMAS = (0.5, 1.0, 2.5, 7.3, 41.0)


def drawn_by(source: NoiseSource, sigma: float, many: int, key: bytes = b"key") -> Integers:
    """Noise of this sigma, paid for."""
    terms, price = terms_for(sigma, many)
    return source.draw(terms, price, key)


def terms_for(sigma: float, many: int) -> tuple[Terms, Budget]:
    price = Budget(1 / (2 * sigma**2) * (1 + 1e-9))
    return Terms("flat", (), 1.0, sigma, many, price.rho), price


@pytest.mark.parametrize("sigma", SIGMAS)
def test_simulated_noise_is_an_exact_discrete_gaussian(sigma: float) -> None:
    draws = drawn_by(SimulatedNoise(3, "site"), sigma, 1_000_000)
    assert gaussian_p_value(draws, sigma) > 1e-4


@pytest.mark.thorough
@pytest.mark.parametrize("sigma", SIGMAS)
def test_secure_noise_is_an_exact_discrete_gaussian(sigma: float) -> None:
    draws = drawn_by(SecureNoise(), sigma, 50_000)
    assert gaussian_p_value(draws, sigma) > 1e-6


@pytest.mark.thorough
def test_secure_noise_is_not_cut_off() -> None:
    drawn = [(drawn_by(SecureNoise(), s, 20_000), s) for s in (1.5, 7.3, 41.0, 200.0)]
    assert tails_p_value(drawn) > 1e-6
    cut = [(noise.clip(-int(3.5 * s), int(3.5 * s)), s) for noise, s in drawn]
    assert tails_p_value(cut) < 1e-9


def test_a_wrong_sigma_would_be_noticed() -> None:
    draws = drawn_by(SimulatedNoise(3, "site"), 7.3, 1_000_000)
    assert gaussian_p_value(draws, 7.3 * 1.01) < 1e-6


def test_simulated_noise_depends_on_seed_site_and_key_alone() -> None:
    first = drawn_by(SimulatedNoise(1, "a"), 10.0, 1_000, b"x")
    assert np.array_equal(first, drawn_by(SimulatedNoise(1, "a"), 10.0, 1_000, b"x"))
    others = [
        drawn_by(SimulatedNoise(2, "a"), 10.0, 1_000, b"x"),
        drawn_by(SimulatedNoise(1, "b"), 10.0, 1_000, b"x"),
        drawn_by(SimulatedNoise(1, "a"), 10.0, 1_000, b"y"),
        drawn_by(SimulatedNoise(1, "a\0"), 10.0, 1_000, b"x"),
    ]
    for other in others:
        # Independent streams: the correlation of 1,000 pairs has standard error 0.032.
        assert abs(np.corrcoef(first, other)[0, 1]) < 4 / math.sqrt(1_000)


def test_secure_noise_is_fresh_at_every_draw() -> None:
    draws = [tuple(drawn_by(SecureNoise(), 1_000.0, 8, b"same key")) for _ in range(5)]
    assert len(set(draws)) == 5


DRAWING = """
import os
import random

import numpy as np

from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.noise import SecureNoise
from heterofedsyn.privacy.terms import Terms

random.seed(0)
np.random.seed(0)
terms = Terms("flat", (), 1.0, 1000.0, 8, 1.0)


def say():
    print(*SecureNoise().draw(terms, Budget(1.0), b"same key"), flush=True)


say()  # so that whatever draws is there before it is copied
np.random = None  # and it asks these generators for nothing
for child in range(2):
    number = os.fork()
    if number == 0:
        say()
        os._exit(0)
    os.waitpid(number, 0)
say()
"""
"""What is drawn by a process, by two that are forked off it, and by the first one again."""


@pytest.mark.thorough
def test_no_two_processes_draw_the_same_secure_noise() -> None:
    command = [sys.executable, "-c", DRAWING]
    runs = [
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
        for _ in range(2)
    ]
    drawn = [line for run in runs for line in run.stdout.splitlines()]
    assert [len(line.split()) for line in drawn] == [8] * 8
    assert len(set(drawn)) == 8


@pytest.mark.thorough
def test_no_draw_of_secure_noise_is_used_twice_where_there_are_many() -> None:
    integers = 2**17 + 1
    drawn = drawn_by(SecureNoise(), 41.0, integers)
    assert drawn.size == integers
    assert reuse_p_value(drawn) > 1e-9
    again = np.resize(drawn[: integers // 2], integers)
    assert reuse_p_value(again) < 1e-9


def test_opendp_refuses_a_sigma_that_was_not_paid_for() -> None:
    terms, _ = terms_for(5.0, 3)
    with pytest.raises(PrivacyRefusal, match="nothing was released"):
        SecureNoise().draw(terms, Budget(0.019), b"")


@pytest.mark.parametrize("source", [SecureNoise(), SimulatedNoise(0, "a")])
def test_the_door_adds_noise_of_the_size_that_the_terms_say(source: NoiseSource) -> None:
    exact = np.arange(20_000, dtype=np.int64)
    terms, price = terms_for(21.3, exact.size)
    noise = add_noise(Exact(exact), terms, price, source, b"k").values - exact
    assert noise.dtype == np.int64
    if not source.simulated:  # another outcome each time: one that is never met by chance
        assert gaussian_p_value(noise, terms.sigma) > 1e-9
        return
    error = terms.sigma / math.sqrt(2 * exact.size)
    assert abs(noise.std() - terms.sigma) < 4 * error
    assert abs(noise.mean()) < 4 * terms.sigma / math.sqrt(exact.size)


@pytest.mark.parametrize("start", [0, 2**53, 2**62], ids=["small", "beyond doubles", "large"])
def test_the_door_adds_integers_to_integers(start: int) -> None:
    exact = start + np.arange(1_000, dtype=np.int64)
    (terms, price), source = terms_for(7.3, exact.size), SimulatedNoise(0, "a")
    drawn = source.draw(terms, price, b"k")
    noisy = add_noise(Exact(exact), terms, price, source, b"k").values
    assert noisy.dtype == np.int64
    assert noisy.tolist() == [a + b for a, b in zip(exact.tolist(), drawn.tolist(), strict=True)]
