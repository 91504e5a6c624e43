"""Whose query is next: one at a time, and the studies in turn, however many queries each sends."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition

from heterofedsyn.protocol.refusal import Reason, Refused

_NO_ROOM = "too many queries of one study wait for their turn"
_CLOSED = "the agent stops, and only who had the turn is answered"


@dataclass(eq=False)
class _Ticket:
    called: bool = False
    sent_away: str = ""
    """Why, if it was."""


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
        self._closed = False

    @contextmanager
    def of(self, study: str) -> Iterator[None]:
        """The turn of one query of this study.

        Raises:
            Refused: as unavailable, if it gets none; the text says why.
        """
        ticket = _Ticket()
        try:
            with self._change:
                self._join(study, ticket)
                self._call_next()
                self._change.wait_for(lambda: ticket.called or ticket.sent_away)
                if ticket.sent_away:
                    raise Refused(Reason.UNAVAILABLE, ticket.sent_away)
            yield
        finally:
            with self._change:
                self._leave(study, ticket)

    def close(self) -> None:
        """Send away all who wait and all who come; who has the turn keeps it."""
        with self._change:
            self._closed = True
            for queue in self._queues.values():
                for ticket in queue:
                    ticket.sent_away = _CLOSED
            self._queues.clear()
            self._waiting = 0
            self._change.notify_all()

    def _join(self, study: str, ticket: _Ticket) -> None:
        if self._closed:
            raise Refused(Reason.UNAVAILABLE, _CLOSED)
        if self._waiting >= self._most:
            longest = max(self._queues, key=lambda name: len(self._queues[name]))
            # Who would only take the place of one of its own is sent away itself.
            if len(self._queues.get(study, ())) + 1 >= len(self._queues[longest]):
                raise Refused(Reason.UNAVAILABLE, _NO_ROOM)
            self._queues[longest].pop().sent_away = _NO_ROOM
            self._waiting -= 1
            self._change.notify_all()
        self._queues.setdefault(study, deque()).append(ticket)
        self._waiting += 1

    def _leave(self, study: str, ticket: _Ticket) -> None:
        """End a turn, or the wait for it if that was interrupted."""
        if ticket.called:
            self._busy = False
            self._call_next()
        elif ticket in (queue := self._queues.get(study, deque())):
            queue.remove(ticket)
            self._waiting -= 1
            if not queue:
                del self._queues[study]

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
