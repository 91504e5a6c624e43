"""A site's ledger on disk: what one table has spent in its life, and every answer it gave.

The ledger is a file of lines, each one entry with the hash of the line before it. After an entry
is on disk, its number, its hash and what is spent by then go to the anchor, a file elsewhere.
Only then may noise be drawn; and only when the answer is on disk and an entry with its hash is in
the ledger may it leave. So an entry that the anchor does not know yet has released nothing, a
ledger that knows less than its anchor has lost something, and an answer that was lost is never
drawn again. Before an entry is made the anchor must say what the ledger says, and a lock beside it
is held, so that of two agents on copies of one ledger one refuses.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from heterofedsyn._files import open_inside, read_whole
from heterofedsyn._words import short
from heterofedsyn.errors import LedgerDisputed, LedgerUnavailable, UsageError
from heterofedsyn.privacy.budget import Budget, together
from heterofedsyn.privacy.ledger import Ledger, shortfall

LEDGER = "ledger"
LOCK = "ledger.lock"
ANSWERS = "answers"
LEDGER_VERSION: Final = 1
MOST_KEPT_BYTES = 2**28
MOST_ANCHOR_BYTES = 2**16
MOST_LABEL = 80
"""Characters of a query's label that an entry keeps: whoever asks must not fill a disk with it."""

_REPAIR = "`heterofedsyn site ledger repair` books what may be missing"
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, UsageError)
"""What reading an entry or an anchor ends with that was never written here."""

_ALWAYS_NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW

_READS = 20
"""How often a ledger that is being written is read again before its state is called disputed."""

_MOST_LINKS = 40
"""As many as the operating system follows."""


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


