"""Folders and files that appear whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from heterofedsyn.errors import HeterofedsynError, UsageError

_REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "make room there, or name another place"),
    **dict.fromkeys((errno.EACCES, errno.EPERM), "ask for access, or name another place"),
    errno.EROFS: "name another place",
}


def reason(error: OSError) -> str:
    """Why a file cannot be read or written, and what to do where that is known.

    >>> reason(OSError(errno.ENOSPC, "Error writing bytes to file. Detail: [errno 28]"))
    'No space left on device; make room there, or name another place'
    """
    remedy = _REMEDIES.get(error.errno or 0)
    return _cause(error) + (f"; {remedy}" if remedy else "")


def read_whole(path: str | os.PathLike[str], most: int) -> bytes:
    """All bytes of a regular file; whatever else there is, nothing waits for it or reads on.

    Raises:
        OSError: if it is something else, holds more than so many bytes, or cannot be read.
    """
    try:
        file = open(path, "rb", opener=_at_once)  # noqa: SIM115
    except ValueError:
        raise OSError(errno.EINVAL, "a path holds no null character") from None
    with file:
        _check_regular(file, most)
        return file.read()


def cache_of(name: str) -> Path | None:
    """Where a user keeps what only saves time, one folder for each use; none without a home.

    Below XDG_CACHE_HOME, which counts if it is a whole path, or ~/.cache.
    """
    above = Path(os.environ.get("XDG_CACHE_HOME") or "")
    if not above.is_absolute():
        try:
            above = Path.home() / ".cache"
        except RuntimeError:
            return None
    return above / "heterofedsyn" / name if above.is_absolute() else None


def check_private(there: os.stat_result) -> None:
    """Refuse a file or folder that others can change.

    Raises:
        OSError: if it is another user's, or a group or everybody may write it.
    """
    if there.st_uid != os.geteuid():
        raise OSError(errno.EINVAL, "this belongs to another user; name another place")
    if there.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise OSError(errno.EINVAL, "others may write there; take that away, or name another place")


def check_owner(folder: Path) -> None:
    """Refuse whoever does not own a folder, root too.

    Raises:
        UsageError: naming the owner.
    """
    owner = folder.stat().st_uid
    if owner != os.geteuid():
        raise UsageError(
            f"{folder} belongs to {_user(owner)}; run this as that user, not as {user_name()}"
        )


def user_name() -> str:
    """The user's name by the operating system, which no environment variable can change."""
    return _user(os.geteuid())


def logs_in() -> bool:
    """Whether the user is one who can log in, by the operating system."""
    import pwd

    try:
        shell = pwd.getpwuid(os.geteuid()).pw_shell
    except KeyError:
        return True
    return Path(shell).name not in ("nologin", "false")


