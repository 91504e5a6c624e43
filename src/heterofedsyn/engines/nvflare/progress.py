"""How far a study is, as its coordinator sees it; nothing finer than four reasons for a refusal."""

from __future__ import annotations

import math
from enum import StrEnum

import msgspec

from heterofedsyn.hub.replies import Absence


class State(StrEnum):
    """Where a study stands."""

    RUNNING = "running"
    STOPPED = "stopped"
    DONE = "done"


class RoundProgress(msgspec.Struct, frozen=True, kw_only=True):
    """One round: whom it went to, who answered, and who did not, with a reason.

    Attributes:
        round: counted from 1.
        resumed: taken from the journal, so that nobody was asked.
        seconds: from asking to the last answer, rounded up to tens: who waited for whom, and how
            long exactly, is nobody else's business.
        sent: bytes to each site.
        received: bytes from each site that answered.
    """

    round: int
    label: str
    parts: int
    asked: tuple[str, ...]
    answered: tuple[str, ...] = ()
    absent: tuple[Absence, ...] = ()
    resumed: bool = False
    finished: bool = False
    seconds: float = 0.0
    sent: int = 0
    received: dict[str, int] = {}


def rough(seconds: float) -> float:
    """A time as it may be published: the next ten seconds.

    >>> rough(0.2), rough(10.0), rough(31.4)
    (10.0, 10.0, 40.0)
    """
    return 10.0 * max(1, math.ceil(seconds / 10))


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """A whole study so far.

    Attributes:
        message: why it stopped.
        wrong_use: whether it stopped because of what it was asked to do.
    """

    study: str
    state: State = State.RUNNING
    rounds: tuple[RoundProgress, ...] = ()
    message: str = ""
    wrong_use: bool = False

    def with_round(self, found: RoundProgress) -> Progress:
        """The same with this round as it is now."""
        others = tuple(known for known in self.rounds if known.round != found.round)
        return msgspec.structs.replace(self, rounds=(*others, found))
