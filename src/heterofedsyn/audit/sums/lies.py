"""A hub that tells every site anything, with sites in league.

For every way to choose which set each honest site signs first, the hub then asks every site for
everything else as well: other sets, sets of strangers, openings with too few, repeated or borrowed
signatures, before and after, in both queries. What is refused changes nothing (it is looked at), so
this covers every order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import msgspec

from heterofedsyn.audit.findings import require
from heterofedsyn.audit.sums.members import Cast
from heterofedsyn.masking import words
from heterofedsyn.protocol import encode
from heterofedsyn.protocol.aggregation import (
    AskMasked,
    AskOpened,
    AskVote,
    Member,
    Told,
    Vote,
    hash_of,
)
from heterofedsyn.protocol.codec import Said

_STRANGER = "stranger"
_MADE_UP = bytes(32)
"""The hash of an answer that a colluding site says it gave."""

Members = tuple[Member, ...]
Ballot = Mapping[str, Vote]
"""Signatures of honest sites under one set."""

Ballots = dict[tuple[str, Members], dict[str, Vote]]
"""Those under every set of every query."""


@dataclass(frozen=True, eq=False)
class Request:
    """Something that a site is asked for.

    Attributes:
        members: the set that it is about, if it is about one.
        signed: whether enough members signed that set, and nobody else.
    """

    asked: bytes
    members: Members = ()
    signed: bool = False


def strategies(cast: Cast, least: int) -> Iterator[dict[str, frozenset[str]]]:
    """For every honest site a set with it in it, of at least so many sites."""
    sets = [
        frozenset(chosen)
        for many in range(max(1, least), len(cast.plan.sites) + 1)
        for chosen in combinations(cast.plan.sites, many)
    ]
    own = [[chosen for chosen in sets if name in chosen] for name in cast.honest]
    for choice in product(*own):
        yield dict(zip(cast.honest, choice, strict=True))


def answered(cast: Cast, lists: Mapping[str, int] | None = None) -> Cast:
    """Two queries that every honest site has answered, under one or another list of keys.

    Each site is then offered the other list, and asked both queries again.

    Raises:
        Broken: if a site takes a second list.
    """
    lists = lists or {}
    for name in cast.honest:
        which = lists.get(name, 0)
        for number in (0, 1, 0, 1):
            cast.mask(name, cast.query(number), cast.listed(which))
        for number in (0, 1, 2):
            said = cast.mask(name, cast.query(number), cast.listed(1 - which))
            require(said is None, f"{name} took a second list of keys")
        for number in (0, 1):
            cast.mask(name, cast.query(number), cast.listed(which))
    return cast


class Hub:
    """Asks for anything, with whatever it was given before, from one moment on."""

    def __init__(self, begun: Cast) -> None:
        """Begin when every honest site has answered both queries."""
        self._study = begun.plan.fingerprint
        self._trust = begun.trust
        self._honest = [*begun.honest]
        self._friends = begun.colluders
        self._listed = words.list_hash((offer.site, offer.key) for offer in begun.listed())
        self._answers = begun.answers
        self.queries = tuple(begun.query(number).fingerprint for number in (0, 1))
        self.everyone = frozenset(begun.plan.sites)
        self._sets = [
            frozenset(chosen)
            for many in range(1, len(self.everyone) + 1)
            for chosen in combinations(sorted(self.everyone), many)
        ]
        self._every = tuple(product(self.queries, self._sets))
        self._members = {each: self._named(*each) for each in self._every}
        self._masks = [
            Request(
                encode(AskMasked(study=self._study, query=begun.query(number), keys=begun.listed()))
            )
            for number in (0, 1)
        ]
        self._votes_asked = {
            (name, query, chosen): [*self._ask_votes(name, query, chosen)]
            for name in self._honest
            for query in self.queries
            for chosen in self._sets
        }
        self._opens_asked: dict[object, dict[str, list[Request]]] = {}
        self._batches: dict[object, tuple[int, list[tuple[Request, Said]]]] = {}
        self._open_all(begun, {})  # before anybody agreed

    def lie(self, cast: Cast, first: Mapping[str, frozenset[str]]) -> None:
        """Everything that can be asked for, beginning with these sets for the second query."""
        one, two = self.queries
        ballots: Ballots = {}
        for name in self._honest:
            self._vote(cast, ballots, name, [(one, self.everyone), (two, first[name])])
        before: dict[str, int] = {}
        while before != cast.states:  # what was opened may change what is refused
            before = dict(cast.states)
            for name in self._honest:
                self._vote(cast, ballots, name, self._every)
            self._open_all(cast, ballots)
            for name in self._honest:
                self._batch(cast, name, "masks", self._masks)

    def _vote(
        self, cast: Cast, ballots: Ballots, name: str, sets: Sequence[tuple[str, frozenset[str]]]
    ) -> None:
        asked = (each for chosen in sets for each in self._votes_asked[name, *chosen])
        for request, vote in self._batch(cast, name, tuple(sets), asked):
            if isinstance(vote, Vote):
                ballots.setdefault((vote.query, request.members), {})[name] = vote
                signed = [query for (query, _), votes in ballots.items() if name in votes]
                if signed.count(vote.query) > 1:
                    cast.broken.add(f"{name} signed two sets for one query")

    def _open_all(self, cast: Cast, ballots: Ballots) -> None:
        """Ask every honest site, also those outside of it, to open each set."""
        for query, chosen in self._every:
            members = self._members[query, chosen]
            signed = ballots.get((query, members), {})
            key = query, chosen, frozenset(signed)
            if key not in self._opens_asked:
                others = {
                    name: vote
                    for (other, named), votes in ballots.items()
                    for name, vote in votes.items()
                    if other == query and named != members
                }
                self._opens_asked[key] = {
                    name: [*self._ask_opens(name, query, members, signed, others)]
                    for name in self._honest
                }
            for name, asked in self._opens_asked[key].items():
                for request, _ in self._batch(cast, name, key, asked):
                    if name not in ballots.get((query, request.members), {}):
                        cast.broken.add(f"{name} opened a set that it had not signed")
                    if not request.signed:
                        cast.broken.add(f"{name} opened a set that was not signed as it must be")

    def _batch(
        self, cast: Cast, name: str, key: object, asked: Iterable[Request]
    ) -> list[tuple[Request, Said]]:
        """What a site says to several requests, one after the other; refusals are left out."""
        place = name, cast.states[name], key
        if place in self._batches:
            cast.states[name], replies = self._batches[place]
            cast.heard.update((id(said), said) for _, said in replies)
            return replies
        heard = ((each, cast.ask(name, each.asked)) for each in asked)
        replies = [(each, said) for each, said in heard if said is not None]
        self._batches[place] = cast.states[name], replies
        return replies

    def _named(self, query: str, chosen: frozenset[str]) -> Members:
        def answer(name: str) -> bytes:
            masked = self._answers.get((name, query))
            return _MADE_UP if masked is None else masked.hash

        return tuple(Member(name, answer(name)) for name in sorted(chosen))

    def _ask_votes(self, name: str, query: str, chosen: frozenset[str]) -> Iterator[Request]:
        """To sign a set, and several that are like it."""
        members = self._members[query, chosen]
        for each in (members, *self._spoilt(members, name)):
            yield Request(encode(AskVote(study=self._study, query=query, members=each)), each)

    def _spoilt(self, members: Members, own: str) -> Iterator[Members]:
        """Sets that no site may sign."""
        yield *members, Member(_STRANGER, _MADE_UP)
        friends = [Member(name, _MADE_UP) for name in self._friends]
        while len(members) + len(friends) < len(self.everyone):
            friends *= 2
        yield *(m for m in members if m.site not in self._friends), *friends, friends[0]
        yield tuple(Member(m.site, _MADE_UP if m.site == own else m.answer) for m in members)

    def _ask_opens(
        self, name: str, query: str, members: Members, signed: Ballot, others: Ballot
    ) -> Iterator[Request]:
        """To open a set, and several that are like it, with all kinds of signatures."""
        for named in (members, *self._alike(members)):
            within = {member.site for member in named}
            shares = tuple(
                Told(site, share.data)
                for (site, asked), masked in self._answers.items()
                for share in masked.shares
                if asked == query and site in within and share.receiver == name != site
            )
            for i, votes in enumerate(self._ballots(query, named, signed, others)):
                enough = i == 0 and named == members and len(votes) >= self._trust.signatures
                message = AskOpened(
                    study=self._study,
                    query=query,
                    listed=self._listed,
                    members=named,
                    votes=votes,
                    shares=shares,
                )
                yield Request(encode(message), named, enough)

    def _alike(self, members: Members) -> Iterator[Members]:
        """Other sets that are written with the same letters."""
        names = {member.site for member in members}
        for member, name in product(members, sorted(self.everyone - names)):
            if member.site.startswith(name):
                answer = member.site[len(name) :].encode() + member.answer
                rest = (each for each in members if each is not member)
                yield tuple(sorted((*rest, Member(name, answer)), key=lambda each: each.site))

    def _ballots(
        self, query: str, members: Members, signed: Ballot, others: Ballot
    ) -> Iterator[tuple[Vote, ...]]:
        """Signatures under a set: first those that count, then some of them twice, or of others."""
        within = {member.site for member in members}
        honest = [vote for name, vote in signed.items() if name in within]
        friends = [self._signed(name, query, members) for name in self._friends]
        right = (*honest, *(vote for vote in friends if vote.site in within))
        names = {vote.site for vote in right}
        yield right
        borrowed = [vote for name, vote in others.items() if name not in names]
        wrong = (
            (*signed.values(), *friends),
            (right * self._trust.signatures)[: max(self._trust.signatures, len(right))],
            (*right, *borrowed),
        )
        yield from (votes for votes in wrong if votes != right)

    def _signed(self, name: str, query: str, members: Members) -> Vote:
        vote = Vote(study=self._study, query=query, site=name, signature=b"")
        signature = self._friends[name].identity.sign(vote.signed(self._listed, hash_of(members)))
        return msgspec.structs.replace(vote, signature=signature)
