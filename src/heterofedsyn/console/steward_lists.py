"""Studies in lists: what each of the inbox waits for, and what came of those decided on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

from heterofedsyn._words import aloud, percent, sentence, size
from heterofedsyn.console.inbox import Waiting, key_of
from heterofedsyn.console.steward_site import OwnSite
from heterofedsyn.errors import HeterofedsynError
from heterofedsyn.protocol.study import Study
from heterofedsyn.site.consent import check_approvable
from heterofedsyn.site.ledger.entries import Account
from heterofedsyn.site.settings import SiteSettings

MOST_LISTED_BYTES = 2**16
"""Of a file that a list reads; there may be many, and a study has kilobytes."""

MOST_TALLIED = 200
"""Files that are looked into to say what waits, the newest first."""


class State(Enum):
    """What a file of the inbox is: for one, and for several."""

    WAITS = "waits for a decision", "wait for a decision"
    DECIDED = "was decided on before", "were decided on before"
    EXPIRED = "is expired", "are expired"
    ELSEWHERE = "is for other sites", "are for other sites"
    UNFIT = "cannot be approved", "cannot be approved"
    UNREAD = "cannot be read", "cannot be read"
    LARGE = "is too large for a list", "are too large for a list"

    def said(self, many: int) -> str:
        """That so many are."""
        return f"{many:,} {self.value[many != 1]}"


@dataclass(frozen=True)
class Listed:
    """A study in a list: its address, title, who asks or why it cannot be read, and its state."""

    place: str
    title: str
    words: str
    state: str
    good: bool | None


class Lists:
    """The lists of one site at one moment."""

    def __init__(self, site: OwnSite, account: Account) -> None:
        self._site, self._account = site, account
        self._settings: SiteSettings = site.settings()
        self._now = datetime.now(UTC)
        self._known = frozenset(site.fingerprints())

    def tally(self, waiting: Sequence[Waiting]) -> str:
        """How many files there are, and how many of them are what."""
        if not waiting:
            return "nothing is in the inbox"
        states = Counter(self._state(one)[0] for one in waiting[:MOST_TALLIED])
        parts = [state.said(states[state]) for state in State if states[state]]
        if len(waiting) > MOST_TALLIED:
            parts.append(f"{len(waiting) - MOST_TALLIED:,} older were not looked at")
        return f"{len(waiting):,} in the inbox: {', '.join(parts)}"

    def waiting(self, one: Waiting) -> Listed:
        """A file of the inbox."""
        place = f"studies/waiting/{one.key}"
        state, why, study = self._state(one)
        label = state.value[0]
        if state is State.LARGE:
            words = f"{size(one.size)}, here since {one.when}"  # its name may tell a fingerprint
            return Listed(place, "A large file", words, "open it to read it", None)
        if study is None:
            return Listed(place, "Not a study", f"{one.name}: {why}", label, False)
        if state is State.DECIDED:
            place = f"studies/decided/{key_of(study.fingerprint)}"
        good = None if state in (State.WAITS, State.DECIDED) else False
        words = "; ".join(filter(None, (why, self._about(study), f"here since {one.when}")))
        return Listed(place, study.plan.said_about.shown_title, sentence(words), label, good)

    def decided(self, fingerprint: str) -> Listed:
        """A study that consent was given to once."""
        place = f"studies/decided/{key_of(fingerprint)}"
        try:
            found = self._site.decided(fingerprint, self._account)
        except HeterofedsynError as error:
            return Listed(place, fingerprint[:16], str(error), "cannot be read", False)
        share = used(self._account, fingerprint, found.consent.rho)
        words = f"{found.words}; {share_words(share)}; {self._about(found.study)}"
        state = "is answered" if found.good else "is not answered"
        title = found.study.plan.said_about.shown_title
        return Listed(place, title, sentence(words), state, found.good)

    def _about(self, study: Study) -> str:
        """Whom it asks and what for, and a group of its fingerprint that no page asks for."""
        plan, hidden = study.plan, self._site.hidden.of(study.fingerprint)
        groups = enumerate(aloud(study.fingerprint).split())
        place, group = next((i, letters) for i, letters in groups if i not in hidden)
        return (
            f"asks {', '.join(plan.sites)}; epsilon {plan.epsilon:g}, {plan.trust} trust; group "
            f"{place + 1} of its fingerprint is {group}"
        )

    def _state(self, one: Waiting) -> tuple[State, str, Study | None]:
        """What a file is, why, and the study in it."""
        if one.size > MOST_LISTED_BYTES:
            return State.LARGE, "", None
        try:
            study = self._site.inbox.study(one)
        except HeterofedsynError as error:
            return State.UNREAD, str(error), None
        if study.fingerprint in self._known:
            return State.DECIDED, "", study
        if self._settings.name not in study.plan.sites:
            return State.ELSEWHERE, "", study
        try:
            study.plan.said_about.check_open(self._now)
        except HeterofedsynError as error:
            return State.EXPIRED, str(error), study
        try:
            check_approvable(self._settings, study, self._account, self._now)
        except HeterofedsynError as error:
            return State.UNFIT, str(error), study
        return State.WAITS, "", study


def used(account: Account, fingerprint: str, cap: float) -> float | None:
    """The share that a study used of what it may spend; None if it may spend nothing."""
    return min(1.0, account.spent_on(fingerprint).rho / cap) if cap else None


def share_words(share: float | None) -> str:
    """The same in words."""
    if not share:
        return "nothing of what it may spend is used"
    return f"{part_words(share)} of what it may spend is used"


def part_words(share: float) -> str:
    """A share, or that it is the whole.

    >>> part_words(0.25), part_words(1.0)
    ('25.0 %', 'all')
    """
    return "all" if share > 1 - 1e-9 else percent(share)
