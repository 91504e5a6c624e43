"""Asks sites through NVFlare, each with a task of its own."""

from __future__ import annotations

import math
import queue
from collections.abc import Iterable, Mapping
from typing import Protocol

from nvflare.apis.controller_spec import ClientTask, Task, TaskCompletionStatus
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable

from heterofedsyn.engines.exchange import Exchange, Heard
from heterofedsyn.engines.task import ANSWER, QUERY, REASON, SECONDS, TASK

_LOOK_AGAIN = 0.1


class Sender(Protocol):
    """What schedules tasks: NVFlare's controller."""

    def send(self, task: Task, fl_ctx: FLContext, targets: list[str]) -> None:
        """Let a site have a task when it next asks for one."""
        ...

    def cancel_task(self, task: Task) -> None:
        """Let nobody have it any more."""
        ...


class _Once(list[ClientTask]):
    """A list that holds nothing twice.

    NVFlare 2.9 notes a task again that it sends again, to a client that came back without a result,
    if there are tasks for other clients; when such a task ends, the thread that ends tasks fails.
    """

    def append(self, sent: ClientTask) -> None:
        if sent not in self:
            super().append(sent)


class TaskExchange(Exchange):
    """One exchange over NVFlare.

    A task of its own for every site: NVFlare gives all targets of one task the same data. What it
    notices of tasks that end is not relied on for more than asking again.
    """

    def __init__(
        self,
        sender: Sender,
        fl_ctx: FLContext,
        messages: Mapping[str, bytes],
        seconds: float,
        *,
        again: bool,
    ) -> None:
        super().__init__(messages, seconds, again=again)
        self._sender = sender
        self._fl_ctx = fl_ctx
        self._tasks: dict[str, Task] = {}
        self._results: queue.SimpleQueue[tuple[str, Shareable]] = queue.SimpleQueue()

    def _send(self, site: str, message: bytes, seconds: float) -> None:
        def take(client_task: ClientTask, fl_ctx: FLContext) -> None:
            if client_task.client.name == site:
                self._results.put((site, client_task.result))

        data = Shareable()
        data[QUERY], data[SECONDS] = message, float(seconds)
        # The time is kept by whoever waits; this is a bound for NVFlare's own books.
        task = Task(name=TASK, data=data, timeout=math.ceil(seconds) + 1, result_received_cb=take)
        task.client_tasks = _Once()
        self._tasks[site] = task
        self._sender.send(task, self._fl_ctx, targets=[site])

    def _came(self) -> Iterable[tuple[str, Heard]]:
        try:
            site, result = self._results.get(timeout=_LOOK_AGAIN)
        except queue.Empty:
            return ()
        return ((site, heard_of(result)),)

    def _lost(self) -> Iterable[str]:
        # One that ended well has its result in the queue, or will have at once.
        well = (None, TaskCompletionStatus.OK)
        return [site for site in self._open if self._tasks[site].completion_status not in well]

    def _cancel(self, sites: Iterable[str]) -> None:
        for site in sites:
            self._sender.cancel_task(self._tasks[site])


def heard_of(result: Shareable) -> Heard:
    """What a site's result holds."""
    if result.get_return_code() != ReturnCode.OK:
        return Heard.nothing()
    return Heard(result.get(ANSWER), result.get(REASON))
