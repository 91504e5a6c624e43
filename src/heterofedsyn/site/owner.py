"""Whose site it is, which of its studies is meant, and what its steward said to it before."""

from __future__ import annotations

import os
import pwd
from datetime import datetime
from pathlib import Path

from heterofedsyn._words import digits_of, short
from heterofedsyn.errors import HeterofedsynError, PrivacyRefusal, UsageError
from heterofedsyn.protocol.study import Study
from heterofedsyn.site.consent import Consent, approved, recorded
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.ledger.entries import Account
from heterofedsyn.site.ledger.locked import check_unlocked
from heterofedsyn.site.receipt import SignedReceipt, issue
from heterofedsyn.site.settings import SiteSettings

FINAL_DIGITS = 8
"""Of a fingerprint, where what is done cannot be undone."""


def own_settings(folder: Path) -> SiteSettings:
    """The settings of a site of this very user: what another writes the agent could not read."""
    settings = SiteSettings.load(folder)
    check_owner(settings.folder)
    return settings


def check_owner(folder: Path) -> None:
    """Refuse whoever does not own a folder, root too.

    Raises:
        UsageError: naming the owner.
    """
    owner = folder.stat().st_uid
    if owner != os.geteuid():
        raise UsageError(
            f"{folder} belongs to {_name(owner)}; run this as that user, not as {user_name()}"
        )


def find_study(settings: SiteSettings, text: str, least: int = 4) -> str:
    """The fingerprint of a study given by its file or by at least so many digits of it."""
    path = Path(text)
    if path.is_file():
        return Study.load(path).fingerprint
    known = sorted(path.name for path in settings.studies.iterdir() if path.name[0] != ".")
    fitting = [name for name in known if name.startswith(text)]
    if len(text) < least or len(fitting) != 1:
        shown = ", ".join(map(short, known)) or "none"
        raise UsageError(
            f"there is no file {text!r}, and no one study starts so (at least {least} digits are "
            f"needed); known: {shown}"
        )
    return fitting[0]


def user_name() -> str:
    """The user's name by the operating system, which no environment variable can change."""
    return _name(os.geteuid())


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def standing_consent(
    settings: SiteSettings, study: Study, account: Account, now: datetime
) -> Consent | None:
    """The consent to a study, if it stands: who gave it is not written over.

    Raises:
        LedgerDisputed: if the site locked itself.
    """
    check_unlocked(settings.folder)
    try:
        return approved(settings, study.fingerprint, account, now)[1]
    except HeterofedsynError:
        return None


def compare(told: str, study: Study) -> None:
    """Refuse another study than the one whose fingerprint was told.

    Raises:
        PrivacyRefusal: naming both.
    """
    if digits_of(told) != study.fingerprint:
        raise PrivacyRefusal(
            f"this is study {study.fingerprint}, not {told!r}; preview it again, and ask the "
            "coordinator for the whole fingerprint"
        )


def make_receipt(
    settings: SiteSettings, fingerprint: str, *, now: datetime
) -> tuple[SignedReceipt, Path]:
    """A signed record of what a study got, and where the site's folder keeps it.

    Raises:
        HeterofedsynError: if nothing was charged for it, or something cannot be read.
    """
    study, consent = recorded(settings, fingerprint)
    account = Books.read(settings.folder, settings.anchor)
    signed = issue(settings, study, consent, account, now=now)
    return signed, settings.receipts / f"{short(fingerprint)}-{account.number}.json"
