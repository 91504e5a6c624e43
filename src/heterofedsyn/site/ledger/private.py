"""What a site keeps for one study and never sends: gone for good when the study is closed."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from heterofedsyn._files import read_whole
from heterofedsyn._words import short
from heterofedsyn.errors import LedgerDisputed, UsageError
from heterofedsyn.site.ledger.durable import flush_folder, saying, write

AGGREGATION = "aggregation"
MOST_PRIVATE_BYTES = 2**20

_FORGOTTEN = "forgotten"
"""Stands in a study's folder where nothing is kept any more, ever."""

_STUDY = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")


def read_private(folder: Path, study: str, name: str) -> bytes | None:
    """What a site keeps for a study under a name, if it is there.

    Raises:
        LedgerUnavailable: if it cannot be read.
    """
    own = _folder_of(folder, study)
    with saying("read", own):
        try:
            return read_whole(own / _checked(name), MOST_PRIVATE_BYTES)
        except FileNotFoundError:
            return None


def keep_private(folder: Path, study: str, name: str, data: bytes) -> None:
    """Keep something for a study; on return it is on disk, for this user alone.

    Raises:
        LedgerDisputed: if something else is kept under this name, or the study was closed.
        LedgerUnavailable: if it cannot be written.
    """
    own = _folder_of(folder, study)
    with saying("write to", own), _alone(folder):
        if (own / _FORGOTTEN).exists():
            raise LedgerDisputed(f"study {short(study)} is closed here; nothing is kept for it")
        known = read_private(folder, study, name)
        if known == data:
            return
        if known is not None:
            raise LedgerDisputed(
                f"another {name!r} is kept for study {short(study)}; it is never replaced"
            )
        _make(own)
        write(own / name, data)


def forget(folder: Path, study: str) -> None:
    """Remove all that is kept for a study, for good: also while an agent serves.

    Raises:
        LedgerUnavailable: if it cannot be removed.
    """
    own = _folder_of(folder, study)
    with saying("remove", own), _alone(folder):
        _make(own)
        write(own / _FORGOTTEN, b"")
        for path in own.iterdir():
            if path.name != _FORGOTTEN:
                path.unlink()
        flush_folder(own)


def studies_kept(folder: Path) -> list[str]:
    """The studies for which something is kept, or was."""
    return sorted(path.name for path in folder.glob(f"{AGGREGATION}/*") if path.is_dir())


def is_forgotten(folder: Path, study: str) -> bool:
    """Whether what was kept for a study was removed for good."""
    return (_folder_of(folder, study) / _FORGOTTEN).exists()


def _folder_of(folder: Path, study: str) -> Path:
    if not _STUDY.fullmatch(study):
        raise UsageError("this names no study: a fingerprint has 64 letters and digits")
    return folder / AGGREGATION / study


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name) or name == _FORGOTTEN:
        raise UsageError(f"{name!r} is no name of a private file")
    return name


def _make(own: Path) -> None:
    for folder in (own.parent, own):
        if not folder.is_dir():
            folder.mkdir(mode=0o700)
            flush_folder(folder.parent)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Agent and commands take turns, so that nothing is kept while all is being removed."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(folder / f"{AGGREGATION}.lock", flags, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
