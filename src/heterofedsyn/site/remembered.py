"""What a site of a sum remembers, in memory: it ends with the process."""

from __future__ import annotations

from heterofedsyn.errors import NotApproved
from heterofedsyn.privacy.ledger import Ledger
from heterofedsyn.site.answering import InMemory
from heterofedsyn.site.member import Keys


class Remembered(InMemory):
    """The memory of one site for one study."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._key: bytes | None = None
        self._keys: Keys | None = None
        self._agreed: dict[str, bytes] = {}
        self.opened: dict[str, tuple[str, ...]] = {}
        """For every query that was opened, the sites outside of its sum."""
        self.locked = ""
        """Why nothing is answered any more."""

    def kept(self, query: str) -> bytes | None:
        self._check_unlocked()
        return super().kept(query)

    def key(self) -> bytes | None:
        self._check_unlocked()
        return self._key

    def keep_key(self, private: bytes) -> bytes:
        self._key = private
        return private

    def keys(self) -> Keys | None:
        self._check_unlocked()
        return self._keys

    def keep_keys(self, keys: Keys) -> None:
        self._keys = keys

    def agreed(self, query: str) -> bytes | None:
        return self._agreed.get(query)

    def keep_agreed(self, query: str, members: bytes, sites: tuple[str, ...]) -> None:
        self._agreed[query] = members

    def keep_opened(self, query: str, outside: tuple[str, ...]) -> None:
        self.opened[query] = outside

    def lock(self, reason: str) -> None:
        self.locked = reason

    def _check_unlocked(self) -> None:
        if self.locked:
            raise NotApproved(self.locked)
