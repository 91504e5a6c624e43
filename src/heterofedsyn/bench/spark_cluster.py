"""A standalone cluster of Spark on this machine: a master and workers as processes."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from heterofedsyn.errors import HeterofedsynError, UsageError

_PATIENCE = 90.0
"""Seconds until a process that should be ready counts as broken."""

_HERE = "127.0.0.1"
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
_SETTINGS = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
    "spark.driver.host": _HERE,
    "spark.driver.bindAddress": _HERE,
    "spark.ui.enabled": "false",
    "spark.cores.max": "2",  # of one application, so that several find room
    "spark.executor.cores": "1",
    "spark.executor.memory": "768m",
    "spark.master.rest.enabled": "false",
}


@dataclass(frozen=True, eq=False)
class StandaloneCluster:
    """Processes of Spark that answer on loopback, to whoever has their secret.

    Attributes:
        folder: where the processes keep their files.
        master: the address of the master.
        processes: all that run, by name; those that ended are in it, too.
    """

    folder: Path
    master: str
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to know to be let in."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
        return kept | self.variables

    @property
    def variables(self) -> dict[str, str]:
        """What is in the environment of those that are let in, and not in that of others."""
        return {
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            "SPARK_LOCAL_IP": _HERE,
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
        }

    def start_worker(self) -> str:
        """One more worker, at an address of its own as if it were another machine; its name."""
        number = sum(name.startswith("worker") for name in self.processes) + 1
        name, host = f"worker-{number}", f"127.0.0.{number}"
        folder = self.folder / name
        folder.mkdir()
        ends = ["--host", host, "--port", "0", "--webui-port", "0", "--work-dir", str(folder)]
        room = ["--cores", "2", "--memory", "1400m"]  # one executor of an application, not two
        self._start(name, "spark-class", _WORKER, *ends, *room, self.master, host=host)
        self._wait(name, "Successfully registered with master")
        return name

    def start_connect(self) -> str:
        """A server of Spark Connect that has its rows read by the workers; its address."""
        port = _free_port()
        settings = {
            "spark.executor.memory": "512m",
            "spark.connect.grpc.binding.address": _HERE,
            "spark.connect.grpc.binding.port": str(port),
            "spark.sql.warehouse.dir": str(self.folder / "tables"),
        }
        chosen = [word for item in settings.items() for word in ("--conf", "=".join(item))]
        master = ["--master", self.master, "--class", _CONNECT]
        self._start("connect", "spark-submit", *master, *chosen, "spark-internal")
        self._wait("connect", "Spark Connect server started at")
        return f"sc://{_HERE}:{port}"

    def kill(self, name: str) -> None:
        """Ends a worker and its executors at once, as if its machine were gone."""
        for number in reversed(descendants(self.processes[name].pid)):
            _signal(number, signal.SIGKILL)
        self.processes[name].wait()

    def stop(self) -> None:
        """Ends all processes, the last ones first."""
        running = list(reversed(self.processes.values()))
        numbers = [number for process in running for number in descendants(process.pid)]
        for process in running:
            process.terminate()
        for process in running:
            try:
                process.wait(_PATIENCE / 9)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for number in numbers:
            _signal(number, signal.SIGKILL)

    def _start(self, name: str, program: str, *arguments: str, host: str = _HERE) -> None:
        memory = "256m" if program == "spark-class" else "768m"
        own = {"SPARK_LOCAL_IP": host, "SPARK_DAEMON_MEMORY": memory}
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [*_short_lived(), str(_home() / "bin" / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self.environment | own,
            )

    def _wait(self, name: str, sign: str) -> None:
        log, end = self.folder / f"{name}.log", time.monotonic() + _PATIENCE
        while sign not in log.read_text("utf-8", "replace"):
            if self.processes[name].poll() is not None or time.monotonic() > end:
                raise HeterofedsynError(f"Spark's {name} did not start; check that Java 17 runs")
            time.sleep(0.1)


@contextmanager
def standalone(
    workers: int = 2, settings: Mapping[str, str] | None = None
) -> Iterator[StandaloneCluster]:
    """A cluster that is ready, until the end of the block; nothing of it is left behind.

    Args:
        settings: of Spark, besides those that a cluster on one machine needs.
    """
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="heterofedsyn-cluster-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        (folder / "conf").mkdir()
        chosen = {
            **_SETTINGS,
            "spark.authenticate.secret": secrets.token_hex(),
            **(settings or {}),
        }
        lines = "".join(f"{key} {value}\n" for key, value in chosen.items())
        (folder / "conf" / "spark-defaults.conf").write_text(lines, "utf-8")
        port = _free_port()
        cluster = StandaloneCluster(folder, f"spark://{_HERE}:{port}")
        stack.callback(cluster.stop)
        ends = ["--host", _HERE, "--port", str(port), "--webui-port", "0"]
        cluster._start("master", "spark-class", _MASTER, *ends)
        cluster._wait("master", "I have been elected leader")
        for _ in range(workers):
            cluster.start_worker()
        yield cluster


def descendants(number: int) -> list[int]:
    """A process and all that it started and that run, by what Linux says of them."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        if fields := _stat(stat):
            children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found = [number]
    for one in found:
        found += children.get(one, [])
    return found


def cpu_seconds(number: int) -> float:
    """What a process and all that it started took, those that ended and were waited for too."""
    ticks = 0
    for one in descendants(number):
        if fields := _stat(Path(f"/proc/{one}/stat")):
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _stat(path: Path) -> list[str]:
    """The fields of a process from its state on; none if it is gone."""
    try:
        return path.read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return []


def _home() -> Path:
    """Where pyspark is; it is not imported, for that takes a while and starts nothing."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise UsageError("this needs the extra `spark`: pip install 'heterofedsyn[spark]'")
    return Path(spec.origin).parent


def _short_lived() -> list[str]:
    """How to start a program that must not outlive this process."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig=TERM"] if setpriv else []


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HERE, 0))
        port: int = probe.getsockname()[1]
        return port


def _signal(number: int, what: signal.Signals) -> None:
    try:
        os.kill(number, what)
    except ProcessLookupError:
        return
