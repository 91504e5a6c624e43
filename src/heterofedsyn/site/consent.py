"""A steward's consent to a study: a ceiling kept beside the study itself, not a reservation."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from heterofedsyn._files import file_written_whole, read_whole, written_whole
from heterofedsyn._words import short
from heterofedsyn.errors import HeterofedsynError, NotApproved, UsageError
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.protocol.plan import is_fingerprint
from heterofedsyn.protocol.study import Study
from heterofedsyn.protocol.terms import hears_sums
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.ledger.entries import Account
from heterofedsyn.site.ledger.locked import check_unlocked
from heterofedsyn.site.ledger.private import forget, is_forgotten
from heterofedsyn.site.ledger_unit import check_unit
from heterofedsyn.site.roster import check_own_key, check_trust
from heterofedsyn.site.settings import STUDY, SiteSettings

CONSENT = "consent.json"
WITHDRAWN = "withdrawn.json"
CLOSED = "closed.json"
CONSENT_VERSION = 1
MOST_WHO = 200
MOST_CONSENT_BYTES = 2**16


class Consent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who allowed which study to spend how much.

    Attributes:
        study: fingerprint of the study.
        schema: fingerprint of the public schema at that time.
        rho: the most that the study may spend here.
        when: UTC, to the second.
        repaired: hash of the ledger's last repair by then; empty if there was none.
    """

    study: str
    schema: str
    rho: float
    epsilon: float
    delta: float
    conversion: str
    who: str
    when: str
    repaired: str = ""
    version: int = CONSENT_VERSION

    @property
    def cap(self) -> Budget:
        """The most that the study may spend here."""
        return Budget(self.rho)


_DECODER = msgspec.json.Decoder(Consent)  # made before any thread is; see protocol.messages


def check_study(settings: SiteSettings, study: Study) -> None:
    """Refuse what this site never answers, whoever asks.

    Raises:
        NotApproved: saying why, for the steward.
    """
    plan = study.plan
    if settings.name not in plan.sites:
        raise NotApproved(
            f"the study is for {', '.join(plan.sites)}; this site is called {settings.name!r}"
        )
    check_trust(settings, study)
    check_schema(settings, study)
    if plan.unit != settings.unit:
        # One row of a person can bring in another of theirs: a ledger of records would book a
        # quarter of what that costs, and one of persons too little for everybody with many rows.
        theirs = "records" if plan.unit is None else f"units of {plan.unit!r}"
        own = (
            "site protects records; the study must name no unit"
            if settings.unit is None
            else f"site's unit is {settings.unit!r}; the study needs that unit"
        )
        raise NotApproved(f"the study protects {theirs}, but this {own}")
    if plan.budget > settings.study_cap:
        raise NotApproved(
            f"the study may spend rho={plan.budget.rho:.6g}, more than the cap per study, "
            f"rho={settings.study_cap.rho:.6g} (epsilon {settings.study_epsilon:g} at delta "
            f"{settings.delta:g})"
        )


def check_schema(settings: SiteSettings, study: Study) -> None:
    """Refuse a study of another schema, before anything is computed for its own.

    Raises:
        NotApproved: naming the site's schema.
    """
    if study.public.fingerprint != settings.load_schema().fingerprint:
        raise NotApproved(
            f"the study has another schema than {settings.schema}; agree on one, to the letter"
        )


def approve(settings: SiteSettings, study: Study, *, who: str, now: datetime) -> Consent:
    """Record consent; from now on the agent answers this study, without a restart.

    Raises:
        NotApproved: if the site never answers such a study, or this one no more; it may be over.
        LedgerUnavailable, LedgerDisputed: if the ledger is not sound; consent is to what it says.
    """
    check_study(settings, study)
    study.plan.said_about.check_open(now)
    _check_who(who)
    check_unlocked(settings.folder)
    account = Books.read(settings.folder, settings.anchor)
    check_unit(settings, account)
    check_first(settings, study, account)
    plan = study.plan
    consent = Consent(
        study=study.fingerprint,
        schema=study.public.fingerprint,
        rho=plan.budget.rho,
        epsilon=plan.epsilon,
        delta=plan.delta,
        conversion=plan.conversion,
        who=who,
        when=now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        repaired=account.repaired,
    )
    with written_whole(settings.studies / study.fingerprint) as partial:
        study.save(partial / STUDY)
        (partial / CONSENT).write_bytes(_pretty(consent))
    return consent


