"""The hub's end of NVFlare: it runs the study, carries its queries and writes its release."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec
from nvflare.apis.client import Client
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal
from nvflare.apis.workspace import Workspace

from heterofedsyn._files import file_written_whole
from heterofedsyn.engines.nvflare.asking import Asking
from heterofedsyn.engines.nvflare.progress import Progress, RoundProgress, State, rough
from heterofedsyn.engines.nvflare.task import (
    ANSWER,
    PROGRESS,
    PROGRESS_FILE,
    REASON,
    RELEASE,
    RESULT,
    STUDY_FILE,
    check_keys,
    unpack,
)
from heterofedsyn.errors import HeterofedsynError, UsageError, plain
from heterofedsyn.hub import Absence, Release, Request, drive, of_study
from heterofedsyn.hub.journal import Journal, alone
from heterofedsyn.hub.release import MOST_UNASKED
from heterofedsyn.hub.replies import NO_ANSWER, UNAVAILABLE, Reply
from heterofedsyn.protocol import Study
from heterofedsyn.protocol.limits import NOISE_SECONDS
from heterofedsyn.protocol.refusal import Reason

HUB = "HETEROFEDSYN_HUB"
"""Environment variable of the server that names the folder of journals and releases."""

START_SECONDS = 60.0
"""That sites may take longer in the first round of a job, in which their processes start."""


class StudyController(Controller):  # type: ignore[misc]
    """Runs one study over the sites of its plan.

    Args:
        study: the study file's text, packed.
        resume: continue from the rounds that are kept from an earlier job.
        rows: synthetic rows of the release; the noisy total, within reason, unless given.
        safe_csv: as in `Release.save`.
    """

    takes_simulated = False
    """Whether answers with the noise of a simulation count, which protects nobody."""

    def __init__(
        self, study: str, resume: bool = False, rows: int | None = None, safe_csv: bool = False
    ) -> None:
        super().__init__(task_check_period=0.1)
        self._packed = study
        self._resume = resume
        self._rows = rows
        self._safe_csv = safe_csv
        self._turn = Lock()
        self._progress = Progress(study="")
        self._result: Path | None = None
        self._folders: tuple[Path, ...] = ()

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Let a coordinator ask for progress."""
        fl_ctx.get_engine().register_app_command(PROGRESS, self._tell)

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """There is nothing to stop: rounds are on the disk as soon as they are finished."""

    def process_result_of_unknown_task(
        self,
        client: Client,
        task_name: str,
        client_task_id: str,
        result: Shareable,
        fl_ctx: FLContext,
    ) -> None:
        """A late answer is ignored; at the site it stays paid for."""
        self.log_info(fl_ctx, f"an answer of {plain(client.name)} came too late and is ignored")

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """The whole study."""
        workspace: Workspace = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT)
        hub = Path(os.environ.get(HUB) or Path(workspace.get_root_dir()) / RESULT)
        self._result = Path(workspace.get_run_dir(fl_ctx.get_job_id())) / RESULT
        self._folders = (hub, self._result, Path(workspace.get_root_dir()))
        try:
            self._result.mkdir(exist_ok=True)
            (self._result / STUDY_FILE).write_bytes(unpack(self._packed).encode())
            study = Study.load(self._result / STUDY_FILE)
            check_keys(study)
            self._note(Progress(study=study.fingerprint))
            folder = hub / study.fingerprint
            make = Journal.open if self._resume else Journal.create

            def carry(request: Request) -> Sequence[Reply]:
                return self._carry(request, study.patience, abort_signal, fl_ctx)

            with alone(folder):
                rounds = _Watched(make(folder / "rounds", study), self)
                self._save(drive(of_study(study), carry, rounds), folder)
        except _Aborted:
            self._stop("the job was stopped; continue with --resume", False, fl_ctx)
        except HeterofedsynError as error:
            self._stop(str(error), isinstance(error, UsageError), fl_ctx)
        except Exception as error:
            self._stop(f"unexpected {type(error).__name__}; see the server's log", False, fl_ctx)
            raise
        else:
            self._note(msgspec.structs.replace(self._progress, state=State.DONE))

    def finished(self, request: Request, replies: Sequence[Reply], *, resumed: bool) -> None:
        """Note a finished round, or a finished step of one."""
        fresh = RoundProgress.of(request)
        known = [found for found in self._progress.rounds if found.place == fresh.place]
        found = known[0] if known else msgspec.structs.replace(fresh, resumed=resumed)
        found = msgspec.structs.replace(found.heard(replies), finished=True)
        self._note(self._progress.with_round(found))

    def _carry(
        self, request: Request, patience: float, abort_signal: Signal, fl_ctx: FLContext
    ) -> list[Reply]:
        """Ask sites and wait for all of them, at most as long as the study lets a round take."""
        # Twice the time that noise takes.
        seconds = patience + 2 * NOISE_SECONDS * request.integers
        if not any(known.sent for known in self._progress.rounds):
            seconds += START_SECONDS
        begun = time.monotonic()
        messages = {site: request.message(site) for site in request.asked}
        state = msgspec.structs.replace(
            RoundProgress.of(request), sent=max(map(len, messages.values()))
        )
        self._note(self._progress.with_round(state))
        replies: dict[str, Reply] = {}
        received: dict[str, int] = {}
        asking = Asking(self, fl_ctx, messages, seconds, again=request.waits)
        with closing(asking.results(abort_signal)) as results:
            for site, result in results:
                reply = replies[site] = read_reply(
                    request, site, result, simulated=self.takes_simulated
                )
                if isinstance(reply, Absence):
                    if reply.reason == UNAVAILABLE:
                        asking.ask_again(site)
                else:
                    received[site] = len(result[ANSWER])
                self._note(
                    self._progress.with_round(
                        msgspec.structs.replace(
                            state.heard(replies.values()),
                            seconds=rough(time.monotonic() - begun),
                            received=dict(received),
                        )
                    )
                )
                if request.enough([*replies.values()]):
                    break
        if abort_signal.triggered:
            raise _Aborted
        return [replies.get(site, Absence(site, NO_ANSWER)) for site in request.asked]

    def _save(self, release: Release, folder: Path) -> None:
        rows = min(release.run.noisy_total, MOST_UNASKED) if self._rows is None else self._rows
        copies = [] if self._result is None else [self._result / RELEASE]
        release.save(
            folder / RELEASE, rows=rows, overwrite=True, safe_csv=self._safe_csv, copies=copies
        )

    def _stop(self, message: str, wrong_use: bool, fl_ctx: FLContext) -> None:
        self.log_error(fl_ctx, message)
        message = _without(message, self._folders)
        self._note(
            msgspec.structs.replace(
                self._progress, state=State.STOPPED, message=message, wrong_use=wrong_use
            )
        )
        self.system_panic(message, fl_ctx)

    def _note(self, progress: Progress) -> None:
        with self._turn:
            self._progress = progress
            if self._result is not None:
                with file_written_whole(self._result / PROGRESS_FILE) as partial:
                    partial.write_bytes(msgspec.json.encode(progress))

    def _tell(self, topic: str, data: Any, fl_ctx: FLContext) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self._progress)
        return found


