"""Asks sites through NVFlare, each with a message of its own, and again if they are not there."""

from __future__ import annotations

import math
import queue
import time
from collections.abc import Generator, Mapping
from typing import Protocol

from nvflare.apis.controller_spec import ClientTask, Task, TaskCompletionStatus
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from heterofedsyn.engines.nvflare.task import QUERY, SECONDS, TASK

AGAIN_SECONDS = 3.0
"""Between two tries with a site that was not there."""

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


class Asking:
    """One exchange with several sites.

    A task of its own for every site: NVFlare gives all targets of one task the same data. What it
    notices of tasks that end is not relied on for more than asking again; time is kept here.

    Args:
        messages: for every site that is asked.
        seconds: after which nobody is waited for any more.
        again: whether a site that is not there is asked again until then.
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
        self._sender = sender
        self._fl_ctx = fl_ctx
        self._messages = messages
        self._again = again
        now = time.monotonic()
        self._until = now + seconds
        self._due = dict.fromkeys(messages, now)
        """When to ask sites that have no task."""
        self._tasks: dict[str, Task] = {}
        self._came: queue.SimpleQueue[tuple[str, Shareable]] = queue.SimpleQueue()

    def results(self, abort_signal: Signal) -> Generator[tuple[str, Shareable]]:
        """What sites say, as it comes, until all did or the time is over."""
        try:
            while (self._tasks or self._due) and not abort_signal.triggered:
                now = time.monotonic()
                if now >= self._until:
                    return
                self._schedule(now)
                try:
                    site, result = self._came.get(timeout=_LOOK_AGAIN)
                except queue.Empty:
                    continue
                if self._tasks.pop(site, None) is not None:
                    yield site, result
        finally:
            for task in self._tasks.values():
                self._sender.cancel_task(task)

    def ask_again(self, site: str) -> None:
        """Ask a site once more in a while, if this exchange waits for sites."""
        if self._again:
            self._due[site] = time.monotonic() + AGAIN_SECONDS

    def _schedule(self, now: float) -> None:
        for site, task in [*self._tasks.items()]:
            # One that ended well has its result in the queue, or will have at once.
            if task.completion_status not in (None, TaskCompletionStatus.OK):
                del self._tasks[site]
                self.ask_again(site)
        for site in [site for site, due in self._due.items() if due <= now]:
            del self._due[site]
            self._tasks[site] = self._send(site, self._until - now)

    def _send(self, site: str, seconds: float) -> Task:
        def take(client_task: ClientTask, fl_ctx: FLContext) -> None:
            if client_task.client.name == site:
                self._came.put((site, client_task.result))

        data = Shareable()
        data[QUERY], data[SECONDS] = self._messages[site], float(seconds)
        # The time is kept by whoever waits; this is a bound for NVFlare's own books.
        task = Task(name=TASK, data=data, timeout=math.ceil(seconds) + 1, result_received_cb=take)
        task.client_tasks = _Once()
        self._sender.send(task, self._fl_ctx, targets=[site])
        return task
