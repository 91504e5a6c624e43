"""The server of the console: on 127.0.0.1 alone, until it is told to stop."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import secrets
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from html import escape
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from heterofedsyn.console.app import make_app
from heterofedsyn.console.pages import Role
from heterofedsyn.console.sessions import TOKEN_SECONDS, Sessions
from heterofedsyn.errors import UsageError
from heterofedsyn.site.log import PacedLog

HOST = "127.0.0.1"
MOST_CONNECTIONS = 64
HEAD_SECONDS = 10.0
"""In which the head of a request must have come."""

RENEWAL = getattr(signal, "SIGUSR1", None)
"""The signal by which whoever started a console asks for another address; not on Windows."""

_WATCH_SECONDS = 2.0
_OPENER = (
    '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Console</title>'
    '<meta name="referrer" content="no-referrer">'
    '<meta http-equiv="refresh" content="0; url={address}"></head>'
    '<body><p><a href="{address}">To the console</a></p></body></html>'
)


class Console:
    """One role's pages on a port of this machine; a context, in which `run` serves.

    Attributes:
        port: on which it listens.
    """

    def __init__(
        self,
        role: Role,
        *,
        port: int = 0,
        tell: Callable[[str], None],
        log: Callable[[str], None],
    ) -> None:
        """Prepare to serve; nothing can be asked before it is entered.

        Args:
            port: a free one if 0.
            tell: hears every address that opens the console, once each.
            log: takes lines of the log.
        """
        self._role, self._tell, self._log = role, tell, PacedLog.of(log)
        self._asked_port = port
        self.port = 0
        self._root = f"/{secrets.token_urlsafe(16)}"
        self._sessions = Sessions()
        self._stack = ExitStack()
        self._socket: socket.socket | None = None
        self._server: _Server | None = None
        self._stopped = False
        self._renews = False

    def __enter__(self) -> Console:
        self._socket = self._stack.enter_context(_listening(self._asked_port))
        self.port = self._socket.getsockname()[1]
        app = make_app(
            self._role,
            root=self._root,
            port=self.port,
            sessions=self._sessions,
            log=self._log,
            stopping=lambda: self._stopped,
        )
        config = uvicorn.Config(
            app,
            http=_Prompt,
            ws="none",
            lifespan="off",
            loop="asyncio",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=10,
            timeout_graceful_shutdown=2,
            h11_max_incomplete_event_size=2**14,
        )
        for name in ("uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
            logging.getLogger(name).disabled = True  # what matters is in our own log
        self._server = _Server(config)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._log.close()

    def invite(self) -> str:
        """A new address that opens the console, once."""
        return f"http://{HOST}:{self.port}{self._root}/enter?token={self._sessions.invite()}"

    def run(self) -> None:
        """Serve until `stop`."""
        if self._server is None or self._socket is None:
            raise UsageError("the console is not open")
        asyncio.run(self._serve(self._server, self._socket))

    def stop(self) -> None:
        """End `run`; may be called from a signal handler."""
        self._stopped = True
        if self._server is not None:
            self._server.should_exit = True

    def renew(self) -> None:
        """Have another address told soon; may be called from a signal handler."""
        self._renews = True

    async def _serve(self, server: _Server, listener: socket.socket) -> None:
        watching = asyncio.create_task(self._watch())
        try:
            await server.serve(sockets=[listener])
        finally:
            watching.cancel()

    async def _watch(self) -> None:
        """When a session is over, or another address is wanted, tell how to begin one."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            if self._sessions.lapse():
                self._log.write(_lapsed())
            if self._sessions.ended():
                self._sessions.close()
                self._log.write("the session is over")
                self._renews = True
            if self._renews:
                self._renews = False
                self._tell(self.invite())


def _lapsed() -> str:
    """That the address opens nothing any more, and how to get another."""
    other = "start the console again" if RENEWAL is None else f"kill -USR1 {os.getpid()}"
    minutes = TOKEN_SECONDS / 60
    return f"nobody opened the address within {minutes:g} minutes; for a new one: {other}"


@contextmanager
def opener(address: str) -> Iterator[Path]:
    """A page for this user's eyes that leads to an address.

    A program's arguments can be read by everybody on a machine, so that a browser is started with
    the name of this page, and not with an address that opens the console.
    """
    with tempfile.TemporaryDirectory(prefix="heterofedsyn-") as folder:
        page = Path(folder) / "console.html"
        page.touch(0o600)
        page.write_text(_OPENER.format(address=escape(address)), "utf-8")
        yield page


@contextmanager
def _listening(port: int) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            why = "is taken" if taken else f"cannot be used ({error.strerror})"
            raise UsageError(
                f"port {port} {why}; name another with --port, or none for a free one"
            ) from None
        listener.listen(MOST_CONNECTIONS)
        yield listener


class _Server(uvicorn.Server):
    """One that leaves signals to whoever started it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Prompt(H11Protocol):
    """Connections on which the head of a request comes in time, or that are closed."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._heard()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            self._heard()
        elif self._late is None:
            self._wait()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._heard()

    def _wait(self) -> None:
        self._late = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _heard(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
