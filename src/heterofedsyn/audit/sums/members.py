"""Real members of a sum, some of them in league with the hub, and what is known of their masks.

Whoever audits sees everything: every noisy integer that went through the door and every stream that
was drawn. Of each masked answer it is so known which words of which streams hide which integers,
however the masking is written.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from heterofedsyn._arrays import Integers
from heterofedsyn.audit.findings import require
from heterofedsyn.audit.fixtures import plain_schema, plan_of, query_of, table_of
from heterofedsyn.audit.patches import Passage, at_the_door, patched
from heterofedsyn.audit.sums.algebra import Equation
from heterofedsyn.errors import HeterofedsynError
from heterofedsyn.marginals import Flat, TableCounts, Total
from heterofedsyn.masking import sealing, streams
from heterofedsyn.masking.streams import Words
from heterofedsyn.privacy.ledger import Ledger
from heterofedsyn.privacy.noise import SecureNoise
from heterofedsyn.privacy.trust import SecureAggregation
from heterofedsyn.protocol import Plan, Query
from heterofedsyn.protocol.aggregation import (
    AskKey,
    AskMasked,
    AskOpened,
    AskVote,
    Masked,
    OfferedKey,
    Opened,
    Vote,
)
from heterofedsyn.protocol.codec import Asked, Said, decode
from heterofedsyn.protocol.plan import Aggregation
from heterofedsyn.site.answering import Desk
from heterofedsyn.site.member import Member
from heterofedsyn.site.remembered import Remembered
from heterofedsyn.site.signing import Identity

SCHEMA = plain_schema(2)
STATISTICS = (Flat(("a0",)), Total())
"""Two parts: a stream must go on from one to the next."""

_ROWS = 5
_REPLIES: dict[type[Asked], type[Said]] = {
    AskKey: OfferedKey,
    AskMasked: Masked,
    AskVote: Vote,
    AskOpened: Opened,
}


@dataclass(frozen=True)
class Unknown:
    """One noisy integer of one answer."""

    site: str
    query: str
    answer: int
    place: int


@dataclass(frozen=True)
class MaskWord:
    """One word of one stream."""

    seed: bytes
    place: int


@dataclass(frozen=True, eq=False)
class Colluder:
    """A site that does whatever the hub wants; it has as many keys for a study as it likes."""

    name: str
    identity: Identity
    keys: tuple[bytes, ...]
    """Private halves."""

    def offer(self, plan: Plan, which: int = 0) -> OfferedKey:
        """One of its keys, vouched for."""
        public = sealing.public_of(self.keys[which])
        unsigned = OfferedKey(study=plan.fingerprint, site=self.name, key=public, signature=b"")
        signature = self.identity.sign(unsigned.signed)
        return OfferedKey(study=plan.fingerprint, site=self.name, key=public, signature=signature)


@dataclass(eq=False)
class Cast:
    """All sites of one study: honest ones, with the real state machine, and the hub's friends.

    Attributes:
        equations: of every word of every masked answer that an honest site gave.
    """

    plan: Plan
    honest: dict[str, Member]
    colluders: dict[str, Colluder]
    offers: dict[str, OfferedKey]
    equations: list[Equation] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    _answers: dict[bytes, Masked] = field(default_factory=dict)

    @classmethod
    def of(cls, sites: int, colluding: int, quorum: int, seed: int) -> Cast:
        """A study of so many sites, the last of which collude."""
        names = [f"s{i}" for i in range(sites)]
        identities = {name: Identity.fresh() for name in names}
        keys = {name: identity.public for name, identity in identities.items()}
        plan = plan_of(
            SCHEMA,
            seed,
            *names,
            epsilon=1.0,
            trust=SecureAggregation.name,
            aggregation=Aggregation(colluding, quorum, keys),
        )
        friends = names[sites - colluding :]
        honest = {n: _member(n, plan, identities[n], seed) for n in names if n not in friends}
        colluders = {
            name: Colluder(name, identities[name], (sealing.make_key(), sealing.make_key()))
            for name in friends
        }
        offers = {name: friend.offer(plan) for name, friend in colluders.items()}
        cast = cls(plan, honest, colluders, offers)
        for name in honest:
            (offer,) = cast.ask(name, AskKey(study=plan.fingerprint))
            require(isinstance(offer, OfferedKey), "a site offers something else than a key")
            cast.offers[name] = offer  # type: ignore[assignment]
        return cast

    @property
    def trust(self) -> SecureAggregation:
        """How the study hides answers."""
        trust = self.plan.trust_model
        assert isinstance(trust, SecureAggregation)
        return trust

    def query(self, number: int) -> Query:
        """A query of the study."""
        return query_of(self.plan, *STATISTICS, share=0.1, number=number, label=f"q{number}")

    def listed(self, which: int = 0) -> tuple[OfferedKey, ...]:
        """The list of keys, with these of the colluders."""
        others = {name: friend.offer(self.plan, which) for name, friend in self.colluders.items()}
        return tuple(({**self.offers, **others}).values())

    def ask(self, site: str, asked: Asked) -> list[Said]:
        """What an honest site says to a request, which is then known to the hub; nothing if not."""
        kind = _REPLIES[type(asked)]
        try:
            with _watched() as (passages, drawn):
                reply = decode(self.honest[site].answer(asked), kind)
        except HeterofedsynError:
            return []
        self.said.append(reply)
        if isinstance(reply, Masked) and reply.data not in self._answers:
            self._answers[reply.data] = reply
            self.equations += _equations(reply, passages, drawn, len(self._answers))
        return [reply]

    def mask(self, site: str, query: Query, keys: Sequence[OfferedKey] | None = None) -> list[Said]:
        """A masked answer of an honest site."""
        listed = self.listed() if keys is None else tuple(keys)
        return self.ask(site, AskMasked(study=self.plan.fingerprint, query=query, keys=listed))

    def copy(self) -> Cast:
        """The same moment once more, to go on from in another way."""
        honest = {
            name: Member(member.desk, member.identity, copy.deepcopy(member.memory))
            for name, member in self.honest.items()
        }
        return Cast(
            self.plan,
            honest,
            self.colluders,
            dict(self.offers),
            list(self.equations),
            list(self.said),
            dict(self._answers),
        )


def _member(name: str, plan: Plan, identity: Identity, seed: int) -> Member:
    rows = table_of(SCHEMA, _ROWS, np.random.default_rng(seed))
    counts = TableCounts(rows)
    desk = Desk(name, plan, rows.domain, lambda: counts, SecureNoise(), plan.trust_model)
    return Member(desk, identity, Remembered(Ledger(name, plan.budget)))


@contextmanager
def _watched() -> Iterator[tuple[list[Passage], list[tuple[bytes, Words]]]]:
    """What goes through the door meanwhile, and every stream that is drawn."""
    drawn: list[tuple[bytes, Words]] = []
    true = streams.stream

    def stream(seed: bytes, many: int) -> Words:
        words = true(seed, many)
        drawn.append((seed, words))
        return words

    with at_the_door() as passages, patched(streams, stream=stream):
        yield passages, drawn


def _equations(
    reply: Masked, passages: Sequence[Passage], drawn: Sequence[tuple[bytes, Words]], number: int
) -> Iterator[Equation]:
    """Which words hide which integers of a masked answer, found by trying."""
    require(bool(passages), "a masked answer came of nothing that went through the door")
    values: Integers = np.concatenate([passage.noisy for passage in passages])
    masked = np.frombuffer(reply.data, dtype="<u8")
    require(masked.size == values.size, "a masked answer has another length than what it hides")
    pools: dict[bytes, dict[int, int]] = {}
    for seed, words in drawn:
        pools.setdefault(seed, {}).update(enumerate(words.tolist()))
    for place, hidden in enumerate((masked - values.view(np.uint64)).tolist()):
        found = _decomposed(int(hidden), pools)
        require(found is not None, "a masked answer is not its integers and some masks")
        unknown: Hashable = Unknown(reply.site, reply.query, number, place)
        yield {unknown: 1, **(found or {})}


def _decomposed(hidden: int, pools: dict[bytes, dict[int, int]]) -> dict[Hashable, int] | None:
    """The words, one of each stream at most, whose sum or difference is this, modulo 2^64."""
    options = [
        [
            (None, 0, 0),
            *((MaskWord(s, i), sign, sign * w) for i, w in p.items() for sign in (1, -1)),
        ]
        for s, p in pools.items()
    ]
    half = len(options) // 2
    first = {
        sum(value for _, _, value in choice) % 2**64: choice for choice in product(*options[:half])
    }
    for rest in product(*options[half:]):
        choice = first.get((hidden - sum(value for _, _, value in rest)) % 2**64)
        if choice is not None:
            return {word: sign for word, sign, _ in (*choice, *rest) if word is not None}
    return None
