"""The socket of an agent: who hears what, byte by byte, and what the steward's log holds."""

from __future__ import annotations

import socket
import stat
import struct
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest import mock

from heterofedsyn.audit.disk import SiteOnDisk
from heterofedsyn.audit.exhibit import SITE, plain_schema, plan_of
from heterofedsyn.audit.findings import Check, Finding, require
from heterofedsyn.marginals import Flat
from heterofedsyn.privacy.noise import SecureNoise
from heterofedsyn.protocol import Part, Query, encode
from heterofedsyn.site import agent as agent_module
from heterofedsyn.site import server as server_module
from heterofedsyn.site.server import Service
from heterofedsyn.site.settings import SiteSettings

_SECRET = "a value of a record"
_REFUSAL = 9
"""Bytes of a refusal: its reason, and the length of nothing."""

_SECONDS = 30.0


def checks(seed: int) -> Iterator[Check]:
    """What leaves through a socket."""
    yield "agent: its socket", partial(_socket, seed)


def _socket(seed: int) -> Iterator[Finding]:
    name = "agent: its socket"
    if not hasattr(socket, "SO_PEERCRED"):
        yield Finding(name, True, "no agent serves on this operating system")
        return
    schema = plain_schema(3, 2)
    plan = plan_of(schema, seed, epsilon=1.0)

    def query(label: str, share: float) -> bytes:
        parts = (Part(Flat(("a0",)), share),)
        return encode(Query(study=plan.fingerprint, number=0, label=label, parts=parts))

    with tempfile.TemporaryDirectory(prefix="heterofedsyn-audit-") as place:
        site = SiteOnDisk.make(Path(place), SITE, schema, plan, b"a0,a1\nv0,v0\nv1,v1\n")
        path, log = site.settings.socket, list[str]()
        with site.serving(SecureNoise()) as serving, _served(serving.agent, site.settings, log):
            for what in (path, path.parent):
                require(
                    not stat.S_IMODE(what.stat().st_mode) & 0o007, f"{what.name} is open to all"
                )
            for refused in (b"no message", query("twice", 2.0), query("x" * 1_000, 0.1)):
                _check_refusal(_said(path, refused), "a malformed query")
            with mock.patch.object(agent_module, "count", side_effect=ValueError(_SECRET)):
                _check_refusal(_said(path, query("surprise", 0.1)), "a surprise in the rows")
            with mock.patch.object(server_module, "_peer", return_value=_stranger(site.settings)):
                require(_said(path, query("stranger", 0.1)) == b"", "a stranger was answered")
            require(len(_said(path, query("good", 0.1))) > _REFUSAL, "what was approved is refused")
        require(not any(_SECRET in line for line in log), "a value of a record is in the log")
    yield Finding(name, True, f"6 requests, {len(log)} lines of the log")


def _check_refusal(said: bytes, what: str) -> None:
    reason_alone = len(said) == _REFUSAL and said[0] > 0 and not any(said[1:])
    require(reason_alone, f"{what}: a hub hears more than a reason")


@contextmanager
def _served(agent: agent_module.Agent, settings: SiteSettings, log: list[str]) -> Iterator[None]:
    with Service(agent, settings, log=log.append) as service:
        thread = threading.Thread(target=service.run)
        thread.start()
        try:
            yield
        finally:
            service.stop()
            thread.join()


def _said(path: Path, message: bytes) -> bytes:
    """All that a socket says to a message until it is closed."""
    heard = b""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_SECONDS)
        connection.connect(str(path))
        try:
            connection.sendall(struct.pack(">Q", len(message)) + message)
            while said := connection.recv(2**16):
                heard += said
        except (BrokenPipeError, ConnectionResetError):
            pass  # it was closed at once
    return heard


def _stranger(settings: SiteSettings) -> int:
    """A user that may not ask."""
    return max(settings.askers()) + 1
