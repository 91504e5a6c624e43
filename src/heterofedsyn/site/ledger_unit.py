"""What a site's ledger protects: records, or persons told apart by one column; one for life."""

from __future__ import annotations

from heterofedsyn._words import short
from heterofedsyn.errors import HeterofedsynError, NotApproved, UsageError
from heterofedsyn.protocol.plan import is_fingerprint, unit_name
from heterofedsyn.protocol.study import Study
from heterofedsyn.site.ledger.entries import Account
from heterofedsyn.site.settings import SETTINGS, STUDY, SiteSettings


def check_unit(settings: SiteSettings, account: Account) -> None:
    """Refuse to go on with a ledger that was founded to protect something else.

    What is booked for persons says nothing of records, and the other way round, so their sum would
    be a guarantee for neither. Where the ledger does not say what it protects, the studies do that
    it was charged for.

    Raises:
        NotApproved: saying what the ledger protects, or which study would tell.
    """
    own = unit_name(settings.unit)
    units = {account.unit} if account.unit else _units_charged(settings, account)
    if len(units) > 1:
        raise NotApproved(
            f"the ledger in {settings.folder} was charged for studies that protect every "
            f"{' and every '.join(map(repr, sorted(units)))}, so that its sum is a guarantee for "
            "neither; nothing more is answered from it: a ledger has one for life"
        )
    if units - {own}:
        raise NotApproved(
            f"the ledger in {settings.folder} protects every {units.pop()!r} since it was "
            f"founded, but {SETTINGS} now says {own!r}; put the unit back as it was: a ledger has "
            "one for life"
        )


def _units_charged(settings: SiteSettings, account: Account) -> set[str]:
    """What the studies protect that a ledger was charged for.

    After a repair charges may be missing, so that every study counts that was ever approved.

    Raises:
        NotApproved: if a study that was charged for cannot be read as it was.
    """
    known = {charged.study for charged in account.charges}
    if account.repairs:
        known |= {folder.parent.name for folder in settings.studies.glob(f"*/{STUDY}")}
    return {_unit_of(settings, fingerprint) for fingerprint in known}


def _unit_of(settings: SiteSettings, fingerprint: str) -> str:
    path = settings.studies / fingerprint / STUDY
    try:
        if not is_fingerprint(fingerprint):
            raise UsageError("no study has this fingerprint")
        study = Study.load(path)
        if study.fingerprint != fingerprint:
            raise UsageError("it changed since")
    except HeterofedsynError as error:
        raise NotApproved(
            f"the ledger in {settings.folder} does not say what it protects; study "
            f"{short(fingerprint)}, which it was charged for, would: put {path} back as it was "
            f"({error})"
        ) from None
    return unit_name(study.plan.unit)
