"""Rounds of a study on the hub's disk, so that it can be resumed; noisy answers only."""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from heterofedsyn._files import file_written_whole
from heterofedsyn.errors import JournalError, UsageError
from heterofedsyn.hub.replies import ANSWER, Absence, Reply
from heterofedsyn.protocol import Answer, Query, Study, decode, encode

_STUDY = "study.toml"
_MAGIC = b"heterofedsyn round 1 "


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    query: bytes
    answers: tuple[bytes, ...]
    absent: tuple[Absence, ...]


@dataclass(frozen=True)
class Journal:
    """A folder with one file per query that was sent and one per finished round, written whole."""

    folder: Path

    @classmethod
    def create(cls, folder: Path, study: Study) -> Journal:
        """An empty journal.

        Raises:
            UsageError: if the folder holds a journal already; what sites paid for is in it.
        """
        if (folder / _STUDY).exists():
            raise UsageError(
                f"{folder} holds the rounds of a study already; continue it with --resume"
            )
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        study.save(folder / _STUDY)
        return cls(folder)

    @classmethod
    def open(cls, folder: Path, study: Study) -> Journal:
        """The journal of a study that was started before.

        Raises:
            UsageError: if there is none, or it is that of another plan.
        """
        if not (folder / _STUDY).exists():
            raise UsageError(f"{folder} holds no rounds to resume; run the study without --resume")
        if Study.load(folder / _STUDY).fingerprint != study.fingerprint:
            raise UsageError(
                f"{folder} holds the rounds of another study; resume with the study file it was "
                "started with"
            )
        return cls(folder)

    @property
    def finished(self) -> int:
        """How many rounds are kept."""
        return len(list(self.folder.glob("*.round")))

    def find(self, query: Query, step: str = ANSWER) -> tuple[Reply, ...] | None:
        """What came of this step of a query, if it was finished.

        Raises:
            JournalError: if the file is damaged, or holds another query.
        """
        path = self._path(query, step, "round")
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise JournalError(f"cannot read {path}: {error.strerror}") from None
        head, _, body = data.partition(b"\n")
        if head != _MAGIC + _digest(body):
            raise JournalError(f"{path} is damaged; bring it back from a copy")
        kept = msgspec.msgpack.decode(body, type=_Kept)
        if kept.query != encode(query):
            raise JournalError(
                f"{path} holds another query than this version of heterofedsyn would ask; resume "
                "with the version that the study was started with"
            )
        return (*(decode(answer, Answer) for answer in kept.answers), *kept.absent)

    def begin(self, query: Query, step: str = ANSWER) -> None:
        """Keep a query before it is sent: sites may pay for it, and only the same one is free.

        Raises:
            JournalError: if another query was sent in this round, so that sites would pay twice.
        """
        path = self._path(query, step, "query")
        message = encode(query)
        try:
            if path.read_bytes() != message:
                raise JournalError(
                    f"{path} holds another query than would be asked now, and sites may have paid "
                    "for it; resume with the version of heterofedsyn and the machine that the "
                    "study was started with"
                )
        except FileNotFoundError:
            with file_written_whole(path) as partial:
                partial.write_bytes(message)
        except OSError as error:
            raise JournalError(f"cannot read {path}: {error.strerror}") from None

    def keep(self, query: Query, step: str, replies: Sequence[Reply]) -> None:
        """Keep a finished step; it is on the disk when this returns."""
        body = msgspec.msgpack.encode(
            _Kept(
                encode(query),
                tuple(encode(reply) for reply in replies if isinstance(reply, Answer)),
                tuple(reply for reply in replies if isinstance(reply, Absence)),
            )
        )
        with file_written_whole(self._path(query, step, "round")) as partial:
            partial.write_bytes(_MAGIC + _digest(body) + b"\n" + body)

    def _path(self, query: Query, step: str, kind: str) -> Path:
        name = f"{query.number + 1:04}"
        return self.folder / (f"{name}.{kind}" if step == ANSWER else f"{name}-{step}.{kind}")


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep a study's folder for one job: two would ask sites, and write, in each other's way.

    Raises:
        UsageError: if another job has it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                "another job runs this study; wait for it, or stop it, before resuming"
            ) from None
        yield


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode()
