"""A coordinator's session with whoever runs studies: the same words for every engine."""

from __future__ import annotations

import os
import shutil
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

import msgspec

from heterofedsyn._files import open_inside, written_whole
from heterofedsyn.engines.progress import Progress
from heterofedsyn.errors import EngineError, HeterofedsynError
from heterofedsyn.hub.release import FILES
from heterofedsyn.hub.release.synthetic import MOST_BYTES
from heterofedsyn.protocol import Study

LOOK_AGAIN = 1.0
"""Seconds between two looks at the server."""


def ended(status: str) -> bool:
    """Whether a job of this status runs no more."""
    return status.startswith(("FINISHED", "ABORTED", "FAILED", "ABANDONED"))


class Session(ABC):
    """What a coordinator may ask a server for."""

    @abstractmethod
    def submit(
        self, study: Study, *, resume: bool, rows: int | None = None, safe_csv: bool = False
    ) -> str:
        """Submit the study; the number of its job comes back."""

    @abstractmethod
    def latest(self, study: Study) -> str | None:
        """The newest job of a study."""

    @abstractmethod
    def status(self, job: str) -> str:
        """What the engine says of a job, such as RUNNING or FINISHED:COMPLETED."""

    @abstractmethod
    def running(self, job: str) -> Progress | None:
        """How far a running job is; nothing before it runs or when it does not say."""

    @abstractmethod
    def heard(self) -> dict[str, float]:
        """When each connected site was last heard, by the server's clock."""

    @abstractmethod
    def detail(self, job: str) -> str:
        """What was wrong when a job was to start, if anything was."""

    @abstractmethod
    def abort(self, job: str) -> None:
        """Stop a job; finished rounds stay in the hub's journal."""

    @abstractmethod
    def result(self, job: str) -> AbstractContextManager[tuple[Progress | None, Path]]:
        """What a finished job left: its progress and the folder of its release."""

    def follow(self, job: str) -> Generator[Progress | None, None, str]:
        """How far a job is, every second until it ends; its last status comes back."""
        while True:
            status = self.status(job)
            if ended(status):
                return status
            yield self.running(job)
            time.sleep(LOOK_AGAIN)


class Server(Protocol):
    """Who runs studies, and how a coordinator gets there."""

    @property
    def address(self) -> str:
        """Where it is, for people."""
        ...

    def unreachable(self) -> str | None:
        """That nobody answers there, and what to do; nothing if somebody does."""
        ...

    def connect(self) -> AbstractContextManager[Session]:
        """A session there."""
        ...


def no_answer(host: str, port: int) -> str | None:
    """That nobody answers at a server's port, and what to do; nothing if somebody does."""
    try:
        socket.create_connection((host, port), timeout=5).close()
    except OSError as error:
        why = error.strerror or "no answer"
        return (
            f"the server {host}:{port} cannot be reached ({why}); ask at the hub whether it runs "
            "and whether its firewall lets this machine in, then run this again"
        )
    return None


@contextmanager
def plainly(engine: str, what: str) -> Iterator[None]:
    """An engine's errors as one line."""
    try:
        yield
    except HeterofedsynError:
        raise
    except Exception as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise EngineError(f"{engine} cannot {what}: {text}") from None


def read_progress(path: Path) -> Progress:
    """The progress that a job wrote down.

    Raises:
        EngineError: if the file is anything else.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Progress)
    except (OSError, msgspec.DecodeError, ValueError, RecursionError):
        raise EngineError(
            f"{path.name} of the job is damaged; continue with --resume, which asks no site again "
            "for what is finished"
        ) from None


def copy_release(found: Path, out: Path) -> None:
    """The release of a result in its place, whole: its files, no others and no links."""
    with written_whole(out) as partial:
        for name in FILES:
            if not os.path.lexists(found / name):
                continue
            with open_inside(found, name, MOST_BYTES) as source, (partial / name).open("wb") as to:
                shutil.copyfileobj(source, to)
