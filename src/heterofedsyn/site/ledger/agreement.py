"""The ledger as it is on disk: it must be at its anchor, or one entry ahead after a crash."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from heterofedsyn.errors import LedgerDisputed
from heterofedsyn.site.ledger.anchor import REPAIR, Anchor, place_of
from heterofedsyn.site.ledger.durable import lock, saying
from heterofedsyn.site.ledger.entries import Account, Chain

LEDGER = "ledger"
LOCK = "ledger.lock"

_READS = 20
"""How often a ledger that is being written is read again before its state is called disputed."""


def read_account(folder: Path, anchor: Path) -> Account:
    """What the ledger says now, also while an agent serves.

    Raises:
        LedgerUnavailable: if it cannot be read.
        LedgerDisputed: if it is not as its anchor says.
    """
    readings = 0
    with saying("read", folder):
        anchor = place_of(anchor)
        while True:
            known, chain = Anchor.read(anchor), Chain.of(read_ledger(folder))
            readings += 1
            try:
                check(chain, known, folder, anchor)
                return chain.account
            except LedgerDisputed:
                # An agent may have written between the two readings.
                if readings == _READS or Anchor.read(anchor) == known:
                    raise


def check(chain: Chain, known: Anchor, folder: Path, anchor: Path) -> None:
    """Refuse a ledger that is not at its anchor, or one entry ahead of it after a crash.

    Raises:
        LedgerDisputed: saying which of the two knows what the other does not.
    """
    path = folder / LEDGER
    if known.number > chain.number:
        raise LedgerDisputed(
            f"{path} ends with entry {chain.number}{' and damaged lines' if chain.rest else ''}, "
            f"but {anchor} knows entry {known.number}: an older copy was restored, or the file "
            f"was damaged; {REPAIR}"
        )
    ends = [(chain.number, chain.head)]
    if len(chain.entries) > 1:
        ends.append((chain.entries[-2].number, chain.entries[-1].previous))
    if known.number not in [number for number, _ in ends]:
        raise LedgerDisputed(
            f"{path} ends with entry {chain.number}, more than one beyond entry {known.number} of "
            f"{anchor}: an older anchor was restored; {REPAIR}"
        )
    if (known.number, known.head) not in ends:
        raise LedgerDisputed(
            f"entry {known.number} of {path} is not the one that {anchor} knows: one of them is "
            f"of another time or table; {REPAIR}"
        )
    torn = known.number == chain.number and b"\n" not in chain.rest[:-1]
    if chain.rest and not torn:
        raise LedgerDisputed(f"{path} is damaged after entry {chain.number}; {REPAIR}")


def open_ledger(folder: Path, how: int) -> int:
    """The file of the ledger, opened in one of the system's ways."""
    path = folder / LEDGER
    try:
        file = os.open(path, how | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise LedgerDisputed(f"there is no ledger {path}; {REPAIR}") from None
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise LedgerDisputed(f"the ledger {path} is no regular file; {REPAIR}")
    return file


def read_ledger(folder: Path) -> bytes:
    """All bytes of the ledger, as they are now."""
    file = open_ledger(folder, os.O_RDONLY)
    try:
        return read_all(file)
    finally:
        os.close(file)


def read_all(file: int) -> bytes:
    """All bytes of an open file."""
    with os.fdopen(os.dup(file), "rb") as reader:
        reader.seek(0)
        return reader.read()


def lock_both(folder: Path, anchor: Path) -> tuple[int, int, int]:
    """Locks of a folder and of its anchor, whose folder is held: copies have one anchor."""
    files: list[int] = []
    try:
        files.append(lock(folder / LOCK, folder))
        if not anchor.parent.is_dir():
            Anchor.read(anchor)  # says what that means
        files.append(lock(anchor.with_name(f"{anchor.name}.lock"), folder))
        files.append(os.open(anchor.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    except BaseException:
        for file in files:
            os.close(file)
        raise
    own, beside, place = files
    return own, beside, place
