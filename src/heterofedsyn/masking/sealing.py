"""What two sites share and nobody else: seeds of masks, and messages sealed for one another."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from heterofedsyn.masking.streams import derive
from heterofedsyn.masking.words import joined

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

_NONCE_BYTES = 12


def make_key() -> bytes:
    """A private X25519 key."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.generate().private_bytes_raw()


def public_of(private: bytes) -> bytes:
    """The public half of a key."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


class Pair:
    """What one site shares with another for one query of a study.

    Attributes:
        own: the name of the site whose private key this was made with.
        other: that of the other.
    """

    def __init__(
        self, private: bytes, public: bytes, *, own: str, other: str, where: tuple[str, str, bytes]
    ) -> None:
        """Exchange keys.

        Args:
            where: study, query and hash of the list of keys, by which everything here is bound.

        Raises:
            ValueError: if the other's key is no key: low orders give a secret that all know.
        """
        from cryptography.hazmat.primitives.asymmetric.x25519 import (
            X25519PrivateKey,
            X25519PublicKey,
        )

        key = X25519PrivateKey.from_private_bytes(private)
        self._secret = key.exchange(X25519PublicKey.from_public_bytes(public))
        self._study, self._query, self._listed = where
        self.own, self.other = own, other

    def mask_seed(self) -> bytes:
        """The seed of the mask that one of the two adds and the other takes away."""
        first, second = sorted((self.own, self.other), key=str.encode)
        return self._derive("pair mask", first, second)

    def seal(self, message: bytes, bound: bytes) -> bytes:
        """A message for the other; `bound` must be the same when it is opened."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._cipher(self.own, self.other).encrypt(nonce, message, bound)

    def unseal(self, sealed: bytes, bound: bytes) -> bytes | None:
        """A message of the other, or None if it is not one, or is bound to something else."""
        from cryptography.exceptions import InvalidTag

        nonce, rest = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        try:
            return self._cipher(self.other, self.own).decrypt(nonce, rest, bound)
        except (InvalidTag, ValueError):
            return None

    def _cipher(self, sender: str, receiver: str) -> ChaCha20Poly1305:
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        return ChaCha20Poly1305(self._derive("seal", sender, receiver))

    def _derive(self, purpose: str, one: str, other: str) -> bytes:
        info = joined(purpose, self._query, self._listed, one, other)
        return derive(self._secret, self._study.encode(), info)
