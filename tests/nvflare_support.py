"""A real federation on this machine, set up by the very blocks of its two pages in docs."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Self

import pyarrow as pa
import pyarrow.parquet
import pytest

from docs_support import blocks
from heterofedsyn._defaults import SITE_OF_KIT
from heterofedsyn._files import file_written_whole
from heterofedsyn.schema import Schema

ROOT = Path(__file__).parents[1]
PAGES = ("federation.md", "federation-reference.md")
GUIDE = {
    block.words[0]: block.text
    for name in PAGES
    for block in blocks(ROOT / "docs" / name)
    if block.words
}
BIN = Path(sys.executable).parent
NAME, HUB, COORDINATOR = "hospitals", "hub", "coordinator"

AGENT, ENGINE, SERVER = (f"heterofedsyn-{name}.service" for name in ("agent", "engine", "hub"))
SIMULATED = "nvflare_simulated.SimulatedController"

PATIENCE = 90.0
"""Seconds until a process that should be ready counts as broken."""


def until(ready: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def children(pid: int) -> list[int]:
    """The processes that a process started, and those that they did."""
    found: list[int] = []
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return found
    for thread in threads:
        try:
            own = [int(word) for word in (thread / "children").read_text().split()]
        except OSError:
            continue
        for child in own:
            found += [child, *children(child)]
    return found


@dataclass(eq=False)
class Federation:
    """One hub, its coordinator and some sites, each with a folder of its own."""

    root: Path
    sites: tuple[str, ...]
    port: int = field(default_factory=free_port)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    fingerprint: str = ""
    guide: ClassVar[dict[str, str]] = GUIDE

    # THE GUIDE

    def page(self, name: str, role: str) -> str:
        """A block of the guide for one role, in folders of this federation."""
        text = self.guide[name]
        for shown, here in (
            # All processes belong to one user here; tests/test_doctor.py has users of their own.
            ("runuser -u heterofedsyn-agent -- ", ""),
            ("hub.example.org", "localhost"),
            ("--hub localhost", f"--hub localhost --port {self.port}"),
            ("federation admit elmwood.request.zip", "federation admit elmwood.request.zip --yes"),
            ('"$FINGERPRINT"', f'"$FINGERPRINT" --anchor {self.folder(role)}/anchor'),
            (
                "site init",
                f"site init --engine {os.getuid()} --group {os.getgid()} --socket {{run}}",
            ),
            ("{run}", f"{self.folder(role)}/run/agent.sock"),
            ("site approve study.toml", "site approve study.toml --yes"),
            ("kingsbridge.pub\n", "kingsbridge.pub --yes\n"),
        ):
            text = text.replace(shown, here)
        if name in ("study.sh", "sum-study.sh"):
            return text
        return text.replace("elmwood", role)

    def run(self, name: str, role: str, *, ok: bool = True) -> str:
        """Run a block of the guide; what it says on both channels."""
        return self.command(["bash", "-euc", self.page(name, role)], role, ok=ok)

    def command(self, command: list[str], role: str, *, ok: bool = True) -> str:
        done = subprocess.run(
            command,
            cwd=self.place(role),
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
        )
        assert (done.returncode == 0) is ok, done.stdout
        return done.stdout

    # SETTING UP

    def folder(self, role: str) -> Path:
        return self.root / NAME / role if role in (HUB, COORDINATOR) else self.root / role

    def place(self, role: str) -> Path:
        """Where the guide has a role run commands."""
        return self.root if role == HUB else self.folder(role)

    def progress_files(self) -> list[Path]:
        """What jobs wrote down at the hub."""
        return [*self.folder(HUB).glob("kit/*/heterofedsyn/progress.json")]

    def take_simulated(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the next study of this process take the noise of a simulation."""
        from heterofedsyn.engines.nvflare import job

        # The server's own controller takes no such noise; one that does must be named and allowed.
        monkeypatch.setattr(job, "CONTROLLER", SIMULATED)

    def end_server(self) -> None:
        self.end(f"{HUB} {SERVER}", signal.SIGKILL)

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "HOME": str(self.root),
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(Path(__file__).parent),  # of the controller for simulations
            "FINGERPRINT": self.fingerprint,
            "COLUMNS": "100",
        }

    def provision(self) -> None:
        """Certificates and hardened kits for everyone, by the guide."""
        said = self.run("hub.sh", HUB)
        (told,) = re.findall(r"fingerprint of the root, .*: ([0-9a-f ]+)$", said, re.MULTILINE)
        self.fingerprint = told
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(self.kit, self.sites))
        self._allow(SIMULATED)

    def _allow(self, controller: str) -> None:
        """Let the server take one more controller, which no guide names."""
        path = self.folder(HUB) / "kit" / "local" / "resources.json"
        found = json.loads(path.read_text("utf-8"))
        found["class_allow_list"].append(controller)
        path.write_text(json.dumps(found), "utf-8")

    def kit(self, site: str) -> None:
        """A request at a site, its approval at the hub, and the kit."""
        folder = self.folder(site)
        folder.mkdir()
        self.run("join.sh", site)
        shutil.copy(folder / f"{site}.request.zip", self.root)
        self.command(["bash", "-euc", self.page("admit.sh", site)], HUB)
        shutil.copy(self.root / f"{site}.signed.zip", folder)
        said = self.run("kit.sh", site)
        assert "startup" not in said, "NVFlare's hint to start at once"

    def site(self, name: str, rows: pa.Table, schema: Schema) -> None:
        """A site with these rows, set up by the guide."""
        folder = self.folder(name)
        for part in ("agent", "rows", "anchor"):
            (folder / part).mkdir()
        schema.save(folder / "rows" / "schema.toml")
        pyarrow.parquet.write_table(rows, folder / "rows" / "rows.parquet")
        self.run("site.sh", name)

    # RUNNING

    def start(self, unit: str, role: str) -> None:
        """What a party's unit starts, with its environment, as a process of ours."""
        text = (self.folder(role) / unit).read_text("utf-8")
        text = text.replace("/run/heterofedsyn", f"{self.folder(role)}/run")
        (line,) = re.findall(r"^ExecStart=(.+)$", text, re.MULTILINE)
        named = dict(re.findall(r"^Environment=(\w+)=(.+)$", text, re.MULTILINE))
        named.pop("NUMBA_CACHE_DIR", None)  # what other tests compiled is good enough
        self.spawn(f"{role} {unit}", line.split(), {**self.environment(), **named})

    def agent(self, site: str) -> None:
        """The site's agent, as the unit says."""
        self.start(AGENT, site)
        self._answers(site)

    def gated_agents(self, *sites: str, seed: int | None = None) -> None:
        """Those for tests, that can be held; with a seed, their noise is that of a simulation."""
        script = Path(__file__).with_name("nvflare_agent.py")
        for site in sites:
            if f"{site} {AGENT}" in self.processes:
                self.end(f"{site} {AGENT}")
            command = [sys.executable, str(script), str(self.folder(site) / SITE_OF_KIT)]
            command += [] if seed is None else [str(seed)]
            self.spawn(f"{site} {AGENT}", command, self.environment())
        for site in sites:
            self._answers(site)

    def _answers(self, site: str) -> None:
        log = self.log(f"{site} {AGENT}")
        until(lambda: "answering on" in log.read_text(), f"agent of {site}")

    def spawn(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        with self.log(name).open("wb") as log:
            self.processes[name] = subprocess.Popen(
                command,
                cwd=self.root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def log(self, name: str) -> Path:
        return self.root / f"{name.replace(' ', '-')}.log"

    def end(self, name: str, number: int = signal.SIGKILL) -> None:
        """End a process of ours, and those it started, by their ids."""
        process = self.processes.pop(name)
        started = children(process.pid)
        process.send_signal(number)
        process.wait(PATIENCE)
        for pid in started:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def hold(self, site: str, where: int | str | None) -> None:
        """Let the test agent of a site wait: from a query on, before a step, or no longer."""
        path = self.folder(site) / f"{SITE_OF_KIT}.hold"
        if where is None:
            path.unlink()
        else:
            with file_written_whole(path) as partial:
                partial.write_text(str(where))

    def server(self) -> None:
        self.start(SERVER, HUB)
        until(self._listening, "the server's port")

    def _listening(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def connected(self) -> set[str]:
        """The sites that the server sees, as it tells the coordinator."""
        from heterofedsyn.engines.nvflare.job import connect
        from heterofedsyn.errors import EngineError

        try:
            with connect(self.folder(COORDINATOR) / "kit") as hub:
                return {client.name for client in hub._session.get_connected_client_list()}
        except EngineError:
            return set()

    def ledger(self, site: str) -> dict[str, object]:
        folder = str(self.folder(site) / SITE_OF_KIT)
        found: dict[str, object] = json.loads(
            self.command(
                [str(BIN / "heterofedsyn"), "site", "ledger", "--json", "--folder", folder], site
            )
        )
        return found

    def engine(self, site: str) -> None:
        """What carries messages at a site."""
        self.start(ENGINE, site)

    @classmethod
    @contextmanager
    def running(cls, root: Path, tables: dict[str, pa.Table], schema: Schema) -> Iterator[Self]:
        """A federation whose server and engines run; agents are started by the tests."""
        made = cls(root, tuple(tables))
        try:
            made.provision()
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(lambda name: made.site(name, tables[name], schema), tables))
            schema.save(made.folder(COORDINATOR) / "schema.toml")
            made.server()
            for site in made.sites:
                made.engine(site)
            until(lambda: made.connected() == {*made.sites}, "sites at the server")
            yield made
        finally:
            for name in list(made.processes):
                made.end(name)
