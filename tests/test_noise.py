"""Noise: exact discrete Gaussians from both sources, through one door."""

from __future__ import annotations

import math

import numpy as np
import pytest

from heterofedsyn.errors import PrivacyRefusal
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.goodness import gaussian_p_value, tails_p_value
from heterofedsyn.privacy.noise import (
    Calibration,
    NoiseSource,
    SecureNoise,
    SimulatedNoise,
    add_noise,
)
from heterofedsyn.privacy.trust import Local

SIGMAS = (0.5, 1.0, 2.5, 7.3, 41.0)


def calibration(sigma: float) -> Calibration:
    budget = Budget(1 / (2 * sigma**2) * (1 + 1e-9))
    return Calibration(1.0, sigma, budget, budget)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_simulated_noise_is_an_exact_discrete_gaussian(sigma: float) -> None:
    draws = SimulatedNoise(3, "site").draw(calibration(sigma), 1_000_000, b"key")
    assert gaussian_p_value(draws, sigma) > 1e-4


@pytest.mark.thorough
@pytest.mark.parametrize("sigma", SIGMAS)
def test_secure_noise_is_an_exact_discrete_gaussian(sigma: float) -> None:
    draws = SecureNoise().draw(calibration(sigma), 50_000, b"key")
    assert gaussian_p_value(draws, sigma) > 1e-6


@pytest.mark.thorough
def test_secure_noise_is_not_cut_off() -> None:
    drawn = [
        (SecureNoise().draw(calibration(s), 20_000, b"key"), s) for s in (1.5, 7.3, 41.0, 200.0)
    ]
    assert tails_p_value(drawn) > 1e-6
    cut = [(noise.clip(-int(3.5 * s), int(3.5 * s)), s) for noise, s in drawn]
    assert tails_p_value(cut) < 1e-9


def test_a_wrong_sigma_would_be_noticed() -> None:
    draws = SimulatedNoise(3, "site").draw(calibration(7.3), 1_000_000, b"key")
    assert gaussian_p_value(draws, 7.3 * 1.01) < 1e-6


def test_simulated_noise_depends_on_seed_site_and_key_alone() -> None:
    terms = calibration(10.0)
    first = SimulatedNoise(1, "a").draw(terms, 1_000, b"x")
    assert np.array_equal(first, SimulatedNoise(1, "a").draw(terms, 1_000, b"x"))
    others = [
        SimulatedNoise(2, "a").draw(terms, 1_000, b"x"),
        SimulatedNoise(1, "b").draw(terms, 1_000, b"x"),
        SimulatedNoise(1, "a").draw(terms, 1_000, b"y"),
        SimulatedNoise(1, "a\0").draw(terms, 1_000, b"x"),
    ]
    for other in others:
        # Independent streams: the correlation of 1,000 pairs has standard error 0.032.
        assert abs(np.corrcoef(first, other)[0, 1]) < 4 / math.sqrt(1_000)


def test_secure_noise_is_fresh_at_every_draw() -> None:
    terms = calibration(1_000.0)
    draws = [tuple(SecureNoise().draw(terms, 8, b"same key")) for _ in range(5)]
    assert len(set(draws)) == 5


def test_opendp_refuses_a_sigma_that_was_not_paid_for() -> None:
    unpaid = Calibration(1.0, 5.0, Budget(0.019), Budget(0.019))
    with pytest.raises(PrivacyRefusal, match="nothing was released"):
        SecureNoise().draw(unpaid, 3, b"")


@pytest.mark.parametrize("source", [SecureNoise(), SimulatedNoise(0, "a")])
def test_the_door_adds_noise_of_the_calibrated_size(source: NoiseSource) -> None:
    exact = np.arange(20_000, dtype=np.int64)
    terms = Calibration.of(3.0, Budget(0.01), exact.size, Local(4))
    noise = add_noise(exact, terms, source, b"k") - exact
    assert noise.dtype == np.int64
    error = terms.sigma / math.sqrt(2 * exact.size)
    assert abs(noise.std() - terms.sigma) < 4 * error
    assert abs(noise.mean()) < 4 * terms.sigma / math.sqrt(exact.size)
