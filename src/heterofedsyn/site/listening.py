"""Whether an agent answers on a site's socket, without asking it anything."""

from __future__ import annotations

import os
from pathlib import Path

_SOCKETS = Path("/proc/net/unix")
_LISTENS = 0x10000
"""The flag of a socket that takes connections."""


def agent_listens(socket: Path) -> bool | None:
    """Whether somebody listens there, by the operating system's word; None where it says nothing.

    A socket whose agent was killed still has its name in the folder, but nobody listens.
    """
    try:
        lines = os.fsdecode(_SOCKETS.read_bytes()).splitlines()[1:]
    except OSError:
        return None
    known = {str(socket), os.path.realpath(socket)}
    for line in lines:
        fields = line.split(maxsplit=7)
        if len(fields) == 8 and fields[7] in known and int(fields[3], 16) & _LISTENS:
            return True
    return False
