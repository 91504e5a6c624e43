"""A hub that tells every site anything, with sites in league: what can it compute?

For every way to choose which set each honest site signs first, the hub then asks every site for
everything else as well: other sets, sets of strangers, openings with too few, repeated or borrowed
signatures, before and after, in both queries. What is refused changes nothing, so this covers every
order. From all replies, and all that colluding sites know, linear algebra tells what can be
computed: it may be one sum over at least q - t honest sites for each query, and nothing else.
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
from heterofedsyn.protocol.aggregation import (
    AskOpened,
    AskVote,
    Masked,
    Member,
    Opened,
    Told,
    Vote,
    bound_to,
)

_STRANGER = "stranger"
_MADE_UP = bytes(32)
"""The hash of an answer that a colluding site says it gave."""


def strategies(cast: Cast, least: int) -> Iterator[dict[str, frozenset[str]]]:
    """For every honest site a set with it in it, of at least so many sites."""
    names = cast.plan.sites
    sets = [
        frozenset(chosen)
        for many in range(max(1, least), len(names) + 1)
        for chosen in combinations(names, many)
    ]
    own = [[chosen for chosen in sets if name in chosen] for name in cast.honest]
    for choice in product(*own):
        yield dict(zip(cast.honest, choice, strict=True))


def answered(cast: Cast, lists: Mapping[str, int] | None = None) -> Cast:
    """Two queries that every honest site has answered, under one or another list of keys.

    Before and after, each site is offered the other list, and both queries again.
    """
    lists = lists or {}
    for name in cast.honest:
        which = lists.get(name, 0)
        for key_list in (which, 1 - which):
            for number in (0, 1, 0, 1):
                cast.mask(name, cast.query(number), cast.listed(key_list))
    return cast


def lie(cast: Cast, first: Mapping[str, frozenset[str]]) -> None:
    """Everything a hub can ask for, beginning with these sets for the second query."""
    one, two = (cast.query(number).fingerprint for number in (0, 1))
    everyone = frozenset(cast.plan.sites)
    hub = _Hub(cast)
    hub.open_all(two, everyone)  # before anybody agreed
    for name in cast.honest:
        hub.vote(name, one, everyone)
        hub.vote(name, two, first[name])
    for many in range(1, len(everyone) + 1):
        for chosen in map(frozenset, combinations(sorted(everyone), many)):
            for name in cast.honest:
                hub.vote(name, two, chosen)
                hub.vote(name, one, chosen)
            for query in (one, two):
                hub.open_all(query, chosen)
    for name in cast.honest:
        for number in (0, 1):
            cast.mask(name, cast.query(number))


def check_nothing_but_sums(cast: Cast, what: str) -> int:
    """How many sums can be computed from all that was said.

    Raises:
        Broken: if anything else can be.
    """
    known = _known_seeds(cast)
    equations = [
        {
            unknown: sign
            for unknown, sign in equation.items()
            if not (isinstance(unknown, MaskWord) and unknown.seed in known)
        }
        for equation in cast.equations
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
        f"[{unknown.answer}.{unknown.place}]"
        for unknown, sign in told.items()
    )


class _Hub:
    """Asks for anything, with whatever it was given before."""

    def __init__(self, cast: Cast) -> None:
        self._cast = cast
        self._study = cast.plan.fingerprint
        self._listed = words.list_hash((o.site, o.key) for o in cast.listed())
        self._masked = {
            (said.site, said.query): said for said in cast.said if isinstance(said, Masked)
        }
        self._votes: dict[tuple[str, tuple[Member, ...]], dict[str, Vote]] = {}

    def vote(self, name: str, query: str, chosen: frozenset[str]) -> None:
        """Ask an honest site to sign a set, and several that are like it."""
        members = self._members(query, chosen)
        for asked in (members, *self._spoilt(members, name)):
            said = self._cast.ask(name, AskVote(study=self._study, query=query, members=asked))
            for vote in said:
                if isinstance(vote, Vote):
                    self._votes.setdefault((query, asked), {})[name] = vote

    def open_all(self, query: str, chosen: frozenset[str]) -> None:
        """Ask every honest site, also those outside of it, to open a set."""
        members = self._members(query, chosen)
        shares = [s for s in self._masked.values() if s.query == query and s.site in chosen]
        for votes in self._ballots(query, members):
            for name in self._cast.honest:
                own = tuple(
                    Told(masked.site, share.data)
                    for masked in shares
                    for share in masked.shares
                    if share.receiver == name and masked.site != name
                )
                self._cast.ask(
                    name,
                    AskOpened(
                        study=self._study, query=query, members=members, votes=votes, shares=own
                    ),
                )

    def _members(self, query: str, chosen: frozenset[str]) -> tuple[Member, ...]:
        def answer(name: str) -> bytes:
            masked = self._masked.get((name, query))
            return _MADE_UP if masked is None else masked.hash

        return tuple(Member(name, answer(name)) for name in sorted(chosen))

    def _spoilt(self, members: tuple[Member, ...], own: str) -> Iterator[tuple[Member, ...]]:
        """Sets that no site may sign."""
        yield *members, Member(_STRANGER, _MADE_UP)
        friends = [Member(name, _MADE_UP) for name in self._cast.colluders]
        while len(members) + len(friends) < len(self._cast.plan.sites):
            friends *= 2
        yield *(m for m in members if m.site not in self._cast.colluders), *friends, friends[0]
        yield tuple(Member(m.site, _MADE_UP if m.site == own else m.answer) for m in members)

    def _ballots(self, query: str, members: tuple[Member, ...]) -> Iterator[tuple[Vote, ...]]:
        """Signatures under a set: all there are, some of them twice, and those of others."""
        within = {member.site for member in members}
        honest = [*self._votes.get((query, members), {}).values()]
        friends = [self._signed(name, query, members) for name in self._cast.colluders]
        inside = [vote for vote in friends if vote.site in within]
        yield *honest, *inside
        yield *honest, *friends
        needed = self._cast.trust.signatures
        yield tuple(([*honest, *inside] * needed)[: max(needed, len(honest) + len(inside))])
        others = [
            vote
            for (other, _), votes in self._votes.items()
            for vote in votes.values()
            if other == query and vote not in honest
        ]
        if others:
            names = {vote.site for vote in (*honest, *inside)}
            borrowed = {vote.site: vote for vote in others if vote.site not in names}
            yield *honest, *inside, *borrowed.values()

    def _signed(self, name: str, query: str, members: tuple[Member, ...]) -> Vote:
        vote = Vote(study=self._study, query=query, site=name, signature=b"")
        signature = self._cast.colluders[name].identity.sign(vote.signed(self._listed, members))
        return msgspec.structs.replace(vote, signature=signature)


# WHAT IS KNOWN


def _known_seeds(cast: Cast) -> frozenset[bytes]:
    """The seeds of all streams that hub and colluding sites can draw."""
    known = {data for said in cast.said for data in _bytes_in(msgspec.structs.asdict(said))}
    known |= {*_pair_seeds(cast)}
    for masked in cast.said:
        if isinstance(masked, Masked):
            for seed in _self_seeds(cast, masked):
                known |= {seed, streams.self_mask_seed(seed)}
    known |= {streams.self_mask_seed(said.seed) for said in cast.said if isinstance(said, Opened)}
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


def _self_seeds(cast: Cast, masked: Masked) -> Iterator[bytes]:
    """The self seed of an answer, if the shares that are known tell it."""
    points = {name: i for i, name in enumerate(sorted(cast.plan.sites, key=str.encode), start=1)}
    shares = dict(_shares(cast, masked))
    for many in range(1, len(shares) + 1):
        for chosen in combinations(sorted(shares), many):
            told = {points[name]: shares[name] for name in chosen}
            for seed in (shamir.combine(told), shares[chosen[0]][-shamir.SECRET_BYTES :]):
                if seed is not None and words.seed_hash(seed) == masked.seed_hash:
                    yield seed
                    return


def _shares(cast: Cast, masked: Masked) -> Iterator[tuple[str, bytes]]:
    """Shares of an answer's self seed that were told or that colluding sites hold, by holder."""
    for said in cast.said:
        if isinstance(said, Opened) and said.query == masked.query:
            for told in said.shares:
                if told.site == masked.site:
                    yield said.site, told.data
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
                opened = pair.unseal(share.data, bound)
                if opened is not None:
                    yield friend.name, opened


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
