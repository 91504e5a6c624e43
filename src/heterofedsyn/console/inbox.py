"""The studies that wait for a steward: files in one folder, dropped on a page or put there."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from heterofedsyn._files import file_written_whole, read_whole, reason
from heterofedsyn.console.noticing import Recent
from heterofedsyn.errors import HeterofedsynError, UsageError, plain
from heterofedsyn.protocol.study import MOST_STUDY_BYTES, Study
from heterofedsyn.schema import Schema

FOLDER = "inbox"
ENDING = ".toml"
_MOST_READ = 200
"""Studies that are kept in mind, so that a page does not read all its files again."""


@dataclass(frozen=True)
class Waiting:
    """One file of the inbox, and when it was changed, in nanoseconds."""

    folder: Path
    name: str
    changed: int
    size: int

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / self.name

    @property
    def key(self) -> str:
        """What addresses call it.

        It says nothing of the file's name, which may tell of the fingerprint that a steward is to
        hear by telephone.
        """
        return key_of(self.name)

    @property
    def when(self) -> str:
        """Since when it is there, by what the file says; it may say anything."""
        try:
            moment = datetime.fromtimestamp(self.changed / 1e9, UTC)
        except (ValueError, OverflowError, OSError):
            return "a day that is none"
        return moment.strftime("%Y-%m-%d %H:%M UTC")


class Inbox:
    """The folder, looked into anew at every question."""

    def __init__(self, site: Path) -> None:
        self.folder = site / FOLDER
        self._read = Recent[Waiting, Study | HeterofedsynError](_MOST_READ)

    def waiting(self) -> Sequence[Waiting]:
        """All studies that are there, the newest first; none of them is read."""
        found = []
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    if entry.name.endswith(ENDING) and entry.name[0] != ".":
                        there = _looked_at(entry)
                        if there is not None:
                            when, size = there.st_mtime_ns, there.st_size
                            found.append(Waiting(self.folder, entry.name, when, size))
        except FileNotFoundError:
            pass  # nothing was put there yet
        except OSError as error:
            raise UsageError(f"cannot look into {self.folder}: {error.strerror}") from None
        return sorted(found, key=lambda one: (-one.changed, one.name))

    def find(self, key: str) -> Waiting | None:
        """The file of this key, if it is still there."""
        return next((one for one in self.waiting() if one.key == key), None)

    def study(self, one: Waiting) -> Study:
        """The study in a file.

        Raises:
            UsageError: if there is none.
        """
        known = self._read.get(one, lambda: _loaded(one.path))
        if isinstance(known, HeterofedsynError):
            raise known
        return known

    def add(self, data: bytes) -> str:
        """Put a study there that somebody dropped; returns its key.

        Raises:
            UsageError: if it is no study.
        """
        if not data:
            raise UsageError("no file was chosen; choose or drop the study's file first")
        if len(data) > MOST_STUDY_BYTES:
            raise UsageError(f"a study has at most {MOST_STUDY_BYTES:,} bytes; this is none")
        with tempfile.TemporaryDirectory(prefix="heterofedsyn-") as folder:
            path = Path(folder) / f"study{ENDING}"
            path.write_bytes(data)
            known = _loaded(path)
        if isinstance(known, HeterofedsynError):
            raise known
        for one in self.waiting():
            if one.size == len(data) and _holds(one.path, data):
                return one.key
        self.folder.mkdir(mode=0o700, exist_ok=True)
        moment = datetime.now(UTC).strftime("%Y-%m-%d-%H%M%S")
        target = self.folder / f"received-{moment}-{secrets.token_hex(4)}{ENDING}"
        with file_written_whole(target) as partial:
            partial.write_bytes(data)
        return key_of(target.name)

    def remove(self, one: Waiting) -> None:
        """Take a file out of the inbox; it can be put there again.

        Raises:
            UsageError: if it must stay.
        """
        try:
            one.path.unlink(missing_ok=True)
        except OSError as error:
            raise UsageError(f"cannot take {one.path} out: {reason(error)}") from None


def key_of(name: str) -> str:
    """What addresses call a file or study of this name."""
    return hashlib.sha256(b"console\n" + os.fsencode(name)).hexdigest()[:24]


def _looked_at(entry: os.DirEntry[str]) -> os.stat_result | None:
    """A file, or a link that leads nowhere, which can be taken out; None for all else."""
    try:
        there = entry.stat()
    except OSError:
        try:
            return entry.stat(follow_symlinks=False)
        except OSError:
            return None  # it has gone since
    return there if stat.S_ISREG(there.st_mode) else None


def _holds(path: Path, data: bytes) -> bool:
    try:
        return read_whole(path, len(data)) == data
    except OSError:
        return False


def _loaded(path: Path) -> Study | HeterofedsynError:
    """A study, or why it is none, without the place where it happens to lie."""
    try:
        return Study.load(path)
    except HeterofedsynError as error:
        if _is_schema(path):
            return UsageError(
                "this is a schema and no study; ask the coordinator for the study's file, which "
                "has the schema in it"
            )
        place = plain(str(path))
        text = str(error).removeprefix(f"{place}: ").replace(place, "the file")
        return UsageError(text)


def _is_schema(path: Path) -> bool:
    try:
        Schema.load(path)
    except HeterofedsynError:
        return False
    return True
