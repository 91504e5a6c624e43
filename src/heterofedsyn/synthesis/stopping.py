"""Drawing that nobody waits for any longer ends at its next step.

A thread cannot be ended from outside, so the work looks up by itself: wherever rows are drawn, a
column or a pair at a time, it calls `step`. What takes long without one is not heard in between.
"""

from __future__ import annotations

from contextvars import ContextVar
from threading import Event

_STOP: ContextVar[Event] = ContextVar("stop", default=Event())  # noqa: B039 (it is never set)


class Stopped(BaseException):
    """Ends work that nobody waits for."""


def heed(stop: Event) -> None:
    """From now on the work of this thread ends at its next step once the event is set."""
    _STOP.set(stop)


def step() -> None:
    """Between two steps of the work.

    Raises:
        Stopped: if nobody waits for it any longer.
    """
    if _STOP.get().is_set():
        raise Stopped
