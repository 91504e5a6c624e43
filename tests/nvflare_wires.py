"""NVFlare's own task exchange in one process: a server's books, and clients that poll them."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nvflare.apis.client import Client
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext, FLContextManager
from nvflare.apis.impl.wf_comm_server import WFCommServer
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.apis.workspace import Workspace

from engine_contract import Wires
from heterofedsyn.engines.nvflare.controller import StudyController
from heterofedsyn.engines.progress import Progress
from heterofedsyn.engines.session import read_progress
from heterofedsyn.engines.task import ANSWER, PROGRESS_FILE, QUERY, REASON, RELEASE, RESULT


class Engine:
    """What NVFlare's books ask of the engine around them."""

    def __init__(self, clients: Sequence[Client]) -> None:
        self._clients = list(clients)
        self._manager = FLContextManager(engine=self, identity_name="server", job_id="job")

    def new_context(self) -> FLContext:
        return self._manager.new_context()

    def get_clients(self) -> list[Client]:
        return self._clients

    def fire_event(self, event: str, context: FLContext) -> None:
        """Nobody listens."""

    def register_app_command(self, topic: str, command: Any) -> None:
        """Nobody asks."""


class Clients:
    """Sites that poll for tasks, each in a thread of its own, as NVFlare's clients do."""

    def __init__(self, books: WFCommServer, clients: Sequence[Client], wires: Wires) -> None:
        self._books, self._wires = books, wires
        self._order = [each.name for each in clients]
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._poll, args=(each,)) for each in clients]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _poll(self, client: Client) -> None:
        while not self._over.is_set():
            context = self._books._engine.new_context()
            name, task, data = self._books.process_task_request(client, context)
            result = self._result(client.name, data) if name else None
            if result is None:
                time.sleep(0.01)
                continue
            if self._wires.reverses:
                time.sleep(0.1 * (len(self._order) - self._order.index(client.name)))
            self._books.process_submission(client, name, task, result, context)
            if self._wires.repeats:
                again = self._result(client.name, data)
                self._books.process_submission(client, name, task, again, context)

    def _result(self, site: str, data: Shareable) -> Shareable | None:
        said = self._wires.answer(site, data[QUERY])
        if said is None:
            return None
        result = make_reply(ReturnCode.OK)
        if isinstance(said, bytes):
            result[ANSWER] = said
        else:
            result[REASON] = said.value
        return result


@contextmanager
def wired(controller: StudyController, sites: Sequence[str], wires: Wires) -> Iterator[FLContext]:
    """A controller with NVFlare's books, and clients that poll them."""
    clients = [Client(site, site) for site in sites]
    engine = Engine(clients)
    books = WFCommServer(task_check_period=0.02)
    controller.set_communicator(books)
    context = engine.new_context()
    books.initialize_run(context)
    polling = Clients(books, clients, wires)
    polling.start()
    try:
        yield context
    finally:
        polling.stop()
        books._all_done = True


def run_wired(
    controller: StudyController, sites: Sequence[str], wires: Wires, root: Path
) -> tuple[Progress, Path]:
    """A whole job: how far it came, and the folder of its release."""
    for name in ("startup", "local"):
        (root / name).mkdir(parents=True, exist_ok=True)
    place = Workspace(str(root), site_name="server")
    run = Path(place.get_run_dir("job"))
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir(parents=True)
    with wired(controller, sites, wires) as context:
        context.set_prop(FLContextKey.WORKSPACE_OBJECT, place)
        controller.control_flow(_Stop(wires), context)
    return read_progress(run / RESULT / PROGRESS_FILE), run / RESULT / RELEASE


class _Stop(Signal):  # type: ignore[misc]
    """NVFlare's word that a job is to end, as the wires say."""

    def __init__(self, wires: Wires) -> None:
        self._wires = wires
        super().__init__()

    @property
    def triggered(self) -> bool:
        return self._wires.stop.is_set()
