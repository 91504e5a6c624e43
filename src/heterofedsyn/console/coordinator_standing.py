"""Where a study stands, for its coordinator: one verdict, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from heterofedsyn._words import sentence
from heterofedsyn.engines.progress import State
from heterofedsyn.engines.study_run import StudyStatus, stopped
from heterofedsyn.errors import HeterofedsynError
from heterofedsyn.protocol.study import Study

_LOOK = "look at the hub's log, and have the sites look at what `site doctor` says"
_ENDS = {
    "COMPLETED": "it ran to its end",
    "ABORTED": "somebody stopped it",
    "EXECUTION_EXCEPTION": f"it broke off with an error at the hub or a site; {_LOOK}",
    "FAILED_TO_RUN": f"the hub could not start it; {_LOOK}",
    "CAN_NOT_SCHEDULE": "the hub waited in vain for enough sites; ask them to start the engine",
}
"""What NVFlare's words for an end mean."""


@dataclass(frozen=True)
class Standing:
    """Where a study stands.

    Attributes:
        state: in a word or two, for a list.
        words: in a sentence or two; nothing if nobody knows.
        good: None if it is neither good news nor bad.
        runnable: whether the next step is to run it.
        sendable: whether the next step is to have it approved.
    """

    state: str
    words: str
    good: bool | None = None
    runnable: bool = False
    sendable: bool = False


def standing(
    study: Study, status: StudyStatus | None, releases: Sequence[str], now: datetime
) -> Standing:
    """Where a study stands by what the federation said last, and by what is in the folder.

    Args:
        status: None if the federation was not asked, or did not answer.
        releases: names of those that came of it.
    """
    if status is not None and status.runs:
        return Standing("is running", "It is running.")
    if releases:
        return Standing("came to a release", "It came to a release.", True)
    over = _over(study, now)
    if status is None or status.job is None:
        if over:
            return Standing("is expired", over, False)
        words = "" if status is None else "It was not run yet."
        return Standing("has no release yet", words, runnable=True, sendable=True)
    if status.progress is not None and status.progress.state is State.DONE:
        words = "It ran to its end, but its release is not in this folder: it lies where `study "
        return Standing("is done", f"{words}run` was told to write it (--out).", True)
    words = f"{_why(status)} {over}".strip()
    return Standing("came to no release", words, False, runnable=not over, sendable=not over)


def _over(study: Study, now: datetime) -> str:
    """Why a study can be asked no longer, if it cannot."""
    try:
        study.plan.said_about.check_open(now)
    except HeterofedsynError as error:
        return sentence(str(error))
    return ""


def _why(status: StudyStatus) -> str:
    """Why the last run came to no release, and what to do."""
    ending = status.status.rpartition(":")[2]
    meant = _ENDS.get(ending, f"it ended without a result; {_LOOK}")
    progress = status.progress
    if progress is not None and progress.message:
        return sentence(f"it stopped: {stopped(progress, status.status)}")
    return sentence(f"it came to no release: {meant}")