def check_approvable(settings: SiteSettings, study: Study, account: Account, now: datetime) -> None:
    """Refuse a study that is not answered now and could not be approved.

    Raises:
        NotApproved: saying why.
    """
    check_study(settings, study)
    study.plan.said_about.check_open(now)
    check_unit(settings, account)
    try:
        approved(settings, study.fingerprint, account, now)
    except HeterofedsynError:
        check_first(settings, study, account)


def check_first(settings: SiteSettings, study: Study, account: Account) -> None:
    """Refuse to begin a study again that must not begin twice here.

    Under secure aggregation a site that lost its memory of a study would draw second noise under
    the same masks, or sign a second set; so consent to such a study is given once.

    Raises:
        NotApproved: saying why.
    """
    fingerprint = study.fingerprint
    folder = settings.studies / fingerprint
    if (folder / CLOSED).exists():
        raise NotApproved(f"study {short(fingerprint)} was closed here, for good")
    if not hears_sums(study.plan):
        return
    check_own_key(settings, account)
    known = {
        "was approved here before": (folder / CONSENT).exists(),
        "has a key of this site in the ledger": fingerprint in account.joined,
        "was closed here": is_forgotten(settings.folder, fingerprint),
        "was charged for in the ledger": fingerprint in account.charged,
    }
    for words, holds in known.items():
        if holds:
            raise NotApproved(
                f"study {short(fingerprint)} {words}; under {study.plan.trust!r} consent is given "
                "once, since a site that begins again could give away what hides its answers: ask "
                "the coordinator for a new study"
            )


def approved(
    settings: SiteSettings, fingerprint: str, account: Account, now: datetime
) -> tuple[Study, Consent]:
    """The study of this fingerprint and the consent to it, as they are on disk now.

    Args:
        account: of the ledger; after a repair it may know too little of what the study spent.
        now: when it was asked.

    Raises:
        NotApproved: if there is no consent, study, schema or settings changed since, the ledger was
            repaired since, or the study's last day is past.
        HeterofedsynError: if what is there cannot be read.
    """
    study, consent = recorded(settings, fingerprint)
    check_not_withdrawn(settings, fingerprint)
    study.plan.said_about.check_open(now)
    hidden = hears_sums(study.plan)
    if consent.repaired != account.repaired:
        remedy = "it cannot go on here" if hidden else "approve the study again if it may go on"
        raise NotApproved(
            f"the ledger was repaired after study {short(fingerprint)} was approved, so what the "
            f"study spent may be missing from it; {remedy}"
        )
    check_unit(settings, account)
    check_study(settings, study)
    if hidden:
        check_own_key(settings, account)
    return study, consent


def approved_last(settings: SiteSettings, account: Account, now: datetime) -> Study | None:
    """Of the studies that would be answered now the one that was approved last, if there is any."""
    last: tuple[str, Study] | None = None
    for path in sorted(settings.studies.glob(f"*/{CONSENT}")):
        try:
            study, consent = approved(settings, path.parent.name, account, now)
        except (HeterofedsynError, OSError):
            continue  # as whoever asks for it is told
        if last is None or consent.when >= last[0]:
            last = consent.when, study
    return None if last is None else last[1]


def consent_folder(settings: SiteSettings, fingerprint: str) -> Path:
    """Where the consent once given to a study lies; nothing of it is read.

    Raises:
        NotApproved: if there never was one.
    """
    if not is_fingerprint(fingerprint):
        raise NotApproved("this names no study: a fingerprint has 64 letters and digits")
    folder = settings.studies / fingerprint
    if not (folder / CONSENT).exists():
        raise NotApproved(f"study {short(fingerprint)} was not approved")
    return folder


