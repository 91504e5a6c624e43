"""A real PostgreSQL server of the tests' own: on loopback, with passwords, gone at the end."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PASSWORD = "not-a-Secret-of-anyone"
PATIENCE = 60.0
"""Seconds until a server that should be ready counts as broken."""

FOUNDING = (
    "--username=owner",
    "--auth=scram-sha-256",
    "--encoding=UTF8",
    "--locale=C",
    "--no-sync",
)
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "20",
    "timezone": "America/New_York",  # not ours, to see that it does not matter
}


@dataclass(frozen=True)
class Server:
    """A running server; user and password of its owner are given in the environment."""

    port: int

    def url(self, query: str = "", database: str = "postgres", parameters: str = "") -> str:
        """The location of a query's rows, without any credentials."""
        base = f"postgresql://127.0.0.1:{self.port}/{database}"
        return base + (f"?{parameters}" if parameters else "") + (f"#{query}" if query else "")

    @property
    def environment(self) -> dict[str, str]:
        """What tells the client who it is."""
        return {"PGUSER": "owner", "PGPASSWORD": PASSWORD}

    def run(self, *statements: str) -> None:
        """Statements of the owner."""
        with self.connection() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            connection.commit()

    def fill(self, name: str, table: Any) -> None:
        """A new table of the database with the rows of an Arrow table."""
        with self.connection() as connection, connection.cursor() as cursor:
            cursor.adbc_ingest(name, table, mode="create")
            connection.commit()

    def connection(self) -> Any:
        """A connection of the owner that may write."""
        import adbc_driver_postgresql.dbapi

        url = f"postgresql://owner:{PASSWORD}@127.0.0.1:{self.port}/postgres"
        return adbc_driver_postgresql.dbapi.connect(url)


def find_program(name: str) -> str | None:
    """A program of the server; Debian keeps them out of the way, by version."""
    versions = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(versions[-1]) if versions else None)


@contextmanager
def server() -> Iterator[Server]:
    """A server that is ready to answer, until the end of the block."""
    initdb, postgres = find_program("initdb"), find_program("postgres")
    if initdb is None or postgres is None:
        pytest.skip("there is no PostgreSQL server here; on Debian: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    try:
        become = _unprivileged(folder)
        secret = folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        data = folder / "data"
        subprocess.run(
            [*become, initdb, "--pgdata", str(data), f"--pwfile={secret}", *FOUNDING],
            check=True,
            capture_output=True,
            cwd=folder,
            timeout=PATIENCE,
        )
        port = _free_port()
        chosen = [f"--{name}={value}" for name, value in SETTINGS.items()]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [*become, postgres, "-D", str(data), f"--port={port}", *chosen],
                stdout=log,
                stderr=log,
                cwd=folder,
            )
        try:
            found = Server(port)
            _wait(found, process, folder / "log")
            yield found
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE / 4)
            except subprocess.TimeoutExpired:
                process.send_signal(3)  # SIGQUIT: drop every connection and stop
                process.wait(PATIENCE)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unprivileged(folder: Path) -> list[str]:
    """How to start a program that refuses to run as root, and that must not outlive the tests."""
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0:
        return [setpriv, "--pdeathsig=QUIT"] if setpriv else []
    assert setpriv, "root needs setpriv to start a server as another user"
    user = next(entry for entry in pwd.getpwall() if entry.pw_name in ("postgres", "nobody"))
    os.chown(folder, user.pw_uid, user.pw_gid)
    who = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return [setpriv, *who, "--pdeathsig=QUIT"]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait(found: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    import adbc_driver_manager

    end = time.monotonic() + PATIENCE
    while True:
        try:
            found.run("SELECT 1")
        except adbc_driver_manager.Error:
            alive = process.poll() is None and time.monotonic() < end
            assert alive, f"the server did not start:\n{log.read_text()[-2000:]}"
            time.sleep(0.05)
        else:
            return
