"""Every law of engines, kept by Flower's messages; and what its two apps make of strange ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.config import get_fused_config_from_fab
from flwr.common.constant import ErrorCode

from engine_contract import ROWS, EngineContract, Wires
from flower_wires import as_a_task, run_wired
from heterofedsyn.engines.exchange import Heard
from heterofedsyn.engines.flower import bundle, client_app, grid_exchange
from heterofedsyn.engines.flower.envelope import heard_of, question
from heterofedsyn.engines.flower.grid_exchange import GridExchange, nodes_by_name
from heterofedsyn.engines.flower.resident import Resident
from heterofedsyn.engines.flower.superlink import SuperLink, SuperLinkSession
from heterofedsyn.engines.progress import Progress, State
from heterofedsyn.engines.relay import SOCKET
from heterofedsyn.engines.task import ANSWER, QUERY, REASON, SECONDS, TASK, unpack
from heterofedsyn.errors import UsageError
from heterofedsyn.protocol import Study
from heterofedsyn.protocol.refusal import Reason
from heterofedsyn.schema import CategoricalColumn, Schema
from quorum_support import study_of
from site_support import make_study

pytestmark = pytest.mark.thorough


@pytest.fixture(autouse=True)
def _task() -> None:
    as_a_task()


class TestFlower(EngineContract):
    """Over Flower's messages."""

    @pytest.fixture(autouse=True)
    def _patched(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def carried(
        self, study: Study, wires: Wires, root: Path, *, resume: bool = False
    ) -> tuple[Progress, Path]:
        return self._carried(study, wires, root, resume=resume, simulated=True)

    def carried_for_real(self, study: Study, wires: Wires, root: Path) -> tuple[Progress, Path]:
        return self._carried(study, wires, root, resume=False, simulated=False)

    def _carried(
        self, study: Study, wires: Wires, root: Path, *, resume: bool, simulated: bool
    ) -> tuple[Progress, Path]:
        # A study without keys is refused where it is submitted; here it was submitted all the same.
        self._monkeypatch.setattr(bundle, "check_keys", lambda study: None)
        settings = bundle.settings_of(study, resume=resume, rows=ROWS)
        sites = study.plan.sites
        return run_wired(settings, sites, wires, root, self._monkeypatch, simulated=simulated)


def replied(**fields: Any) -> Message:
    asked = question(7, b"query", 1.0)
    return Message(RecordDict({TASK: ConfigRecord(fields)}), reply_to=asked)


def test_what_is_installed_beside_flower_lacks_nothing_that_it_needs() -> None:
    subprocess.run([sys.executable, "-m", "pip", "check"], check=True, capture_output=True)


@pytest.mark.quick
def test_what_a_reply_holds_is_the_answer_or_the_reason() -> None:
    assert heard_of(replied(**{ANSWER: b"noisy"})) == Heard(b"noisy", None)
    assert heard_of(replied(**{REASON: "over the cap"})) == Heard(None, "over the cap")


@pytest.mark.parametrize(
    "content",
    [
        RecordDict(),
        RecordDict({"other": ConfigRecord({ANSWER: b"noisy"})}),
        RecordDict({TASK: ConfigRecord({})}),
    ],
)
def test_a_reply_without_an_answer_is_none(content: RecordDict) -> None:
    assert heard_of(Message(content, reply_to=question(7, b"query", 1.0))) == Heard(None, None)


def test_an_error_of_flower_is_a_site_that_failed() -> None:
    said = Message(Error(3, "age 93 is unknown"), reply_to=question(7, b"query", 1.0))
    assert heard_of(said) == Heard(None, Reason.UNAVAILABLE.value)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({QUERY: b"query", SECONDS: 1.0}, Reason.UNAVAILABLE),
        ({QUERY: "query", SECONDS: 1.0}, Reason.MALFORMED),
        ({QUERY: b"query"}, Reason.MALFORMED),
        ({}, Reason.MALFORMED),
    ],
)
def test_the_client_app_needs_a_query_and_the_socket_of_its_own_unit(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], reason: Reason
) -> None:
    monkeypatch.delenv(SOCKET, raising=False)
    message = Message(RecordDict({TASK: ConfigRecord(fields)}), 7, "query")
    context = Context(1, 7, {SOCKET: "elsewhere"}, RecordDict(), {"socket": "elsewhere"})
    found = client_app.answer(message, context)
    assert heard_of(found) == Heard(None, reason.value)
    assert not context.state


def test_the_client_app_does_nothing_but_answer_queries() -> None:
    assert isinstance(client_app.app, ClientApp)
    context = Context(1, 7, {}, RecordDict(), {})
    for kind in ("train", "evaluate", "query.other"):
        with pytest.raises(ValueError, match=kind.partition(".")[0]):
            client_app.app(Message(RecordDict(), 7, kind), context)


