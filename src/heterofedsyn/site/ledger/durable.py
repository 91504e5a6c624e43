"""Files that are on disk when the call returns, and locks that keep a second agent out."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from heterofedsyn.errors import LedgerUnavailable


@contextmanager
def saying(verb: str, path: Path) -> Iterator[None]:
    """Turns what the operating system says into one line."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise LedgerUnavailable(
            f"cannot {verb} {error.filename or path}: {reason}; nothing is released until that is "
            "mended"
        ) from None


def write(path: Path, data: bytes) -> None:
    """Put a file of a folder of our own in place whole; on return it is on disk under its name."""
    path = Path(os.path.realpath(path))
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)  # left by a machine that failed
    write_as(new, path, data)


def write_as(new: Path, path: Path, data: bytes) -> None:
    """The same by way of a file of another name, which nobody may have taken."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(new, flags, 0o600)
    try:
        try:
            put(file, data, 0)
            os.fsync(file)
        finally:
            os.close(file)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    flush_folder(path.parent)


def put(file: int, data: bytes, place: int) -> None:
    """Write all of the bytes at a place of a file."""
    rest = memoryview(data)
    while rest:
        written = os.pwrite(file, rest, place)
        rest, place = rest[written:], place + written


def flush_folder(folder: Path) -> None:
    """See to it that the names in a folder are on disk."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def lock(path: Path, folder: Path) -> int:
    """A lock of our own on a file, held until it is closed; `folder` is the ledger's.

    Not by the library filelock: this is one call of the system, which refuses at once, follows no
    link and truncates nothing, and whose file can be held with others in one list.

    Raises:
        LedgerUnavailable: if somebody else holds it.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        raise LedgerUnavailable(
            f"the ledger in {folder} or a copy of it is in use by another agent or command "
            f"({path} is locked); stop that first"
        ) from None
    except BaseException:
        os.close(file)
        raise
    return file


@contextmanager
def held(files: Sequence[int]) -> Iterator[None]:
    """Closes files at the end, and so gives up their locks."""
    try:
        yield
    finally:
        for file in files:
            os.close(file)
