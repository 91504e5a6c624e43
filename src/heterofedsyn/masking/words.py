"""What is hashed, signed or derived from: bytes that two different things never share."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

HASH_BYTES = 32

_PREFIX = b"heterofedsyn secure aggregation 1"


def joined(purpose: str, *fields: bytes | str) -> bytes:
    """Fields as bytes from which each can be told again, behind what they are for.

    >>> joined("list", "ab", "c") == joined("list", "a", "bc")
    False
    """
    parts = [_PREFIX, purpose.encode(), *(_bytes(field) for field in fields)]
    return b"".join(len(part).to_bytes(8, "big") + part for part in (_count(parts), *parts))


def digest(purpose: str, *fields: bytes | str) -> bytes:
    """A hash of the fields for one purpose."""
    return hashlib.sha256(joined(purpose, *fields)).digest()


def list_hash(keys: Iterable[tuple[str, bytes]]) -> bytes:
    """By which a list of sites and their keys for a study is known, whatever its order."""
    ordered = sorted((name.encode(), key) for name, key in keys)
    return digest("list", *(field for pair in ordered for field in pair))


def answer_hash(masked: bytes, seed_hash: bytes) -> bytes:
    """By which a masked answer is known."""
    return digest("answer", masked, seed_hash)


def seed_hash(seed: bytes) -> bytes:
    """By which a self seed is known before it is told."""
    return digest("self seed", seed)


def share_hash(owner: str, holder: str, share: bytes) -> bytes:
    """By which a share of a self seed is known before it is told.

    Shares are as large as the seed, so that their hashes tell nothing that can be tried out.
    """
    return digest("share", owner, holder, share)


def set_hash(members: Iterable[tuple[str, bytes]]) -> bytes:
    """By which a set of sites, each with the hash of its masked answer, is known."""
    ordered = sorted((name.encode(), answer) for name, answer in members)
    return digest("set", *(field for pair in ordered for field in pair))


def signed_key(study: str, signer: str, key: bytes) -> bytes:
    """What a site signs when it offers its key for a study."""
    return joined("sign a key", study, signer, key)


def signed_set(study: str, signer: str, query: str, listed: bytes, members: bytes) -> bytes:
    """What a site signs when it agrees to the set of a sum."""
    return joined("sign a set", study, signer, query, listed, members)


def _bytes(field: bytes | str) -> bytes:
    return field.encode() if isinstance(field, str) else field


def _count(parts: list[bytes]) -> bytes:
    return len(parts).to_bytes(8, "big")
