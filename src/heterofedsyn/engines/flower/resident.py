"""A process that stays and answers for a SuperNode, in the place of Flower's SuperExec.

Flower starts a new process for every message and runs in it what the run's submitter shipped. A
SuperNode with `--isolation process` starts nothing: whoever knows its secret fetches its tasks.
This process does, hands what they ask to the site agent, and never opens what was shipped.
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import ExitStack
from ipaddress import ip_address
from typing import Any

from flwr.common.constant import SubStatus
from flwr.proto.runtime_pb2 import AcquireTaskRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from heterofedsyn.engines.flower.envelope import answered
from heterofedsyn.errors import UsageError

LOOK_AGAIN = 0.2
AWAY_SECONDS = 3.0
"""Until a SuperNode that is not there is looked for again."""

_ACQUIRE = "/flwr.proto.Runtime/AcquireTask"
_LOG = logging.getLogger(__name__)


class Resident:
    """Answers the tasks of one SuperNode.

    Args:
        address: of the SuperNode's Runtime API, on this machine.
        secret: that the SuperNode was started with.
        certificate: that it shows; a server with any other is told nothing, and asks nothing.
    """

    def __init__(self, address: str, secret: bytes, certificate: bytes) -> None:
        _check_local(address)
        if not secret:
            raise UsageError("the secret is empty; make one with `head -c 32 /dev/urandom`")
        _ignore_proxies()
        self._address = address
        self._certificate = certificate
        signed = SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods=[_ACQUIRE])
        try:
            self._client = self._connected(signed)
        except (OSError, ValueError):
            raise UsageError(
                "the SuperNode's certificate is damaged; join anew with `heterofedsyn site flower`"
            ) from None
        self._away = False

    def serve(self) -> None:
        """Answer until the process is ended."""
        while True:
            try:
                busy = self.step()
            except Exception as error:  # a SuperNode that starts anew, or another hiccup of Flower
                if not self._away:
                    _LOG.warning("no SuperNode at %s (%s)", self._address, type(error).__name__)
                self._away = True
                time.sleep(AWAY_SECONDS)
                continue
            if self._away:
                _LOG.warning("the SuperNode at %s is back", self._address)
                self._away = False
            if not busy:
                time.sleep(LOOK_AGAIN)

    def step(self) -> bool:
        """Answer one task; whether there was one."""
        # All kinds are fetched, so that none that nobody answers keeps others waiting.
        kinds = [kind.value for kind in TaskType]
        found = self._client.AcquireTask(AcquireTaskRequest(supported_task_types=kinds))
        if not found.HasField("task") or not found.token:
            return False
        with ExitStack() as ends:
            client = self._connected(RuntimeTokenHttpInterceptor(found.token))
            ends.callback(client.close)
            alive = HeartbeatSender(make_task_heartbeat_fn_http(client))
            alive.start()
            ends.callback(alive.stop)
            status, details = SubStatus.FAILED, "not for this site"
            try:
                if found.task.type == TaskType.CLIENT_APP:
                    message, context, _, _ = pull_task_input(client)
                    push_message(client, answered(message), context)
                    status, details = SubStatus.COMPLETED, ""
            finally:
                # Without a context: nothing is kept in Flower's state.
                push_task_output(client, None, status, details)
        return True

    def _connected(self, authority: Any) -> RuntimeHttpClient:
        return RuntimeHttpClient.from_server_address(
            server_address=self._address,
            insecure=False,
            root_certificates=self._certificate,
            interceptors=[RuntimeVersionHttpInterceptor(component_name="SuperExec"), authority],
        )


def _ignore_proxies() -> None:
    """Let no proxy that this process's environment names come between it and the SuperNode."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        del os.environ[name]
    os.environ["NO_PROXY"] = "*"


def _check_local(address: str) -> None:
    """Refuse an address of another machine: a site's SuperNode is on its own."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        local = ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if not local:
        raise UsageError(f"{address!r} is not on this machine; give 127.0.0.1:PORT")