class Anchor(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The end of the ledger as it is known elsewhere."""

    number: int
    head: str
    rho: float
    unit: str = ""


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

    charges: tuple[Charged, ...]
    answers: tuple[Answered, ...]
    repairs: tuple[Repaired, ...]
    repaired: str
    head: str
    number: int
    booked: Fraction
    charged: Mapping[str, Fraction]
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
                repaired = _hash(line)
        return Account(
            charges=(*self.charges, *(e for e in entries if isinstance(e, Charged))),
            answers=(*self.answers, *(e for e in entries if isinstance(e, Answered))),
            repairs=(*self.repairs, *(e for e in entries if isinstance(e, Repaired))),
            repaired=repaired,
            head=_hash(lines[-1]),
            number=entries[-1].number,
            booked=booked,
            charged=charged,
            unit=self.unit or _unit_in(entries),
        )


@dataclass(frozen=True)
class Kept:
    """An answer as it left, and the query as it came."""

    answer: bytes
    asked: bytes

    @classmethod
    def load(cls, path: Path) -> Kept | None:
        """What is stored in a file, or None if there is none.

        Raises:
            LedgerUnavailable: if it is damaged or cannot be read.
        """
        with _saying("read", path):
            try:
                data = read_whole(path, MOST_KEPT_BYTES)
            except FileNotFoundError:
                return None
        size = int.from_bytes(data[32:40], "big")
        kept = cls(answer=data[40 + size :], asked=data[40 : 40 + size])
        if kept.to_bytes() != data:
            raise LedgerUnavailable(f"{path} is damaged; restore it from a copy")
        return kept

    def to_bytes(self) -> bytes:
        """The file: a hash of the rest, the length of the query, the query, the answer."""
        body = len(self.asked).to_bytes(8, "big") + self.asked + self.answer
        return hashlib.sha256(body).digest() + body


class Books:
    """The ledger and the answers of one site, open for one agent; not for several threads at once.

    After a failed write everything is read and checked anew before anything else is done.
    """

    def __init__(self, folder: Path, anchor: Path, locks: Sequence[int]) -> None:
        """Books that are locked but not read; use `open`.

        Args:
            anchor: where it is, so that no link that is made later leads elsewhere.
            locks: the last of them is the anchor's folder.
        """
        self._folder = folder
        self._anchor = anchor
        self._locks = tuple(locks)
        self._ledger = -1
        self._chain = _Chain()
        self._charged: dict[str, Charged] = {}
        self._answered: dict[str, Answered] = {}
        self._study_of: dict[str, str] = {}
        self._sizes: dict[str, int] = {}
        self._stored: dict[str, int] = {}
        self._sound = False

    @classmethod
    def create(cls, folder: Path, anchor: Path, *, unit: str = "") -> None:
        """An empty ledger and its anchor.

        Args:
            unit: what its charges will protect; else the first charge says it.

        Raises:
            LedgerDisputed: if there is a ledger or an anchor; neither is ever replaced.
            LedgerUnavailable: if they cannot be written.
        """
        with _saying("make", folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _held((_lock(folder / LOCK, folder),)):
                for path in (folder / LEDGER, anchor):
                    if os.path.lexists(path):
                        raise LedgerDisputed(
                            f"{path} is there already and may hold what a table has spent; name "
                            "another place"
                        )
                (folder / ANSWERS).mkdir(mode=0o700, exist_ok=True)
                chain = _Chain().add(_opening(unit))
                _write(folder / LEDGER, chain.data)
                _write_anchor(_place_of(anchor), chain)

    @classmethod
    def open(cls, folder: Path, anchor: Path) -> Books:
        """The books of a site, for one agent alone.

        Raises:
            LedgerUnavailable: if another agent has them, or they cannot be read or written.
            LedgerDisputed: if the ledger is not as its anchor says.
        """
        with _saying("open", folder):
            place = _place_of(anchor)
            books = cls(folder, place, _lock_both(folder, place))
            try:
                _tidy(place)
                books._load()
            except BaseException:
                books.close()
                raise
            return books

    @classmethod
    def read(cls, folder: Path, anchor: Path) -> Account:
        """What the ledger says now, also while an agent serves.

        Raises:
            LedgerUnavailable: if it cannot be read.
            LedgerDisputed: if it is not as its anchor says.
        """
        readings = 0
        with _saying("read", folder):
            anchor = _place_of(anchor)
            while True:
                known, chain = _read_anchor(anchor), _Chain.of(_read_ledger(folder))
                readings += 1
                try:
                    _check(chain, known, folder, anchor)
                    return chain.account
                except LedgerDisputed:
                    # An agent may have written between the two readings.
                    if readings == _READS or _read_anchor(anchor) == known:
                        raise

    @classmethod
    def repair(
        cls, folder: Path, anchor: Path, study_cap: Budget, *, restored: bool = False
    ) -> Account:
        """Make a disputed ledger usable: what it or its anchor says is spent, and one study more.

        The entries that still form a chain are kept, and so is the old file, beside the new one.
        No consent that was given before holds any longer.

        Args:
            restored: ledger and anchor were restored together, so that they agree and may both
                have lost entries.

        Raises:
            UsageError: if there is nothing to repair.
            LedgerDisputed: if neither ledger nor anchor is left to say what was spent.
            LedgerUnavailable: if another agent serves, or nothing can be written.
        """
        with _saying("repair", folder):
            anchor = _place_of(anchor)
        with _saying("repair", folder), _held(_lock_both(folder, anchor)):
            path = folder / LEDGER
            data = _read_ledger(folder) if path.exists() else None
            known = _anchor_if_readable(anchor)
            chain = _Chain.of(data or b"")
            if data is not None and known is not None:
                try:
                    _check(chain, known, folder, anchor)
                except LedgerDisputed:
                    pass
                else:
                    if not restored:
                        raise UsageError(
                            "ledger and anchor agree: there is nothing to repair, unless both were "
                            "restored from older copies; then pass --restored"
                        )
            found = _salvaged(data or b"")
            if not found and known is None:
                raise LedgerDisputed(
                    f"nothing is left of {path} and {anchor} that says what was spent; the table "
                    "must count as spent: publish nothing more from it"
                )
            unit = (known.unit if known else "") or _unit_in(found)
            if not chain.lines:
                chain = chain.add(_opening(unit))
            spent = together(entry.budget for entry in found)
            larger = max(spent, Budget(0.0 if known is None else known.rho))
            booked = shortfall(together([larger, study_cap]), chain.budgets)
            number = max(chain.number, 0 if known is None else known.number) + 1
            chain = chain.add(
                Repaired(number=number, previous=chain.head, when=_now(), rho=booked.rho)
            )
            if unit and not chain.unit:
                chain = chain.add(_settling(chain, unit))
            if data is not None:
                _write(folder / f"{LEDGER}.before-{number}", data)
            (folder / ANSWERS).mkdir(mode=0o700, exist_ok=True)
            _write(path, chain.data)
            _write_anchor(anchor, chain)
            return chain.account

    @classmethod
    def kept_in(cls, folder: Path, query: str) -> Kept | None:
        """The stored answer to a query, if any; also while an agent serves.

        Raises:
            LedgerUnavailable: if it is damaged or cannot be read.
        """
        return Kept.load(folder / ANSWERS / query)

    def __enter__(self) -> Books:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the books free for another agent."""
        files = (*([self._ledger] if self._ledger >= 0 else []), *self._locks)
        self._ledger, self._locks, self._sound = -1, (), False
        for file in files:
            os.close(file)

    @property
    def account(self) -> Account:
        """What the ledger says."""
        return self._chain.account

    def spent_on(self, study: str) -> Budget:
        """What was charged for one study, rounded up."""
        return self.account.spent_on(study)

    def stored_on(self, study: str, *, but: str = "") -> int:
        """Bytes that one study takes on disk: entries, queries and answers, but for one of them."""
        other = self._sizes.get(but, 0) if self._study_of.get(but) == study else 0
        return self._stored.get(study, 0) - other

    def afford(
        self, study: str, query: str, label: str, cost: Budget, *, cap: Budget, study_cap: Budget
    ) -> None:
        """Refuse a charge that does not fit; nothing is booked.

        Raises:
            BudgetExceeded: if it would lift the table above its cap or the study above its own.
            LedgerUnavailable, LedgerDisputed: if the ledger failed before and still does.
        """
        self._ready()
        if not self._paid(query, cost):
            for ledger in self._ledgers(study, cap, study_cap):
                ledger.charge(label, cost)

    def charge(
        self,
        study: str,
        query: str,
        label: str,
        cost: Budget,
        *,
        cap: Budget,
        study_cap: Budget,
        integers: int = 0,
    ) -> None:
        """Book a query once; on return the entry is on disk and the anchor knows it.

        Raises:
            BudgetExceeded: if it does not fit; nothing is booked then.
            LedgerUnavailable: if it could not be written; nothing may be released then.
        """
        self.afford(study, query, label, cost, cap=cap, study_cap=study_cap)
        if self._paid(query, cost):
            return
        entry = Charged(
            number=self._chain.number + 1,
            previous=self._chain.head,
            when=_now(),
            study=study,
            query=query,
            label=_printable(label),
            rho=cost.rho,
            integers=integers,
        )
        self._append(entry)

    def settle(self, unit: str) -> None:
        """Say once and for all what the charges of this ledger protect.

        Raises:
            LedgerDisputed: if it was said before, and otherwise.
            LedgerUnavailable: if it could not be written.
        """
        self._ready()
        known = self._chain.unit
        if not known:
            self._append(_settling(self._chain, unit))
        elif known != unit:
            raise LedgerDisputed(
                f"the ledger in {self._folder} protects every {known!r} and nothing else, so "
                f"nothing is booked for every {unit!r}; put the site's unit back as it was"
            )

    def kept(self, query: str) -> bytes | None:
        """The answer to a query that may have left, if any.

        Raises:
            LedgerUnavailable: if there is one but it is lost, damaged or cannot be read.
        """
        self._check_open()
        if query not in self._answered:  # else it is on disk for good, whatever failed since
            self._ready()
        answered = self._answered.get(query)
        if answered is None:
            return None  # what may be stored never left
        kept = self.kept_in(self._folder, query)
        if kept is None or _hash(kept.to_bytes()) != answered.stored:
            raise LedgerUnavailable(
                f"the answer to query {short(query)} is gone from {self._folder / ANSWERS}; "
                "restore it from a copy: it may have left, and must not be drawn again"
            )
        return kept.answer

    def keep(self, query: str, answer: bytes, asked: bytes = b"") -> None:
        """Store an answer, and the query as it was asked; on return both are on disk.

        Raises:
            LedgerUnavailable: if they could not be written; the answer may not leave then.
            LedgerDisputed: if the query was not charged, or was answered before.
        """
        self._ready()
        if query not in self._charged or query in self._answered:
            known = "answered before" if query in self._answered else "never charged"
            raise LedgerDisputed(f"query {short(query)} was {known}; its answer is not kept")
        data = Kept(answer, asked).to_bytes()
        with self._writing():
            _write(self._folder / ANSWERS / query, data)
        self._append(
            Answered(
                number=self._chain.number + 1,
                previous=self._chain.head,
                when=_now(),
                rho=0.0,
                query=query,
                stored=_hash(data),
            )
        )

    def _paid(self, query: str, cost: Budget) -> bool:
        booked = self._charged.get(query)
        return booked is not None and booked.budget >= cost

    def _ledgers(self, study: str, cap: Budget, study_cap: Budget) -> tuple[Ledger, Ledger]:
        account = self.account
        return (
            Ledger(str(self._folder), cap, before=account.booked),
            Ledger(short(study), study_cap, holder="study", before=account.charged_to(study)),
        )

    def _append(self, entry: Entry) -> None:
        """Write one more entry, and then the anchor."""
        self._check_open()
        with self._writing():
            known = self._known()
            if known != self._chain.anchor:
                raise LedgerDisputed(
                    f"{self._anchor} knows entry {known.number}, but this agent's last one is "
                    f"{self._chain.number}: another agent serves a copy of {self._folder}, or the "
                    "anchor was replaced; stop the other, then look at `heterofedsyn site ledger`"
                )
            chain = self._chain.add(entry)
            self._put(chain)
            os.fsync(self._ledger)
            self._write_anchor(chain)
            self._chain = chain
            self._take(chain.lines[-1], entry)

    def _put(self, chain: _Chain) -> None:
        line = chain.lines[-1]
        _put(self._ledger, line, chain.size - len(line))

    def _write_anchor(self, chain: _Chain) -> None:
        _write_anchor(self._anchor, chain)

    def _known(self) -> Anchor:
        """What the anchor says, in the folder that is locked."""
        with suppress(FileNotFoundError):  # as the anchor then is
            if not os.path.samestat(self._anchor.parent.stat(), os.fstat(self._locks[-1])):
                raise LedgerDisputed(
                    f"{self._anchor.parent} is another folder than when the ledger was opened, so "
                    "its anchor is not believed; put the folder back, or start the agent again"
                )
        return _read_anchor(self._anchor)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Until a write has succeeded, nothing is known of what is on disk."""
        self._sound = False
        with _saying("write to", self._folder):
            yield
        self._sound = True

    def _check_open(self) -> None:
        if not self._locks:
            raise LedgerUnavailable(f"the ledger in {self._folder} is closed; open it again")

    def _ready(self) -> None:
        """Read and check everything anew if a write failed."""
        if not self._sound:
            with _saying("use", self._folder):
                self._load()

    def _load(self) -> None:
        """Take over what is on disk, and make sure that it stays there."""
        self._check_open()
        known = self._known()
        if self._ledger >= 0:
            os.close(self._ledger)
            self._ledger = -1
        self._ledger = _open_ledger(self._folder, os.O_RDWR)
        data = _read_all(self._ledger)
        chain = _Chain.of(data)
        _check(chain, known, self._folder, self._anchor)
        if chain.size < len(data):
            os.ftruncate(self._ledger, chain.size)
        if known.number != chain.number:
            # Written again, since a failed fsync may have dropped what can still be read.
            self._put(chain)
        os.fsync(self._ledger)
        for folder in (self._folder, self._folder / ANSWERS):
            _flush_folder(folder)
        if known.number != chain.number:
            self._write_anchor(chain)
        self._chain = chain
        for found in (self._charged, self._answered, self._study_of, self._sizes, self._stored):
            found.clear()
        for line, entry in zip(chain.lines, chain.entries, strict=True):
            self._take(line, entry)
        self._sound = True

    def _take(self, line: bytes, entry: Entry) -> None:
        """What one more entry means for the next query."""
        match entry:
            case Charged():
                self._charged[entry.query] = entry
                self._study_of[entry.query] = entry.study
                self._store(entry.study, len(line))
            case Answered():
                self._answered[entry.query] = entry
                self._sizes[entry.query] = self._size_of(entry.query)
                study = self._study_of.get(entry.query, "")
                self._store(study, len(line) + self._sizes[entry.query])
            case Repaired():
                # Answers to these may have left without our knowing: they must be paid again.
                for query in self._charged.keys() - self._answered.keys():
                    del self._charged[query]

    def _store(self, study: str, many: int) -> None:
        self._stored[study] = self._stored.get(study, 0) + many

    def _size_of(self, query: str) -> int:
        """Bytes of a stored answer; none if it is lost, or no file can have that name."""
        try:
            return (self._folder / ANSWERS / query).stat().st_size
        except (FileNotFoundError, ValueError):
            return 0


_NOTHING = Account(
    charges=(),
    answers=(),
    repairs=(),
    repaired="",
    head="",
    number=-1,
    booked=Fraction(0),
    charged={},
)


@dataclass(frozen=True)
class _Chain:
    """Entries that follow one another, as lines and as values."""

    lines: tuple[bytes, ...] = ()
    entries: tuple[Entry, ...] = ()
    rest: bytes = b""
    """What follows the last good line."""

    account: Account = _NOTHING
    """What the entries say."""

    size: int = 0
    """Bytes of all lines."""

    @classmethod
    def of(cls, data: bytes) -> _Chain:
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
            head, place = _hash(line), end + 1
        account = _NOTHING.after(lines, entries)
        return cls(tuple(lines), tuple(entries), data[place:], account, place)

    def add(self, entry: Entry) -> _Chain:
        """The chain with one more entry."""
        line = msgspec.json.encode(entry) + b"\n"
        return _Chain(
            (*self.lines, line),
            (*self.entries, entry),
            account=self.account.after([line], [entry]),
            size=self.size + len(line),
        )

    @property
    def data(self) -> bytes:
        return b"".join(self.lines)

    @property
    def head(self) -> str:
        return self.account.head

    @property
    def number(self) -> int:
        return self.account.number

    @property
    def budgets(self) -> tuple[Budget, ...]:
        return tuple(entry.budget for entry in self.entries)

    @property
    def anchor(self) -> Anchor:
        return Anchor(self.number, self.head, self.account.spent.rho, self.unit)

    @property
    def unit(self) -> str:
        return self.account.unit


def _opening(unit: str) -> Opened:
    return Opened(
        number=0, previous="", when=_now(), rho=0.0, ledger=secrets.token_hex(16), unit=unit
    )


def _settling(chain: _Chain, unit: str) -> Settled:
    return Settled(number=chain.number + 1, previous=chain.head, when=_now(), rho=0.0, unit=unit)


def _unit_in(entries: Iterable[Entry]) -> str:
    """What the first entry says is protected that says anything."""
    said = (entry.unit for entry in entries if isinstance(entry, Opened | Settled))
    return next((unit for unit in said if unit), "")


def _entry(line: bytes) -> Entry | None:
    """The entry in a line, if it is one."""
    try:
        entry: Entry = _DECODER.decode(line)
        _ = entry.budget  # refuse what it refuses
    except _UNREADABLE:
        return None
    return entry


def _follows(entry: Entry, last: Entry | None) -> bool:
    """Whether an entry may come after another; only a repair leaves numbers out."""
    if last is None or isinstance(entry, Opened):
        return last is None and isinstance(entry, Opened) and entry.number == 0
    gap = entry.number - last.number
    return gap >= 1 if isinstance(entry, Repaired) else gap == 1


def _salvaged(data: bytes) -> list[Entry]:
    """Every entry that can still be read, whether or not it follows from the one before."""
    return [entry for line in data.splitlines() if (entry := _entry(line)) is not None]


def _check(chain: _Chain, known: Anchor, folder: Path, anchor: Path) -> None:
    """Refuse a ledger that is not at its anchor, or one entry ahead of it after a crash."""
    path = folder / LEDGER
    if known.number > chain.number:
        raise LedgerDisputed(
            f"{path} ends with entry {chain.number}{' and damaged lines' if chain.rest else ''}, "
            f"but {anchor} knows entry {known.number}: an older copy was restored, or the file "
            f"was damaged; {_REPAIR}"
        )
    ends = [(chain.number, chain.head)]
    if len(chain.entries) > 1:
        ends.append((chain.entries[-2].number, chain.entries[-1].previous))
    if known.number not in [number for number, _ in ends]:
        raise LedgerDisputed(
            f"{path} ends with entry {chain.number}, more than one beyond entry {known.number} of "
            f"{anchor}: an older anchor was restored; {_REPAIR}"
        )
    if (known.number, known.head) not in ends:
        raise LedgerDisputed(
            f"entry {known.number} of {path} is not the one that {anchor} knows: one of them is "
            f"of another time or table; {_REPAIR}"
        )
    torn = known.number == chain.number and b"\n" not in chain.rest[:-1]
    if chain.rest and not torn:
        raise LedgerDisputed(f"{path} is damaged after entry {chain.number}; {_REPAIR}")


def _open_ledger(folder: Path, how: int) -> int:
    path = folder / LEDGER
    try:
        file = os.open(path, how | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise LedgerDisputed(f"there is no ledger {path}; {_REPAIR}") from None
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise LedgerDisputed(f"the ledger {path} is no regular file; {_REPAIR}")
    return file


def _read_ledger(folder: Path) -> bytes:
    file = _open_ledger(folder, os.O_RDONLY)
    try:
        return _read_all(file)
    finally:
        os.close(file)


def _read_all(file: int) -> bytes:
    with os.fdopen(os.dup(file), "rb") as reader:
        reader.seek(0)
        return reader.read()


def _read_anchor(anchor: Path) -> Anchor:
    found = _anchor_if_readable(anchor)
    if found is None:
        state = "is missing"
        if os.path.lexists(anchor):
            state = "is a link" if anchor.is_symlink() else "is damaged"
        raise LedgerDisputed(
            f"the anchor {anchor} {state}, so nobody can tell whether the ledger is whole; put "
            f"its disk back if that is why, else {_REPAIR}"
        )
    return found


def _anchor_if_readable(anchor: Path) -> Anchor | None:
    """What the anchor says, or None if it is missing, damaged or a link."""
    try:
        with open_inside(anchor.parent, anchor.name, MOST_ANCHOR_BYTES) as file:
            found = msgspec.json.decode(file.read(), type=Anchor)
        Budget(found.rho)
    except (FileNotFoundError, *_UNREADABLE):
        return None
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return None
    return found


def others_can_write(folder: Path) -> bool:
    """Whether anybody but this user and root can make, rename or remove files in a folder."""
    state = folder.stat()
    return bool(state.st_mode & 0o022) or state.st_uid not in (0, os.geteuid())


def check_anchor_folder(anchor: Path) -> None:
    """Refuse an anchor that others can replace.

    Raises:
        UsageError: naming its folder.
    """
    with _saying("look at", anchor), suppress(FileNotFoundError):  # said when it is read
        folder = _place_of(anchor).parent
        if others_can_write(folder):
            raise UsageError(
                f"others can write in {folder}, so they can replace the anchor of the ledger; make "
                f"it the agent's own: chown it to the agent's user and chmod go-w {folder}"
            )


def _place_of(anchor: Path) -> Path:
    """Where an anchor is, from the root; a link to it counts where only this user can make one."""
    place = _from_root(anchor)
    for _ in range(_MOST_LINKS):
        if not place.is_symlink() or others_can_write(place.parent):
            break
        place = _from_root(place.parent / place.readlink())
    return place


def _from_root(path: Path) -> Path:
    return Path(os.path.realpath(path.parent)) / path.name


def _lock_both(folder: Path, anchor: Path) -> tuple[int, int, int]:
    """Locks of a folder and of its anchor, whose folder is held: copies have one anchor."""
    found: list[int] = []
    try:
        found.append(_lock(folder / LOCK, folder))
        if not anchor.parent.is_dir():
            _read_anchor(anchor)  # says what that means
        found.append(_lock(anchor.with_name(f"{anchor.name}.lock"), folder))
        found.append(os.open(anchor.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    except BaseException:
        for file in found:
            os.close(file)
        raise
    own, lock, place = found
    return own, lock, place


def _lock(path: Path, folder: Path) -> int:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise LedgerUnavailable(
            f"the ledger in {folder} or a copy of it is in use by another agent or command "
            f"({path} is locked); stop that first"
        ) from None
    except BaseException:
        os.close(lock)
        raise
    return lock


@contextmanager
def _held(locks: Sequence[int]) -> Iterator[None]:
    try:
        yield
    finally:
        for lock in locks:
            os.close(lock)


@contextmanager
def _saying(verb: str, path: Path) -> Iterator[None]:
    """Turns what the operating system says into one line."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise LedgerUnavailable(
            f"cannot {verb} {error.filename or path}: {reason}; nothing is released until that is "
            "mended"
        ) from None


