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
from pathlib import Path

from msgspec import UNSET

from heterofedsyn._words import short
from heterofedsyn.errors import LedgerDisputed, LedgerUnavailable
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.ledger import Ledger
from heterofedsyn.site.ledger.agreement import LEDGER, LOCK, read_account
from heterofedsyn.site.ledger.anchor import place_of, write_anchor
from heterofedsyn.site.ledger.answers import ANSWERS, Kept
from heterofedsyn.site.ledger.durable import held, lock, saying, write
from heterofedsyn.site.ledger.entries import (
    Agreed,
    Answered,
    Chain,
    Charged,
    Joined,
    Listed,
    Noted,
    Unmasked,
    hash_of,
    printable,
)
from heterofedsyn.site.ledger.ledger_file import LedgerFile
from heterofedsyn.site.ledger.private import keep_private, read_private
from heterofedsyn.site.ledger.repair import repair


class Books(LedgerFile):
    """The ledger and the answers of one site, open for one agent; not for several threads at once.

    After a failed write everything is read and checked anew before anything else is done.
    """

    read = staticmethod(read_account)
    repair = staticmethod(repair)

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

    def spent_on(self, study: str) -> Budget:
        """What was charged for one study, rounded up."""
        return self.account.spent_on(study)

    def stored_on(self, study: str, *, but: str = "") -> int:
        """Bytes that one study takes on disk: entries, queries and answers, but for one of them."""
        return self._index.stored_on(study, but)

    def afford(
        self,
        study: str,
        query: str,
        label: str,
        cost: Budget,
        *,
        cap: Budget,
        study_cap: Budget,
        alone: Budget | None = None,
        alone_cap: Budget | None = None,
    ) -> None:
        """Refuse a charge that does not fit; nothing is booked.

        Args:
            alone: the price if somebody sees the answer by itself; the same unless given.
            alone_cap: the most that all such prices may come to with this one, if it hides in a
                sum. What everyone may see is held by the other caps alone.

        Raises:
            BudgetExceeded: if it would lift the table above its caps or the study above its own.
            LedgerUnavailable, LedgerDisputed: if the ledger failed before and still does.
        """
        self._ready()
        alone = max(cost, alone or cost)
        if not self._paid(query, cost, alone):
            for ledger in self._ledgers(study, cap, study_cap):
                ledger.charge(label, cost)
            if alone_cap is not None and alone > cost:
                before = self.account.booked_alone
                holder = "answers seen alone of table"
                Ledger(str(self._folder), alone_cap, (), holder, before).charge(label, alone)

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
        alone: Budget | None = None,
        alone_cap: Budget | None = None,
    ) -> None:
        """Book a query once, at both prices; on return the anchor knows the entry on disk.

        Raises:
            BudgetExceeded: if it does not fit; nothing is booked then.
            LedgerUnavailable: if it could not be written; nothing may be released then.
        """
        alone = max(cost, alone or cost)
        caps = {"cap": cap, "study_cap": study_cap}
        self.afford(study, query, label, cost, **caps, alone=alone, alone_cap=alone_cap)
        if self._paid(query, cost, alone):
            return
        entry = Charged(
            **self._chain.end(),
            study=study,
            query=query,
            label=printable(label),
            rho=cost.rho,
            integers=integers,
            alone=UNSET if alone == cost else alone.rho,
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

    def join(self, study: str, key: str) -> None:
        """Say once and for all which key was made for a study.

        Raises:
            LedgerDisputed: if another one was; so do the next three if they said otherwise.
            LedgerUnavailable: if it could not be written.
        """
        self._ready()
        entry = Joined(**self._chain.end(), rho=0.0, study=study, key=key)
        self._once(entry)

    def list_keys(self, study: str, hash: str) -> None:
        """Say once and for all which list of keys is believed in a study."""
        self._ready()
        entry = Listed(**self._chain.end(), rho=0.0, study=study, list=hash)
        self._once(entry)

    def agree(self, study: str, query: str, set_hash: str, sites: tuple[str, ...]) -> None:
        """Say once and for all which set of sites is signed for a query that was answered."""
        self._check_answered(study, query)
        place = self._chain.end()
        entry = Agreed(**place, rho=0.0, study=study, query=query, set=set_hash, sites=sites)
        self._once(entry)

    def unmask(self, study: str, query: str, outside: tuple[str, ...]) -> None:
        """Say once and for all what is opened of a query whose set was signed."""
        self._check_answered(study, query)
        if query not in self.account.agreed:
            raise LedgerDisputed(f"no set was signed for query {short(query)}; nothing is opened")
        place = self._chain.end()
        entry = Unmasked(**place, rho=0.0, study=study, query=query, outside=outside)
        self._once(entry)

    def secret(self, study: str, name: str) -> bytes | None:
        """What is kept for a study and never leaves, if it is there.

        Raises:
            LedgerUnavailable: if it cannot be read.
            LedgerDisputed: if the site locked itself.
        """
        self._check_open()
        return read_private(self._folder, study, name)

    def keep_secret(self, study: str, name: str, data: bytes) -> None:
        """Keep something for a study that never leaves; on return it is on disk.

        Raises:
            LedgerDisputed: if another is kept under this name, or the study was closed.
            LedgerUnavailable: if it could not be written.
        """
        self._ready()
        keep_private(self._folder, study, name, data)

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

    def _paid(self, query: str, cost: Budget, alone: Budget) -> bool:
        booked = self._index.charged.get(query)
        return booked is not None and booked.budget >= cost and booked.budget_alone >= alone

    def _ledgers(self, study: str, cap: Budget, study_cap: Budget) -> tuple[Ledger, Ledger]:
        account = self.account
        return (
            Ledger(str(self._folder), cap, before=account.booked),
            Ledger(short(study), study_cap, holder="study", before=account.charged_to(study)),
        )

    def _check_answered(self, study: str, query: str) -> None:
        self._ready()
        if not self._index.is_answered(study, query):
            raise LedgerDisputed(f"study {short(study)} got no answer to query {short(query)}")

    def _once(self, entry: Noted) -> None:
        """Write what is said once, unless it is said already."""
        known = self._index.noted.get(entry.about)
        if known is None:
            self._append(entry)
        elif known.said != entry.said:
            raise LedgerDisputed(
                f"what is {entry.about[0]} for study {short(entry.study)} is in the ledger in "
                f"{self._folder} already, otherwise than it is asked for now; nothing is changed"
            )
