"""Where exact becomes noisy: the one door, and the two sources of noise behind it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import version
from typing import Any, Protocol

import numpy as np

from heterofedsyn._arrays import Exact, Integers
from heterofedsyn.errors import PrivacyRefusal
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.terms import Noised, NoisyIntegers, Terms

_LEAST_OPENDP = (0, 16)
"""Before 0.14.2 its discrete Gaussian has the wrong shape at some sigmas; ours is tried since."""


class NoiseSource(Protocol):
    """Draws discrete Gaussian noise."""

    simulated: bool
    """Whether someone who knows a seed could undo the noise."""

    def draw(self, terms: Terms, alone: Budget, key: bytes) -> Integers:
        """Noise for one release on these terms.

        Args:
            alone: what was charged for the case that somebody sees the message by itself.
            key: names the release.
        """
        ...


def add_noise(exact: Exact, terms: Terms, alone: Budget, noise: NoiseSource, key: bytes) -> Noised:
    """The door: exact integers of known sensitivity become integers that may leave."""
    return Noised(NoisyIntegers(exact.values + noise.draw(terms, alone, key)), terms)


@dataclass(frozen=True)
class SecureNoise:
    """OpenDP's discrete Gaussian, fresh from the operating system at every draw."""

    simulated = False

    def draw(self, terms: Terms, alone: Budget, key: bytes) -> Integers:
        gaussian = _gaussian(terms.sigma)
        price = gaussian.map(terms.sensitivity)
        if not price <= alone.rho:
            raise PrivacyRefusal(
                f"OpenDP prices a release at rho={price} but only {alone.rho} was charged; nothing "
                "was released"
            )
        return np.array(gaussian(np.zeros(terms.integers, dtype=np.int64)), dtype=np.int64)


@dataclass(frozen=True)
class SimulatedNoise:
    """Reproducible discrete Gaussian noise, for research: anyone with the seed can undo it."""

    seed: int
    site: str
    simulated = True

    def draw(self, terms: Terms, alone: Budget, key: bytes) -> Integers:
        from heterofedsyn.privacy._noise_kernel import discrete_gaussian

        name = b"\0".join([str(self.seed).encode(), self.site.encode(), key])
        stream = np.random.PCG64(int.from_bytes(hashlib.sha256(name).digest(), "big"))
        out = np.empty(terms.integers, dtype=np.int64)
        discrete_gaussian(np.random.Generator(stream), terms.sigma, out)
        return out


def check_version() -> None:
    """Refuse an OpenDP that may draw biased noise.

    Raises:
        PrivacyRefusal: naming the version.
    """
    installed = version("opendp")
    # A number of two parts is no reason for a library of versions.
    if tuple(map(int, re.findall(r"\d+", installed)[:2])) < _LEAST_OPENDP:
        raise PrivacyRefusal(f"OpenDP {installed} may draw biased noise; install 0.16 or later")


@lru_cache(maxsize=1_024)
def _gaussian(sigma: float) -> Any:
    """What draws noise of this sigma, fresh whenever it is asked; making it takes as long."""
    dp, space = _opendp()
    return dp.m.make_gaussian(*space, scale=sigma)


@cache
def _opendp() -> tuple[Any, tuple[Any, Any]]:
    import opendp.prelude as dp

    check_version()
    dp.enable_features("contrib")
    return dp, (dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float))
