"""Folders of replicates on disk, which only their user can write and nobody has to trust."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import msgspec

from heterofedsyn._files import check_private, open_inside

if TYPE_CHECKING:
    import pyarrow as pa

MOST_KEPT = 2**31
"""Bytes of all replicates on disk; those not used for longest go first."""

LEFT_BEHIND = 3_600
"""Seconds after which nobody writes any longer to a folder that is not whole."""

_LIST = "list.json"
_MOST_LIST = 2**20
_PARTIAL = "partial-"
_FOLDER_NAME = re.compile(r"[0-9a-f]{32}")
_ESTIMATES = "estimates.msgpack"
_FILE_NAME = re.compile(r"list\.json|estimates\.msgpack|(0|[1-9][0-9]{0,3})\.arrow")


class _List(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a folder holds: the SHA-256 of `0.arrow`, `1.arrow` and so on, and of the estimates."""

    digests: tuple[str, ...]
    estimates: str


def keep(place: Path, tables: Iterable[pa.Table], estimates: Callable[[], bytes]) -> None:
    """Write a folder of tables and estimates, all of it or nothing, and make room for it.

    Args:
        estimates: are asked for when the tables are drawn.

    Raises:
        OSError: it cannot be written, or something else is there; no table is drawn in vain.
    """
    import pyarrow as pa

    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_folder(place.parent)
    _remove(place)
    partial = Path(mkdtemp(prefix=_PARTIAL, dir=place.parent))
    try:
        digests = []
        for number, table in enumerate(tables):
            sink = pa.BufferOutputStream()
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            with pa.ipc.new_file(sink, table.schema, options=options) as writer:
                writer.write_table(table)
            digests.append(_written(partial / f"{number}.arrow", sink.getvalue().to_pybytes()))
        listed = _List(tuple(digests), _written(partial / _ESTIMATES, estimates()))
        _written(partial / _LIST, msgspec.json.encode(listed))
        try:
            partial.rename(place)
        except OSError:
            if not place.exists():  # else another program was faster, with the same tables
                raise
    finally:
        with suppress(OSError):
            _remove(partial)
    _make_room(place)


def _written(path: Path, data: bytes) -> str:
    """The digest of bytes that are in a new file."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(data)
    return hashlib.sha256(data).hexdigest()


def read_tables(
    place: Path, many: int, like: pa.Schema, columns: Sequence[str]
) -> list[pa.Table] | None:
    """These columns of so many tables, if a folder holds them just as they were written."""
    import pyarrow as pa

    try:
        _check_folder(place.parent)
        _check_folder(place)
        listed = _listed(place)
        _vouched(place, _ESTIMATES, listed.estimates)
        if len(listed.digests) != many:
            return None
        tables = []
        for number, wanted in enumerate(listed.digests):
            file = pa.BufferReader(_vouched(place, f"{number}.arrow", wanted))
            if pa.ipc.open_file(file).schema != like:
                return None
            places = [like.names.index(name) for name in columns] or [0]
            options = pa.ipc.IpcReadOptions(included_fields=places)
            tables.append(pa.ipc.open_file(file, options=options).read_all())
            tables[-1].validate()
    except (OSError, ValueError, pa.ArrowException, msgspec.MsgspecError):
        return None
    with suppress(OSError):
        os.utime(place)
    return tables


def read_estimates(place: Path) -> bytes:
    """What is believed of the model, if a folder holds it just as it was written."""
    _check_folder(place.parent)
    _check_folder(place)
    return _vouched(place, _ESTIMATES, _listed(place).estimates)


def _listed(place: Path) -> _List:
    return msgspec.json.decode(_bytes(place, _LIST, _MOST_LIST), type=_List)


def _vouched(place: Path, name: str, wanted: str) -> bytes:
    """The bytes of a file, if they are those that were written.

    Raises:
        OSError: they are others.
    """
    data = _bytes(place, name, MOST_KEPT)
    if hashlib.sha256(data).hexdigest() != wanted:
        raise OSError(errno.EINVAL, "this was not written here")
    return data


def _bytes(place: Path, name: str, most: int) -> bytes:
    with open_inside(place, name, most) as file:
        check_private(os.fstat(file.fileno()))
        return file.read()


def settled(folder: Path) -> Path:
    """A folder without links on the way, where nobody else can exchange what is in it.

    Raises:
        OSError: another user owns it or a folder above, or everybody may rename what is there.
    """
    real = folder.resolve()
    for above in (real, *real.parents):
        try:
            there = above.stat()
        except FileNotFoundError:
            continue
        if there.st_uid not in (0, os.geteuid()):
            raise OSError(errno.EINVAL, f"{above} belongs to another user; name another place")
        if there.st_mode & stat.S_IWOTH and not there.st_mode & stat.S_ISVTX:
            raise OSError(errno.EINVAL, f"everybody may write {above}; name another place")
    return real


def _check_folder(folder: Path) -> None:
    """Refuse what is no folder itself, or one that others can change."""
    check_private(_folder_itself(folder))


def _folder_itself(folder: Path) -> os.stat_result:
    there = folder.lstat()
    if not stat.S_ISDIR(there.st_mode):
        raise OSError(errno.ENOTDIR, "this is a link or a file; remove it, or name another place")
    return there


def _remove(folder: Path) -> None:
    """Remove a folder of replicates, whole or not, if there is one.

    Raises:
        OSError: something else is there or in it, which stays.
    """
    try:
        _folder_itself(folder)
    except FileNotFoundError:
        return
    files = [*folder.iterdir()]
    if not all(_FILE_NAME.fullmatch(file.name) for file in files):
        raise OSError(errno.ENOTEMPTY, "other files are in the way; remove them")
    for file in files:
        file.unlink(missing_ok=True)
    folder.rmdir()


def _make_room(kept: Path) -> None:
    """Remove what killed programs left behind, and what was not used for longest if it is much."""
    folders = []
    with suppress(OSError):
        for folder in [*kept.parent.iterdir()]:
            with suppress(OSError, msgspec.MsgspecError):  # another program may remove it as well
                used = folder.lstat().st_mtime
                if folder.name.startswith(_PARTIAL) and used < time.time() - LEFT_BEHIND:
                    _remove(folder)
                elif _FOLDER_NAME.fullmatch(folder.name):
                    folders.append((used, _size(folder), folder))
    much = sum(size for _, size, _ in folders)
    for _, size, folder in sorted(folders):
        if much > MOST_KEPT and folder != kept:
            with suppress(OSError):
                _remove(folder)
                much -= size


def _size(folder: Path) -> int:
    """The bytes of a folder of replicates.

    Raises:
        OSError: it is something else.
    """
    _check_folder(folder)
    many = len(_listed(folder).digests)
    files = {_LIST, _ESTIMATES, *(f"{number}.arrow" for number in range(many))}
    if files != {file.name for file in folder.iterdir()}:
        raise OSError(errno.EINVAL, "these are no replicates")
    return sum((folder / name).lstat().st_size for name in files)
