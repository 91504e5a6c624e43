"""The file of a ledger, open for one agent: entries are added to it, flushed, and anchored."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from heterofedsyn.errors import LedgerDisputed, LedgerUnavailable
from heterofedsyn.site.ledger.agreement import check, lock_both, open_ledger, read_all
from heterofedsyn.site.ledger.anchor import Anchor, place_of, tidy, write_anchor
from heterofedsyn.site.ledger.answers import ANSWERS
from heterofedsyn.site.ledger.durable import flush_folder, put, saying
from heterofedsyn.site.ledger.entries import Account, Chain, Entry
from heterofedsyn.site.ledger.index import Index
from heterofedsyn.site.ledger.locked import check_unlocked


class LedgerFile:
    """A ledger that only grows; not for several threads at once.

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
        self._chain = Chain()
        self._index = Index(folder / ANSWERS)
        self._sound = False

    @classmethod
    def open(cls, folder: Path, anchor: Path) -> Self:
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

    def __enter__(self) -> Self:
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
        check_unlocked(self._folder)

    def _ready(self) -> None:
        """Read and check everything anew if a write failed."""
        if self._sound:
            check_unlocked(self._folder)
        else:
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
        index = Index(self._folder / ANSWERS)
        for line, entry in zip(chain.lines, chain.entries, strict=True):
            index.take(line, entry)
        self._chain, self._index, self._sound = chain, index, True
