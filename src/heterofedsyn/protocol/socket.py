"""What goes through an agent's socket, and how an engine asks there.

A request is one frame: 8 bytes of length, big-endian, and so many bytes. A reply is one byte, 0 or
the number of a reason, and a frame: the answer, or nothing. Each connection carries one request.
"""

from __future__ import annotations

import errno
import socket
import struct
import time
from pathlib import Path

from heterofedsyn.protocol.limits import MOST_REPLY_BYTES, MOST_REQUEST_BYTES
from heterofedsyn.protocol.refusal import Reason, Refused

_LENGTH = struct.Struct(">Q")
_REASONS = tuple(Reason)
_ANSWERED = 0
_CHUNK = 2**20


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
            status = receive(connection, 1, until)[0]
            length = _receive_length(connection, until)
            if length > MOST_REPLY_BYTES:
                raise Refused(Reason.UNAVAILABLE, f"the agent at {path} sends too much")
            answer = receive(connection, length, until)
    except (OSError, ValueError) as error:
        raise Refused(
            Reason.UNAVAILABLE, f"no answer from the agent at {path}: {why(error)}"
        ) from None
    if status == _ANSWERED:
        return answer
    if status > len(_REASONS):
        raise Refused(Reason.UNAVAILABLE, f"the agent at {path} speaks another version")
    reason = _REASONS[status - 1]
    raise Refused(reason, f"the agent at {path} refused: {reason}")


def request_length(connection: socket.socket, until: float) -> int:
    """How long the request is that comes next.

    Raises:
        Refused: if no request may be so long.
        OSError: if it is not said in time.
    """
    length = _receive_length(connection, until)
    if not 0 < length <= MOST_REQUEST_BYTES:
        raise Refused(
            Reason.MALFORMED,
            f"a request of {length:,} bytes is not within 1..{MOST_REQUEST_BYTES:,}",
        )
    return length


def receive(connection: socket.socket, many: int, until: float) -> bytes:
    """So many bytes; memory is taken as they come, not as they are announced.

    Raises:
        OSError: if they do not come in time.
    """
    received = bytearray()
    while len(received) < many:
        connection.settimeout(_left(until))
        part = connection.recv(min(_CHUNK, many - len(received)))
        if not part:
            raise ConnectionAbortedError(errno.ECONNABORTED, "the connection ended early")
        received += part
    return bytes(received)


def reply(connection: socket.socket, reason: Reason | None, answer: bytes, seconds: float) -> bool:
    """Send an answer, or a reason without one; whether it was taken in time."""
    status = _ANSWERED if reason is None else 1 + _REASONS.index(reason)
    until = time.monotonic() + seconds
    try:
        _send(connection, bytes([status]) + _LENGTH.pack(len(answer)), until)
        _send(connection, answer, until)
    except OSError:
        return False
    return True


def why(error: BaseException) -> str:
    """What the operating system says of an error."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _receive_length(connection: socket.socket, until: float) -> int:
    (length,) = _LENGTH.unpack(receive(connection, _LENGTH.size, until))
    return int(length)


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
