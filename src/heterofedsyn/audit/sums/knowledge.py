"""What hub and colluding sites can compute from all that they heard: by linear algebra.

It may be one sum over at least q - t honest sites for each query, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

import msgspec

from heterofedsyn.audit.findings import require
from heterofedsyn.audit.sums.algebra import implied
from heterofedsyn.audit.sums.members import Cast, MaskWord, Unknown
from heterofedsyn.masking import sealing, shamir, streams, words
from heterofedsyn.protocol.aggregation import Masked, Opened, bound_to


class Judge:
    """Says what follows from what was heard, for all that follows on one moment."""

    def __init__(self, begun: Cast) -> None:
        """Begin with what colluding sites know by themselves."""
        self._pairs = frozenset(_pair_seeds(begun))
        self._judged: dict[frozenset[int], int] = {}

    def check(self, cast: Cast, what: str) -> int:
        """How many sums can be computed from all that was said.

        Raises:
            Broken: if anything else can be.
        """
        heard = frozenset(cast.heard)
        if heard not in self._judged:
            known = self._pairs | _known_seeds(cast)
            self._judged[heard] = _check_nothing_but_sums(cast, known, what)
        return self._judged[heard]


def _check_nothing_but_sums(cast: Cast, known: frozenset[bytes], what: str) -> int:
    equations = [
        {
            unknown: sign
            for unknown, sign in equation.items()
            if not (isinstance(unknown, MaskWord) and unknown.seed in known)
        }
        for answer in cast.equations.values()
        for equation in answer
    ]
    hiding = [u for equation in equations for u in equation if isinstance(u, MaskWord)]
    sums = implied(equations, hiding)
    taken: set[Unknown] = set()
    for told in sums:
        unknowns = [u for u in told if isinstance(u, Unknown)]
        sites = {unknown.site for unknown in unknowns}
        places = {(unknown.query, unknown.place) for unknown in unknowns}
        require(
            {*told.values()} == {1} and len(places) == 1 and len(sites) == len(unknowns),
            f"{what}: answers can be told apart: {_shown(told)} is known",
        )
        require(
            len(sites) >= cast.trust.honest,
            f"{what}: a sum over {len(sites)} honest sites is known, fewer than "
            f"{cast.trust.honest}: {_shown(told)}",
        )
        require(not taken & {*unknowns}, f"{what}: two sums over the same answers are known")
        taken |= {*unknowns}
    many = len({(u.query, u.place) for told in sums for u in told if isinstance(u, Unknown)})
    require(many == len(sums), f"{what}: two sums of one query are known")
    return len(sums)


def _shown(told: Mapping[Any, int]) -> str:
    return " ".join(
        f"{'+' if sign > 0 else '-'}{'' if abs(sign) == 1 else abs(sign)}{unknown.site}"
        f"[{unknown.query[:4]}.{unknown.place}]"
        for unknown, sign in told.items()
    )


def _known_seeds(cast: Cast) -> frozenset[bytes]:
    """The seeds of all streams that can be drawn from what was said."""
    said = [*cast.heard.values()]
    known = {data for each in said for data in _bytes_in(msgspec.structs.asdict(each))}
    opened = [each for each in said if isinstance(each, Opened)]
    known |= {streams.self_mask_seed(each.seed) for each in opened}
    for masked in cast.answers.values():
        for seed in _self_seeds(cast, masked, opened):
            known |= {seed, streams.self_mask_seed(seed)}
    return frozenset(known)


def _pair_seeds(cast: Cast) -> Iterator[bytes]:
    """Seeds of masks that a colluding site shares with an honest one."""
    for which, number in product((0, 1), (0, 1)):
        listed = words.list_hash((offer.site, offer.key) for offer in cast.listed(which))
        where = (cast.plan.fingerprint, cast.query(number).fingerprint, listed)
        for friend in cast.colluders.values():
            for name, key in product(cast.honest, friend.keys):
                pair = sealing.Pair(
                    key, cast.offers[name].key, own=friend.name, other=name, where=where
                )
                yield pair.mask_seed()


def _self_seeds(cast: Cast, masked: Masked, opened: Sequence[Opened]) -> Iterator[bytes]:
    """The self seed of an answer, if the shares that are known tell it, at whatever points."""
    names = sorted(cast.plan.sites, key=str.encode)
    shares = {**dict(_shares(cast, masked)), **dict(_told(masked, opened))}
    for first, many in product((0, 1), range(1, len(shares) + 1)):
        points = {name: first + i for i, name in enumerate(names)}
        for chosen in combinations(sorted(shares), many):
            told = {points[name]: int.from_bytes(shares[name], "big") for name in chosen}
            seed = _at_zero(told).to_bytes(shamir.SHARE_BYTES, "big")[-shamir.SECRET_BYTES :]
            if words.seed_hash(seed) == masked.seed_hash:
                yield seed
                return


def _at_zero(told: Mapping[int, int]) -> int:
    """The value at 0 of the polynomial of least degree with these values."""
    if 0 in told:
        return told[0]
    total = 0
    for point, value in told.items():
        term = value
        for other in told:
            if other != point:
                term = term * other * pow(other - point, -1, shamir.PRIME) % shamir.PRIME
        total += term
    return total % shamir.PRIME


def _told(masked: Masked, opened: Sequence[Opened]) -> Iterator[tuple[str, bytes]]:
    """Shares of an answer's self seed that were told, by holder."""
    for said in opened:
        for told in said.shares:
            if (said.query, told.site) == (masked.query, masked.site):
                yield said.site, told.data


def _shares(cast: Cast, masked: Masked) -> Iterator[tuple[str, bytes]]:
    """Shares of an answer's self seed that colluding sites hold, by holder."""
    for which in (0, 1):
        listed = words.list_hash((offer.site, offer.key) for offer in cast.listed(which))
        where = (masked.study, masked.query, listed)
        for share in masked.shares:
            friend = cast.colluders.get(share.receiver)
            if friend is not None:
                key = cast.offers[masked.site].key
                pair = sealing.Pair(
                    friend.keys[which], key, own=friend.name, other=masked.site, where=where
                )
                bound = bound_to(masked.study, masked.query, masked.site, friend.name, masked.hash)
                share_of = pair.unseal(share.data, bound)
                if share_of is not None:
                    yield friend.name, share_of


def _bytes_in(value: Any) -> Iterable[bytes]:
    """Every short string of bytes in a message: who keeps a secret must not say it elsewhere."""
    if isinstance(value, bytes):
        return [value] if len(value) == streams.SEED_BYTES else []
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    if isinstance(value, Mapping):
        value = [*value.values()]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [data for each in value for data in _bytes_in(each)]
    return []
