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

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from heterofedsyn._words import short
from heterofedsyn.errors import LedgerDisputed, LedgerUnavailable
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.ledger import Ledger
from heterofedsyn.site.ledger.agreement import (
    LEDGER,
    LOCK,
    check,
    lock_both,
    open_ledger,
    read_account,
    read_all,
)
from heterofedsyn.site.ledger.anchor import Anchor, place_of, tidy, write_anchor
from heterofedsyn.site.ledger.answers import ANSWERS, Kept
from heterofedsyn.site.ledger.durable import flush_folder, held, lock, put, saying, write
from heterofedsyn.site.ledger.entries import (
    Account,
    Answered,
    Chain,
    Charged,
    Entry,
    Repaired,
    hash_of,
    printable,
)
from heterofedsyn.site.ledger.repair import repair


class Books:
    """The ledger and the answers of one site, open for one agent; not for several threads at once.

    After a failed write everything is read and checked anew before anything else is done.
    """

    read = staticmethod(read_account)
    repair = staticmethod(repair)

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
        self._chain = Chain()
        self._index = _Index(folder / ANSWERS)
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
        with saying("make", folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with held((lock(folder / LOCK, folder),)):
                for path in (folder / LEDGER, anchor):
                    if os.path.lexists(path):
                        raise LedgerDisputed(
                            f"{path} is there already and may hold what a table has spent; name "
                            "another place"
                        )
                (folder / ANSWERS).mkdir(mode=0o700, exist_ok=True)
                chain = Chain.begun(unit)
                write(folder / LEDGER, chain.to_bytes())
                write_anchor(place_of(anchor), chain)

    @classmethod
    def open(cls, folder: Path, anchor: Path) -> Books:
        """The books of a site, for one agent alone.

        Raises:
            LedgerUnavailable: if another agent has them, or they cannot be read or written.
            LedgerDisputed: if the ledger is not as its anchor says.
        """
        with saying("open", folder):
            place = place_of(anchor)
            books = cls(folder, place, lock_both(folder, place))
            try:
                tidy(place)
                books._load()
            except BaseException:
                books.close()
                raise
            return books

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
        return self._index.stored_on(study, but)

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
            **self._chain.end(),
            study=study,
            query=query,
            label=printable(label),
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
            self._append(self._chain.settled(unit))
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
        if query not in self._index.answered:  # else it is on disk for good, whatever failed since
            self._ready()
        answered = self._index.answered.get(query)
        if answered is None:
            return None  # what may be stored never left
        kept = Kept.to(query, self._folder)
        if kept is None or hash_of(kept.to_bytes()) != answered.stored:
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
        if query not in self._index.charged or query in self._index.answered:
            known = "answered before" if query in self._index.answered else "never charged"
            raise LedgerDisputed(f"query {short(query)} was {known}; its answer is not kept")
        data = Kept(answer, asked).to_bytes()
        with self._writing():
            write(self._folder / ANSWERS / query, data)
        self._append(Answered(**self._chain.end(), rho=0.0, query=query, stored=hash_of(data)))

    def _paid(self, query: str, cost: Budget) -> bool:
        booked = self._index.charged.get(query)
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
            if known != Anchor.to(self._chain):
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
            self._index.take(chain.lines[-1], entry)

    def _put(self, chain: Chain) -> None:
        line = chain.lines[-1]
        put(self._ledger, line, chain.size - len(line))

    def _write_anchor(self, chain: Chain) -> None:
        write_anchor(self._anchor, chain)

    def _known(self) -> Anchor:
        """What the anchor says, in the folder that is locked."""
        with suppress(FileNotFoundError):  # as the anchor then is
            if not os.path.samestat(self._anchor.parent.stat(), os.fstat(self._locks[-1])):
                raise LedgerDisputed(
                    f"{self._anchor.parent} is another folder than when the ledger was opened, so "
                    "its anchor is not believed; put the folder back, or start the agent again"
                )
        return Anchor.read(self._anchor)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Until a write has succeeded, nothing is known of what is on disk."""
        self._sound = False
        with saying("write to", self._folder):
            yield
        self._sound = True

    def _check_open(self) -> None:
        if not self._locks:
            raise LedgerUnavailable(f"the ledger in {self._folder} is closed; open it again")

    def _ready(self) -> None:
        """Read and check everything anew if a write failed."""
        if not self._sound:
            with saying("use", self._folder):
                self._load()

    def _load(self) -> None:
        """Take over what is on disk, and make sure that it stays there."""
        self._check_open()
        known = self._known()
        if self._ledger >= 0:
            os.close(self._ledger)
            self._ledger = -1
        self._ledger = open_ledger(self._folder, os.O_RDWR)
        data = read_all(self._ledger)
        chain = Chain.of(data)
        check(chain, known, self._folder, self._anchor)
        if chain.size < len(data):
            os.ftruncate(self._ledger, chain.size)
        if known.number != chain.number:
            # Written again, since a failed fsync may have dropped what can still be read.
            self._put(chain)
        os.fsync(self._ledger)
        for folder in (self._folder, self._folder / ANSWERS):
            flush_folder(folder)
        if known.number != chain.number:
            self._write_anchor(chain)
        index = _Index(self._folder / ANSWERS)
        for line, entry in zip(chain.lines, chain.entries, strict=True):
            index.take(line, entry)
        self._chain, self._index, self._sound = chain, index, True


class _Index:
    """What the entries mean for the next query: what is paid, what was answered, what is stored."""

    def __init__(self, answers: Path) -> None:
        self.charged: dict[str, Charged] = {}
        self.answered: dict[str, Answered] = {}
        self._answers = answers
        self._study_of: dict[str, str] = {}
        self._sizes: dict[str, int] = {}
        self._stored: dict[str, int] = {}

    def take(self, line: bytes, entry: Entry) -> None:
        """What one more entry means."""
        match entry:
            case Charged():
                self.charged[entry.query] = entry
                self._study_of[entry.query] = entry.study
                self._store(entry.study, len(line))
            case Answered():
                self.answered[entry.query] = entry
                self._sizes[entry.query] = self._size_of(entry.query)
                study = self._study_of.get(entry.query, "")
                self._store(study, len(line) + self._sizes[entry.query])
            case Repaired():
                # Answers to these may have left without our knowing: they must be paid again.
                for query in self.charged.keys() - self.answered.keys():
                    del self.charged[query]

    def stored_on(self, study: str, but: str) -> int:
        other = self._sizes.get(but, 0) if self._study_of.get(but) == study else 0
        return self._stored.get(study, 0) - other

    def _store(self, study: str, many: int) -> None:
        self._stored[study] = self._stored.get(study, 0) + many

    def _size_of(self, query: str) -> int:
        """Bytes of a stored answer; none if it is lost, or no file can have that name."""
        try:
            return (self._answers / query).stat().st_size
        except (FileNotFoundError, ValueError):
            return 0
