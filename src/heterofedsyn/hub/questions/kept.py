"""Replicates that are kept: in memory while a program runs, and on disk if it says where."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from heterofedsyn._files import open_inside, written_whole
from heterofedsyn._version import __version__
from heterofedsyn.errors import HeterofedsynError, UsageError
from heterofedsyn.hub.methods.base import Model
from heterofedsyn.hub.questions.replicates import SEED, Replicate, draw
from heterofedsyn.hub.release.model_file import digest, pack
from heterofedsyn.hub.release.sampling import CHUNK
from heterofedsyn.hub.release.sampling import draw as draw_ours
from heterofedsyn.schema import EncodedTable, decode

if TYPE_CHECKING:
    import pyarrow as pa

    from heterofedsyn.hub.release.release import Release

MOST_DRAWN = 25_000
"""Rows of a replicate, each of which may stand for several: more made no interval better."""

MOST_KEPT = 2**31
"""Bytes of all replicates on disk; those not used for longest go first."""

MOST_REPLICATES = 1_000
FORMAT = 1
_LIST = "list.json"
_MOST_LIST = 2**20


@dataclass(frozen=True, eq=False)
class Drawn:
    """The synthetic table and its replicates, drawn when first asked for.

    Attributes:
        cache: a folder to keep them in; nothing is written unless given.
    """

    release: Release
    replicates: int
    cache: Path | None = None

    def __post_init__(self) -> None:
        if not 2 <= self.replicates <= MOST_REPLICATES:
            raise UsageError(f"replicates ({self.replicates}) must be in 2..{MOST_REPLICATES}")

    def empty(self) -> pa.Table:
        """The synthetic table without rows."""

        schema = self.release.schema
        none = np.zeros((len(schema.domain), 0), np.uint16)
        return decode(schema, EncodedTable(schema.domain, none), np.random.default_rng(0))

    def tables(self, columns: Sequence[str]) -> Iterator[Replicate]:
        """The synthetic table, then its replicates, with at least these columns."""
        place = self._place
        if place is None:
            yield from self._remembered()
            return
        self.keep()
        yield from _read(place, columns)

    def keep(self, watch: Callable[[int], None] = lambda _: None) -> None:
        """Draw them now, if they are to be kept on disk and are not there.

        Args:
            watch: is told how many replicates are drawn.
        """
        if self._place is not None and not self.kept:
            _keep(self._place, _watched(self._drawn(), watch))
            _make_room(self._place)

    @cached_property
    def _place(self) -> Path | None:
        """The folder of these replicates; its name tells them from all others."""
        if self.cache is None:
            return None
        run = self.release.run
        packed = pack(self.release.schema, self.release.model, {})
        facts = [FORMAT, __version__, digest(packed), run.seed, run.noisy_total, self.replicates]
        return self.cache / hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]

    @property
    def kept(self) -> bool:
        """Whether they were drawn before and are on disk."""
        place = self._place
        return place is not None and len(_listed(place)) == self.replicates + 1

    def _remembered(self) -> list[Replicate]:
        known = _REMEMBERED.setdefault(self.release.model, {})
        if self.replicates not in known:
            known[self.replicates] = [*self._drawn()]
        return known[self.replicates]

    def _drawn(self) -> Iterator[Replicate]:
        import pyarrow as pa

        schema, model, run = self.release.schema, self.release.model, self.release.run
        weight = -(-run.noisy_total // CHUNK)
        rows = max(1, round(run.noisy_total / weight))
        yield Replicate(pa.concat_tables(draw_ours(schema, model, rows, run.seed)), weight)
        for number in range(self.replicates):
            yield draw(schema, model, number, SEED, rows=None, most=MOST_DRAWN)


_REMEMBERED: WeakKeyDictionary[Model, dict[int, list[Replicate]]] = WeakKeyDictionary()


def usual_cache() -> Path:
    """Where the command line keeps replicates: below XDG_CACHE_HOME, or ~/.cache."""
    above = os.environ.get("XDG_CACHE_HOME")
    if above and Path(above).is_absolute():
        return Path(above) / "heterofedsyn" / "replicates"
    return Path.home() / ".cache" / "heterofedsyn" / "replicates"


def _watched(replicates: Iterator[Replicate], watch: Callable[[int], None]) -> Iterator[Replicate]:
    for number, replicate in enumerate(replicates):
        watch(number)
        yield replicate


def _keep(place: Path, replicates: Iterator[Replicate]) -> None:
    """Write a folder of replicates, all of them or nothing, with what tells them from others."""
    import pyarrow as pa

    listed = []
    with written_whole(place) as partial:
        for number, replicate in enumerate(replicates):
            path = partial / f"{number}.arrow"
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            with pa.ipc.new_file(path, replicate.table.schema, options=options) as writer:
                writer.write_table(replicate.table)
            with path.open("rb") as written:
                found = hashlib.file_digest(written, "sha256").hexdigest()
            listed.append({"digest": found, "weight": replicate.weight})
        (partial / _LIST).write_text(json.dumps(listed), encoding="utf-8")


def _read(place: Path, columns: Sequence[str]) -> Iterator[Replicate]:
    """The replicates of a folder.

    Raises:
        HeterofedsynError: one of them is not what was written.
    """
    import pyarrow as pa

    for number, entry in enumerate(_listed(place)):
        data = _bytes(place, f"{number}.arrow", MOST_KEPT)
        if hashlib.sha256(data).hexdigest() != entry["digest"]:
            raise HeterofedsynError(
                f"{place} holds replicates that were changed; remove this folder and ask again"
            )
        file = pa.BufferReader(data)
        names = pa.ipc.open_file(file).schema.names
        wanted = [names.index(name) for name in columns] or [0]
        options = pa.ipc.IpcReadOptions(included_fields=wanted)
        yield Replicate(pa.ipc.open_file(file, options=options).read_all(), entry["weight"])
    os.utime(place)


def _listed(place: Path) -> list[Any]:
    try:
        listed = json.loads(_bytes(place, _LIST, _MOST_LIST))
        for entry in listed:
            if not (isinstance(entry["digest"], str) and 1 <= int(entry["weight"]) < 2**40):
                return []
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return list(listed)


def _bytes(place: Path, name: str, most: int) -> bytes:
    with open_inside(place, name, most) as file:
        return file.read()


def _make_room(kept: Path) -> None:
    """Remove what was not used for longest, until all together is small enough."""
    sizes = {
        folder: sum(path.stat().st_size for path in folder.iterdir())
        for folder in kept.parent.iterdir()
        if folder.is_dir() and not folder.is_symlink() and len(folder.name) == len(kept.name)
    }
    for folder in sorted(sizes, key=lambda own: own.stat().st_mtime):
        if sum(sizes.values()) <= MOST_KEPT:
            return
        if folder != kept:
            shutil.rmtree(folder, ignore_errors=True)
            del sizes[folder]
