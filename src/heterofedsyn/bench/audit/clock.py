"""A clock that stands still, for whatever might take its noise from the time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

_CLOCKS = ("time", "monotonic", "perf_counter", "process_time")


@contextmanager
def stopped_clock() -> Iterator[None]:
    """The same time for whoever asks Python for it."""
    with ExitStack() as stack:
        for name in _CLOCKS:
            stack.enter_context(mock.patch.object(time, name, return_value=1.8e9))
            stack.enter_context(mock.patch.object(time, f"{name}_ns", return_value=18 * 10**17))
        yield
