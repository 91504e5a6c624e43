"""One study's place in the books: what it may take, and what must be remembered of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from heterofedsyn.errors import BudgetExceeded, LedgerUnavailable, NotApproved
from heterofedsyn.masking.sealing import public_of
from heterofedsyn.masking.words import list_hash
from heterofedsyn.site.answering import Price
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.ledger.locked import lock
from heterofedsyn.site.remembered import Keys
from heterofedsyn.site.settings import Limits

MOST_QUERIES = 4096
"""The most queries of one study, so that a hub that pays next to nothing cannot go on for ever."""

MOST_STUDY_INTEGERS = 2**27
"""The most integers released to one study: an hour of drawing noise. Their queries are kept with
them, so what they take on disk has a limit of its own, in bytes (`SiteSettings.study_bytes`)."""

_KEY, _LIST = "key", "list"
"""What is kept of a study under secure aggregation, by its names in the books."""

_KEYS = msgspec.msgpack.Decoder(dict[str, bytes])  # made before any thread is; see protocol.codec


@dataclass(frozen=True)
class Shelf:
    """One study's place in the books, under both caps and within what an agent can store."""

    books: Books
    folder: Path
    study: str
    unit: str
    limits: Limits

    def kept(self, query: str) -> bytes | None:
        return self.books.kept(query)

    def afford(self, price: Price) -> None:
        limits = self.limits
        if price.least < limits.least:
            raise BudgetExceeded(
                f"a part of query {price.label!r} costs rho={price.least.rho:.3g}, less than the "
                f"least that this site takes for one, {limits.least.rho:.3g}; ask with a larger "
                "share"
            )
        self.books.afford(
            self.study,
            price.query,
            price.label,
            price.cost,
            cap=limits.cap,
            study_cap=limits.study_cap,
            alone=price.alone,
            alone_cap=limits.alone_cap,
        )
        own = [
            charged
            for charged in self.books.account.charges
            if charged.study == self.study and charged.query != price.query
        ]
        integers = sum(charged.integers for charged in own) + price.integers
        if len(own) >= MOST_QUERIES or integers > MOST_STUDY_INTEGERS:
            raise BudgetExceeded(
                f"query {price.label!r} would be number {len(own) + 1:,} of its study, with "
                f"{integers:,} integers in all; a study gets at most {MOST_QUERIES:,} answers "
                f"and {MOST_STUDY_INTEGERS:,} integers"
            )
        stored = self.books.stored_on(self.study, but=price.query) + price.bytes
        if stored > limits.study_bytes:
            raise BudgetExceeded(
                f"with query {price.label!r} up to {stored:,} bytes would be stored for its study, "
                f"more than {limits.study_bytes:,}; ask for fewer pairs or larger groups"
            )

    def charge(self, price: Price) -> None:
        self.books.settle(self.unit)
        self.books.charge(
            self.study,
            price.query,
            price.label,
            price.cost,
            cap=self.limits.cap,
            study_cap=self.limits.study_cap,
            integers=price.integers,
            alone=price.alone,
            alone_cap=self.limits.alone_cap,
        )

    def keep(self, query: str, answer: bytes, asked: bytes) -> None:
        self.books.keep(query, answer, asked)

    def key(self) -> bytes | None:
        joined = self.books.account.joined.get(self.study)
        if joined is None:
            return None
        private = self.books.secret(self.study, _KEY)
        if private is None or public_of(private).hex() != joined:
            raise NotApproved(
                "the key that was made for this study is gone from this site, and no other is made"
            )
        return private

    def keep_key(self, private: bytes) -> bytes:
        # One that is there was made by an agent that was killed before anybody heard of it.
        known = self.books.secret(self.study, _KEY)
        if known is None:
            self.books.keep_secret(self.study, _KEY, private)
            known = private
        self.books.join(self.study, public_of(known).hex())
        return known

    def keys(self) -> Keys | None:
        listed = self.books.account.listed.get(self.study)
        if listed is None:
            return None
        data = self.books.secret(self.study, _LIST)
        keys = {} if data is None else _KEYS.decode(data)
        if list_hash(keys.items()).hex() != listed:
            raise LedgerUnavailable(
                "the list of keys of this study is gone or damaged; restore it from a copy"
            )
        return keys

    def keep_keys(self, keys: Keys) -> None:
        data = msgspec.msgpack.encode(dict(sorted(keys.items())))
        self.books.keep_secret(self.study, _LIST, data)
        self.books.list_keys(self.study, list_hash(keys.items()).hex())

    def agreed(self, query: str) -> bytes | None:
        agreed = self.books.account.agreed.get(query)
        return None if agreed is None else bytes.fromhex(agreed.set)

    def keep_agreed(self, query: str, members: bytes, sites: tuple[str, ...]) -> None:
        self.books.agree(self.study, query, members.hex(), sites)

    def keep_opened(self, query: str, outside: tuple[str, ...]) -> None:
        self.books.unmask(self.study, query, outside)

    def lock(self, reason: str) -> None:
        lock(self.folder, reason)
