"""Answers as they left, each in a file with the query as it came."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from heterofedsyn._files import read_whole
from heterofedsyn.errors import LedgerUnavailable
from heterofedsyn.site.ledger.durable import saying

ANSWERS = "answers"
MOST_KEPT_BYTES = 2**28


@dataclass(frozen=True)
class Kept:
    """An answer as it left, and the query as it came."""

    answer: bytes
    asked: bytes

    @classmethod
    def to(cls, query: str, folder: Path) -> Kept | None:
        """What a site's folder holds for a query, if anything; also while an agent serves.

        Raises:
            LedgerUnavailable: if it is damaged or cannot be read.
        """
        return cls.load(folder / ANSWERS / query)

    @classmethod
    def load(cls, path: Path) -> Kept | None:
        """What is stored in a file, or None if there is none.

        Raises:
            LedgerUnavailable: if it is damaged or cannot be read.
        """
        with saying("read", path):
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
