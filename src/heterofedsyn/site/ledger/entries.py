"""The entries of a ledger, each with the hash of the one before it, and what they say together."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from typing import Final, Literal, TypeAlias, TypedDict

import msgspec

from heterofedsyn.errors import UsageError
from heterofedsyn.privacy.budget import Budget, together

LEDGER_VERSION: Final = 1
MOST_LABEL = 80
"""Characters of a query's label that an entry keeps: whoever asks must not fill a disk with it."""

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, UsageError)
"""What reading an entry or an anchor ends with that was never written here."""


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="is"):
    """What every entry has: its place in the chain, when it was made (UTC), what it books."""

    number: int
    previous: str
    when: str
    rho: float

    @property
    def budget(self) -> Budget:
        """What is booked."""
        return Budget(self.rho)

    @property
    def budget_alone(self) -> Budget:
        """What is booked in case that somebody sees the answer by itself."""
        return self.budget


class Opened(_Line, frozen=True, tag="opened", kw_only=True):
    """The first entry; no two ledgers begin alike.

    Attributes:
        unit: what every charge protects, as statements call it; empty if that was not said.
    """

    ledger: str
    unit: str = ""
    version: Literal[1] = LEDGER_VERSION


class _Priced(_Line, frozen=True, kw_only=True):
    """An entry with two prices.

    Attributes:
        alone: the price if somebody sees the answer by itself; absent where it is the same.
    """

    alone: float | msgspec.UnsetType = msgspec.UNSET

    @property
    def budget_alone(self) -> Budget:
        return self.budget if self.alone is msgspec.UNSET else Budget(self.alone)


class Charged(_Priced, frozen=True, tag="charged", kw_only=True):
    """One query that may be answered, and its price."""

    study: str
    query: str
    label: str
    integers: int


class Answered(_Line, frozen=True, tag="answered", kw_only=True):
    """A charged query whose answer is stored and may leave; it books nothing more."""

    query: str
    stored: str
    """Hash of what is stored."""


class Repaired(_Priced, frozen=True, tag="repaired", kw_only=True):
    """What was booked because entries may have been lost.

    Attributes:
        key: the site's public key since then, in base64; empty if it kept the one it had.
    """

    key: str = ""


class Settled(_Line, frozen=True, tag="settled", kw_only=True):
    """What every charge of a ledger protects whose first entry does not say it; books nothing."""

    unit: str


class _Once(_Line, frozen=True, kw_only=True):
    """What is said once for a study or a query and never otherwise; it books nothing."""

    study: str

    @property
    def said(self) -> dict[str, object]:
        """All but the place in the chain."""
        return {k: v for k, v in msgspec.structs.asdict(self).items() if k not in _PLACE}

    @property
    def about(self) -> tuple[str, str]:
        """What must not be said again otherwise, and for which study or query."""
        tag = str(self.__struct_config__.tag)
        return tag, str(getattr(self, "query", self.study))


class Joined(_Once, frozen=True, tag="joined", kw_only=True):
    """The public key that was made for a study, in hexadecimal."""

    key: str


class Listed(_Once, frozen=True, tag="listed", kw_only=True):
    """The hash of the only list of keys that is believed in a study."""

    list: str


class Agreed(_Once, frozen=True, tag="agreed", kw_only=True):
    """The hash of the only set of sites that is signed for a query, and the names in it."""

    query: str
    set: str
    sites: tuple[str, ...]


class Unmasked(_Once, frozen=True, tag="unmasked", kw_only=True):
    """A query that was opened: the own self seed, shares of the other members of the set.

    Attributes:
        outside: sites that are not in the set; the seeds shared with these were told.
    """

    query: str
    outside: tuple[str, ...]


Noted: TypeAlias = Joined | Listed | Agreed | Unmasked
Entry: TypeAlias = Opened | Charged | Answered | Repaired | Settled | Noted
_PLACE = frozenset(_Line.__struct_fields__)
_DECODER = msgspec.json.Decoder[Entry](Entry)


