"""The site's end of any engine: it hands bytes to the site agent, and knows no data."""

from __future__ import annotations

import os
from pathlib import Path

from heterofedsyn.protocol.refusal import Reason, Refused
from heterofedsyn.protocol.socket import ask

SOCKET = "HETEROFEDSYN_SOCKET"
"""Environment variable, set by the site's own unit, that names the agent's socket."""

MOST_SECONDS = 7 * 86_400.0


def relay(query: object, seconds: object) -> bytes:
    """The agent's answer to what an engine brought.

    Whoever sent it can set nothing here: where the agent is, the site's own environment says.

    Raises:
        Refused: with the reason, if there is none.
    """
    if not isinstance(query, bytes) or not isinstance(seconds, float):
        raise Refused(Reason.MALFORMED, "the task holds no query")
    path = os.environ.get(SOCKET)
    if not path:
        raise Refused(Reason.UNAVAILABLE, f"{SOCKET} does not name the agent's socket")
    return ask(Path(path), query, min(max(1.0, seconds), MOST_SECONDS))
