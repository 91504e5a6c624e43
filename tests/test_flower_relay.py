"""The relay answers its own SuperNode's ClientApp tasks, and nobody and nothing else."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from flwr.app import Message
from flwr.common.constant import SubStatus
from flwr.supercore.constant import TaskType
from flwr.supercore.heartbeat import HeartbeatSender

from flower_runtime import Runtime
from flower_wires import as_a_task
from heterofedsyn.engines import relay as engines_relay
from heterofedsyn.engines.exchange import Heard
from heterofedsyn.engines.flower import envelope, grid_exchange, resident
from heterofedsyn.engines.flower.envelope import question
from heterofedsyn.engines.flower.grid_exchange import GridExchange
from heterofedsyn.engines.flower.resident import Resident
from heterofedsyn.engines.relay import MOST_SECONDS
from heterofedsyn.engines.task import REASON, TASK
from heterofedsyn.errors import UsageError
from heterofedsyn.federation.flower_site import runtime_pair
from heterofedsyn.protocol.refusal import Reason, Refused

pytestmark = pytest.mark.thorough

Pair = tuple[Path, Path]
ANSWER = b"the agent's noisy answer"


@pytest.fixture(autouse=True)
def _task(monkeypatch: pytest.MonkeyPatch) -> None:
    as_a_task()
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "")  # and back as it was, whatever a relay makes of it


def pair_in(folder: Path) -> Pair:
    """A certificate and its key, as `site flower` makes them."""
    folder.mkdir()
    key, certificate = runtime_pair()
    (folder / "runtime.key").write_bytes(key)
    (folder / "runtime.pem").write_bytes(certificate)
    return folder / "runtime.pem", folder / "runtime.key"


@pytest.fixture(name="own")
def _own(tmp_path: Path) -> Pair:
    return pair_in(tmp_path / "own")


@pytest.fixture(name="asked")
def _asked(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What the agent was asked."""
    asked: list[object] = []

    def hand(query: object, seconds: object) -> bytes:
        asked.append(query)
        return ANSWER

    answered = envelope.answered
    monkeypatch.setattr(resident, "answered", lambda message: answered(message, hand))
    return asked


def query() -> Message:
    return question(7, b"query", 1.0)


def relay(address: str, own: Pair) -> Resident:
    return Resident(address, b"secret", own[0].read_bytes())


def test_the_relay_answers_a_server_with_the_kits_certificate(
    own: Pair, asked: list[object]
) -> None:
    runtime = Runtime(query())
    with runtime.served(own) as address:
        assert relay(address, own).step()
    assert asked == [b"query"]
    assert any(ANSWER in each for each in runtime.replies)


@pytest.mark.parametrize("shown", ["no certificate", "another certificate"])
def test_a_server_without_the_kits_certificate_is_told_nothing_and_asks_nothing(
    shown: str, own: Pair, asked: list[object], tmp_path: Path
) -> None:
    runtime = Runtime(query())
    other = None if shown == "no certificate" else pair_in(tmp_path / "other")
    with runtime.served(other) as address, pytest.raises(httpx.TransportError):
        relay(address, own).step()
    assert (runtime.calls, asked) == ([], [])


@pytest.mark.parametrize("content", [b"", b"no certificate", b"\xff"])
def test_a_damaged_certificate_is_said_in_a_line(content: bytes) -> None:
    with pytest.raises(UsageError, match="certificate is damaged"):
        Resident("127.0.0.1:9094", b"secret", content)


@pytest.mark.parametrize("name", ["HTTP_PROXY", "https_proxy", "ALL_PROXY"])
def test_the_relay_asks_no_proxy(
    name: str, own: Pair, asked: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Runtime(query())
    monkeypatch.setenv(name, "http://127.0.0.1:9")  # where nobody answers
    with runtime.served(own) as address:
        assert relay(address, own).step()
    assert asked == [b"query"]


@pytest.mark.parametrize("kind", [kind for kind in TaskType if kind != TaskType.CLIENT_APP])
def test_the_relay_answers_tasks_of_client_apps_alone(
    kind: TaskType, own: Pair, asked: list[object]
) -> None:
    runtime = Runtime(query(), kind.value)
    with runtime.served(own) as address:
        assert relay(address, own).step()
    assert {*runtime.calls} - {"send-task-heartbeat"} == {"acquire-task", "push-task-output"}
    assert runtime.output.sub_status == SubStatus.FAILED
    assert asked == []


def test_the_relay_writes_nothing_into_flowers_context(own: Pair, asked: list[object]) -> None:
    runtime = Runtime(query())
    with runtime.served(own) as address:
        relay(address, own).step()
    assert runtime.output.sub_status == SubStatus.COMPLETED
    assert not runtime.output.HasField("context")


def test_a_task_whose_end_cannot_be_told_leaves_no_thread_behind(
    own: Pair, asked: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*words: object) -> None:
        raise LookupError

    monkeypatch.setattr(resident, "push_task_output", fail)
    runtime = Runtime(query())
    senders: list[HeartbeatSender] = []

    def sender(beat: Any) -> HeartbeatSender:
        senders.append(HeartbeatSender(beat))
        return senders[-1]

    monkeypatch.setattr(resident, "HeartbeatSender", sender)
    with runtime.served(own) as address, pytest.raises(LookupError):
        relay(address, own).step()
    assert [each.is_running for each in senders] == [False]


def test_a_message_that_flower_did_not_take_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid_exchange, "_NODES_AGAIN", 0.0)
    grid = Forgetful()
    exchange = GridExchange(grid, {"elm": b"query"}, 20.0, again=False)
    assert [*exchange.results(lambda: False)] == [("elm", Heard(ANSWER, None))]
    assert grid.pushed == 2


class Forgetful:
    """A grid that does not take the first message."""

    def __init__(self) -> None:
        self.pushed = 0
        self._asked: Message | None = None

    def get_nodes(self) -> list[Any]:
        return [SimpleNamespace(node_id=7, name="elm")]

    def push_messages(self, messages: list[Message]) -> list[str]:
        self.pushed += 1
        if self.pushed == 1:
            return [""]
        (self._asked,) = messages
        self._asked.metadata.__dict__["_message_id"] = "second"
        return ["second"]

    def pull_messages(self, numbers: list[str]) -> list[Message]:
        assert self._asked is not None
        return [envelope.answered(self._asked, lambda query, seconds: ANSWER)]


def test_a_refusal_is_told_by_its_reason_alone() -> None:
    def refuse(query: object, seconds: object) -> bytes:
        raise Refused(Reason.OVER_THE_CAP, "only rho=0.01 of 0.05 is left for patients of 93")

    said = envelope.answered(query(), refuse)
    assert {name: dict(said.content[name]) for name in said.content} == {
        TASK: {REASON: Reason.OVER_THE_CAP.value}
    }


@pytest.mark.parametrize(
    ("seconds", "waited"),
    [
        (math.inf, MOST_SECONDS),
        (1e300, MOST_SECONDS),
        (math.nan, 1.0),
        (-1.0, 1.0),
        (-math.inf, 1.0),
        (5.0, 5.0),
    ],
)
def test_the_agent_is_waited_for_within_bounds_whatever_the_hub_says(
    seconds: float, waited: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(engines_relay.SOCKET, "socket")
    monkeypatch.setattr(engines_relay, "ask", lambda path, query, until: repr(until).encode())
    assert float(engines_relay.relay(b"query", seconds)) == waited