def check_not_withdrawn(settings: SiteSettings, fingerprint: str) -> None:
    """Refuse a study whose consent was never given or has ended; nothing of it is read.

    Raises:
        NotApproved: saying which.
    """
    folder = consent_folder(settings, fingerprint)
    if (folder / WITHDRAWN).exists():
        raise NotApproved(f"consent to study {short(fingerprint)} was withdrawn")
    if (folder / CLOSED).exists() or is_forgotten(settings.folder, fingerprint):
        raise NotApproved(f"study {short(fingerprint)} was closed")


def recorded(settings: SiteSettings, fingerprint: str) -> tuple[Study, Consent]:
    """The study of this fingerprint and the consent once given to it, whether or not it holds.

    Raises:
        NotApproved: if there never was one, or study or schema changed since.
        HeterofedsynError: if what is there cannot be read.
    """
    folder = consent_folder(settings, fingerprint)
    consent, study = read_consent(folder / CONSENT), Study.load(folder / STUDY)
    if not consent.study == study.fingerprint == fingerprint:
        raise NotApproved(f"study {short(fingerprint)} changed after it was approved")
    if consent.schema != study.public.fingerprint:
        raise NotApproved(f"the schema of study {short(fingerprint)} changed after it was approved")
    return study, consent


def withdraw(settings: SiteSettings, fingerprint: str, *, who: str, now: datetime) -> None:
    """Take consent back; what was spent stays spent, and nothing more is answered.

    Raises:
        UsageError: if there is no consent to take back.
    """
    folder = _ended(settings, fingerprint, who)
    if (folder / WITHDRAWN).exists():
        raise UsageError(f"consent to study {short(fingerprint)} was withdrawn before")
    if (folder / CLOSED).exists():
        raise UsageError(f"study {short(fingerprint)} was closed before")
    _mark(folder / WITHDRAWN, fingerprint, who, now)


def close(settings: SiteSettings, fingerprint: str, *, who: str, now: datetime) -> None:
    """End a study for good: nothing more is answered, and it cannot be approved again.

    Raises:
        UsageError: if it was never approved, or was closed before.
    """
    folder = _ended(settings, fingerprint, who)
    if (folder / CLOSED).exists():
        raise UsageError(f"study {short(fingerprint)} was closed before")
    _mark(folder / CLOSED, fingerprint, who, now)


def _ended(settings: SiteSettings, fingerprint: str, who: str) -> Path:
    """The folder of a study whose private files are gone for good, if it may have any.

    They go first and whatever was marked before: who was interrupted does it again.
    """
    folder = settings.studies / fingerprint
    if not is_fingerprint(fingerprint) or not (folder / CONSENT).exists():
        raise UsageError(f"there is no consent to study {short(fingerprint)!r}")
    _check_who(who)
    try:
        hidden = hears_sums(Study.load(folder / STUDY).plan)
    except HeterofedsynError:
        hidden = True  # for all that can be read
    if hidden:
        forget(settings.folder, fingerprint)
    return folder


def _mark(path: Path, fingerprint: str, who: str, now: datetime) -> None:
    when = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    with file_written_whole(path) as partial:
        partial.write_bytes(_pretty({"study": fingerprint, "who": who, "when": when}))


def read_consent(path: Path) -> Consent:
    """The consent in a file.

    Raises:
        HeterofedsynError: if it is anything else.
    """
    try:
        consent = _DECODER.decode(read_whole(path, MOST_CONSENT_BYTES))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise HeterofedsynError(f"{path} is damaged; approve the study again") from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise HeterofedsynError(f"cannot read {path}: {reason}") from None
    if consent.version != CONSENT_VERSION:
        raise HeterofedsynError(f"{path} is of another version; approve the study again")
    return consent


def _check_who(who: str) -> None:
    if not (0 < len(who) <= MOST_WHO and who.isprintable()):
        raise UsageError(f"who decides must be a name of 1 to {MOST_WHO} printable characters")


def _pretty(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"