def test_a_name_that_several_nodes_have_is_nobodys() -> None:
    nodes = [(1, "elm"), (2, "oak"), (3, "oak"), (4, "")]
    assert nodes_by_name(SimpleNamespace(node_id=n, name=m) for n, m in nodes) == {"elm": 1}


def test_a_site_whose_node_left_while_it_was_asked_is_asked_as_another_node() -> None:
    class Leaving:
        """A grid whose first node takes no message: it left after it was listed."""

        def __init__(self) -> None:
            self.asked: list[int] = []

        def get_nodes(self) -> list[Any]:
            return [SimpleNamespace(node_id=1 + len(self.asked), name="elm")]

        def push_messages(self, messages: list[Message]) -> list[str]:
            self.asked += [message.metadata.dst_node_id for message in messages]
            return ["" if self.asked == [1] else "number"]

        def pull_messages(self, numbers: list[str]) -> list[Any]:
            assert numbers == ["number"]
            fields = RecordDict({TASK: ConfigRecord({ANSWER: b"counts"})})
            metadata = SimpleNamespace(reply_to_message_id="number", src_node_id=2)
            return [SimpleNamespace(metadata=metadata, content=fields, has_content=lambda: True)]

    exchange = GridExchange(Leaving(), {"elm": b"query"}, 20.0, again=False)
    assert [*exchange.results(lambda: False)] == [("elm", Heard(b"counts"))]


