"""Clocks that stand still or jump, for whatever might take noise or a decision from the time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from unittest import mock

_HOUR = 3_600

_CLOCKS = ("time", "monotonic", "perf_counter", "process_time")


@contextmanager
def stopped_clock() -> Iterator[None]:
    """The same time for whoever asks Python for it."""
    with ExitStack() as stack:
        for name in _CLOCKS:
            stack.enter_context(mock.patch.object(time, name, return_value=1.8e9))
            stack.enter_context(mock.patch.object(time, f"{name}_ns", return_value=18 * 10**17))
        yield


@contextmanager
def jumping_clock() -> Iterator[None]:
    """An hour later for whoever asks Python for the time once more."""
    hours = count()
    with ExitStack() as stack:
        for name in _CLOCKS:
            later = partial(_later, hours, 1.8e9)
            stack.enter_context(mock.patch.object(time, name, later))
            later_ns = partial(_later, hours, 18 * 10**17, 10**9)
            stack.enter_context(mock.patch.object(time, f"{name}_ns", later_ns))
        yield


def _later(hours: Iterator[int], start: float, units: int = 1) -> float:
    return start + next(hours) * _HOUR * units
