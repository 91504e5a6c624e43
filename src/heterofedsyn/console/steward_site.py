"""The one site whose steward looks: its settings, books and studies as they are on disk now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock

from heterofedsyn._words import short
from heterofedsyn.console.hidden_groups import HiddenGroups
from heterofedsyn.console.inbox import Inbox, key_of
from heterofedsyn.console.noticing import Recent
from heterofedsyn.console.row_check import RowCheck
from heterofedsyn.errors import HeterofedsynError
from heterofedsyn.hub.planning.preview import Preview
from heterofedsyn.hub.planning.preview import preview as look_ahead
from heterofedsyn.protocol.study import Study
from heterofedsyn.site.consent import (
    CONSENT,
    Consent,
    approved,
    check_schema,
    read_consent,
    recorded,
)
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.ledger.entries import Account
from heterofedsyn.site.listening import agent_listens
from heterofedsyn.site.settings import SiteSettings

_MOST_FORESEEN = 16
"""Previews that are kept in mind: pages of one study are looked at again and again."""


@dataclass(frozen=True)
class Decided:
    """A study that consent was given to once.

    Attributes:
        key: what addresses call it.
        good: whether it is answered now.
        words: whether it is, and if not, why.
    """

    key: str
    study: Study
    consent: Consent
    good: bool
    words: str


class OwnSite:
    """A site as its steward's pages see it.

    Attributes:
        known: the settings at the start, for what never changes: its folder.
        hidden: what its pages ask of a fingerprint.
        turn: held while something is decided, so that two pages do not decide at once.
    """

    def __init__(self, settings: SiteSettings) -> None:
        self.known = settings
        self.inbox = Inbox(settings.folder)
        self.hidden = HiddenGroups(settings.folder)
        self.row_check = RowCheck()
        self.turn = Lock()
        self._foreseen = Recent[str, Preview](_MOST_FORESEEN)

    def settings(self) -> SiteSettings:
        """The settings as they are now."""
        return self.known.again()

    def account(self) -> Account:
        """What the ledger says now, held against its anchor."""
        settings = self.settings()
        return Books.read(settings.folder, settings.anchor)

    def listens(self) -> bool | None:
        """Whether an agent answers; None where the machine does not tell."""
        return agent_listens(self.known.socket)

    def agent_said(self) -> tuple[bool, str]:
        """The same in words, and whether it is good."""
        listens = self.listens()
        if listens is None:
            return True, "this machine does not tell whether the agent answers"
        if listens:
            return True, f"the agent answers on {self.known.socket}"
        return False, (
            "no agent answers, so no study gets anything; start it with "
            f"`heterofedsyn site serve --folder {self.known.folder}`, or its unit"
        )

    def fingerprints(self) -> Sequence[str]:
        """All studies with a consent, the last decision first."""
        found = []
        for path in self.known.studies.glob(f"*/{CONSENT}"):
            try:
                found.append((read_consent(path).when, path.parent.name))
            except HeterofedsynError:
                found.append(("", path.parent.name))
        return [fingerprint for _, fingerprint in sorted(found, reverse=True)]

    def find_decided(self, key: str) -> str | None:
        """The fingerprint of the study that addresses call so."""
        return next((each for each in self.fingerprints() if key_of(each) == key), None)

    def decided(self, fingerprint: str, account: Account) -> Decided:
        """A study that was decided on, and whether it is answered now.

        Raises:
            HeterofedsynError: if what is on disk of it cannot be read.
        """
        settings = self.settings()
        study, consent = recorded(settings, fingerprint)
        good, words = True, f"it was approved by {consent.who} at {consent.when}"
        try:
            approved(settings, fingerprint, account, datetime.now(UTC))
        except HeterofedsynError as error:
            good, words = False, str(error).replace(f"study {short(fingerprint)}", "this study")
        return Decided(key_of(fingerprint), study, consent, good, words)

    def foreseen(self, study: Study) -> Preview:
        """What a study would ask of this site.

        Raises:
            HeterofedsynError: if no site could answer it, or this one has another schema.
        """
        check_schema(self.settings(), study)
        return self._foreseen.get(study.fingerprint, lambda: look_ahead(study, self.known.name))
