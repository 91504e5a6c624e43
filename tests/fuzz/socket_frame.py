"""The agent's socket: any bytes to a service, and any bytes back to the engine that asks."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import Any

from agent_support import FreshNoise, approved_study, books_of, make_site
from fuzz import site_message
from fuzz.law import SECRET, check_words, folder, no_broken_thread
from heterofedsyn.protocol.limits import MOST_REQUEST_BYTES
from heterofedsyn.protocol.refusal import Refused
from heterofedsyn.protocol.socket import ask
from heterofedsyn.site.agent import Agent
from heterofedsyn.site.server import Service

FORM = "bytes"

_LENGTH = struct.Struct(">Q")


def seeds() -> list[bytes]:
    queries = site_message.seeds()
    return [
        *(_LENGTH.pack(len(query)) + query for query in queries),
        b"\x00" + _LENGTH.pack(3) + b"abc",
        b"\x02" + _LENGTH.pack(0),
    ]


def examples() -> list[bytes]:
    return [
        b"",
        b"\x00" * 8,
        b"\xff" * 8,
        b"\xff" * 2_000_000,
        _LENGTH.pack(2**24) + b"\x00" * 100,
        _LENGTH.pack(2**24) + b"\x00" * 2**24,
        _LENGTH.pack(2**24 + 1) + b"\x91" * (2**24 + 1),
        _LENGTH.pack(1) + b"\x91" * 1_000_000,
        b"\x05" + _LENGTH.pack(0),
        b"\xff" + _LENGTH.pack(0),
        b"\x00" + _LENGTH.pack(2**30 + 1),
        b"\x00" + _LENGTH.pack(2**30),
    ]


@no_broken_thread()
def fuzz_one(data: bytes) -> None:
    said = _served().ask(data)
    whole = len(data) >= 8 and _LENGTH.unpack(data[:8])[0] <= min(len(data) - 8, MOST_REQUEST_BYTES)
    assert said or not whole, "a whole request got no reply"
    if said:
        assert 0 <= said[0] <= 4
        assert _LENGTH.unpack(said[1:9])[0] == len(said) - 9
        assert said[0] == 0 or len(said) == 9
    _hear(data)


class _Served:
    """A service of a real agent, in a thread of its own."""

    def __init__(self) -> None:
        place = folder("socket")
        endless: dict[str, Any] = {"refused_queries": 10**12, "refused_seconds": 1e12}
        settings = make_site(place, study_epsilon=100.0, epsilon=100.0, **endless)
        with Path(settings.source).open("a") as file:
            file.write(f"{SECRET},v0,v0\n")
        approved_study(settings)
        self._lines: list[str] = []
        self._path = settings.socket
        log: Callable[[str], None] = self._lines.append
        agent = Agent(settings, books_of(settings), noise=FreshNoise(), log=log)
        service = ExitStack().enter_context(Service(agent, settings, log=log, request_seconds=5))
        threading.Thread(target=service.run, daemon=True).start()

    def ask(self, data: bytes) -> bytes:
        """All that comes back to these bytes, once the threads that served them are gone."""
        others = {*threading.enumerate()}
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(20)
            connection.connect(str(self._path))
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
            said = b""
            with suppress(ConnectionResetError):
                while part := connection.recv(2**16):
                    said += part
        for thread in {*threading.enumerate()} - others:
            thread.join(20)
        while self._lines:
            check_words(self._lines.pop())
        return said


@cache
def _served() -> _Served:
    return _Served()


def _hear(data: bytes) -> None:
    """What an engine makes of an agent that says this."""
    path = folder("hear") / "socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        listener.listen(1)
        teller = threading.Thread(target=_tell, args=(listener, data))
        teller.start()
        try:
            answer = ask(path, b"?", 20)
            assert data[:1] == b"\x00"
            assert data[9 : 9 + len(answer)] == answer
        except Refused as refusal:
            check_words(str(refusal))
        finally:
            teller.join()


def _tell(listener: socket.socket, data: bytes) -> None:
    with suppress(OSError):
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(20)
            connection.recv(9)
            connection.sendall(data)
