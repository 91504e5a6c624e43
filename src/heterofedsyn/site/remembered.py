"""What a site of a sum remembers of a study, and a memory that ends with the process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from heterofedsyn.errors import NotApproved
from heterofedsyn.privacy.ledger import Ledger
from heterofedsyn.privacy.terms import Terms
from heterofedsyn.site.answering import InMemory, Store

Keys = Mapping[str, bytes]
"""Every site's public key for a study."""


class Hidden(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept of a masked answer: the message, and what opens its self mask.

    Attributes:
        masked: the message as it left.
        terms: on which each part was released, by this site alone.
    """

    masked: bytes
    seed: bytes
    terms: tuple[Terms, ...]


_HIDDEN = msgspec.msgpack.Decoder(Hidden)  # made before any thread is; see protocol.codec


def read_hidden(data: bytes) -> Hidden:
    """What was kept of a masked answer."""
    return _HIDDEN.decode(data)


class Memory(Store, Protocol):
    """What a site remembers of one study; what is kept is there for good on return."""

    def key(self) -> bytes | None:
        """The private half of the study's key, if it was made and not removed since."""
        ...

    def keep_key(self, private: bytes) -> bytes:
        """Keep the study's only key; which one it is comes back.

        Raises:
            NotApproved: if there was one before that is gone.
        """
        ...

    def keys(self) -> Keys | None:
        """The only list of keys that was ever taken for the study, if one was."""
        ...

    def keep_keys(self, keys: Keys) -> None:
        """Keep the only list."""
        ...

    def agreed(self, query: str) -> bytes | None:
        """The hash of the only set ever signed for a query, if one was."""
        ...

    def keep_agreed(self, query: str, members: bytes, sites: tuple[str, ...]) -> None:
        """Keep the only set, by its hash and with its sites."""
        ...

    def keep_opened(self, query: str, outside: tuple[str, ...]) -> None:
        """Keep that a query was opened, and which sites are outside of its sum."""
        ...

    def lock(self, reason: str) -> None:
        """Answer nothing any more until the steward has looked."""
        ...


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
