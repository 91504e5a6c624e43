"""When replies leave: on ticks, so that the time of one tells little of how long it took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

TICK = 1.0
"""Seconds between two moments at which a reply may leave, unless a site says otherwise."""

MOST_TICK = 60.0

COARSEST = 64
"""Ticks at most between two moments at which long work may be told."""


@contextmanager
def on_tick(seconds: float) -> Iterator[None]:
    """Ends 1, 2, 4, ... or 64 ticks after it began, or a multiple of 64, whatever happens within.

    So long work, such as reading a table, is told more coarsely, and takes at most twice as long.

    Args:
        seconds: of a tick; 0 for none.
    """
    begun = time.monotonic()
    try:
        yield
    finally:
        if seconds > 0:
            passed, ticks = (time.monotonic() - begun) / seconds, 1
            while ticks <= passed and ticks < COARSEST:
                ticks *= 2
            ticks *= 1 + int(passed // ticks)
            time.sleep(max(0.0, begun + ticks * seconds - time.monotonic()))
