"""The folder of a coordinator: schemas, studies and releases, each by the name of its file."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from threading import Lock

from starlette.exceptions import HTTPException

from heterofedsyn._files import read_whole
from heterofedsyn.console.follower import Follower
from heterofedsyn.console.noticing import Recent
from heterofedsyn.console.planner import Planner
from heterofedsyn.errors import HeterofedsynError, UsageError
from heterofedsyn.hub.release import Release, load
from heterofedsyn.hub.release.folder import is_release
from heterofedsyn.protocol.study import MOST_STUDY_BYTES, Study
from heterofedsyn.schema import Schema

MOST_FILES = 500
"""Of one kind that are looked at."""

MOST_KEPT = 20
"""Releases that are kept in memory."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class CoordinatorDesk:
    """What the coordinator of one folder works with.

    Attributes:
        kit: the startup kit, by which the federation is asked; None if nobody is asked.
        follower: who asks it how far studies are; None likewise.
        turn: taken by whoever writes a file, or computes for long.
    """

    def __init__(self, folder: Path, kit: Path | None, follower: Follower | None) -> None:
        self.folder, self.kit, self.follower = folder, kit, follower
        self.turn = Lock()
        self._known = Recent[tuple[str, int], _Known](2 * MOST_FILES)
        self._releases = Recent[tuple[str, int], Release](MOST_KEPT)

    @cached_property
    def planner(self) -> Planner:
        """Who works out what to expect of a study."""
        return Planner()

    def studies(self) -> list[tuple[str, Study]]:
        """Every study of the folder by its name, the newest first."""
        read = ((path.stem, self._read(path)) for path in self._files("*.toml"))
        return [(name, found) for name, found in read if isinstance(found, Study)]

    def study(self, name: str) -> Study:
        """The study of that name."""
        return Study.load(self.place(name, ".toml"))

    def schemas(self) -> dict[str, Schema]:
        """Every schema of the folder, and that of every study, by its name."""
        read = ((path.stem, self._read(path)) for path in self._files("*.toml"))
        found = {name: each for name, each in read if isinstance(each, Schema)}
        for name, study in self.studies():
            if study.public.fingerprint not in {each.fingerprint for each in found.values()}:
                found[f"{name} (its schema)"] = study.public
        return found

    def releases(self) -> list[str]:
        """The names of all releases, the newest first."""
        return [path.name for path in self._files("*") if path.is_dir() and is_release(path)]

    def release(self, name: str) -> Release:
        """The release of that name, read once until it changes.

        Raises:
            ReleaseError: if it cannot be trusted to be one.
        """
        folder = self.place(name)
        if not folder.is_dir():
            raise HTTPException(404)
        return self._releases.get((name, changed(folder)), lambda: load(folder))

    def released(self) -> dict[str, list[str]]:
        """The names of releases by the fingerprint of the study that they came of."""
        found: dict[str, list[str]] = {}
        for name in self.releases()[:MOST_KEPT]:
            with suppress(HeterofedsynError):  # it is told of on its own page
                found.setdefault(self.release(name).run.study, []).append(name)
        return found

    def place(self, name: str, ending: str = "") -> Path:
        """Where something of that name lies; not found if there is nothing."""
        path = self.folder / f"{name}{ending}"
        if not _NAME.fullmatch(name) or path.is_symlink() or not path.exists():
            raise HTTPException(404)
        return path

    def new_place(self, name: str) -> Path:
        """Where a new study of that name will lie.

        Raises:
            UsageError: if it is no name, or something lies there.
        """
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{name!r} is no name of a file: letters, digits, '.', '_' and '-', at most 100"
            )
        path = self.folder / f"{name}.toml"
        if path.exists() or path.is_symlink():
            raise UsageError(f"{path.name} exists already; take another name")
        return path

    def bytes_of(self, name: str) -> bytes:
        """The study file of that name, as it is sent to stewards."""
        return read_whole(self.place(name, ".toml"), MOST_STUDY_BYTES)

    def _files(self, pattern: str) -> list[Path]:
        there = [
            path
            for path in self.folder.glob(pattern)
            if _NAME.fullmatch(path.name) and not path.is_symlink()
        ]
        return sorted(there, key=lambda path: (-changed(path), path.name))[:MOST_FILES]

    def _read(self, path: Path) -> Study | Schema | None:
        """What a file is, read once until it changes; nothing if it is neither."""
        return self._known.get((path.name, changed(path)), lambda: _Known(path)).what


def changed(path: Path) -> int:
    """When something was changed; the number means nothing else."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0  # it is gone


class _Known:
    """What a file is, if it is a study or a schema."""

    def __init__(self, path: Path) -> None:
        self.what: Study | Schema | None = None
        for read in (Study.load, Schema.load):
            with suppress(HeterofedsynError):
                self.what = read(path)
                return
