"""What masks rest on: fresh randomness, shares that tell nothing, keys with one purpose each."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from heterofedsyn.audit.findings import Check, require
from heterofedsyn.audit.patches import patched
from heterofedsyn.audit.sums.lies import answered
from heterofedsyn.audit.sums.members import Cast
from heterofedsyn.masking import sealing, shamir, streams, words
from heterofedsyn.privacy.ledger import Ledger
from heterofedsyn.privacy.trust import SecureAggregation
from heterofedsyn.site.remembered import Remembered, read_hidden

_LONG = 2**18
"""Integers of an answer that is longer than any that the other checks make."""


def checks() -> Iterator[Check]:
    """Each looks at one thing that the model of lying hubs takes for granted."""
    yield "self seeds are the operating system's", self_seeds
    yield "too few shares tell nothing", too_few_shares
    yield "no key serves two purposes", one_purpose
    yield "long answers are masked to their end", long_answers
    yield "sets name answers", sets
    yield "keys of studies are made anew", fresh_keys


def self_seeds() -> str:
    """Each is sixteen bytes that nothing but the operating system could have told."""
    drawn: list[bytes] = []
    true = secrets.token_bytes

    def token_bytes(many: int | None = None) -> bytes:
        drawn.append(true(many))
        return drawn[-1]

    with patched(secrets, token_bytes=token_bytes):
        cast = answered(Cast.of(SecureAggregation(3), 1))
    seeds = [
        read_hidden(site.memory(cast.states[name]).kept(cast.query(number).fingerprint) or b"").seed
        for name, site in cast.honest.items()
        for number in (0, 1)
    ]
    require(all(seed in drawn for seed in seeds), "a self seed is not the operating system's")
    require(all(len(seed) == shamir.SECRET_BYTES for seed in seeds), "a self seed is short")
    require(len({*seeds}) == len(seeds), "a self seed came twice")
    return f"{len(seeds)} seeds"


def too_few_shares() -> str:
    """Shares are points of a polynomial whose coefficients are all drawn by themselves."""
    looked = 0
    for needed in (2, 3, 5):
        seen: set[int] = set()
        for _ in range(4):
            secret = secrets.token_bytes(shamir.SECRET_BYTES)
            shares = shamir.split(secret, needed, range(1, needed + 3))
            told = _coefficients({p: int.from_bytes(s, "big") for p, s in shares.items()}, needed)
            require(told[0] == int.from_bytes(secret, "big"), "shares are of another secret")
            rest = {*told[1:]}
            require(
                len(rest) == needed - 1 and not rest & seen and min(rest) > 2**64,
                "the coefficients of shares are not drawn by themselves",
            )
            seen |= rest
            looked += 1
            for few in combinations(shares, needed - 1):
                found = shamir.combine({point: shares[point] for point in few})
                require(found != secret, f"{needed - 1} of {needed} shares tell a self seed")
    return f"{looked} seeds"


def _coefficients(points: dict[int, int], many: int) -> list[int]:
    """Of the polynomial of so many coefficients through the first so many points."""
    prime = shamir.PRIME
    chosen = [*points.items()][:many]
    total = [0] * many
    for x, y in chosen:
        basis, below = [1], 1
        for other, _ in chosen:
            if other != x:
                shifted = [0, *basis]
                basis = [
                    (high - other * low) % prime
                    for high, low in zip(shifted, [*basis, 0], strict=True)
                ]
                below = below * (x - other) % prime
        scale = y * pow(below, -1, prime)
        total = [(have + scale * more) % prime for have, more in zip(total, basis, strict=True)]
    return total


def one_purpose() -> str:
    """Seeds of masks, which may be told, open no seal and are no other seed."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    one, other = sealing.make_key(), sealing.make_key()
    where = ("study", "query", bytes(32))
    ends = {
        "a": sealing.Pair(one, sealing.public_of(other), own="a", other="b", where=where),
        "b": sealing.Pair(other, sealing.public_of(one), own="b", other="a", where=where),
    }
    seed = secrets.token_bytes(shamir.SECRET_BYTES)
    told = {pair.mask_seed() for pair in ends.values()}
    told |= {streams.self_mask_seed(seed), words.seed_hash(seed)}
    require(len(told) == 3, "what may be told of a mask is also something else")
    for pair in ends.values():
        sealed = pair.seal(seed, b"bound")
        for key in told:
            try:
                ChaCha20Poly1305(key).decrypt(sealed[:12], sealed[12:], b"bound")
            except InvalidTag:
                continue
            require(False, "what takes a mask off opens a sealed share too")
    return "2 ends of a pair"


def long_answers() -> str:
    """No word of a long answer is left as it is, and none is masked as another."""
    masked = streams.add_streams(np.zeros(_LONG, np.uint64), [secrets.token_bytes(32)], [])
    require(np.unique(masked).size == _LONG, "a long stream repeats itself or ends")
    both = streams.add_streams(masked, [], [secrets.token_bytes(32)])
    require(np.unique(both - masked).size == _LONG, "a long stream repeats itself or ends")
    return f"{_LONG:,} integers"


def sets() -> str:
    """Two sets of the same sites with other answers are two sets."""
    members = [("a", bytes(32)), ("b", bytes(31) + b"1")]
    swapped = [("a", members[1][1]), ("b", members[0][1])]
    require(words.set_hash(members) != words.set_hash(swapped), "sets do not name answers")
    require(
        words.answer_hash(b"1", b"2") != words.answer_hash(b"1", b"3"), "answers name no self seed"
    )
    return "2 answers swapped"


def fresh_keys() -> str:
    """A site offers another key in every study, and none that follows from what it has."""
    casts = [Cast.of(SecureAggregation(3), 1) for _ in range(2)]
    keys = [offer.key for cast in casts for offer in cast.offers.values()]
    require(len({*keys}) == len(keys), "two keys of studies are the same")
    (first, *_) = casts
    for name, site in first.honest.items():
        memory = Remembered(Ledger(name, first.plan.budget))
        again = site.member(memory).offer().key
        require(again != first.offers[name].key, "a key that is gone is made again as it was")
    return f"{len(keys)} keys"
