"""When replies leave: on ticks, so that the time of one tells little of how long it took."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

TICK = 1.0
"""Seconds between two moments at which a reply may leave, unless a site says otherwise."""

MOST_TICK = 60.0


@contextmanager
def on_tick(seconds: float) -> Iterator[None]:
    """Ends a whole number of ticks after it began, at least one, whatever happens within.

    Args:
        seconds: of a tick; 0 for none.
    """
    begun = time.monotonic()
    try:
        yield
    finally:
        if seconds > 0:
            ticks = math.floor((time.monotonic() - begun) / seconds) + 1
            time.sleep(max(0.0, begun + ticks * seconds - time.monotonic()))
