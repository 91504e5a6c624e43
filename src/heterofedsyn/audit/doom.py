"""The end of an agent: at one of its writes its process is killed, or the power fails."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NoReturn


@dataclass
class Doom:
    """Ends this process at its so manieth step of writing; only for one that is about to end.

    A kill leaves a write half done. If the power fails, all that was not flushed is gone: bytes of
    files, and names that files were given.
    """

    writes: int
    power_fails: bool
    _unflushed: list[tuple[tuple[int, int], Callable[[], object]]] = field(default_factory=list)
    """The file or folder that must be flushed, and what undoes the step."""

    def begin(self) -> None:
        """From now on every step counts."""
        fsync, pwrite, replace = os.fsync, os.pwrite, Path.replace

        def doomed_fsync(file: int) -> None:
            self._step()
            fsync(file)
            kept = _identity(os.fstat(file))
            self._unflushed = [step for step in self._unflushed if step[0] != kept]

        def doomed_pwrite(file: int, data: bytes, place: int) -> int:
            self._step(lambda: pwrite(file, data[: len(data) // 2], place))
            self._unflushed.append((_identity(os.fstat(file)), _former_bytes(file, place)))
            return pwrite(file, data, place)

        def doomed_replace(path: Path, target: Path) -> Path:
            self._step()
            self._unflushed.append((_identity(target.parent.stat()), _former_file(target)))
            return replace(path, target)

        vars(os)["fsync"] = doomed_fsync
        vars(os)["pwrite"] = doomed_pwrite
        setattr(Path, "replace", doomed_replace)  # noqa: B010  (mypy allows no assignment)

    def end(self) -> NoReturn:
        """Now."""
        if self.power_fails:
            for _, undo in reversed(self._unflushed):
                undo()
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("a killed process goes on")

    def _step(self, half: Callable[[], object] = lambda: None) -> None:
        if self.writes == 0:
            if not self.power_fails:
                half()
            self.end()
        self.writes -= 1


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _former_bytes(file: int, place: int) -> Callable[[], object]:
    """Puts back what a file holds from this place on."""
    again, size = os.dup(file), os.fstat(file).st_size
    former = os.pread(file, size - place, place) if place < size else b""

    def undo() -> None:
        os.truncate(again, place)
        os.lseek(again, place, os.SEEK_SET)
        os.write(again, former)

    return undo


def _former_file(path: Path) -> Callable[[], object]:
    """Puts back what is under this name."""
    if not path.exists():
        return path.unlink
    return partial(path.write_bytes, path.read_bytes())
