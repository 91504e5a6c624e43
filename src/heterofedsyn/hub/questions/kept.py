"""Replicates that are kept: in memory while a program runs, and on disk if it says where."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

from heterofedsyn._files import check_private, open_inside, reason
from heterofedsyn._version import __version__
from heterofedsyn._words import count
from heterofedsyn.errors import UsageError
from heterofedsyn.hub.methods.base import Model
from heterofedsyn.hub.questions.replicates import SEED, Replicate, draw_replicate
from heterofedsyn.hub.release import MOST_RELEASED
from heterofedsyn.hub.release.model_file import digest, pack
from heterofedsyn.hub.release.sampling import CHUNK, draw
from heterofedsyn.schema import EncodedTable, Schema, decode

if TYPE_CHECKING:
    import pyarrow as pa

MOST_DRAWN = 25_000
"""Rows of a replicate, each of which may stand for several: more made no interval better."""

MOST_KEPT = 2**31
"""Bytes of all replicates on disk; those not used for longest go first."""

MOST_TOLD_OF = 10_000_000_000
"""Records, so that a few bytes from a stranger do not become hours of work."""

MOST_REPLICATES = 1_000
FORMAT = 3
FOLDER = "heterofedsyn-replicates"
"""In the folder that a user names: nothing outside of it is ever written or removed."""

LEFT_BEHIND = 3_600
"""Seconds after which nobody writes any longer to a folder that is not whole."""

FARTHEST = 8
"""Standard deviations from our number of records within which that of every world is."""

TOLD_EVERY = 5
"""Replicates after which it is told how many are drawn."""

_LIST = "list.json"
_MOST_LIST = 2**20
_PARTIAL = "partial-"
_FOLDER_NAME = re.compile(r"[0-9a-f]{32}")
_FILE_NAME = re.compile(r"list\.json|(0|[1-9][0-9]{0,3})\.arrow")


@dataclass(frozen=True, eq=False)
class Drawn:
    """The synthetic table and its replicates, drawn when first asked for.

    Attributes:
        seed: of the synthetic table.
        total: how many records that tells of.
        cache: a folder to keep them in; nothing is written unless given.
        watch: is told while they are drawn, and if they cannot be kept.
    """

    schema: Schema
    model: Model
    seed: int
    total: int
    replicates: int
    cache: Path | None = None
    watch: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.replicates <= MOST_REPLICATES:
            raise UsageError(f"replicates ({self.replicates}) must be in 1..{MOST_REPLICATES}")
        if self.total > MOST_TOLD_OF:
            raise UsageError(
                f"the release tells of {self.total:,} records, and questions are answered about at "
                f"most {MOST_TOLD_OF:,}; release.accuracy gives its tables"
            )

    def empty(self) -> pa.Table:
        """The synthetic table without rows."""
        none = np.zeros((len(self.schema.domain), 0), np.uint16)
        return decode(self.schema, EncodedTable(self.schema.domain, none), np.random.default_rng(0))

    def tables(self, columns: Sequence[str]) -> Iterator[Replicate]:
        """The synthetic table, then its replicates, with at least these columns."""
        drawn = self._drawn(", which are kept for the next question")
        tables = self._kept(self._facts, self.replicates + 1, columns, drawn)
        if tables is None:
            for own in self._remembered():
                yield Replicate(
                    own.table.select([*columns] or own.table.column_names[:1]), own.weight
                )
        else:
            yield from map(Replicate, tables, self._weights)

    def whole(self, seed: int, rows: int | None) -> list[pa.Table]:
        """The replicates alone, each with a row for every record; those behind answers if alike.

        Args:
            rows: of each; those of its world unless given.
        """
        if rows is None and self.total > MOST_RELEASED:
            raise UsageError(
                f"the release tells of {self.total:,} records; say how many rows a replicate has, "
                f"at most {MOST_RELEASED:,}"
            )
        columns = self.empty().column_names
        if seed == SEED and rows is None and max(self._weights) == 1 < self.replicates:
            return [replicate.table for replicate in self.tables(columns)][1:]
        facts = ["whole", seed, rows, self.replicates]
        drawn = self._drawn_whole(seed, rows, ", which are kept for the next program")
        tables = self._kept(facts, self.replicates, columns, drawn)
        return [*self._drawn_whole(seed, rows)] if tables is None else tables

    @property
    def _facts(self) -> list[object]:
        """What tells the tables behind answers from those of another drawing of the same model."""
        return [self.seed, self.total, self.replicates, MOST_DRAWN]

    def _kept(
        self,
        facts: Sequence[object],
        many: int,
        columns: Sequence[str],
        drawn: Iterator[pa.Table],
    ) -> list[pa.Table] | None:
        """What is kept, drawn now unless it was before; nothing where that cannot be."""
        if self.cache is None:
            return None
        like = self.empty().schema
        try:
            place = _settled(self.cache) / FOLDER / self._name(facts)
            tables = _read(place, many, like, columns)
            if tables is not None:
                return tables
            _keep(place, drawn)
        except OSError as error:
            self._tell(f"replicates cannot be kept in {self.cache / FOLDER}: {reason(error)}")
            return None
        return _read(place, many, like, columns)

    def _name(self, facts: Sequence[object]) -> str:
        """Tells these replicates from all others."""
        own = [FORMAT, __version__, digest(pack(self.schema, self.model, {})), *facts]
        return hashlib.sha256(json.dumps(own).encode()).hexdigest()[:32]

    @cached_property
    def _weights(self) -> list[int]:
        """How many records a row of each table stands for.

        One number for all worlds, so that the release tells it and no file has to.
        """
        error = math.sqrt(math.fsum(targets.total_variance for targets in self.model.targets))
        most = math.ceil(self.total + FARTHEST * error)
        return [-(-self.total // CHUNK), *[-(-most // MOST_DRAWN)] * self.replicates]

    def _remembered(self) -> list[Replicate]:
        known = _REMEMBERED.setdefault(self.model, {})
        which = (self.seed, self.total, self.replicates)
        if which not in known:
            known[which] = [*map(Replicate, self._drawn(), self._weights)]
        return known[which]

    def _drawn(self, remark: str = "") -> Iterator[pa.Table]:
        import pyarrow as pa

        self._tell(f"drawing {self.replicates} replicates{remark}")
        ours, *others = self._weights
        rows = max(1, round(self.total / ours))
        yield pa.concat_tables(draw(self.schema, self.model, rows, self.seed))
        for number, weight in enumerate(others):
            yield draw_replicate(self.schema, self.model, number, SEED, weight=weight).table
            self._tell_pace(number + 1)

    def _drawn_whole(self, seed: int, rows: int | None, remark: str = "") -> Iterator[pa.Table]:
        self._tell(f"drawing {count(self.replicates, 'replicate')}{remark}")
        for number in range(self.replicates):
            yield draw_replicate(self.schema, self.model, number, seed, rows=rows).table
            self._tell_pace(number + 1)

    def _tell_pace(self, done: int) -> None:
        if done % TOLD_EVERY == 0:
            self._tell(f"  {done} of {self.replicates}")

    def _tell(self, line: str) -> None:
        if self.watch is not None:
            self.watch(line)


_REMEMBERED: WeakKeyDictionary[Model, dict[tuple[int, int, int], list[Replicate]]] = (
    WeakKeyDictionary()
)


class _List(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a folder holds: the SHA-256 of `0.arrow`, `1.arrow` and so on."""

    digests: tuple[str, ...]


