"""The site's end of NVFlare: it hands query bytes to the site agent and knows no data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from heterofedsyn.engines.nvflare.task import ANSWER, QUERY, REASON, SECONDS, TASK
from heterofedsyn.protocol.refusal import Reason, Refused
from heterofedsyn.protocol.socket import ask

SOCKET = "HETEROFEDSYN_SOCKET"
"""Environment variable, set by the site's own unit, that names the agent's socket."""

MOST_SECONDS = 7 * 86_400.0


class AgentExecutor(Executor):  # type: ignore[misc]
    """Carries one query to the agent and its answer, or a reason without one, back.

    A job can set nothing here: where the agent is, the site's own environment says.
    """

    def execute(
        self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal
    ) -> Shareable:
        """The answer to the query of a task."""
        if task_name != TASK:
            return make_reply(ReturnCode.TASK_UNKNOWN)
        reply = make_reply(ReturnCode.OK)
        try:
            reply[ANSWER] = _ask(shareable)
        except Refused as refusal:
            self.log_info(fl_ctx, f"the agent gave no answer: {refusal.reason}")
            reply[REASON] = refusal.reason.value
        return reply


def _ask(task: dict[str, Any]) -> bytes:
    query, seconds = task.get(QUERY), task.get(SECONDS)
    if not isinstance(query, bytes) or not isinstance(seconds, float):
        raise Refused(Reason.MALFORMED, "the task holds no query")
    path = os.environ.get(SOCKET)
    if not path:
        raise Refused(Reason.UNAVAILABLE, f"{SOCKET} does not name the agent's socket")
    return ask(Path(path), query, min(max(1.0, seconds), MOST_SECONDS))
