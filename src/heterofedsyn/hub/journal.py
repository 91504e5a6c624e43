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
from heterofedsyn.hub.replies import Absence, Reply
from heterofedsyn.hub.requests import Request
from heterofedsyn.protocol import Study, decode, encode

_STUDY = "study.toml"
_MAGIC = b"heterofedsyn round 1 "


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What came of a request; `query` is what was sent."""

    query: bytes
    answers: tuple[bytes, ...]
    absent: tuple[Absence, ...]


@dataclass(frozen=True)
class Journal:
    """A folder with a file for every request that was sent and one for what came of it.

    Each is written whole. Under secure aggregation the steps of a round have files of their own.
    """

    folder: Path

    @classmethod
    def create(cls, folder: Path, study: Study) -> Journal:
        """An empty journal, or one without a finished round: asking again costs nobody anything.

        Raises:
            UsageError: if the folder holds a finished round already; sites paid for it.
        """
        if (folder / _STUDY).exists():
            known = cls.open(folder, study)
            if known.finished:
                raise UsageError(
                    "the hub has finished rounds of this study already; continue it with --resume"
                )
            return known
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
            raise UsageError("the hub has no rounds to resume; run the study without --resume")
        if Study.load(folder / _STUDY).fingerprint != study.fingerprint:
            raise UsageError(
                "the hub has rounds of another study there; resume with the study file it was "
                "started with"
            )
        return cls(folder)

    @property
    def finished(self) -> int:
        """How many rounds, or steps of rounds, are kept."""
        return len(list(self.folder.glob("*.round")))

    def find(self, request: Request) -> tuple[Reply, ...] | None:
        """What came of a request, if it was finished.

        Raises:
            JournalError: if the file is damaged, or holds another request.
        """
        path = self._path(request, "round")
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise JournalError(f"cannot read {_name(path)}: {error.strerror}") from None
        head, _, body = data.partition(b"\n")
        if head != _MAGIC + _digest(body):
            raise JournalError(f"{_name(path)} is damaged; bring it back from a copy")
        kept = msgspec.msgpack.decode(body, type=_Kept)
        if kept.query != request.sent:
            raise JournalError(
                f"{_name(path)} holds another query than this version of heterofedsyn would ask; "
                "resume with the version that the study was started with"
            )
        return (*(decode(answer, request.kind) for answer in kept.answers), *kept.absent)

    def begin(self, request: Request) -> None:
        """Keep what is asked before it is sent: sites may pay for it, and only the same is free.

        Raises:
            JournalError: if another query was sent in this round, so that sites would pay twice.
        """
        path = self._path(request, "query")
        sent = request.sent
        try:
            if path.read_bytes() != sent:
                raise JournalError(
                    f"{_name(path)} holds another query than would be asked now, and sites may "
                    "have paid for it; resume with the version of heterofedsyn and the machine "
                    "that the study was started with"
                )
        except FileNotFoundError:
            with file_written_whole(path) as partial:
                partial.write_bytes(sent)
        except OSError as error:
            raise JournalError(f"cannot read {_name(path)}: {error.strerror}") from None

    def keep(self, request: Request, replies: Sequence[Reply]) -> None:
        """Keep what came of a request; it is on the disk when this returns."""
        body = msgspec.msgpack.encode(
            _Kept(
                request.sent,
                tuple(encode(reply) for reply in replies if isinstance(reply, request.kind)),
                tuple(reply for reply in replies if isinstance(reply, Absence)),
            )
        )
        with file_written_whole(self._path(request, "round")) as partial:
            partial.write_bytes(_MAGIC + _digest(body) + b"\n" + body)

    def _path(self, request: Request, kind: str) -> Path:
        return self.folder / f"{request.place}.{kind}"


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


def _name(path: Path) -> str:
    """A file of the journal; where it lies is known at the hub, and to nobody else."""
    return f"{path.name} of the hub's journal"


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode()
