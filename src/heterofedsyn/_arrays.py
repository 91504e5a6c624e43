"""Small array habits shared by every layer: read-only values and fixed-width buffers."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Codes = NDArray[np.unsignedinteger[Any]]
Array = TypeVar("Array", bound=np.ndarray[Any, Any])


def frozen(array: Array) -> Array:
    """The same array, made read-only."""
    array.setflags(write=False)
    return array
