"""Where exact becomes noisy: the one door, and the two sources of noise behind it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any, Protocol

import numpy as np

from heterofedsyn._arrays import Integers
from heterofedsyn.errors import PrivacyRefusal
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.trust import Trust

_UNBIASED_SINCE = (0, 16)

MOST_SIGMA = 2.0**40
"""Noise that could reach the end of 64-bit integers would be cut off there, and so tell."""


@dataclass(frozen=True)
class Calibration:
    """How one release is protected, fixed before any noise is drawn."""

    sensitivity: float
    sigma: float
    """What this site adds to every integer."""
    budget: Budget
    """What the release costs under the declared trust model."""
    alone: Budget
    """What the message would cost if it were seen by itself."""

    @classmethod
    def of(
        cls,
        sensitivity: float,
        budget: Budget,
        integers: int,
        trust: Trust,
        l1: float | None = None,
    ) -> Calibration:
        """The noise for a release at this price; see `Trust.site_sigma` for what it moves."""
        sigma = trust.site_sigma(sensitivity, budget, integers, l1)
        if sigma > MOST_SIGMA:
            raise PrivacyRefusal(
                f"noise of sigma {sigma:.3g} does not fit 64-bit integers; ask with a larger share"
            )
        return cls(
            sensitivity=sensitivity,
            sigma=sigma,
            budget=budget,
            alone=budget.times(trust.alone_factor),
        )


class NoiseSource(Protocol):
    """Draws discrete Gaussian noise."""

    simulated: bool
    """Whether someone who knows a seed could undo the noise."""

    def draw(self, calibration: Calibration, integers: int, key: bytes) -> Integers:
        """Noise for one release; `key` names the release."""
        ...


def add_noise(
    exact: Integers, calibration: Calibration, noise: NoiseSource, key: bytes
) -> Integers:
    """The door: integers of known sensitivity become integers that may leave."""
    return exact + noise.draw(calibration, exact.size, key)


@dataclass(frozen=True)
class SecureNoise:
    """OpenDP's discrete Gaussian, fresh from the operating system at every draw."""

    simulated = False

    def draw(self, calibration: Calibration, integers: int, key: bytes) -> Integers:
        dp, space = _opendp()
        gaussian = dp.m.make_gaussian(*space, scale=calibration.sigma)
        price = gaussian.map(calibration.sensitivity)
        if not price <= calibration.alone.rho:
            raise PrivacyRefusal(
                f"OpenDP prices a release at rho={price} but only {calibration.alone.rho} was "
                "charged; nothing was released"
            )
        return np.array(gaussian(np.zeros(integers, dtype=np.int64)), dtype=np.int64)


@dataclass(frozen=True)
class SimulatedNoise:
    """Reproducible discrete Gaussian noise, for research: anyone with the seed can undo it."""

    seed: int
    site: str
    simulated = True

    def draw(self, calibration: Calibration, integers: int, key: bytes) -> Integers:
        from heterofedsyn.privacy._noise_kernel import discrete_gaussian

        name = b"\0".join([str(self.seed).encode(), self.site.encode(), key])
        stream = np.random.PCG64(int.from_bytes(hashlib.sha256(name).digest(), "big"))
        out = np.empty(integers, dtype=np.int64)
        discrete_gaussian(np.random.Generator(stream), calibration.sigma, out)
        return out


@cache
def _opendp() -> tuple[Any, tuple[Any, Any]]:
    import opendp.prelude as dp

    installed = version("opendp")
    if tuple(map(int, re.findall(r"\d+", installed)[:2])) < _UNBIASED_SINCE:
        raise PrivacyRefusal(f"OpenDP {installed} may draw biased noise; install 0.16 or later")
    dp.enable_features("contrib")
    return dp, (dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float))
