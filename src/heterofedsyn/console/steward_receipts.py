"""The steward's receipts: signed, kept, downloaded, and those of others verified."""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.responses import Response

from heterofedsyn._files import open_inside, reason
from heterofedsyn._words import NOT_PRIVATE, PRIVATE_KEY, size
from heterofedsyn.console.inbox import key_of
from heterofedsyn.console.pages import Do, Form, Show, Visit, download
from heterofedsyn.console.steward_site import OwnSite
from heterofedsyn.errors import HeterofedsynError, UsageError
from heterofedsyn.site.consent import recorded
from heterofedsyn.site.receipt import SignedReceipt, make_receipt
from heterofedsyn.site.receipt_words import verified_lines

MOST_SHOWN = 200
_NAME = re.compile(r"[0-9a-f]{32}-\d{1,12}\.json")
_VERIFIED = "what the receipt that was verified last came to"


@dataclass(frozen=True)
class Verdict:
    """Whether a receipt holds, and why.

    Attributes:
        good: None if it holds by its own key alone, which anybody can make.
    """

    good: bool | None
    lines: Sequence[str]


def views(site: OwnSite) -> Mapping[str, Show]:
    """The page of receipts, and each of them as a file."""
    return {
        "receipts": lambda visit: _receipts(visit, site),
        "receipts/file/{name}": lambda visit: _file(visit, site),
    }


def actions(site: OwnSite) -> Mapping[str, Do]:
    """Signing and verifying."""
    return {
        "receipts/sign": lambda visit, form: _sign(visit, form, site),
        "receipts/verify": lambda visit, form: _verify(visit, form, site),
    }


def _receipts(visit: Visit, site: OwnSite) -> Response:
    """Those that were signed here, with the verdict on one that was just verified."""
    charged = {one.study for one in site.account().charges}
    studies = []
    for fingerprint in site.fingerprints():
        if fingerprint in charged:
            try:
                title = recorded(site.known, fingerprint)[0].plan.said_about.shown_title
            except HeterofedsynError:
                title = fingerprint[:16]
            studies.append((key_of(fingerprint), title))
    newest = _newest(site.known.receipts)
    files = newest[:MOST_SHOWN]
    return visit.page(
        "steward_receipts.html",
        "Receipts",
        studies=studies,
        files=files,
        more=len(newest) - len(files),
        verdict=visit.session.kept.pop(_VERIFIED, None) if visit.navigates else None,
    )


def _newest(folder: Path) -> list[tuple[str, str]]:
    """Names and sizes of all receipts that can be downloaded, the last first."""
    found = []
    for path in folder.glob("*.json"):
        if _NAME.fullmatch(path.name):
            with suppress(OSError):  # it has gone since
                there = path.lstat()
                if stat.S_ISREG(there.st_mode):
                    found.append((-there.st_mtime_ns, path.name, size(there.st_size)))
    return [(name, much) for _, name, much in sorted(found)]


def _file(visit: Visit, site: OwnSite) -> Response:
    name = visit.part("name")
    if not _NAME.fullmatch(name):
        raise HTTPException(404)
    try:
        with open_inside(site.known.receipts, name, 2**28) as file:
            return download(file.read(), name, "application/json")
    except FileNotFoundError:
        raise HTTPException(404) from None
    except OSError as error:
        raise UsageError(f"the receipt cannot be read: {reason(error)}") from None


def _sign(visit: Visit, form: Form, site: OwnSite) -> Response:
    fingerprint = site.find_decided(form.text("key"))
    if fingerprint is None:
        raise HTTPException(404)
    with site.turn:
        signed, target = make_receipt(site.settings(), fingerprint, now=datetime.now(UTC))
        signed.save(target)
    visit.say(f"The receipt is signed: {target.name}")
    return visit.go("receipts")


def _verify(visit: Visit, form: Form, site: OwnSite) -> Response:
    upload, key = form.uploads.get("receipt"), form.text("key")
    if upload is None or not upload.data:
        raise UsageError("no file was chosen; choose or drop a receipt first")
    try:
        if PRIVATE_KEY in key:
            raise UsageError(NOT_PRIVATE)
        signed = SignedReceipt.of(upload.data, "the file")
        signed.check(key or None)
        verdict = Verdict(True if key else None, verified_lines(signed, key_known=bool(key)))
    except HeterofedsynError as error:
        verdict = Verdict(False, [str(error)])
    visit.session.kept[_VERIFIED] = verdict
    return visit.go("receipts")
