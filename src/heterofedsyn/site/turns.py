"""Whose query is next: one at a time, and the studies in turn, however many queries each sends."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition


class Crowded(Exception):
    """There is no room to wait, and nobody of whose study more are waiting."""


@dataclass(eq=False)
class _Ticket:
    called: bool = False
    sent_away: bool = False


class Turns:
    """Gives turns to studies round robin, and within a study in order of arrival.

    When as many wait as may, the last one of the study of which most are waiting is sent away: no
    study can keep another from waiting.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._change = Condition()
        self._queues: OrderedDict[str, deque[_Ticket]] = OrderedDict()
        self._waiting = 0
        self._busy = False

    @contextmanager
    def of(self, study: str) -> Iterator[None]:
        """The turn of one query of this study.

        Raises:
            Crowded: if this one was sent away.
        """
        with self._change:
            ticket = self._join(study)
            self._call_next()
            self._change.wait_for(lambda: ticket.called or ticket.sent_away)
            if ticket.sent_away:
                raise Crowded
        try:
            yield
        finally:
            with self._change:
                self._busy = False
                self._call_next()

    def _join(self, study: str) -> _Ticket:
        if self._waiting >= self._most:
            longest = max(self._queues, key=lambda name: len(self._queues[name]))
            # Who would only take the place of one of its own is sent away itself.
            if len(self._queues.get(study, ())) + 1 >= len(self._queues[longest]):
                raise Crowded
            self._queues[longest].pop().sent_away = True
            self._waiting -= 1
            self._change.notify_all()
        ticket = _Ticket()
        self._queues.setdefault(study, deque()).append(ticket)
        self._waiting += 1
        return ticket

    def _call_next(self) -> None:
        """Call the first of the study that has waited longest since its last turn."""
        if self._busy or not self._waiting:
            return
        study, queue = next(iter(self._queues.items()))
        queue.popleft().called = True
        self._waiting -= 1
        self._busy = True
        del self._queues[study]
        if queue:
            self._queues[study] = queue  # behind all others
        self._change.notify_all()
