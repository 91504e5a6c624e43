"""The agent's socket: who may ask is decided by the operating system's word on who is asking.

What goes through it is said in `protocol.socket`. Threads, and not asyncio: an answer is made by
code that blocks for seconds or minutes and may have to be left behind at the end, which an
executor's threads cannot be, so that a loop would stand beside the threads and not replace them.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from heterofedsyn.errors import HeterofedsynError, UsageError
from heterofedsyn.protocol.limits import MOST_INTEGERS, MOST_QUERY_BYTES
from heterofedsyn.protocol.refusal import Reason, Refused
from heterofedsyn.protocol.socket import receive, reply, request_length, why
from heterofedsyn.site.log import PacedLog
from heterofedsyn.site.schedule import MOST_TICK
from heterofedsyn.site.settings import SiteSettings

MOST_CONNECTIONS = 64
MOST_WAITING_BYTES = 8 * MOST_QUERY_BYTES
"""Of all queries that are being received or answered: what a hostile engine can make us hold."""

MOST_UNREAD_BYTES = 4 * 8 * MOST_INTEGERS
"""Of all answers that are being sent; the largest one fits whenever few others are."""

REQUEST_SECONDS = 30.0
"""In which a request must have come, and then again its answer must have been taken."""

STOP_SECONDS = 60.0
"""That answers which are being made may still take once the service was told to stop; they leave at
the next tick."""

FOLDER_MODE = 0o750
SOCKET_MODE = 0o660

_CREDENTIALS = struct.Struct("iII")
"""Process, user and group; numbers of users go up to 2^32."""


class Answering(Protocol):
    """What stands behind the socket."""

    def answer(self, message: bytes) -> bytes:
        """The answer to a query, or `Refused`; called from several threads at once."""
        ...

    def close(self) -> None:
        """Refuse all queries that are not yet being answered."""
        ...


class Service:
    """Answers on a socket until it is told to stop; a context, in which `run` does the work."""

    def __init__(
        self,
        agent: Answering,
        settings: SiteSettings,
        *,
        log: Callable[[str], None] | PacedLog,
        request_seconds: float = REQUEST_SECONDS,
        stop_seconds: float = STOP_SECONDS,
    ) -> None:
        """Prepare to answer; nothing is there to be asked before `open`."""
        self._agent = agent
        self._path = settings.socket
        self._group = settings.group_id()
        self._askers = settings.askers()
        self._settings = settings
        self._log = PacedLog.of(log)
        self._request_seconds, self._stop_seconds = request_seconds, stop_seconds
        self._room = _Room(MOST_WAITING_BYTES, "too many large requests at once")
        self._unread = _Room(
            MOST_UNREAD_BYTES, "too many answers are not taken; the same query again gets its own"
        )
        self._threads: set[threading.Thread] = set()
        self._asking: set[socket.socket] = set()
        self._turn = threading.Lock()
        self._ending = threading.RLock()  # a signal may come while its holder is stopped or closed
        self._stopped = False
        self._listener: socket.socket | None = None
        self._made: tuple[int, int] | None = None

    def __enter__(self) -> Service:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> None:
        """Make the socket, readable by the group and nobody else.

        Raises:
            UsageError: if its folder is not its own, or another agent answers there.
        """
        if not hasattr(socket, "SO_PEERCRED"):
            raise HeterofedsynError("a site agent needs Linux, which tells it who is asking")
        _own_folder(self._path, self._group)
        _clear(self._path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Nobody may connect before group and mode are right.
            former = os.umask(0o177)
            try:
                listener.bind(str(self._path))
            finally:
                os.umask(former)
            _share(self._path, self._group, SOCKET_MODE)
            made = self._path.lstat()
            self._made = made.st_dev, made.st_ino
            listener.listen(2 * MOST_CONNECTIONS)
        except BaseException as error:
            listener.close()
            self._remove()
            if not isinstance(error, OSError):
                raise
            raise HeterofedsynError(f"cannot make the socket {self._path}: {why(error)}") from None
        self._listener = listener

    def run(self) -> None:
        """Answer until `stop`; then finish the answers that are being made."""
        listener = self._listener
        if listener is None:
            raise UsageError("the service is not open")
        while not self._stopped:
            try:
                connection, _ = listener.accept()
            except OSError as error:  # stopped, out of file descriptors, or the peer has gone
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                    self._log("no connection", f"cannot take a connection: {why(error)}")
                    time.sleep(0.1)
                continue
            self._start(connection)
        self._end()

    def stop(self) -> None:
        """End `run`; may be called from a signal handler or another thread, also when it is late.

        Once the listener is closed its number may be that of another file, which is left alone.
        """
        with self._ending:
            self._stopped = True
            if self._listener is not None:
                with suppress(OSError):  # it was told before
                    self._listener.shutdown(socket.SHUT_RDWR)  # so that nobody waits for it

    @property
    def busy(self) -> bool:
        """Whether an answer is still being made."""
        with self._turn:
            return bool(self._threads)

    def close(self) -> None:
        """Remove the socket."""
        self._close_listener()
        self._log.close()

    def _end(self) -> None:
        """Nobody new may ask, and what is being answered is, if it takes no longer than agreed.

        Who waits for a turn would use up that time, and was charged nothing yet: it is refused.
        """
        self._close_listener()
        self._agent.close()
        until = time.monotonic() + self._stop_seconds + self._tick()
        with self._turn:
            waiting = list(self._threads)
            for connection in self._asking:  # whose query has not come yet
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in waiting:
            thread.join(max(0.0, until - time.monotonic()))

    def _tick(self) -> float:
        """The longest that a reply which is ready may have to wait."""
        try:
            return max(self._settings.tick, self._settings.again().tick)
        except HeterofedsynError:
            return MOST_TICK

    def _close_listener(self) -> None:
        with self._ending:
            if self._listener is not None:
                self._listener.close()
                self._listener = None
                self._remove()

    def _remove(self) -> None:
        """Remove the socket if it is still the one that was made here."""
        try:
            there = self._path.lstat()
            if self._made == (there.st_dev, there.st_ino):
                self._path.unlink()
        except OSError:
            pass  # it is gone, which is what was wanted

    def _start(self, connection: socket.socket) -> None:
        """A thread for the connection, unless there are too many or it is not allowed to ask."""
        connection.setblocking(True)
        user = _peer(connection)
        if user not in self._askers:
            allowed = ", ".join(map(str, sorted(self._askers)))
            text = f"refused a connection of user {user}: only {allowed} may ask"
            self._log("a user who may not ask", text)
            connection.close()
            return
        thread = threading.Thread(target=self._serve, args=(connection, user), daemon=True)
        with self._turn:
            full = len(self._threads) >= MOST_CONNECTIONS
            if not full:
                self._threads.add(thread)
                self._asking.add(connection)
        if full:
            text = f"{MOST_CONNECTIONS} are open already"
            self._turn_away(connection, "too many connections", text)
            return
        try:
            thread.start()
        except RuntimeError:  # the operating system gives no more threads
            with self._turn:
                self._asking.discard(connection)
                self._threads.discard(thread)
            self._turn_away(connection, "no thread", "there is no thread for it")

    def _turn_away(self, connection: socket.socket, kind: str, text: str) -> None:
        self._log(kind, f"refused a connection: {text}")
        with connection:
            reply(connection, Reason.UNAVAILABLE, b"", 1.0)

    def _serve(self, connection: socket.socket, user: int) -> None:
        try:
            with connection:
                self._one(connection, user)
        finally:
            with self._turn:
                self._asking.discard(connection)
                self._threads.discard(threading.current_thread())

    def _one(self, connection: socket.socket, user: int) -> None:
        """One request and its reply."""
        reason: Reason | None = None
        answer = b""
        try:
            with self._request(connection) as message:
                self._check_still_allowed(user)
                answer = self._agent.answer(message)
        except Refused as refusal:
            reason = refusal.reason
            self._log_refusal(refusal)
        except (OSError, TimeoutError) as error:
            self._log("no request", f"a request did not arrive: {why(error)}")
            return
        except Exception as error:
            # Whatever it is, its text could quote a record, and the hub learns nothing from it.
            reason = Reason.UNAVAILABLE
            text = f"refused ({reason}): unexpected {type(error).__name__}; please report this"
            self._log("unexpected", text)
        try:
            with self._unread.take(len(answer)):
                self._reply(connection, reason, answer)
        except Refused as refusal:
            del answer
            self._log_refusal(refusal)
            self._reply(connection, refusal.reason, b"")

    def _log_refusal(self, refusal: Refused) -> None:
        self._log(f"refused ({refusal.reason})", f"refused ({refusal.reason}): {refusal}")

    def _check_still_allowed(self, user: int) -> None:
        """Refuse a user whom the settings no longer name; whom they name now waits for a restart.

        Raises:
            Refused: as unavailable if the settings cannot be read.
        """
        try:
            allowed = self._settings.again().askers()
        except HeterofedsynError as error:
            raise Refused(Reason.UNAVAILABLE, str(error)) from None
        if user not in allowed:
            raise Refused(Reason.UNAVAILABLE, f"user {user} may no longer ask, by the settings")

    def _reply(self, connection: socket.socket, reason: Reason | None, answer: bytes) -> None:
        if not reply(connection, reason, answer, self._request_seconds):
            text = "a reply was not taken; the same query again gets the same answer"
            self._log("not taken", text)
        elif reason is None:
            self._log("sent", f"sent {len(answer):,} bytes")

    @contextmanager
    def _request(self, connection: socket.socket) -> Iterator[bytes]:
        """The message of a connection, in the room that there is for messages."""
        until = time.monotonic() + self._request_seconds
        length = request_length(connection, until)
        with self._room.take(length):
            message = receive(connection, length, until)
            with self._turn:
                self._asking.discard(connection)
            yield message


class _Room:
    """How many bytes may be held at once."""

    def __init__(self, most: int, full: str) -> None:
        self.left = most
        self._full = full
        self._turn = threading.Lock()

    @contextmanager
    def take(self, many: int) -> Iterator[None]:
        with self._turn:
            if many > self.left:
                raise Refused(Reason.UNAVAILABLE, self._full)
            self.left -= many
        try:
            yield
        finally:
            with self._turn:
                self.left += many


def _peer(connection: socket.socket) -> int:
    """The number of the user at the other end, from the operating system."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(peer)
    return int(user)


