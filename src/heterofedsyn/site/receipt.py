"""A signed record of what one study got from a site, for the ethics file."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from heterofedsyn._files import file_written_whole, read_whole
from heterofedsyn._version import __version__
from heterofedsyn._words import short
from heterofedsyn.errors import HeterofedsynError, UsageError
from heterofedsyn.masking.identity import from_base64, is_signed, raw_key
from heterofedsyn.privacy.terms import Terms
from heterofedsyn.privacy.trust import SecureAggregation
from heterofedsyn.protocol.about import About
from heterofedsyn.protocol.aggregation import Masked
from heterofedsyn.protocol.codec import decode
from heterofedsyn.protocol.messages import Answer, Query
from heterofedsyn.protocol.plan import NEIGHBOURS, Plan, unit_name
from heterofedsyn.protocol.study import Study
from heterofedsyn.protocol.terms import hears_sums
from heterofedsyn.site.consent import Consent, recorded
from heterofedsyn.site.ledger.answers import Kept
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.ledger.entries import Account, Charged, hash_of
from heterofedsyn.site.receipt_checks import add_up
from heterofedsyn.site.remembered import read_hidden
from heterofedsyn.site.settings import SiteSettings
from heterofedsyn.site.signing import Identity

RECEIPT_VERSION = 1
MOST_RECEIPT_BYTES = 2**28
_SIGNED_AS = b"heterofedsyn receipt 1\n"
"""What a signature begins with, so that the key's word on a receipt is its word on nothing else."""


class HiddenAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What became of an answer that left under masks.

    Attributes:
        hash: by which sets of sites name the answer.
        set: hash of the only set of sites that this site signed for the query; empty if none.
        sites: the names in it.
        opened: whether this site told its self seed, and its shares of the other members'; where
            all sites are in the set, the others can open the sum without it.
        outside: sites that are not in the set; the seeds of the masks shared with them were told.
    """

    hash: str
    set: str = ""
    sites: tuple[str, ...] = ()
    opened: bool = False
    outside: tuple[str, ...] = ()


class HiddenStudy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a study hides answers in sums, and what they cost if somebody sees them by themselves.

    Attributes:
        sites: of the study.
        colluding: sites that may pool what they know, with the hub or without.
        quorum: sites that every sum has at least.
    """

    sites: tuple[str, ...]
    colluding: int
    quorum: int
    spent_rho_alone: float
    spent_epsilon_alone: float


class ReleasedAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One charge of the ledger and the answer that it paid for.

    Attributes:
        number: of the entry in the ledger.
        when: the day (UTC).
        query: fingerprint of the query.
        answer: SHA-256 of the answer; None if it was charged but never left.
        parts: with the noise that this site added.
        rho_alone: the price if somebody sees the answer by itself; under secure aggregation alone.
        hidden: likewise, what became of it.
    """

    number: int
    when: str
    label: str
    query: str
    rho: float
    answer: str | None
    parts: tuple[Terms, ...]
    rho_alone: float | msgspec.UnsetType = msgspec.UNSET
    hidden: HiddenAnswer | msgspec.UnsetType = msgspec.UNSET


class BookedRepair(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was booked because entries of the ledger may be missing; no study is charged for it."""

    number: int
    when: str
    rho: float


