"""Small array habits shared by every layer: read-only values, seeded streams, cores to use."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

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


def arrow_of(values: NDArray[Any], missing: NDArray[np.bool_] | None = None) -> pa.Array:
    """Numbers or truth values in Arrow, null where they are missing.

    As `pa.array` does it, which first imports pandas where there is one: that takes longer than
    most of what is done with the array.

    >>> arrow_of(np.array([3, 5]), np.array([False, True])).to_pylist()
    [3, None]
    """
    import pyarrow as pa

    def buffer(array: NDArray[Any]) -> pa.Buffer:
        plain = np.ascontiguousarray(array)
        return pa.py_buffer(
            np.packbits(plain, bitorder="little") if plain.dtype.kind == "b" else plain
        )

    valid = None if missing is None or not missing.any() else buffer(~missing)
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [valid, buffer(values)])


def numpy_of(array: pa.Array) -> NDArray[Any]:
    """Numbers or truth values from Arrow, of which none is missing; see `arrow_of`.

    >>> numpy_of(arrow_of(np.array([True, False, True]))[1:]).tolist()
    [False, True]
    """
    kind, many, start = np.dtype(array.type.to_pandas_dtype()), len(array), array.offset
    data = array.buffers()[1]  # perhaps nothing, if there are no values; the steps are the same
    if kind.kind != "b":
        return frozen(np.ndarray(many, kind, data, start * kind.itemsize))
    byte, first = divmod(start, 8)
    bits = np.ndarray(-(-(first + many) // 8), np.uint8, data, byte)
    return np.unpackbits(bits, bitorder="little")[first : first + many].view(np.bool_)


def arrow_text(words: Sequence[str]) -> pa.Array:
    """Words in Arrow; see `arrow_of`.

    >>> arrow_text(["male", "", "ä"]).to_pylist()
    ['male', '', 'ä']
    """
    import pyarrow as pa

    coded = [word.encode() for word in words]
    ends = np.cumsum([0, *map(len, coded)])
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(coded))]
    return pa.Array.from_buffers(pa.large_string(), len(coded), buffers).cast(pa.string())


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
