"""The hub's end of NVFlare: it runs the study, carries its queries and writes its release."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from nvflare.apis.client import Client
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal
from nvflare.apis.workspace import Workspace

from heterofedsyn.engines.conducting import HUB, Conductor, Order
from heterofedsyn.engines.exchange import Exchange
from heterofedsyn.engines.nvflare.asking import TaskExchange
from heterofedsyn.engines.progress import Progress
from heterofedsyn.engines.task import PROGRESS, RESULT
from heterofedsyn.errors import plain


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
        self.order = Order(study=study, resume=resume, rows=rows, safe_csv=safe_csv)
        self._conductor: Conductor | None = None

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
        root = Path(workspace.get_root_dir())
        result = Path(workspace.get_run_dir(fl_ctx.get_job_id())) / RESULT

        def begin(messages: Mapping[str, bytes], seconds: float, again: bool) -> Exchange:
            return TaskExchange(self, fl_ctx, messages, seconds, again=again)

        def failed(message: str, told: str) -> None:
            self.log_error(fl_ctx, message)
            self.system_panic(told, fl_ctx)

        self._conductor = Conductor(
            self.order,
            Path(os.environ.get(HUB) or root / RESULT),
            result,
            copies=True,
            simulated=self.takes_simulated,
            private=(root,),
        )
        self._conductor.run(begin, lambda: bool(abort_signal.triggered), failed)

    def _tell(self, topic: str, data: Any, fl_ctx: FLContext) -> dict[str, Any]:
        progress = Progress(study="") if self._conductor is None else self._conductor.progress
        found: dict[str, Any] = msgspec.to_builtins(progress)
        return found
