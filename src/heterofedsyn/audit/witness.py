"""A witness at the door: every exact integer that a site turns into a noisy one is seen here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

from heterofedsyn._arrays import Exact, Integers
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.noise import NoiseSource, add_noise
from heterofedsyn.privacy.terms import Noised, Terms
from heterofedsyn.site import answering


@dataclass(frozen=True, eq=False)
class Passage:
    """One release on its way through the door."""

    exact: Integers
    terms: Terms
    noisy: Integers
    key: bytes


@contextmanager
def at_the_door() -> Iterator[list[Passage]]:
    """What passes the door of sites in this process, in order."""
    seen: list[Passage] = []

    def door(exact: Exact, terms: Terms, alone: Budget, noise: NoiseSource, key: bytes) -> Noised:
        noised = add_noise(exact, terms, alone, noise, key)
        seen.append(Passage(exact.values, terms, noised.values, key))
        return noised

    with mock.patch.object(answering, "add_noise", door):
        yield seen
