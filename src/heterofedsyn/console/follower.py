"""Asks the federation in the background how far a study is, while somebody looks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock, Thread

import msgspec

from heterofedsyn.engines.nvflare.job import connect
from heterofedsyn.engines.presence import Sightings
from heterofedsyn.engines.study_run import StudyStatus, study_status
from heterofedsyn.errors import HeterofedsynError
from heterofedsyn.protocol.study import Study

LOOK_SECONDS = 2.0
"""Between two questions to the server."""

AGAIN_SECONDS = 10.0
"""Before a server is asked again that did not answer, or of a study that has ended."""

UNSEEN_SECONDS = 15.0
"""Without an open page, after which nobody is asked any more."""

_FAILED = "NVFlare failed ({}); it is asked again. If that goes on, see `heterofedsyn study status`"

Ask = Callable[[Study], StudyStatus]
Session = Callable[[], AbstractContextManager[Ask]]


@dataclass(frozen=True)
class Followed:
    """What is known of a study that runs, or why nothing is; neither before the first answer."""

    status: StudyStatus | None = None
    problem: str = ""


class Follower:
    """Follows the study that was looked at last.

    Args:
        session: opens a way to ask; it is kept open while somebody looks.

    Attributes:
        turn: grows whenever something is new.
    """

    def __init__(self, session: Session) -> None:
        self.turn = 0
        self._session = session
        self._lock = Lock()
        self._study: Study | None = None
        self._found: dict[str, Followed] = {}
        self._seen = 0.0
        self._works = False
        self._another = Event()

    def look(self, study: Study) -> Followed:
        """What is known of a study by now; from now on it is followed."""
        with self._lock:
            if self._study != study:
                self._study = study
                self._another.set()
            self._seen = time.monotonic()
            if not self._works:
                self._works = True
                Thread(target=self._work, daemon=True).start()
            return self._found.get(study.fingerprint, Followed())

    def known(self, study: Study) -> Followed:
        """The same, of a study that nobody need follow."""
        with self._lock:
            return self._found.get(study.fingerprint, Followed())

    def still_here(self) -> None:
        """A page is open."""
        self._seen = time.monotonic()

    def _work(self) -> None:
        while not self._followed():
            self._rest(AGAIN_SECONDS)

    def _followed(self) -> bool:
        """Follow in one session; whether nobody looks any more."""
        try:
            with self._session() as ask:
                while (study := self._wanted()) is not None:
                    status = self._with_before(ask(study))
                    self._keep(study, Followed(status))
                    over = status.job is not None and not status.runs
                    self._rest(AGAIN_SECONDS if over else LOOK_SECONDS)
                return True
        except Exception as error:  # a page must say so instead of waiting for ever
            study = self._wanted()
            if study is None:
                return True
            known = isinstance(error, HeterofedsynError)
            words = str(error) if known else _FAILED.format(type(error).__name__)
            self._keep(study, Followed(problem=words))
            return False

    def _with_before(self, status: StudyStatus) -> StudyStatus:
        """The same with the rounds that are known: a job that is about to end tells none."""
        before = self._found.get(status.study, Followed()).status
        if before is None or before.job != status.job or status.progress is not None:
            return status
        return msgspec.structs.replace(status, progress=before.progress)

    def _rest(self, seconds: float) -> None:
        """Wait so long, or until another study is looked at."""
        self._another.wait(seconds)
        self._another.clear()

    def _wanted(self) -> Study | None:
        with self._lock:
            if time.monotonic() - self._seen < UNSEEN_SECONDS:
                return self._study
            self._works = False
            self._found.clear()  # it would be old when somebody looks again
            return None

    def _keep(self, study: Study, found: Followed) -> None:
        with self._lock:
            if self._found.get(study.fingerprint) != found:
                self._found[study.fingerprint] = found
                self.turn += 1


def of_kit(kit: Path) -> Session:
    """Asks the server of a coordinator's kit."""

    @contextmanager
    def session() -> Iterator[Ask]:
        seen: dict[str, Sightings] = {}
        with connect(kit) as hub:
            yield lambda study: study_status(
                hub, study, seen.setdefault(study.fingerprint, Sightings(study.plan.sites))
            )

    return session
