"""A coordinator's session with a SuperLink; what a run leaves is read from the hub's folder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from heterofedsyn._files import read_whole
from heterofedsyn.engines.flower.bundle import (
    BUNDLE,
    FINGERPRINT,
    bundle_text,
    flower_version,
    result_of,
    settings_of,
)
from heterofedsyn.engines.progress import Progress, State
from heterofedsyn.engines.session import Session, ended, no_answer, plainly, read_progress
from heterofedsyn.engines.task import PROGRESS_FILE, RELEASE
from heterofedsyn.errors import EngineError, UsageError
from heterofedsyn.protocol import Study

_PATIENCE = 2
"""How many times a node may miss its turn before Flower calls it offline."""

_ENDED = "the run was ended before the study was; continue with --resume"
_MOST_RUNS = 1_000
_MOST_CERTIFICATE_BYTES = 2**20
_plain = partial(plainly, "Flower")


class SuperLinkSession(Session):
    """What a coordinator asks a SuperLink for.

    Args:
        client: of Flower's Control API.
        hub: the folder that `HETEROFEDSYN_HUB` names to the SuperLink.
    """

    def __init__(self, client: Any, hub: Path) -> None:
        self._client, self._hub = client, hub

    def submit(
        self, study: Study, *, resume: bool, rows: int | None = None, safe_csv: bool = False
    ) -> str:
        """Submit the study; the number of its run comes back."""
        from flwr.cli.build import build_fab_from_files
        from flwr.common.serde import fab_to_proto, user_config_to_proto
        from flwr.proto.control_pb2 import StartRunRequest
        from flwr.supercore.fab import Fab

        settings = settings_of(study, resume=resume, rows=rows, safe_csv=safe_csv)
        with _plain("submit the study"):
            content, _ = build_fab_from_files({"pyproject.toml": bundle_text().encode()})
            fab = Fab(hashlib.sha256(content).hexdigest(), content, {})
            request = StartRunRequest(
                fab=fab_to_proto(fab), override_config=user_config_to_proto(settings)
            )
            return str(self._client.StartRun(request).run_id)

    def latest(self, study: Study) -> str | None:
        """The newest run of a study."""
        from flwr.proto.control_pb2 import ListRunsRequest

        with _plain("list the runs"):
            runs = self._client.ListRuns(ListRunsRequest(limit=_MOST_RUNS)).run_dict.values()
        own = [
            run
            for run in runs
            if run.fab_id == BUNDLE and run.override_config[FINGERPRINT].string == study.fingerprint
        ]
        return str(max(own, key=lambda run: run.pending_at).run_id) if own else None

    def status(self, job: str) -> str:
        """What Flower says of a run, such as RUNNING or FINISHED:COMPLETED."""
        status = self._run(job).status
        return ":".join(word for word in (status.status, status.sub_status) if word).upper()

    def running(self, job: str) -> Progress | None:
        """How far a run is, as it wrote down in the hub's folder; nothing before it did."""
        place = result_of(self._hub, job) / PROGRESS_FILE
        return read_progress(place) if place.exists() else None

    def heard(self) -> dict[str, float]:
        """When each node was last heard, by the server's clock; a node is a site by its name."""
        from flwr.proto.control_pb2 import ListNodesRequest

        with _plain("ask who is connected"):
            nodes = self._client.ListNodes(ListNodesRequest()).nodes_info
        return {
            str(node.name): node.online_until - _PATIENCE * node.heartbeat_interval
            for node in sorted(nodes, key=lambda node: float(node.online_until))
            if node.name and node.online_until
        }

    def detail(self, job: str) -> str:
        """What Flower said of a run that failed."""
        return str(self._run(job).status.details)

    def abort(self, job: str) -> None:
        """Stop a run; finished rounds stay in the hub's journal."""
        from flwr.proto.control_pb2 import StopRunRequest

        with _plain("stop the run"):
            if not ended(self.status(job)):
                self._client.StopRun(StopRunRequest(run_id=int(job)))

    @contextmanager
    def result(self, job: str) -> Iterator[tuple[Progress | None, Path]]:
        """What a finished run left: its progress and the folder of its release."""
        progress = self.running(job)
        if progress is None:
            yield None, self._hub
            return
        if progress.state is State.RUNNING:  # Flower ended its process, which could say no more
            progress = msgspec.structs.replace(progress, state=State.STOPPED, message=_ENDED)
        yield progress, self._hub / progress.study / RELEASE

    def _run(self, job: str) -> Any:
        from flwr.proto.control_pb2 import ListRunsRequest

        with _plain("ask for the run"):
            return self._client.ListRuns(ListRunsRequest(run_id=int(job))).run_dict[int(job)]


class SuperLink:
    """A SuperLink, over TLS.

    Args:
        address: host and port of its APIs.
        root: the certificate that signed the SuperLink's.
        hub: the folder that `HETEROFEDSYN_HUB` names to it, on this machine.
    """

    def __init__(self, address: str, root: Path, hub: Path) -> None:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise UsageError(f"{address!r} is no address; write it as HOST:PORT")
        self.address = address
        self._host, self._port = host.strip("[]"), int(port)
        self._root, self._hub = root, hub
        if not hub.is_dir():
            raise UsageError(
                f"{hub} is no folder; name the one that HETEROFEDSYN_HUB names to the SuperLink"
            )

    def unreachable(self) -> str | None:
        """That nobody answers there, and what to do; nothing if somebody does."""
        return no_answer(self._host, self._port)

    @contextmanager
    def connect(self) -> Iterator[SuperLinkSession]:
        """A session with its Control API."""
        flower_version()
        from flwr.supercore.control import ControlHttpClient
        from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

        if (why := self.unreachable()) is not None:
            raise EngineError(why)
        try:
            certificate = read_whole(self._root, _MOST_CERTIFICATE_BYTES)
        except OSError as error:
            raise UsageError(
                f"{self._root} cannot be read ({error.strerror}); name the certificate that signed "
                "the SuperLink's"
            ) from None
        with _plain("reach the SuperLink"):
            client = ControlHttpClient.from_server_address(
                server_address=self.address,
                insecure=False,
                root_certificates=certificate,
                interceptors=[RuntimeVersionHttpInterceptor(component_name="heterofedsyn")],
            )
        try:
            yield SuperLinkSession(client, self._hub)
        finally:
            client.close()