def _write(path: Path, data: bytes) -> None:
    """Put a file of a folder of our own in place whole; on return it is on disk under its name."""
    path = Path(os.path.realpath(path))
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)  # left by a machine that failed
    _write_as(new, path, data)


def _write_anchor(anchor: Path, chain: _Chain) -> None:
    """Put an anchor in place whole; on return it is on disk under its name.

    Others may be able to write beside it, so the file that is made has a name that nobody can have
    taken, and takes the place of whatever is there: nothing there is opened, no link is followed.
    """
    new = anchor.with_name(f".{anchor.name}.{secrets.token_hex(8)}.new")
    _write_as(new, anchor, msgspec.json.encode(chain.anchor))


def _tidy(anchor: Path) -> None:
    """Remove what a machine that failed left beside an anchor."""
    left = re.compile(rf"\.{re.escape(anchor.name)}\.([0-9a-f]{{16}}\.)?new")
    for path in anchor.parent.iterdir():
        if left.fullmatch(path.name):
            with suppress(OSError):  # it is in nobody's way
                path.unlink()


def _write_as(new: Path, path: Path, data: bytes) -> None:
    file = os.open(new, os.O_WRONLY | _ALWAYS_NEW | os.O_CLOEXEC, 0o600)
    try:
        try:
            _put(file, data, 0)
            os.fsync(file)
        finally:
            os.close(file)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    _flush_folder(path.parent)


def _put(file: int, data: bytes, place: int) -> None:
    """Write all of the bytes at a place of a file."""
    rest = memoryview(data)
    while rest:
        written = os.pwrite(file, rest, place)
        rest, place = rest[written:], place + written


def _flush_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _printable(label: str) -> str:
    """The start of a label, in characters that take no more room in an entry than they show."""
    return "".join(char if char.isprintable() else "?" for char in label[:MOST_LABEL])


def _hash(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
