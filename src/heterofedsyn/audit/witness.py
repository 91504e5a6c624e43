"""A witness at the door: every exact integer that a site turns into a noisy one is seen here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

from heterofedsyn._arrays import Integers
from heterofedsyn.privacy.noise import Calibration, NoiseSource, add_noise
from heterofedsyn.site import answering


@dataclass(frozen=True, eq=False)
class Passage:
    """One release on its way through the door."""

    exact: Integers
    calibration: Calibration
    noisy: Integers
    key: bytes


@contextmanager
def at_the_door() -> Iterator[list[Passage]]:
    """What passes the door of sites in this process, in order."""
    seen: list[Passage] = []

    def door(exact: Integers, calibration: Calibration, noise: NoiseSource, key: bytes) -> Integers:
        noisy = add_noise(exact, calibration, noise, key)
        seen.append(Passage(exact, calibration, noisy, key))
        return noisy

    with mock.patch.object(answering, "add_noise", door):
        yield seen
