"""On what terms some integers are released, and integers that were: both say how they are safe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NewType

import msgspec
import numpy as np

from heterofedsyn._arrays import Integers, frozen

NoisyIntegers = NewType("NoisyIntegers", Integers)
"""Integers that may leave: `privacy.noise.add_noise` makes them, and sums of what left. Beside them
only messages that were read, and dry runs of a plan, which meet no rows, call integers so: a test
knows who does."""


class Terms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is released and how it is protected: the same facts for site, hub, ledger and reader.

    Attributes:
        sensitivity: how far one person can move it (L2).
        sigma: of the noise on every integer.
        rho: what it costs under the declared trust model.
    """

    kind: str
    attributes: tuple[str, ...]
    sensitivity: float
    sigma: float
    integers: int
    rho: float

    @property
    def price_of_noise(self) -> float:
        """What it costs where this noise alone protects: sensitivity^2 / (2 sigma^2)."""
        return (self.sensitivity / self.sigma) ** 2 / 2


@dataclass(frozen=True, eq=False)
class Noised:
    """Noisy integers on their terms: what messages are made from."""

    values: NoisyIntegers
    terms: Terms

    def __post_init__(self) -> None:
        if self.values.size != self.terms.integers:
            raise ValueError(f"{self.values.size} integers on terms for {self.terms.integers}")
        frozen(self.values)


def added(parts: Sequence[NoisyIntegers]) -> NoisyIntegers:
    """The sum of what may leave may leave; modulo 2^64, as sums under masks are."""
    words = [part.view(np.uint64) for part in parts]
    total: Integers = np.add.reduce(words, dtype=np.uint64).view(np.int64)
    return NoisyIntegers(total)
