"""How far a study is, as its coordinator sees it; nothing finer than four reasons for a refusal."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum

import msgspec

from heterofedsyn.hub import Absence, Request
from heterofedsyn.hub.replies import ANSWER, Reply
from heterofedsyn.hub.steps import KEYS


class State(StrEnum):
    """Where a study stands."""

    RUNNING = "running"
    STOPPED = "stopped"
    DONE = "done"


class RoundProgress(msgspec.Struct, frozen=True, kw_only=True):
    """One round, or one step of it: whom it went to, who answered, and who did not and why.

    Attributes:
        round: counted from 1; 0 is what is asked before the first.
        step: which of the exchanges about its query it is.
        again: whether who is not there is asked again while there is time.
        resumed: taken from the journal, so that nobody was asked.
        seconds: from asking to the last answer, rounded up to tens: who waited for whom, and how
            long exactly, is nobody else's business.
        sent: bytes to each site; the most, where they differ.
        received: bytes from each site that answered.
    """

    round: int
    label: str
    parts: int
    step: str = ANSWER
    again: bool = False
    asked: tuple[str, ...]
    answered: tuple[str, ...] = ()
    absent: tuple[Absence, ...] = ()
    resumed: bool = False
    finished: bool = False
    seconds: float = 0.0
    sent: int = 0
    received: dict[str, int] = {}

    @classmethod
    def of(cls, request: Request) -> RoundProgress:
        """A request of which nothing has come yet."""
        query, before = request.query, request.step == KEYS
        return cls(
            round=0 if before else query.number + 1,
            label=KEYS if before else query.label,
            parts=0 if before else len(query.parts),
            step=request.step,
            again=request.waits,
            asked=request.asked,
        )

    @property
    def place(self) -> tuple[int, str]:
        """Which it is."""
        return self.round, self.step

    @property
    def waited_for(self) -> tuple[str, ...]:
        """Whose answer may still come."""
        gone = () if self.again else {absence.site for absence in self.absent}
        return tuple(site for site in self.asked if site not in (*self.answered, *gone))

    def heard(self, replies: Iterable[Reply]) -> RoundProgress:
        """The same with who answered by now, and who did not."""
        found = {reply.site: reply for reply in replies if reply.site in self.asked}
        absent = tuple(reply for reply in found.values() if isinstance(reply, Absence))
        gone = {absence.site for absence in absent}
        answered = tuple(site for site in found if site not in gone)
        return msgspec.structs.replace(self, answered=answered, absent=absent)


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
        """The same with this round, or this step of one, as it is now."""
        others = tuple(known for known in self.rounds if known.place != found.place)
        return msgspec.structs.replace(self, rounds=(*others, found))
