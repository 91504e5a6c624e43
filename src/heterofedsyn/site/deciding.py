"""What a steward decides: consent to the study that was told of, and its end; and words for it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from heterofedsyn._words import digits_of
from heterofedsyn.errors import HeterofedsynError, PrivacyRefusal
from heterofedsyn.protocol.study import Study
from heterofedsyn.site.consent import Consent, approve, approved, close, withdraw
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.ledger.locked import check_unlocked
from heterofedsyn.site.ledger.private import is_forgotten
from heterofedsyn.site.settings import SiteSettings


@dataclass(frozen=True)
class Decision:
    """The consent to a study.

    Attributes:
        before: whether it stood already; who gave it is not written over.
    """

    consent: Consent
    before: bool

    def words(self, name: str = "") -> str:
        """Who gave it and when, of a study that is called so."""
        consent, named = self.consent, f"{name} " if name else ""
        if self.before:
            day = consent.when.partition("T")[0]
            return f"already approved {named}by {consent.who} on {day}; nothing to do"
        return f"approved {named}by {consent.who} at {consent.when}"


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


def standing_consent(settings: SiteSettings, study: Study, now: datetime) -> Consent | None:
    """The consent to a study, if it stands.

    Raises:
        LedgerDisputed: if the site locked itself.
        LedgerUnavailable: if the ledger is not sound.
    """
    check_unlocked(settings.folder)
    account = Books.read(settings.folder, settings.anchor)
    try:
        return approved(settings, study.fingerprint, account, now)[1]
    except HeterofedsynError:
        return None


def decide(settings: SiteSettings, study: Study, *, who: str, now: datetime) -> Decision:
    """Consent to a study, unless it has consent.

    Raises:
        HeterofedsynError: if it cannot be approved.
    """
    given = standing_consent(settings, study, now)
    if given is not None:
        return Decision(given, before=True)
    return Decision(approve(settings, study, who=who, now=now), before=False)


def end(
    settings: SiteSettings, fingerprint: str, name: str, *, who: str, now: datetime, final: bool
) -> str:
    """Take consent back, or end a study for good; returns what that means, in words.

    Args:
        name: what the words call the study.

    Raises:
        UsageError: if there is no consent to end.
    """
    (close if final else withdraw)(settings, fingerprint, who=who, now=now)
    forgotten = is_forgotten(settings.folder, fingerprint)
    words = f"study {name} is closed" if final else f"consent to {name} is withdrawn"
    if forgotten:
        words += "; its key is removed here"
    return f"{words}, and it cannot be approved again" if final or forgotten else words
