"""One exchange with several sites, each with a message of its own; again if they are not there.

An engine says how a message is sent and what came back. Whom to ask, when to ask again and when to
give up is said here, and the time is kept here: what an engine notices is not relied on for more.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping

import msgspec

from heterofedsyn.hub import Absence, Request
from heterofedsyn.hub.replies import Reply
from heterofedsyn.protocol.refusal import Reason

AGAIN_SECONDS = 3.0
"""Between two tries with a site that was not there."""


class Heard(msgspec.Struct, frozen=True):
    """What an engine brings from a site; none of it is believed yet.

    Attributes:
        answer: bytes, if all is well.
        reason: why there are none, in one of four words, if all is well.
    """

    answer: object = None
    reason: object = None

    @classmethod
    def nothing(cls) -> Heard:
        """That a site, or the engine there, failed."""
        return cls(reason=Reason.UNAVAILABLE.value)

    @property
    def size(self) -> int:
        """Bytes of the answer."""
        return len(self.answer) if isinstance(self.answer, bytes) else 0

    def read(self, request: Request, site: str, *, simulated: bool = False) -> Reply:
        """What it says; nothing in it is believed but the answer and four reasons.

        Args:
            simulated: whether the noise of a simulation is good enough.
        """
        if self.reason is None:
            return request.read(site, self.answer, simulated=simulated)
        known = (reason for reason in Reason if reason == self.reason)
        return Absence.refused(site, next(known, Reason.UNAVAILABLE))


class Exchange(ABC):
    """One exchange with several sites.

    Args:
        messages: for every site that is asked.
        seconds: after which nobody is waited for any more.
        again: whether a site that is not there is asked again until then.
    """

    def __init__(self, messages: Mapping[str, bytes], seconds: float, *, again: bool) -> None:
        self._messages = messages
        self._again = again
        now = time.monotonic()
        self._until = now + seconds
        self._due = dict.fromkeys(messages, now)
        """When to ask sites of which nothing is expected."""
        self._open: set[str] = set()
        """Sites that were asked and have not answered."""

    def results(self, over: Callable[[], bool]) -> Generator[tuple[str, Heard]]:
        """What sites say, as it comes, until all did, the time is over, or somebody says so."""
        try:
            while (self._open or self._due) and not over():
                now = time.monotonic()
                if now >= self._until:
                    return
                self._schedule(now)
                for site, heard in self._came():
                    if site in self._open:  # an engine may bring a thing twice
                        self._open.discard(site)
                        yield site, heard
        finally:
            self._cancel(self._open)

    def ask_again(self, site: str) -> None:
        """Ask a site once more in a while, if this exchange waits for sites."""
        if self._again:
            self._due[site] = time.monotonic() + AGAIN_SECONDS

    def _schedule(self, now: float) -> None:
        for site in [*self._lost()]:
            self._open.discard(site)
            self.ask_again(site)
        for site in [site for site, due in self._due.items() if due <= now]:
            del self._due[site]
            self._open.add(site)
            self._send(site, self._messages[site], self._until - now)

    @abstractmethod
    def _send(self, site: str, message: bytes, seconds: float) -> None:
        """Let a site have a message, which is of no use any more after so many seconds."""

    @abstractmethod
    def _came(self) -> Iterable[tuple[str, Heard]]:
        """What came since; waits a moment if it is nothing."""

    def _lost(self) -> Iterable[str]:
        """Sites that were asked in vain, as far as the engine knows."""
        return ()

    @abstractmethod
    def _cancel(self, sites: Iterable[str]) -> None:
        """Let these have their message no more, where the engine can do that."""


Begin = Callable[[Mapping[str, bytes], float, bool], Exchange]
"""Begins an exchange: messages, seconds, and whether who is not there is asked again."""
