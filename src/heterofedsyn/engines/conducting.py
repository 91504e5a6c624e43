"""The hub's end of any engine: it runs a study, keeps its rounds and writes its release.

Rounds are on the disk as soon as they are finished, so that whoever runs a study may be ended at
any time; an engine only carries messages (`exchange`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from threading import Lock

import msgspec

from heterofedsyn._files import file_written_whole
from heterofedsyn.engines.exchange import Begin
from heterofedsyn.engines.progress import Progress, RoundProgress, State, rough
from heterofedsyn.engines.task import PROGRESS_FILE, RELEASE, STUDY_FILE, check_keys, unpack
from heterofedsyn.errors import HeterofedsynError, UsageError
from heterofedsyn.hub import Absence, Release, Request, drive, of_study
from heterofedsyn.hub.journal import Journal, alone
from heterofedsyn.hub.release import MOST_UNASKED
from heterofedsyn.hub.replies import NO_ANSWER, UNAVAILABLE, Reply
from heterofedsyn.protocol import Study
from heterofedsyn.protocol.limits import NOISE_SECONDS

HUB = "HETEROFEDSYN_HUB"
"""Environment variable of the server that names the folder of journals and releases."""

START_SECONDS = 60.0
"""That sites may take longer in the first round of a job, in which their processes start."""


Failed = Callable[[str, str], None]
"""Hears why a study stopped: for the server's log, and for its coordinator."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What a coordinator ordered.

    Attributes:
        study: the study file's text, packed.
        resume: continue from the rounds that are kept from an earlier job.
        rows: synthetic rows of the release; the noisy total, within reason, unless given.
        safe_csv: as in `Release.save`.
    """

    study: str
    resume: bool = False
    rows: int | None = None
    safe_csv: bool = False

    def save(self, release: Release, folder: Path, *copies: Path) -> None:
        """Write the release as it was ordered."""
        rows = min(release.run.noisy_total, MOST_UNASKED) if self.rows is None else self.rows
        release.save(folder, rows=rows, overwrite=True, safe_csv=self.safe_csv, copies=[*copies])


class Stopped(Exception):
    """The engine was told to end the study."""


class Conductor:
    """Runs one study over the sites of its plan.

    Args:
        hub: where journals and releases are kept.
        result: a folder for what this job says of itself; made if it is not there.
        copies: whether the release is copied there.
        simulated: whether answers with the noise of a simulation count, which protects nobody.
        private: more folders that a coordinator need not hear of.
    """

    def __init__(
        self,
        order: Order,
        hub: Path,
        result: Path,
        *,
        copies: bool,
        simulated: bool = False,
        private: Sequence[Path] = (),
    ) -> None:
        self._order = order
        self._private = (hub, result, *private)
        self._hub, self._result, self._copies = hub, result, copies
        self._simulated = simulated
        self._turn = Lock()
        self.progress = Progress(study="")

    def run(self, begin: Begin, over: Callable[[], bool], failed: Failed) -> None:
        """The whole study; why it stops, if it does, stands in its progress.

        Args:
            begin: begins an exchange with sites.
            over: whether the engine was told to end it.
            failed: hears why it stopped.
        """
        try:
            self._result.mkdir(parents=True, exist_ok=True)
            (self._result / STUDY_FILE).write_bytes(unpack(self._order.study).encode())
            study = Study.load(self._result / STUDY_FILE)
            check_keys(study)
            self._note(Progress(study=study.fingerprint))
            folder = self._hub / study.fingerprint
            make = Journal.open if self._order.resume else Journal.create

            def carry(request: Request) -> Sequence[Reply]:
                return self._carry(request, study.patience, begin, over)

            with alone(folder):
                rounds = _Watched(make(folder / "rounds", study), self)
                release = drive(of_study(study), carry, rounds)
                copies = [self._result / RELEASE] if self._copies else []
                self._order.save(release, folder / RELEASE, *copies)
        except Stopped:
            self._stop("the job was stopped; continue with --resume", False, failed)
        except HeterofedsynError as error:
            self._stop(str(error), isinstance(error, UsageError), failed)
        except Exception as error:
            self._stop(f"unexpected {type(error).__name__}; see the server's log", False, failed)
            raise
        else:
            self._note(msgspec.structs.replace(self.progress, state=State.DONE))

    def finished(self, request: Request, replies: Sequence[Reply], *, resumed: bool) -> None:
        """Note a finished round, or a finished step of one."""
        fresh = RoundProgress.of(request)
        known = [found for found in self.progress.rounds if found.place == fresh.place]
        found = known[0] if known else msgspec.structs.replace(fresh, resumed=resumed)
        found = msgspec.structs.replace(found.heard(replies), finished=True)
        self._note(self.progress.with_round(found))

    def _carry(
        self, request: Request, patience: float, begin: Begin, over: Callable[[], bool]
    ) -> list[Reply]:
        """Ask sites and wait for all of them, at most as long as the study lets a round take."""
        # Twice the time that noise takes.
        seconds = patience + 2 * NOISE_SECONDS * request.integers
        if not any(known.sent for known in self.progress.rounds):
            seconds += START_SECONDS
        begun = time.monotonic()
        messages = {site: request.message(site) for site in request.asked}
        state = msgspec.structs.replace(
            RoundProgress.of(request), sent=max(map(len, messages.values()))
        )
        self._note(self.progress.with_round(state))
        replies: dict[str, Reply] = {}
        received: dict[str, int] = {}
        exchange = begin(messages, seconds, request.waits)
        with closing(exchange.results(over)) as results:
            for site, heard in results:
                reply = replies[site] = heard.read(request, site, simulated=self._simulated)
                if isinstance(reply, Absence):
                    if reply.reason == UNAVAILABLE:
                        exchange.ask_again(site)
                else:
                    received[site] = heard.size
                self._note(
                    self.progress.with_round(
                        msgspec.structs.replace(
                            state.heard(replies.values()),
                            seconds=rough(time.monotonic() - begun),
                            received=dict(received),
                        )
                    )
                )
                if request.enough([*replies.values()]):
                    break
        if over():
            raise Stopped
        return [replies.get(site, Absence(site, NO_ANSWER)) for site in request.asked]

    def _stop(self, message: str, wrong_use: bool, failed: Failed) -> None:
        told = _without(message, self._private)
        self._note(
            msgspec.structs.replace(
                self.progress, state=State.STOPPED, message=told, wrong_use=wrong_use
            )
        )
        failed(message, told)

    def _note(self, progress: Progress) -> None:
        with self._turn:
            self.progress = progress
            if self._result.is_dir():
                with file_written_whole(self._result / PROGRESS_FILE) as partial:
                    partial.write_bytes(msgspec.json.encode(progress))


def _without(message: str, folders: Sequence[Path]) -> str:
    """A message without where the hub keeps things, which is no business of a coordinator's."""
    for folder in folders:
        message = message.replace(f"{folder}{os.sep}", "").replace(str(folder), "the hub's folder")
    return message


class _Watched:
    """A journal that tells the conductor of every finished round."""

    def __init__(self, journal: Journal, conductor: Conductor) -> None:
        self._journal = journal
        self._conductor = conductor

    def find(self, request: Request) -> tuple[Reply, ...] | None:
        found = self._journal.find(request)
        if found is not None:
            self._conductor.finished(request, found, resumed=True)
        return found

    def begin(self, request: Request) -> None:
        self._journal.begin(request)

    def keep(self, request: Request, replies: Sequence[Reply]) -> None:
        self._journal.keep(request, replies)
        self._conductor.finished(request, replies, resumed=False)
