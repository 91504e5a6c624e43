"""The anchor: a file elsewhere that repeats the end of the ledger, and is believed only there."""

from __future__ import annotations

import errno
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

import msgspec

from heterofedsyn._files import open_inside
from heterofedsyn.errors import LedgerDisputed, UsageError
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.site.ledger.durable import saying, write_as
from heterofedsyn.site.ledger.entries import UNREADABLE, Chain

MOST_ANCHOR_BYTES = 2**16
REPAIR = "`heterofedsyn site ledger repair` books what may be missing"

_MOST_LINKS = 40
"""As many as the operating system follows."""


class Anchor(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The end of the ledger as it is known elsewhere.

    Attributes:
        rho: what is spent by then.
        alone: the same in case that each answer is seen by itself; absent where it is rho.
    """

    number: int
    head: str
    rho: float
    unit: str = ""
    alone: float | msgspec.UnsetType = msgspec.UNSET

    @classmethod
    def to(cls, chain: Chain) -> Anchor:
        """What the anchor of these entries says."""
        spent, alone = chain.account.spent, chain.account.spent_alone
        other = msgspec.UNSET if alone == spent else alone.rho
        return cls(chain.number, chain.head, spent.rho, chain.unit, other)

    @property
    def spent(self) -> Budget:
        """What is spent by then."""
        return Budget(self.rho)

    @property
    def spent_alone(self) -> Budget:
        """What is spent by then if each answer is seen by itself."""
        return self.spent if self.alone is msgspec.UNSET else Budget(self.alone)

    @classmethod
    def read(cls, path: Path) -> Anchor:
        """What an anchor says.

        Raises:
            LedgerDisputed: if it is missing, damaged or a link.
        """
        anchor = cls.if_readable(path)
        if anchor is None:
            state = "is missing"
            if os.path.lexists(path):
                state = "is a link" if path.is_symlink() else "is damaged"
            raise LedgerDisputed(
                f"the anchor {path} {state}, so nobody can tell whether the ledger is whole; put "
                f"its disk back if that is why, else {REPAIR}"
            )
        return anchor

    @classmethod
    def if_readable(cls, path: Path) -> Anchor | None:
        """What an anchor says, or None if it is missing, damaged or a link."""
        try:
            with open_inside(path.parent, path.name, MOST_ANCHOR_BYTES) as file:
                anchor = msgspec.json.decode(file.read(), type=cls)
            _ = anchor.spent, anchor.spent_alone  # refuse what they refuse
        except (FileNotFoundError, *UNREADABLE):
            return None
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            return None
        return anchor


def write_anchor(path: Path, chain: Chain) -> None:
    """Put an anchor in place whole; on return it is on disk under its name.

    Others may be able to write beside it, so the file that is made has a name that nobody can have
    taken, and takes the place of whatever is there: nothing there is opened, no link is followed.
    """
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    write_as(new, path, msgspec.json.encode(Anchor.to(chain)))


def tidy(path: Path) -> None:
    """Remove what a machine that failed left beside an anchor."""
    left = re.compile(rf"\.{re.escape(path.name)}\.([0-9a-f]{{16}}\.)?new")
    for beside in path.parent.iterdir():
        if left.fullmatch(beside.name):
            with suppress(OSError):  # it is in nobody's way
                beside.unlink()


def others_can_write(folder: Path) -> bool:
    """Whether anybody but this user and root can make, rename or remove files in a folder."""
    state = folder.stat()
    return bool(state.st_mode & 0o022) or state.st_uid not in (0, os.geteuid())


def check_anchor_folder(path: Path) -> None:
    """Refuse an anchor that others can replace.

    Raises:
        UsageError: naming its folder.
    """
    with saying("look at", path), suppress(FileNotFoundError):  # said when it is read
        folder = place_of(path).parent
        if others_can_write(folder):
            raise UsageError(
                f"others can write in {folder}, so they can replace the anchor of the ledger; make "
                f"it the agent's own: chown it to the agent's user and chmod go-w {folder}"
            )


def place_of(path: Path) -> Path:
    """Where an anchor is, from the root; a link to it counts where only this user can make one."""
    place = _from_root(path)
    for _ in range(_MOST_LINKS):
        if not place.is_symlink() or others_can_write(place.parent):
            break
        place = _from_root(place.parent / place.readlink())
    return place


def _from_root(path: Path) -> Path:
    return Path(os.path.realpath(path.parent)) / path.name
