"""What an audit puts in the place of something for a while: clocks, and a witness at the door."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import count

from heterofedsyn._arrays import Exact, Integers
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.noise import NoiseSource, add_noise
from heterofedsyn.privacy.terms import Noised, Terms
from heterofedsyn.site import answering

_HOUR = 3_600
_CLOCKS = ("time", "monotonic", "perf_counter", "process_time")


@contextmanager
def patched(owner: object, **others: object) -> Iterator[None]:
    """Other attributes of a module or a class for a while; then it has its own again."""
    own = {name: vars(owner)[name] for name in others}
    try:
        for name, other in others.items():
            setattr(owner, name, other)
        yield
    finally:
        for name, former in own.items():
            setattr(owner, name, former)


def stopped_clock() -> AbstractContextManager[None]:
    """The same time for whoever asks Python for it."""
    return _clock(iter(lambda: 0, 1))


def jumping_clock() -> AbstractContextManager[None]:
    """An hour later for whoever asks Python for the time once more."""
    return _clock(count())


def _clock(hours: Iterator[int]) -> AbstractContextManager[None]:
    """Every clock of Python, at the next of these hours whenever somebody looks at one."""
    seconds = {name: lambda: 1.8e9 + next(hours) * _HOUR for name in _CLOCKS}
    units = {f"{name}_ns": lambda: (18 * 10**8 + next(hours) * _HOUR) * 10**9 for name in _CLOCKS}
    return patched(time, **seconds, **units)


@dataclass(frozen=True, eq=False)
class Passage:
    """One release on its way through the door."""

    exact: Integers
    terms: Terms
    noisy: Integers
    key: bytes


@contextmanager
def at_the_door() -> Iterator[list[Passage]]:
    """Every exact integer that a site of this process turns into a noisy one, in order."""
    seen: list[Passage] = []

    def door(exact: Exact, terms: Terms, alone: Budget, noise: NoiseSource, key: bytes) -> Noised:
        noised = add_noise(exact, terms, alone, noise, key)
        seen.append(Passage(exact.values, terms, noised.values, key))
        return noised

    with patched(answering, add_noise=door):
        yield seen
