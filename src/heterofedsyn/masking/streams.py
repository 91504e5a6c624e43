"""Streams of integers from short seeds: masks, added and taken away modulo 2^64."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from heterofedsyn.masking.words import joined

Words = NDArray[np.uint64]
"""Integers modulo 2^64."""

SEED_BYTES = 32


def stream(seed: bytes, many: int) -> Words:
    """So many integers of a seed's one stream; nothing else is ever drawn from that seed.

    The nonce is fixed because no seed serves twice.
    """
    if len(seed) != SEED_BYTES:
        raise ValueError(f"a seed of {len(seed)} bytes")
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    # The 16 bytes are a block counter of 4 and a nonce of 12; 2^23 integers are 2^20 blocks.
    encryptor = Cipher(ChaCha20(seed, bytes(16)), mode=None).encryptor()
    return np.frombuffer(encryptor.update(bytes(8 * many)), dtype="<u8")


def self_mask_seed(seed: bytes) -> bytes:
    """The seed of the stream that hides an answer from everybody until its owner's seed is told."""
    return derive(seed, b"", joined("self mask"))


def derive(secret: bytes, salt: bytes, info: bytes) -> bytes:
    """32 bytes for one purpose."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=SEED_BYTES, salt=salt, info=info).derive(secret)


def add_streams(values: Words, plus: Iterable[bytes], minus: Iterable[bytes]) -> Words:
    """The integers with the streams of some seeds added and those of others taken away."""
    total = values.copy()
    for seed in plus:
        total += stream(seed, values.size)
    for seed in minus:
        total -= stream(seed, values.size)
    return total


def sign_of(own: str, other: str) -> int:
    """Whether a site adds the mask that it shares with another, or takes it away."""
    return 1 if own.encode() < other.encode() else -1
