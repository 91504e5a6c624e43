"""The site's end of NVFlare: it hands query bytes to the site agent and knows no data."""

from __future__ import annotations

from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from heterofedsyn.engines.relay import relay
from heterofedsyn.engines.task import ANSWER, QUERY, REASON, SECONDS, TASK
from heterofedsyn.protocol.refusal import Refused


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
            reply[ANSWER] = relay(shareable.get(QUERY), shareable.get(SECONDS))
        except Refused as refusal:
            self.log_info(fl_ctx, f"the agent gave no answer: {refusal.reason}")
            reply[REASON] = refusal.reason.value
        return reply
