"""Whether the engine runs and is connected, by what the machine itself shows."""

from __future__ import annotations

import os
import time
from pathlib import Path

from heterofedsyn.federation.finding import Finding, ok, unknown, wrong
from heterofedsyn.federation.party import Party

CONNECT_SECONDS = 20.0
"""In which an engine that was just started connects."""

_PROCESSES = Path("/proc")
_CONNECTIONS = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_ESTABLISHED = "01"
_LOOK_AGAIN = 0.5


def check_engine(party: Party, engine: int) -> Finding:
    """Whether a process of the engine's user runs its kit, with a connection to the hub's port.

    Args:
        engine: the number of that user.
    """
    log = f"journalctl -u {party.engine} tells why"
    if not any(path.exists() for path in _CONNECTIONS):
        return unknown("engine", "this system does not show what runs", "see its log")
    if not _runs(party, engine):
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
    for process in _PROCESSES.iterdir():
        try:
            if not process.name.isdigit() or process.stat().st_uid != engine:
                continue
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it ended meanwhile
        if any(word == kit or word.startswith(kit + b"/") for word in words):
            return True
    return False


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
