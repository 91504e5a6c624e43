"""Shamir's shares of a short secret: any so many tell it, fewer tell nothing at all."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

PRIME = 2**130 - 5
"""Above every secret of 16 bytes."""

SECRET_BYTES = 16
SHARE_BYTES = 17


def split(secret: bytes, needed: int, points: Sequence[int]) -> dict[int, bytes]:
    """A share for every point; so many of them are needed to tell the secret.

    Raises:
        ValueError: if a point is 0, which is the secret itself, or given twice, or too many are
            needed.
    """
    _check(points)
    if not 1 <= needed <= len(points):
        raise ValueError(f"{needed} of {len(points)} shares")
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"a secret of {len(secret)} bytes")
    rest = [secrets.randbelow(PRIME) for _ in range(needed - 1)]
    coefficients = [int.from_bytes(secret, "big"), *rest]
    return {point: _value(coefficients, point).to_bytes(SHARE_BYTES, "big") for point in points}


def combine(shares: Mapping[int, bytes]) -> bytes | None:
    """The secret that these shares tell, or None if they tell none of 16 bytes.

    Raises:
        ValueError: if a point is 0.
    """
    _check([*shares])
    total = 0
    for point, share in shares.items():
        above, below = int.from_bytes(share, "big"), 1
        for other in shares:
            if other != point:
                above = above * other % PRIME
                below = below * (other - point) % PRIME
        total = (total + above * pow(below, -1, PRIME)) % PRIME
    return total.to_bytes(SECRET_BYTES, "big") if total < 2 ** (8 * SECRET_BYTES) else None


def _value(coefficients: Sequence[int], point: int) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * point + coefficient) % PRIME
    return value


def _check(points: Sequence[int]) -> None:
    if len(set(points)) != len(points) or any(not 0 < point < PRIME for point in points):
        raise ValueError("points must be above 0 and differ")