@pytest.mark.parametrize("waits", [False, True])
def test_a_site_whose_node_left_after_it_was_asked_is_waited_for(
    waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits for all sites asks by itself again, once it knows that one is not there."""
    monkeypatch.setattr(grid_exchange, "_NODES_AGAIN", 0.0)

    class Restarting:
        """A grid that says of the first question that its node is gone."""

        pushed = 0

        def get_nodes(self) -> list[Any]:
            return [SimpleNamespace(node_id=1, name="elm")]

        def push_messages(self, messages: list[Message]) -> list[str]:
            self.pushed += 1
            return [f"number {self.pushed}"]

        def pull_messages(self, numbers: list[str]) -> list[Any]:
            said = replied(**{ANSWER: b"counts"})
            if self.pushed == 1:
                asked = question(1, b"query", 1.0)
                said = Message(Error(ErrorCode.NODE_UNAVAILABLE), reply_to=asked)
            said.metadata.__dict__["_reply_to_message_id"] = numbers[0]
            said.metadata.__dict__["_src_node_id"] = 1
            return [said]

    grid = Restarting()
    exchange = GridExchange(grid, {"elm": b"query"}, 20.0, again=waits)
    said = [("elm", Heard.nothing())] if waits else [("elm", Heard(b"counts"))]
    assert [*exchange.results(lambda: False)] == said
    assert grid.pushed == (1 if waits else 2)


@pytest.mark.parametrize(("node", "heard"), [(1, Heard(b"counts")), (2, Heard.nothing())])
def test_a_reply_counts_from_the_node_that_was_asked_and_from_no_other(
    node: int, heard: Heard
) -> None:
    class Swapping:
        """A grid that has a question answered by any node."""

        def get_nodes(self) -> list[Any]:
            return [SimpleNamespace(node_id=1, name="elm"), SimpleNamespace(node_id=2, name="oak")]

        def push_messages(self, messages: list[Message]) -> list[str]:
            return ["number"]

        def pull_messages(self, numbers: list[str]) -> list[Any]:
            fields = RecordDict({TASK: ConfigRecord({ANSWER: b"counts"})})
            metadata = SimpleNamespace(reply_to_message_id="number", src_node_id=node)
            return [SimpleNamespace(metadata=metadata, content=fields, has_content=lambda: True)]

    exchange = GridExchange(Swapping(), {"elm": b"query"}, 20.0, again=False)
    assert [*exchange.results(lambda: False)] == [("elm", heard)]


@pytest.mark.parametrize(
    "word", ["{$HUB_SECRET}", "{{a}}", "{", "${HOME}", "@me", "# no", "'", '"', "\\", "=", " "]
)
def test_no_letter_of_a_study_means_anything_to_flower(word: str) -> None:
    from flwr.cli.build import build_fab_from_files
    from flwr.common.serde import user_config_from_proto, user_config_to_proto

    name = f"x{word}x"
    schema = Schema((CategoricalColumn("c", (name, "other")), CategoricalColumn(name, ("v", "w"))))
    study = make_study(schema, unit=f"id {name}", rows_per_unit=1)
    settings = user_config_from_proto(user_config_to_proto(bundle.settings_of(study, resume=True)))
    fab, _ = build_fab_from_files({"pyproject.toml": bundle.bundle_text().encode()})
    told = get_fused_config_from_fab(fab, SimpleNamespace(override_config=settings))
    order = bundle.order_of(told)
    assert unpack(order.study) == study.to_toml()
    assert (order.resume, order.rows, order.safe_csv) == (True, None, False)


def test_a_bundle_ships_no_code() -> None:
    import io
    import zipfile

    from flwr.cli.build import build_fab_from_files

    fab, _ = build_fab_from_files({"pyproject.toml": bundle.bundle_text().encode()})
    with zipfile.ZipFile(io.BytesIO(fab)) as opened:
        assert {*opened.namelist()} == {"pyproject.toml", ".info/CONTENT"}
        assert b"dependencies = []" in opened.read("pyproject.toml")


class Control:
    """A SuperLink that says what it likes of runs and nodes."""

    def __init__(self, runs: list[Any], nodes: list[Any]) -> None:
        self._runs, self._nodes = runs, nodes

    def ListRuns(self, request: Any) -> Any:
        return SimpleNamespace(run_dict={run.run_id: run for run in self._runs})

    def ListNodes(self, request: Any) -> Any:
        return SimpleNamespace(nodes_info=self._nodes)


def test_a_study_finds_its_own_newest_run_and_nobody_elses(tmp_path: Path) -> None:
    from flwr.proto.run_pb2 import Run
    from flwr.proto.transport_pb2 import Scalar

    study = study_of("allmarg", quorum=3)[0]
    own, other = (
        {bundle.FINGERPRINT: Scalar(string=text)} for text in (study.fingerprint, "another")
    )
    runs = [
        Run(run_id=1, fab_id=bundle.BUNDLE, override_config=own, pending_at="2026-01-01"),
        Run(run_id=2, fab_id=bundle.BUNDLE, override_config=own, pending_at="2026-01-02"),
        Run(run_id=3, fab_id=bundle.BUNDLE, override_config=other, pending_at="2026-01-03"),
        Run(run_id=4, fab_id="somebody/else", override_config=own, pending_at="2026-01-04"),
        Run(run_id=5, fab_id=bundle.BUNDLE, pending_at="2026-01-05"),
    ]
    assert SuperLinkSession(Control(runs, []), tmp_path).latest(study) == "2"
    assert SuperLinkSession(Control(runs[2:], []), tmp_path).latest(study) is None


def test_a_node_is_a_site_by_its_name_and_was_heard_when_it_last_said_so(tmp_path: Path) -> None:
    from flwr.proto.node_pb2 import NodeInfo

    nodes = [
        NodeInfo(node_id=1, name="elm", online_until=1_060.0, heartbeat_interval=30.0),
        NodeInfo(node_id=2, name="elm", online_until=60.0, heartbeat_interval=30.0),
        NodeInfo(node_id=3, name="oak", heartbeat_interval=30.0),
        NodeInfo(node_id=4, online_until=1_060.0, heartbeat_interval=30.0),
    ]
    assert SuperLinkSession(Control([], nodes), tmp_path).heard() == {"elm": 1_000.0}


@pytest.mark.parametrize("address", ["hub.example.org:9094", "10.0.0.1:9094", "9094", ""])
def test_the_relay_speaks_to_its_own_machine_alone(address: str) -> None:
    with pytest.raises(UsageError, match="not on this machine"):
        Resident(address, b"secret", b"")


def test_the_relay_needs_a_secret() -> None:
    with pytest.raises(UsageError, match="secret is empty"):
        Resident("127.0.0.1:9094", b"", b"")


@pytest.mark.parametrize("address", ["hub", "hub:", ":9092", "hub:port"])
def test_an_address_without_host_or_port_is_refused(address: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="HOST:PORT"):
        SuperLink(address, tmp_path / "root.pem", tmp_path)


def test_progress_of_a_run_is_what_the_hub_wrote_down(tmp_path: Path) -> None:
    session = SuperLinkSession(Control([], []), tmp_path)
    assert session.running("7") is None
    place = bundle.result_of(tmp_path, 7)
    place.mkdir(parents=True)
    for written in (Progress(study="abc"), Progress(study="abc", state=State.DONE)):
        (place / "progress.json").write_bytes(msgspec.json.encode(written))
        assert session.running("7") == written
        with session.result("7") as (progress, release):
            assert progress is not None
            assert release == tmp_path / "abc" / "release"
            # A run that is over and did not say so was ended by Flower.
            if written.state is State.DONE:
                assert progress == written
            else:
                assert progress.state is State.STOPPED
                assert "--resume" in progress.message
