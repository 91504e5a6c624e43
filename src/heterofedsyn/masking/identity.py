"""Public keys of sites: by which they sign (Ed25519, in base64), and exchange secrets (X25519)."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from heterofedsyn.errors import UsageError

KEY_BYTES = 32
SIGNATURE_BYTES = 64

_FIELD = 2**255 - 19
"""X25519 keys are written as numbers below it; others would be second names of the same keys."""

_EIGHTH = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
"""Where points of order 8 lie on Edwards' curve; the others of small order need no such number."""

_SMALL_ORDER = {0, 1, _FIELD - 1, _FIELD, _FIELD + 1, _EIGHTH, _FIELD - _EIGHTH}
"""Public keys, but for their sign, under which anybody can make signatures that libraries accept:
they have no private half. 0 and 1 have two spellings."""


def is_exchange_key(key: bytes) -> bool:
    """Whether these bytes are the one spelling of an X25519 key, though perhaps of low order."""
    return len(key) == KEY_BYTES and int.from_bytes(key, "little") < _FIELD


def is_signed(data: bytes, key: str, signature: bytes) -> bool:
    """Whether the holder of a public key signed these bytes.

    Raises:
        UsageError: if it is no public key.
    """
    raw = raw_key(key)
    public = ed25519().Ed25519PublicKey
    from cryptography.exceptions import InvalidSignature

    try:
        public.from_public_bytes(raw).verify(signature, data)
    except (ValueError, InvalidSignature):
        return False
    return True


def raw_key(key: str) -> bytes:
    """The 32 bytes of a public key.

    Raises:
        UsageError: if it is none; what it is instead, perhaps a private one, is not repeated.
    """
    try:
        raw = from_base64(key)
    except ValueError:
        raw = b""
    if len(raw) != KEY_BYTES:
        raise UsageError("this is no public key: it must be 32 bytes in base64")
    if int.from_bytes(raw, "little") % 2**255 in _SMALL_ORDER:
        raise UsageError("this is no public key of anybody: everyone can sign in its name")
    return raw


def key_fingerprint(key: str) -> str:
    """What people compare of a public key on the telephone: 128 bits of its hash.

    Whoever looks for another key with the same needs 2^128 tries; two keys of one's own that agree
    need 2^64, and gain nothing: the book holds the key itself.

    Raises:
        UsageError: if it is no public key.
    """
    return hashlib.sha256(raw_key(key)).hexdigest()[:32]


def from_base64(text: str) -> bytes:
    """The bytes of a text, if it is the one text for them: decoders pass over the last bits.

    Raises:
        ValueError: if it is another.
    """
    data = base64.b64decode(text, validate=True)
    if base64.b64encode(data).decode() != text:
        raise ValueError("bits are left over")
    return data


def ed25519() -> Any:
    """The library's Ed25519.

    Raises:
        UsageError: if it is not installed.
    """
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise UsageError(
            "keys and signatures need the extra `site`: pip install 'heterofedsyn[site]'"
        ) from None
    return ed25519
