"""Twins of a site on disk: what happens to their books leaves its own as they are."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

from heterofedsyn.audit.disk import SiteOnDisk
from heterofedsyn.audit.findings import require
from heterofedsyn.site.ledger.agreement import LEDGER
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.ledger.entries import Account

_AMPLE = 100.0
"""Epsilon of a twin's table, so that a repair leaves something to spend."""


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
    with TemporaryDirectory(dir=own.folder.parent, prefix="twin-") as place:
        settings = replace(
            own, folder=Path(place) / "site", anchor=Path(place) / "anchor", epsilon=_AMPLE
        )
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
        settings.folder,
        settings.anchor,
        settings.study_cap,
        restored=how is Damage.BOTH_RESTORED,
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
