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


class Opened(_Line, frozen=True, tag="opened", kw_only=True):
    """The first entry; no two ledgers begin alike.

    Attributes:
        unit: what every charge protects, as statements call it; empty if that was not said.
    """

    ledger: str
    unit: str = ""
    version: Literal[1] = LEDGER_VERSION


class Charged(_Line, frozen=True, tag="charged", kw_only=True):
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


class Repaired(_Line, frozen=True, tag="repaired", kw_only=True):
    """What was booked because entries may have been lost."""


class Settled(_Line, frozen=True, tag="settled", kw_only=True):
    """What every charge of a ledger protects whose first entry does not say it; books nothing."""

    unit: str


Entry: TypeAlias = Opened | Charged | Answered | Repaired | Settled
_DECODER = msgspec.json.Decoder[Entry](Entry)


@dataclass(frozen=True)
class Account:
    """What a ledger says.

    Attributes:
        answers: which charged queries got an answer that may have left.
        repaired: hash of the last repair; empty if there was none.
        head: hash of the last entry, whose number is `number`.
        booked: the sum of all entries, not rounded.
        charged: the sum of each study's charges, not rounded.
        unit: what all of it protects, for life; empty as long as that was not said.
    """

    charges: tuple[Charged, ...] = ()
    answers: tuple[Answered, ...] = ()
    repairs: tuple[Repaired, ...] = ()
    repaired: str = ""
    head: str = ""
    number: int = -1
    booked: Fraction = Fraction(0)
    charged: Mapping[str, Fraction] = field(default_factory=dict)
    unit: str = ""

    @property
    def spent(self) -> Budget:
        """Everything booked, rounded up."""
        return together((), self.booked)

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
        for line, entry in zip(lines, entries, strict=True):
            booked += Fraction(entry.rho)
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
            charged=charged,
            unit=self.unit or unit_in(entries),
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
        _ = entry.budget  # refuse what it refuses
    except UNREADABLE:
        return None
    return entry


def _follows(entry: Entry, last: Entry | None) -> bool:
    """Whether an entry may come after another; only a repair leaves numbers out."""
    if last is None or isinstance(entry, Opened):
        return last is None and isinstance(entry, Opened) and entry.number == 0
    gap = entry.number - last.number
    return gap >= 1 if isinstance(entry, Repaired) else gap == 1
