"""Whether the engine runs and is connected, by what the machine itself shows."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from heterofedsyn.federation.finding import Finding, ok, unknown, wrong
from heterofedsyn.federation.party import Party
from heterofedsyn.federation.services import services

CONNECT_SECONDS = 20.0
"""In which an engine that was just started connects."""

_PROCESSES = Path("/proc")
_CONNECTIONS = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_ESTABLISHED = "01"
_LOOK_AGAIN = 0.5


def check_engine(party: Party, engine: int) -> Finding:
    """Whether the engine's user runs what it must, with a connection to the hub's port.

    Args:
        engine: the number of that user.
    """
    log = f"journalctl -u {party.engine} tells why"
    if not any(path.exists() for path in _CONNECTIONS):
        return unknown("engine", "this system does not show what runs", "see its log")
    if party.flower:
        absent = _absent(party, engine)
        if absent:
            words = f"nothing runs that was started as {' and '.join(absent)} must be"
            return wrong("engine", words, f"systemctl restart {' '.join(absent)} # {log}")
    elif not _runs(party, engine):
        return wrong("engine", "it does not run", f"systemctl restart {party.engine} # {log}")
    until = time.monotonic() + CONNECT_SECONDS
    while not _connected(party.port, engine):
        if time.monotonic() >= until:
            where = f"{party.host}:{party.port}"
            return wrong("engine", f"it runs, and is not connected to {where}", log)
        time.sleep(_LOOK_AGAIN)
    return ok("engine", "it runs, and is connected to the hub")


def _runs(party: Party, engine: int) -> bool:
    """Whether some process of that user was started with the kit's folder among its words."""
    kit = os.fsencode(party.kit)
    return any(
        word == kit or word.startswith(kit + b"/") for words in _started(engine) for word in words
    )


def _absent(party: Party, engine: int) -> list[str]:
    """Units of that user of which no process has all words: one relay, one SuperNode, as written.

    A SuperNode that was started otherwise may run what submitters ship, or listen elsewhere.
    """
    started = [*_started(engine)]
    wanted = {
        service.name: [*map(os.fsencode, service.command)]
        for service in services(party)
        if service.user == party.engine
    }
    # An interpreter may come before the words of a unit.
    return [
        name
        for name, command in wanted.items()
        if not any(words[-len(command) :] == command for words in started)
    ]


def _started(user: int) -> Iterator[list[bytes]]:
    """The words with which each process of a user was started."""
    for process in _PROCESSES.iterdir():
        try:
            if process.name.isdigit() and process.stat().st_uid == user:
                yield (process / "cmdline").read_bytes().split(b"\0")[:-1]
        except OSError:
            continue  # it ended meanwhile


def _connected(port: int, engine: int) -> bool:
    """Whether that user has a connection to a port of whatever machine."""
    for path in _CONNECTIONS:
        try:
            lines = path.read_text("ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, _, remote, state, _, _, _, user, *_ = line.split()
            there = int(remote.rpartition(":")[2], 16)
            if (state, there, int(user)) == (_ESTABLISHED, port, engine):
                return True
    return False