@dataclass(frozen=True)
class Account:
    """What a ledger says.

    Attributes:
        answers: which charged queries got an answer that may have left.
        repaired: hash of the last repair; empty if there was none.
        head: hash of the last entry, whose number is `number`.
        booked: the sum of all entries, not rounded.
        booked_alone: the same in case that somebody sees each answer by itself.
        charged: the sum of each study's charges, not rounded.
        unit: what all of it protects, for life; empty as long as that was not said.
        joined: by study, the public key made for it.
        listed: by study, the hash of its list of keys.
        agreed: by query, the set that was signed.
        unmasked: by query, what was opened.
    """

    charges: tuple[Charged, ...] = ()
    answers: tuple[Answered, ...] = ()
    repairs: tuple[Repaired, ...] = ()
    repaired: str = ""
    head: str = ""
    number: int = -1
    booked: Fraction = Fraction(0)
    booked_alone: Fraction = Fraction(0)
    charged: Mapping[str, Fraction] = field(default_factory=dict)
    unit: str = ""
    joined: Mapping[str, str] = field(default_factory=dict)
    listed: Mapping[str, str] = field(default_factory=dict)
    agreed: Mapping[str, Agreed] = field(default_factory=dict)
    unmasked: Mapping[str, Unmasked] = field(default_factory=dict)

    @property
    def spent(self) -> Budget:
        """Everything booked, rounded up."""
        return together((), self.booked)

    @property
    def spent_alone(self) -> Budget:
        """Everything booked in case that each answer is seen by itself, rounded up."""
        return together((), self.booked_alone)

    def spent_alone_on(self, study: str) -> Budget:
        """The same of what was charged for one study."""
        return together(one.budget_alone for one in self.charges if one.study == study)

    def spent_on(self, study: str) -> Budget:
        """What was charged for one study, rounded up."""
        return together((), self.charged_to(study))

    def charged_to(self, study: str) -> Fraction:
        """What was charged for one study, not rounded."""
        return self.charged.get(study, Fraction(0))

    def after(self, lines: Sequence[bytes], entries: Sequence[Entry]) -> Account:
        """What the ledger says with these entries more; their sums are added to those there are."""
        if not entries:
            return self
        booked, charged, repaired = self.booked, dict(self.charged), self.repaired
        alone = self.booked_alone
        for line, entry in zip(lines, entries, strict=True):
            booked += Fraction(entry.rho)
            alone += Fraction(entry.budget_alone.rho)
            if isinstance(entry, Charged):
                charged[entry.study] = charged.get(entry.study, Fraction(0)) + Fraction(entry.rho)
            elif isinstance(entry, Repaired):
                repaired = hash_of(line)
        return Account(
            charges=(*self.charges, *(e for e in entries if isinstance(e, Charged))),
            answers=(*self.answers, *(e for e in entries if isinstance(e, Answered))),
            repairs=(*self.repairs, *(e for e in entries if isinstance(e, Repaired))),
            repaired=repaired,
            head=hash_of(lines[-1]),
            number=entries[-1].number,
            booked=booked,
            booked_alone=alone,
            charged=charged,
            unit=self.unit or unit_in(entries),
            joined={**self.joined, **{e.study: e.key for e in entries if isinstance(e, Joined)}},
            listed={**self.listed, **{e.study: e.list for e in entries if isinstance(e, Listed)}},
            agreed={**self.agreed, **{e.query: e for e in entries if isinstance(e, Agreed)}},
            unmasked={**self.unmasked, **{e.query: e for e in entries if isinstance(e, Unmasked)}},
        )


class _Place(TypedDict):
    """Where an entry stands: behind which other, and when."""

    number: int
    previous: str
    when: str


@dataclass(frozen=True)
class Chain:
    """Entries that follow one another, as lines and as values."""

    lines: tuple[bytes, ...] = ()
    entries: tuple[Entry, ...] = ()
    rest: bytes = b""
    """What follows the last good line."""

    account: Account = Account()
    """What the entries say."""

    size: int = 0
    """Bytes of all lines."""

    @classmethod
    def begun(cls, unit: str) -> Chain:
        """A new ledger's only entry."""
        chain = cls()
        opened = Opened(**chain.end(), rho=0.0, ledger=secrets.token_hex(16), unit=unit)
        return chain.add(opened)

    @classmethod
    def of(cls, data: bytes) -> Chain:
        """The longest chain at the start of a file."""
        lines: list[bytes] = []
        entries: list[Entry] = []
        head, place = "", 0
        while (end := data.find(b"\n", place)) >= 0:
            line = data[place : end + 1]
            entry = _entry(line)
            if entry is None or entry.previous != head:
                break
            if not _follows(entry, entries[-1] if entries else None):
                break
            lines.append(line)
            entries.append(entry)
            head, place = hash_of(line), end + 1
        account = Account().after(lines, entries)
        return cls(tuple(lines), tuple(entries), data[place:], account, place)

    def add(self, entry: Entry) -> Chain:
        """The chain with one more entry."""
        line = msgspec.json.encode(entry) + b"\n"
        return Chain(
            (*self.lines, line),
            (*self.entries, entry),
            account=self.account.after([line], [entry]),
            size=self.size + len(line),
        )

    def end(self, number: int | None = None) -> _Place:
        """The place of the next entry, which has this number or the one that comes next."""
        return {
            "number": self.number + 1 if number is None else number,
            "previous": self.head,
            "when": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }

    def settled(self, unit: str) -> Settled:
        """The next entry, which says what all charges protect."""
        return Settled(**self.end(), rho=0.0, unit=unit)

    def to_bytes(self) -> bytes:
        """The file."""
        return b"".join(self.lines)

    @property
    def head(self) -> str:
        """Hash of the last entry."""
        return self.account.head

    @property
    def number(self) -> int:
        """Of the last entry; -1 if there is none."""
        return self.account.number

    @property
    def unit(self) -> str:
        """What all charges protect, if that was said."""
        return self.account.unit


def salvaged(data: bytes) -> list[Entry]:
    """Every entry that can still be read, whether or not it follows from the one before."""
    return [entry for line in data.splitlines() if (entry := _entry(line)) is not None]


def unit_in(entries: Iterable[Entry]) -> str:
    """What the first entry says is protected that says anything."""
    said = (entry.unit for entry in entries if isinstance(entry, Opened | Settled))
    return next((unit for unit in said if unit), "")


def printable(label: str) -> str:
    """The start of a label, in characters that take no more room in an entry than they show."""
    return "".join(char if char.isprintable() else "?" for char in label[:MOST_LABEL])


def hash_of(data: bytes) -> str:
    """By which a line or a stored answer is known."""
    return hashlib.sha256(data).hexdigest()


def _entry(line: bytes) -> Entry | None:
    """The entry in a line, if it is one."""
    try:
        entry: Entry = _DECODER.decode(line)
        _ = entry.budget, entry.budget_alone  # refuse what they refuse
    except UNREADABLE:
        return None
    return entry


def _follows(entry: Entry, last: Entry | None) -> bool:
    """Whether an entry may come after another; only a repair leaves numbers out."""
    if last is None or isinstance(entry, Opened):
        return last is None and isinstance(entry, Opened) and entry.number == 0
    gap = entry.number - last.number
    return gap >= 1 if isinstance(entry, Repaired) else gap == 1
