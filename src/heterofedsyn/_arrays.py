"""Small array habits shared by every layer: read-only values, seeded streams, cores to use."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Codes = NDArray[np.unsignedinteger[Any]]
Array = TypeVar("Array", bound=np.ndarray[Any, Any])


@dataclass(frozen=True, eq=False)
class Exact:
    """Integers that still tell of rows; nothing but `privacy.noise.add_noise` lets them out."""

    values: Integers


def float_text(number: float) -> str:
    """A float as people write it: a whole one as that integer, others without an exponent.

    >>> float_text(2.0), float_text(1e-7)
    ('2', '0.0000001')
    """
    return str(int(number)) if number.is_integer() else f"{Decimal(float.__repr__(number)):f}"


def frozen(array: Array) -> Array:
    """The same array, made read-only."""
    array.setflags(write=False)
    return array


def stream(seed: int, purpose: str) -> np.random.Generator:
    """Reproducible randomness for one purpose; other purposes of the same seed are independent.

    Seeds as lists would not do: numpy gives 0 and [0, 0] the same stream.
    """
    key = int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:16], "big")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(key,)))


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