class Receipt(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What was released to a study, under which guarantee and by whose consent.

    Attributes:
        epsilon: of the study, at this delta and conversion; rho is the same in other words.
        spent_rho: what was charged for it, at most rho.
        spent_epsilon: the same at this delta.
        repairs: of the ledger; what was released before one may be missing from the receipt.
        ledger_number: of the last entry when the receipt was made, with its hash.
        aggregation: under secure aggregation alone.
        about: what the study was for, if that was said.
    """

    site: str
    study: str
    method: str
    schema: str
    epsilon: float
    delta: float
    conversion: str
    rho: float
    neighbours: str
    unit: str
    rows_per_unit: int
    trust: str
    spent_rho: float
    spent_epsilon: float
    simulated_noise: bool
    consent_by: str
    consent_when: str
    releases: tuple[ReleasedAnswer, ...]
    repairs: tuple[BookedRepair, ...]
    ledger_number: int
    ledger_head: str
    issued: str
    software: str
    version: int = RECEIPT_VERSION
    aggregation: HiddenStudy | msgspec.UnsetType = msgspec.UNSET
    about: About | msgspec.UnsetType = msgspec.UNSET

    @property
    def said_about(self) -> About:
        """What the study said of itself, each text empty where it did not."""
        return About() if self.about is msgspec.UNSET else self.about


class SignedReceipt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A receipt, the public key that vouches for it, and the signature; both in base64."""

    receipt: Receipt
    key: str
    signature: str

    @classmethod
    def load(cls, path: Path) -> SignedReceipt:
        """The signed receipt in a file; `check` says whether it holds.

        Raises:
            UsageError: if it is anything else.
        """
        try:
            return cls.of(read_whole(path, MOST_RECEIPT_BYTES), str(path))
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise UsageError(f"cannot read receipt {path}: {reason}; check the path") from None

    @classmethod
    def of(cls, data: bytes, name: str) -> SignedReceipt:
        """The signed receipt in the bytes of a file of this name.

        Raises:
            UsageError: if it is anything else.
        """
        try:
            signed = msgspec.json.decode(data, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise UsageError(f"{name}: this is no receipt") from None
        if signed.receipt.version != RECEIPT_VERSION:
            raise UsageError(
                f"{name}: a receipt of version {signed.receipt.version}, not {RECEIPT_VERSION}"
            )
        if data != signed.to_bytes():
            raise UsageError(
                f"{name} is not as receipts are written, so other programs may read something else "
                "in it; ask the site for the file itself"
            )
        return signed

    def save(self, path: Path) -> None:
        """Write the receipt as JSON."""
        with file_written_whole(path) as partial:
            partial.write_bytes(self.to_bytes())

    def to_bytes(self) -> bytes:
        """The file: the only bytes that `load` takes for this receipt."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"

    def check(self, key: str | None = None) -> None:
        """Refuse a receipt that was changed, was signed by another key, or does not add up.

        Args:
            key: the public key that must have signed it; without one, that of the file.

        Raises:
            HeterofedsynError: saying which.
        """
        if key is not None and raw_key(key) != raw_key(self.key):
            raise HeterofedsynError(
                f"the receipt was signed with another key ({self.key}) than the one given"
            )
        try:
            holds = is_signed(canonical(self.receipt), self.key, from_base64(self.signature))
        except ValueError:  # no signature at all
            holds = False
        if not holds:
            raise HeterofedsynError(
                "the signature does not hold: the receipt was changed, or signed with another key"
            )
        if not add_up(self.receipt):
            raise HeterofedsynError(
                "the signature holds, but the figures of the receipt do not add up"
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


def issue(
    settings: SiteSettings, study: Study, consent: Consent, account: Account, *, now: datetime
) -> SignedReceipt:
    """A signed record of all that a study was charged for, by the ledger as it is.

    Raises:
        UsageError: if nothing was charged for it.
        HeterofedsynError: if the key or a stored answer cannot be read.
    """
    plan = study.plan
    charges = [charged for charged in account.charges if charged.study == study.fingerprint]
    if not charges:
        raise UsageError(f"study {short(study.fingerprint)} got nothing from this site yet")
    answered = {one.query: one.stored for one in account.answers}
    shown = _shown_hidden if hears_sums(plan) else _shown
    releases = [
        shown(one, _kept(settings.folder, one.query, answered.get(one.query)), account)
        for one in charges
    ]
    spent = account.spent_on(study.fingerprint)
    receipt = Receipt(
        site=settings.name,
        study=study.fingerprint,
        method=plan.method,
        schema=study.public.fingerprint,
        epsilon=plan.epsilon,
        delta=plan.delta,
        conversion=plan.conversion,
        rho=plan.budget.rho,
        neighbours=NEIGHBOURS,
        unit=unit_name(plan.unit),
        rows_per_unit=plan.rows_per_unit,
        trust=plan.trust,
        spent_rho=spent.rho,
        spent_epsilon=spent.epsilon(plan.delta, plan.conversion),
        simulated_noise=any(simulated for _, simulated in releases),
        consent_by=consent.who,
        consent_when=_day(consent.when),
        releases=tuple(released for released, _ in releases),
        repairs=tuple(BookedRepair(one.number, _day(one.when), one.rho) for one in account.repairs),
        ledger_number=account.number,
        ledger_head=account.head,
        issued=now.astimezone(UTC).strftime("%Y-%m-%d"),
        software=f"heterofedsyn {__version__}",
        aggregation=_hidden_study(plan, account),
        about=plan.about,
    )
    own = Identity.load(settings.key)
    signature = base64.b64encode(own.sign(canonical(receipt))).decode()
    return SignedReceipt(receipt, own.public, signature)


def canonical(receipt: Receipt) -> bytes:
    """The bytes that are signed: JSON with sorted keys and no spaces, after a fixed line."""
    return _SIGNED_AS + msgspec.json.encode(receipt, order="sorted")


def _day(moment: str) -> str:
    """A moment as a receipt, which others read, may tell it: charges to the second would say how
    long each answer took. The ledger itself stays with the steward.
    """
    return moment[: len("2030-01-02")]


def _hidden_study(plan: Plan, account: Account) -> HiddenStudy | msgspec.UnsetType:
    trust = plan.trust_model
    if not isinstance(trust, SecureAggregation):
        return msgspec.UNSET
    alone = account.spent_alone_on(plan.fingerprint)
    return HiddenStudy(
        sites=plan.sites,
        colluding=trust.colluding,
        quorum=trust.quorum,
        spent_rho_alone=alone.rho,
        spent_epsilon_alone=alone.epsilon(plan.delta, plan.conversion),
    )


def _kept(folder: Path, query: str, stored: str | None) -> Kept | None:
    """The answer to a query as it is stored, if it may have left."""
    kept = None if stored is None else Kept.to(query, folder)
    if stored is not None and (kept is None or hash_of(kept.to_bytes()) != stored):
        raise HeterofedsynError(
            f"the answer to query {short(query)} may have left, but is no longer stored as "
            "it was; restore it from a copy, since a receipt must say what it was"
        )
    return kept


def _shown(charged: Charged, kept: Kept | None, account: Account) -> tuple[ReleasedAnswer, bool]:
    """What a charge paid for, and whether its noise was simulated."""
    if kept is None:
        return _entry(charged), False
    query, answer = decode(kept.asked, Query), decode(kept.answer, Answer)
    parts = tuple(
        released.terms(part.statistic)
        for part, released in zip(query.parts, answer.parts, strict=True)
    )
    return _entry(charged, hash_of(kept.answer), parts), answer.simulated


def _shown_hidden(
    charged: Charged, kept: Kept | None, account: Account
) -> tuple[ReleasedAnswer, bool]:
    """The same of an answer that left under masks."""
    entry, simulated = _entry(charged), False
    if kept is not None:
        inner = read_hidden(kept.answer)
        masked = decode(inner.masked, Masked)
        agreed = account.agreed.get(charged.query)
        opened = account.unmasked.get(charged.query)
        hidden = HiddenAnswer(
            hash=masked.hash.hex(),
            set="" if agreed is None else agreed.set,
            sites=() if agreed is None else agreed.sites,
            opened=opened is not None,
            outside=() if opened is None else opened.outside,
        )
        entry = _entry(charged, hash_of(inner.masked), inner.terms)
        entry = msgspec.structs.replace(entry, hidden=hidden)
        simulated = masked.simulated
    return msgspec.structs.replace(entry, rho_alone=charged.budget_alone.rho), simulated


def _entry(
    charged: Charged, answer: str | None = None, parts: tuple[Terms, ...] = ()
) -> ReleasedAnswer:
    return ReleasedAnswer(
        number=charged.number,
        when=_day(charged.when),
        label=charged.label,
        query=charged.query,
        rho=charged.rho,
        answer=answer,
        parts=parts,
    )