def _own_folder(path: Path, group: int) -> None:
    """The socket's folder, made or checked: the agent's own, open to the group alone."""
    folder = path.parent
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        state = folder.lstat()
        mine = stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid()
        if mine and (state.st_gid, stat.S_IMODE(state.st_mode)) == (group, FOLDER_MODE):
            return
        if not mine or any(entry != path for entry in folder.iterdir()):
            raise UsageError(
                f"{folder} must be a folder of the agent's own with nothing but the socket in it, "
                f"mode {FOLDER_MODE:o}; name another for the socket"
            ) from None
    except OSError as error:
        raise HeterofedsynError(f"cannot make the folder {folder}: {why(error)}") from None
    _share(folder, group, FOLDER_MODE)


def _share(path: Path, group: int, mode: int) -> None:
    """Give a path of ours to the group, with exactly this mode."""
    try:
        os.chown(path, -1, group)
    except PermissionError:
        raise UsageError(
            f"cannot give {path} to group {group}: the agent's user is not in it; add it, or name "
            "another group in site.toml"
        ) from None
    path.chmod(mode)


def _clear(path: Path) -> None:
    """Remove a socket that a killed agent left behind; refuse if anything else is there."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise UsageError(f"{path} is no socket; name another place for it in site.toml")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.settimeout(1.0)
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except OSError:
            pass  # somebody is there, only too busy
    raise UsageError(f"another agent answers at {path}; stop it, or name another socket")