def _user(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def check_no_link(target: Path) -> None:
    """Refuse to write where a link is, whether or not it leads anywhere.

    Whoever made the link, or what it leads to, may not be known to those who name it. Folders above
    may be links.

    Raises:
        UsageError: if the target is a link.
    """
    if target.is_symlink():
        raise UsageError(
            f"{target} is a link, and nothing is written through one; remove it, or name the place "
            "itself"
        )


def open_inside(folder: str | os.PathLike[str], name: str, most: int) -> BufferedReader:
    """A regular file that lies in the folder itself: no link leads out of it.

    The folder may be reached through links, since whoever names it knows where it leads.

    Raises:
        OSError: if it is a link or something else, holds more than so many bytes, or cannot be
            read.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # A name with a folder in it would be another way out.
        file = os.fdopen(os.open(os.path.basename(name), flags, dir_fd=place), "rb")  # noqa: PTH119
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise OSError(errno.ELOOP, "this is a link, and no regular file of the folder") from None
    finally:
        os.close(place)
    try:
        _check_regular(file, most)
    except OSError:
        file.close()
        raise
    return file


def digest_of(file: BufferedReader) -> str:
    """SHA-256 of an open file, which is at its beginning again afterwards."""
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    file.seek(0)
    return digest


def check_place(target: Path) -> None:
    """Refuse, before any work is done, a place where nothing can be written.

    Raises:
        UsageError: naming the folder that stands in the way, or a link.
    """
    check_no_link(target)
    place = _real(target)
    if place == Path.cwd():
        raise UsageError(f"{target} is the folder you are in; name a new one inside it")
    try:
        above = next(folder for folder in place.parents if folder.exists())
        if not above.is_dir():
            raise UsageError(f"cannot write {target}: {above} is a file; name another place")
        allowed = os.access(above, os.W_OK | os.X_OK)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {_cause(error)}; name another place") from None
    if not allowed:
        raise UsageError(
            f"cannot write {target}: writing in {above} is not permitted; name another place"
        )


@contextmanager
def written_whole(target: Path) -> Iterator[Path]:
    """A folder to write into that takes the target's place at the end, or vanishes on failure.

    At the end it is on disk under its name, whatever happens to the machine.

    Raises:
        UsageError: if the target is a link.
    """
    with _beside(target) as (place, partial):
        missing = [folder for folder in place.parents if not folder.exists()]
        try:
            partial.mkdir(parents=True)
            yield partial
            for path in (*partial.iterdir(), partial):
                _flush(path)
            _put(partial, place)
            for folder in (place.parent, *(folder.parent for folder in missing)):
                _flush(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
            for folder in missing:
                if folder.is_dir() and not any(folder.iterdir()):
                    folder.rmdir()


@contextmanager
def file_written_whole(target: Path) -> Iterator[Path]:
    """A path to write to that is renamed to the target at the end, or vanishes on failure.

    At the end it is on disk under its name, whatever happens to the machine.

    Raises:
        UsageError: if the target is a link.
    """
    with _beside(target) as (place, partial):
        try:
            yield partial
            _flush(partial)
            partial.replace(place)
            _flush(place.parent)
        finally:
            partial.unlink(missing_ok=True)


@contextmanager
def _beside(target: Path) -> Iterator[tuple[Path, Path]]:
    """Where a target will be, from the root, and a free name beside it; what fails is worded."""
    check_no_link(target)
    place = _real(target)
    try:
        yield place, place.with_name(f".{place.name}.{secrets.token_hex(4)}")
    except OSError as error:
        raise HeterofedsynError(f"cannot write {target}: {reason(error)}") from None


def _check_regular(file: BufferedReader, most: int) -> None:
    there = os.fstat(file.fileno())
    if not stat.S_ISREG(there.st_mode):
        raise OSError(errno.EINVAL, "this is no regular file")
    if there.st_size > most:
        raise OSError(errno.EFBIG, f"this has more than {most:,} bytes")


def _at_once(path: str, flags: int) -> int:
    """Open, even a pipe that nobody writes to."""
    return os.open(path, flags | os.O_NONBLOCK)


def _put(partial: Path, place: Path) -> None:
    """Rename a folder to its place; what was there is back if that fails, and gone if not."""
    if not place.exists() or not any(place.iterdir()):
        partial.rename(place)
        return
    former = partial.with_name(f"{partial.name}.old")
    done = False
    try:
        place.rename(former)
        partial.rename(place)
        done = True
    finally:
        if done:
            shutil.rmtree(former, ignore_errors=True)
        elif former.exists() and not place.exists():
            former.rename(place)


def _real(target: Path) -> Path:
    """The place from the root, where folders above are links; one that is a link itself stays."""
    if target.name in ("", ".."):
        return Path(os.path.realpath(target))
    return Path(os.path.realpath(target.parent)) / target.name


def _cause(error: OSError) -> str:
    """What the system found wrong; libraries put words of their own around it."""
    if error.errno in _REMEDIES:
        return os.strerror(error.errno)
    return error.strerror or type(error).__name__


def _flush(path: Path) -> None:
    """Have a file's bytes, or a folder's names, on disk for good."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
