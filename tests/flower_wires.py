"""Flower's messages in one process: a grid whose nodes answer, each in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from flwr.app import Context, Message, RecordDict
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.supercore.task_identity import TaskIdentity

from engine_contract import Wires
from heterofedsyn.engines.conducting import HUB
from heterofedsyn.engines.flower import envelope
from heterofedsyn.engines.flower.bundle import result_of
from heterofedsyn.engines.flower.server_app import conduct
from heterofedsyn.engines.progress import Progress
from heterofedsyn.engines.session import read_progress
from heterofedsyn.engines.task import PROGRESS_FILE, RELEASE
from heterofedsyn.errors import EngineError
from heterofedsyn.protocol.refusal import Refused


def as_a_task() -> None:
    """Let this process count as one that Flower started: a message is of a run and from a node."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1


class WiredGrid:
    """What a ServerApp is given, with nodes that have names.

    Messages are written as Flower writes them and read back on the other side, so that nothing but
    what it carries arrives. Every node answers with the ClientApp's own function.
    """

    def __init__(self, sites: Iterable[str], wires: Wires) -> None:
        self._nodes = dict(enumerate(sites, start=101))
        self._wires = wires
        self._turn = threading.Lock()
        self._replies: list[bytes] = []
        self._sent = 0

    def get_nodes(self) -> list[Any]:
        return [SimpleNamespace(node_id=n, name=site) for n, site in self._nodes.items()]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        numbers = []
        for message in messages:
            self._sent += 1
            number = f"message-{self._sent}"
            message.metadata.__dict__["_message_id"] = number
            written = message_to_proto(message).SerializeToString()
            for _ in range(2 if self._wires.repeats else 1):
                threading.Thread(target=self._node, args=(written,), daemon=True).start()
            numbers.append(number)
        return numbers

    def pull_messages(self, numbers: Iterable[str]) -> list[Message]:
        if self._wires.stop.is_set():
            raise httpx.HTTPError("this run is not running")
        if self._wires.reverses:
            time.sleep(0.3)
        with self._turn:
            found, self._replies = self._replies, []
        if self._wires.reverses:
            found.reverse()
        if self._wires.repeats:
            found = [each for each in found for _ in range(2)]
        return [_read(each) for each in found]

    def _node(self, written: bytes) -> None:
        message = _read(written)
        site = self._nodes[message.metadata.dst_node_id]

        def relay(query: object, seconds: object) -> bytes:
            assert isinstance(query, bytes)
            said = self._wires.answer(site, query)
            if said is None:
                raise _Silent
            if isinstance(said, bytes):
                return said
            raise Refused(said, "")

        try:
            reply = envelope.answered(message, relay)
        except _Silent:
            return
        reply.metadata.__dict__["_message_id"] = f"reply-{message.metadata.message_id}"
        with self._turn:
            self._replies.append(message_to_proto(reply).SerializeToString())


class _Silent(Exception):
    """A site that never says anything."""


def _read(written: bytes) -> Message:
    from flwr.proto.message_pb2 import Message as Written

    return message_from_proto(Written.FromString(written))


def run_wired(
    settings: dict[str, Any],
    sites: Iterable[str],
    wires: Wires,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    simulated: bool,
) -> tuple[Progress, Path]:
    """A whole run: how far it came, and the folder of its release."""
    hub = root / "hub"
    hub.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv(HUB, str(hub))
    number = 1 + len([*hub.glob("runs/*")])
    context = Context(number, 0, {}, RecordDict(), settings)
    with suppress(EngineError):
        conduct(WiredGrid(sites, wires), context, simulated=simulated)
    assert not context.state  # nothing is kept in Flower's books
    progress = read_progress(result_of(hub, number) / PROGRESS_FILE)
    return progress, hub / str(settings["fingerprint"]) / RELEASE