def _keep(place: Path, tables: Iterable[pa.Table]) -> None:
    """Write a folder of tables, all of them or nothing, and make room for it.

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
        _written(partial / _LIST, msgspec.json.encode(_List(tuple(digests))))
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


def _read(place: Path, many: int, like: pa.Schema, columns: Sequence[str]) -> list[pa.Table] | None:
    """These columns of so many tables, if a folder holds them just as they were written."""
    import pyarrow as pa

    try:
        _check_folder(place.parent)
        _check_folder(place)
        digests = _listed(place)
        if len(digests) != many:
            return None
        tables = []
        for number, wanted in enumerate(digests):
            data = _bytes(place, f"{number}.arrow", MOST_KEPT)
            if hashlib.sha256(data).hexdigest() != wanted:
                return None
            file = pa.BufferReader(data)
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


def _listed(place: Path) -> tuple[str, ...]:
    return msgspec.json.decode(_bytes(place, _LIST, _MOST_LIST), type=_List).digests


def _bytes(place: Path, name: str, most: int) -> bytes:
    with open_inside(place, name, most) as file:
        check_private(os.fstat(file.fileno()))
        return file.read()


def _settled(folder: Path) -> Path:
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
    files = {_LIST, *(f"{number}.arrow" for number in range(len(_listed(folder))))}
    if files != {file.name for file in folder.iterdir()}:
        raise OSError(errno.EINVAL, "these are no replicates")
    return sum((folder / name).lstat().st_size for name in files)
