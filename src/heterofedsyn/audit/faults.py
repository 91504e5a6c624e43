"""What may happen to a site: its agent is killed, its power fails, its books are damaged.

An agent lives in a process of its own, forked from this one. At one of its steps of writing or
sending it may be killed (as by kill -9), in the middle of that step, or its power may fail.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

from heterofedsyn.audit.findings import require
from heterofedsyn.audit.fixtures import SiteOnDisk
from heterofedsyn.errors import HeterofedsynError
from heterofedsyn.privacy.noise import SecureNoise
from heterofedsyn.protocol.refusal import Refused
from heterofedsyn.site.ledger.agreement import LEDGER
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.ledger.entries import Account

ANSWERED, REFUSED = "answered ", "refused "
"""How what an agent sends begins: then comes the answer in hexadecimal, or a reason."""

_AMPLE = 100.0
"""Epsilon of a twin's table, so that a repair leaves something to spend."""


# PROCESSES THAT END


@dataclass
class Fault:
    """Ends this process at its so manieth step of writing; only for one that is about to end.

    A kill leaves a write half done. If the power fails, all that was not flushed is gone: bytes of
    files, and names that files were given.
    """

    writes: int
    power_fails: bool = False
    _unflushed: list[tuple[tuple[int, int], Callable[[], object]]] = field(default_factory=list)
    """The file or folder that must be flushed, and what undoes the step."""

    def begin(self) -> None:
        """From now on every step counts."""
        fsync, pwrite, move = os.fsync, os.pwrite, Path.replace

        def failing_fsync(file: int) -> None:
            self.step()
            fsync(file)
            kept = _identity(os.fstat(file))
            self._unflushed = [step for step in self._unflushed if step[0] != kept]

        def failing_pwrite(file: int, data: bytes, place: int) -> int:
            self.step(lambda: pwrite(file, data[: len(data) // 2], place))
            self._unflushed.append((_identity(os.fstat(file)), _former_bytes(file, place)))
            return pwrite(file, data, place)

        def failing_move(path: Path, target: Path) -> Path:
            self.step()
            self._unflushed.append((_identity(target.parent.stat()), _former_file(target)))
            return move(path, target)

        vars(os)["fsync"] = failing_fsync
        vars(os)["pwrite"] = failing_pwrite
        setattr(Path, "replace", failing_move)  # noqa: B010  (mypy allows no assignment)

    def step(self, half: Callable[[], object] = lambda: None) -> None:
        """One step of writing, if it is not the last; `half` does half of it."""
        if self.writes == 0:
            if not self.power_fails:
                half()
            self.end()
        self.writes -= 1

    def end(self) -> NoReturn:
        """Now."""
        if self.power_fails:
            for _, undo in reversed(self._unflushed):
                undo()
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("a killed process goes on")


def _identity(file: os.stat_result) -> tuple[int, int]:
    return file.st_dev, file.st_ino


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


@dataclass(frozen=True)
class Ended:
    """What an agent sent, one line for each message, and the exit code of its process."""

    sent: str
    code: int

    @property
    def said(self) -> tuple[str, ...]:
        """The lines that were sent to their end."""
        lines = self.sent.splitlines(keepends=True)
        return tuple(line.strip() for line in lines if line.endswith("\n"))

    @property
    def killed(self) -> bool:
        """Whether it was killed, or its power failed."""
        return self.code == -signal.SIGKILL


def live(
    site: SiteOnDisk,
    messages: Sequence[bytes],
    fault: Fault | None = None,
    after: float | None = None,
) -> Ended:
    """One agent in a process of its own: it opens the books, answers all messages at once, sends.

    Args:
        after: seconds after which it is killed from outside, whatever it does.
    """
    source, out = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(source)
            _serve(site, messages, out, fault)
            code = 0
        except HeterofedsynError as error:
            os.write(out, f"failed {error}".encode())
        finally:
            os._exit(code)
    os.close(out)
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    with os.fdopen(source, encoding="utf-8") as pipe:
        sent = pipe.read()
    _, status = os.waitpid(child, 0)
    return Ended(sent, os.waitstatus_to_exitcode(status))


def _serve(site: SiteOnDisk, messages: Sequence[bytes], out: int, fault: Fault | None) -> None:
    """The life of an agent that may have an end before its time."""
    if fault is not None:
        fault.begin()
    said = [""] * len(messages)
    with site.serving(SecureNoise()) as agent:

        def answer(place: int) -> None:
            try:
                said[place] = ANSWERED + agent.answer(messages[place]).hex()
            except Refused as refused:
                said[place] = REFUSED + refused.reason

        threads = [threading.Thread(target=answer, args=(i,)) for i in range(len(messages))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lines = "".join(f"{line}\n" for line in said).encode()
    if fault is not None:
        fault.step(lambda: os.write(out, lines[: len(lines) // 2]))
    os.write(out, lines)
    if fault is not None and fault.power_fails:
        fault.end()


# BOOKS THAT ARE DAMAGED


class Damage(StrEnum):
    """What became of a ledger and its anchor."""

    CUT = "cut"
    GARBLED = "garbled"
    ANCHOR_GONE = "anchor gone"
    BOTH_RESTORED = "both restored"


@contextmanager
def twin(site: SiteOnDisk) -> Iterator[SiteOnDisk]:
    """A copy of a site, its books and its anchor, for a while."""
    own = site.settings
    with TemporaryDirectory(dir=own.folder.parent, prefix="twin-") as name:
        place = Path(name)
        settings = replace(own, folder=place / "site", anchor=place / "anchor", epsilon=_AMPLE)
        shutil.copytree(own.folder, settings.folder)
        shutil.copy(own.anchor, settings.anchor)
        yield SiteOnDisk(settings)


def books_of(site: SiteOnDisk) -> tuple[bytes, bytes]:
    """The ledger and the anchor of a site as they are now."""
    return (site.settings.folder / LEDGER).read_bytes(), site.settings.anchor.read_bytes()


def damage(site: SiteOnDisk, before: tuple[bytes, bytes], how: Damage) -> None:
    """Damage the books of a site; `before` is what they were at an earlier time."""
    ledger, anchor = site.settings.folder / LEDGER, site.settings.anchor
    lines = ledger.read_bytes().splitlines(keepends=True)
    match how:
        case Damage.CUT:
            ledger.write_bytes(b"".join(lines[: (len(lines) + 1) // 2]))
        case Damage.GARBLED:
            ledger.write_bytes(b"".join([*lines, b"no entry\n", b"nor this\n"]))
        case Damage.ANCHOR_GONE:
            anchor.unlink()
        case Damage.BOTH_RESTORED:
            ledger.write_bytes(before[0])
            anchor.write_bytes(before[1])


def repair(site: SiteOnDisk, how: Damage) -> Account:
    """The account after a repair, which books all that is known and one study more."""
    settings = site.settings
    known = max(_booked(settings.folder / LEDGER), _anchored(settings.anchor))
    account = Books.repair(
        settings.folder, settings.anchor, settings.study_cap, restored=how is Damage.BOTH_RESTORED
    )
    require(
        Fraction(account.spent.rho) >= known + Fraction(settings.study_cap.rho),
        f"{how}: a repair books less than what is known and a study more",
    )
    return account


def _booked(ledger: Path) -> Fraction:
    """What the whole lines of a ledger add up to."""
    total = Fraction(0)
    for line in ledger.read_bytes().splitlines():
        with suppress(json.JSONDecodeError):  # half a line, or none of a ledger's
            total += Fraction(json.loads(line)["rho"])
    return total


def _anchored(anchor: Path) -> Fraction:
    return Fraction(json.loads(anchor.read_bytes())["rho"]) if anchor.exists() else Fraction(0)
