"""The agent's socket: who may ask is decided by the operating system's word on who is asking.

A request is one frame: 8 bytes of length, big-endian, and so many bytes. A reply is one byte, 0 or
the number of a reason, and a frame: the answer, or nothing. Each connection carries one request.
"""

from __future__ import annotations

import errno
import os
import select
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
from heterofedsyn.protocol.limits import MOST_ANSWER_BYTES, MOST_INTEGERS, MOST_QUERY_BYTES
from heterofedsyn.site.agent import Reason, Refused
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

_LENGTH = struct.Struct(">Q")
_REASONS = tuple(Reason)
_ANSWERED = 0
_CHUNK = 2**20
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
        self._group = settings.group_id
        self._askers = settings.askers
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
        self._waking = threading.RLock()  # a signal may come while its holder is stopped or closed
        self._listener: socket.socket | None = None
        self._made: tuple[int, int] | None = None
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._waker, False)

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
        except OSError as error:
            listener.close()
            self._remove()
            raise HeterofedsynError(
                f"cannot make the socket {self._path}: {_reason(error)}"
            ) from None
        except HeterofedsynError:
            listener.close()
            self._remove()
            raise
        listener.setblocking(False)
        self._listener = listener

    def run(self) -> None:
        """Answer until `stop`; then finish the answers that are being made."""
        listener = self._listener
        if listener is None:
            raise UsageError("the service is not open")
        while True:
            ready, _, _ = select.select([listener.fileno(), self._woken], [], [])
            if self._woken in ready:
                break
            try:
                connection, _ = listener.accept()
            except BlockingIOError:
                continue
            except OSError as error:  # out of file descriptors, or the peer has gone
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                    self._log("no connection", f"cannot take a connection: {_reason(error)}")
                    time.sleep(0.1)
                continue
            self._start(connection)
        self._end()

    def stop(self) -> None:
        """End `run`; may be called from a signal handler or another thread, also when it is late.

        Once the pipe is closed its number may be that of another file, so it is written to no more.
        """
        with self._waking:
            if self._waker >= 0:
                with suppress(BlockingIOError):  # it is full of wake-up calls already
                    os.write(self._waker, b".")

    @property
    def busy(self) -> bool:
        """Whether an answer is still being made."""
        with self._turn:
            return bool(self._threads)

    def close(self) -> None:
        """Remove the socket."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
            self._remove()
        with self._waking:
            ends = (self._woken, self._waker)
            self._woken = self._waker = -1
        for end in ends:
            if end >= 0:
                os.close(end)
        self._log.close()

    def _end(self) -> None:
        """Nobody new may ask, and what is being answered is, if it takes no longer than agreed.

        Who waits for a turn would use up that time, and was charged nothing yet: it is refused.
        """
        if self._listener is not None:
            self._listener.close()
            self._listener = None
            self._remove()
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

    def _remove(self) -> None:
        """Remove the socket if it is still the one that was made here."""
        try:
            found = self._path.lstat()
            if self._made == (found.st_dev, found.st_ino):
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
            text = f"refused a connection: {MOST_CONNECTIONS} are open already"
            self._log("too many connections", text)
            with connection:
                _try_reply(connection, Reason.UNAVAILABLE, b"", 1.0)
            return
        try:
            thread.start()
        except RuntimeError:  # the operating system gives no more threads
            self._log("no thread", "refused a connection: there is no thread for it")
            with self._turn:
                self._asking.discard(connection)
                self._threads.discard(thread)
            with connection:
                _try_reply(connection, Reason.UNAVAILABLE, b"", 1.0)

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
            self._log(f"refused ({reason})", f"refused ({reason}): {refusal}")
        except (OSError, TimeoutError) as error:
            self._log("no request", f"a request did not arrive: {_reason(error)}")
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
            self._log(f"refused ({refusal.reason})", f"refused ({refusal.reason}): {refusal}")
            self._reply(connection, refusal.reason, b"")

    def _check_still_allowed(self, user: int) -> None:
        """Refuse a user whom the settings no longer name; whom they name now waits for a restart.

        Raises:
            Refused: as unavailable if the settings cannot be read.
        """
        try:
            allowed = self._settings.again().askers
        except HeterofedsynError as error:
            raise Refused(Reason.UNAVAILABLE, str(error)) from None
        if user not in allowed:
            raise Refused(Reason.UNAVAILABLE, f"user {user} may no longer ask, by the settings")

    def _reply(self, connection: socket.socket, reason: Reason | None, answer: bytes) -> None:
        if not _try_reply(connection, reason, answer, self._request_seconds):
            text = "a reply was not taken; the same query again gets the same answer"
            self._log("not taken", text)
        elif reason is None:
            self._log("sent", f"sent {len(answer):,} bytes")

    @contextmanager
    def _request(self, connection: socket.socket) -> Iterator[bytes]:
        """The message of a connection, in the room that there is for messages."""
        until = time.monotonic() + self._request_seconds
        (length,) = _LENGTH.unpack(_receive(connection, _LENGTH.size, until))
        if not 0 < length <= MOST_QUERY_BYTES:
            raise Refused(
                Reason.MALFORMED,
                f"a request of {length:,} bytes is not within 1..{MOST_QUERY_BYTES:,}",
            )
        with self._room.take(length):
            message = _receive(connection, length, until)
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


def ask(path: Path, message: bytes, timeout: float) -> bytes:
    """The answer of the agent at a socket.

    Raises:
        Refused: with the agent's reason, or `unavailable` if there is no answer in time.
    """
    until = time.monotonic() + timeout
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout)
            connection.connect(str(path))
            try:
                _send(connection, _LENGTH.pack(len(message)), until)
                _send(connection, message, until)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused before all of it was read; the reply says why
            status = _receive(connection, 1, until)[0]
            (length,) = _LENGTH.unpack(_receive(connection, _LENGTH.size, until))
            if length > MOST_ANSWER_BYTES:
                raise Refused(Reason.UNAVAILABLE, f"the agent at {path} sends too much")
            answer = _receive(connection, length, until)
    except (OSError, ValueError) as error:
        raise Refused(
            Reason.UNAVAILABLE, f"no answer from the agent at {path}: {_reason(error)}"
        ) from None
    if status == _ANSWERED:
        return answer
    if status > len(_REASONS):
        raise Refused(Reason.UNAVAILABLE, f"the agent at {path} speaks another version")
    reason = _REASONS[status - 1]
    raise Refused(reason, f"the agent at {path} refused: {reason}")


def _try_reply(
    connection: socket.socket, reason: Reason | None, answer: bytes, seconds: float
) -> bool:
    """Whether the reply was taken in time."""
    status = _ANSWERED if reason is None else 1 + _REASONS.index(reason)
    until = time.monotonic() + seconds
    try:
        _send(connection, bytes([status]) + _LENGTH.pack(len(answer)), until)
        _send(connection, answer, until)
    except OSError:
        return False
    return True


def _receive(connection: socket.socket, many: int, until: float) -> bytes:
    """So many bytes; memory is taken as they come, not as they are announced."""
    found = bytearray()
    while len(found) < many:
        connection.settimeout(_left(until))
        part = connection.recv(min(_CHUNK, many - len(found)))
        if not part:
            raise ConnectionAbortedError(errno.ECONNABORTED, "the connection ended early")
        found += part
    return bytes(found)


def _send(connection: socket.socket, message: bytes, until: float) -> None:
    """All of a message."""
    rest = memoryview(message)
    while rest:
        connection.settimeout(_left(until))
        rest = rest[connection.send(rest[:_CHUNK]) :]


def _left(until: float) -> float:
    seconds = until - time.monotonic()
    if seconds <= 0:
        raise TimeoutError(errno.ETIMEDOUT, "timed out")
    return seconds


def _peer(connection: socket.socket) -> int:
    """The number of the user at the other end, from the operating system."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(found)
    return int(user)


def _own_folder(path: Path, group: int) -> None:
    """The socket's folder, made or checked: the agent's own, open to the group alone."""
    folder = path.parent
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        found = folder.lstat()
        right = (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode))
        if stat.S_ISDIR(found.st_mode) and right == (os.geteuid(), group, FOLDER_MODE):
            return
        mine = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
        if not mine or any(entry != path for entry in folder.iterdir()):
            raise UsageError(
                f"{folder} must be a folder of the agent's own with nothing but the socket in it, "
                f"mode {FOLDER_MODE:o}; name another for the socket"
            ) from None
    except OSError as error:
        raise HeterofedsynError(f"cannot make the folder {folder}: {_reason(error)}") from None
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


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