def read_reply(request: Request, site: str, result: Shareable, *, simulated: bool = False) -> Reply:
    """What a site's result says; nothing in it is believed but the answer and four reasons.

    Args:
        simulated: whether the noise of a simulation is good enough.
    """
    if result.get_return_code() != ReturnCode.OK:
        return Absence.refused(site, Reason.UNAVAILABLE)
    answer, reason = result.get(ANSWER), result.get(REASON)
    if reason is not None:
        known = reason in [*Reason] if isinstance(reason, str) else False
        return Absence.refused(site, Reason(reason) if known else Reason.UNAVAILABLE)
    return request.read(site, answer, simulated=simulated)


def _without(message: str, folders: Sequence[Path]) -> str:
    """A message without where the hub keeps things, which is no business of a coordinator's."""
    for folder in folders:
        message = message.replace(f"{folder}{os.sep}", "").replace(str(folder), "the hub's folder")
    return message


class _Aborted(Exception):
    """NVFlare was told to end the job."""


class _Watched:
    """A journal that tells the controller of every finished round."""

    def __init__(self, journal: Journal, controller: StudyController) -> None:
        self._journal = journal
        self._controller = controller

    def find(self, request: Request) -> tuple[Reply, ...] | None:
        found = self._journal.find(request)
        if found is not None:
            self._controller.finished(request, found, resumed=True)
        return found

    def begin(self, request: Request) -> None:
        self._journal.begin(request)

    def keep(self, request: Request, replies: Sequence[Reply]) -> None:
        self._journal.keep(request, replies)
        self._controller.finished(request, replies, resumed=False)
