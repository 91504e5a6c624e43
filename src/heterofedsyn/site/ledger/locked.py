"""A site that locked itself: it was shown that it did what its ledger does not remember."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from heterofedsyn._files import read_whole
from heterofedsyn.errors import LedgerDisputed
from heterofedsyn.site.ledger.durable import flush_folder, saying, write

LOCKED = "locked"
_MOST_BYTES = 2**12


def lock(folder: Path, reason: str) -> None:
    """Lock a site until its steward repairs it; on return that is on disk. The first reason stays.

    Raises:
        LedgerUnavailable: if it cannot be written.
    """
    path = folder / LOCKED
    with saying("lock", folder):
        if not os.path.lexists(path):
            write(path, reason.encode()[:_MOST_BYTES] + b"\n")


def check_unlocked(folder: Path) -> None:
    """Refuse to go on with a site that locked itself.

    Raises:
        LedgerDisputed: saying why it did.
    """
    path = folder / LOCKED
    if not os.path.lexists(path):
        return
    reason = ""
    with suppress(OSError):
        reason = read_whole(path, 2 * _MOST_BYTES).decode("utf-8", "replace").strip()
    raise LedgerDisputed(
        f"this site locked itself: {reason or 'its ledger has forgotten something'}; its folder "
        "was restored from an older copy, or another agent serves one: stop the other, then run "
        "`heterofedsyn site ledger repair --restored`"
    )


def unlock(folder: Path) -> None:
    """Let a site that was repaired answer again."""
    (folder / LOCKED).unlink(missing_ok=True)
    flush_folder(folder)
