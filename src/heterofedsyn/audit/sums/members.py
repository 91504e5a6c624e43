"""Real members of a sum, some of them in league with the hub, and what is known of their masks.

Whoever audits sees everything: every noisy integer that went through the door and every stream that
was drawn. Of each masked answer it is so known which words of which streams hide which integers,
however the masking is written. An honest site is started anew before every request, from what it
remembers; so what it says follows from that and the request, and is worked out once.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
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
from heterofedsyn.protocol import Plan, Query, encode
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
from heterofedsyn.protocol.codec import Asked, Said, decode, decode_asked
from heterofedsyn.protocol.plan import Aggregation
from heterofedsyn.site.answering import Desk
from heterofedsyn.site.member import Member
from heterofedsyn.site.remembered import Remembered
from heterofedsyn.site.signing import Identity

SCHEMA = plain_schema(2)
STATISTICS = (Flat(("a0",)), Total())
"""Two parts: a stream must go on from one to the next."""

WORDS = 3
"""Integers of one answer."""

NAMES = ("a", "ab", "bc", "c", "ca")
"""Of sites: written one after the other, names and what follows them can be read in two ways."""

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

    @classmethod
    def of(cls, name: str, identity: Identity) -> Colluder:
        """With two keys."""
        return cls(name, identity, (sealing.make_key(), sealing.make_key()))

    def offer(self, plan: Plan, which: int = 0) -> OfferedKey:
        """One of its keys, vouched for."""
        return self.vouched(plan, sealing.public_of(self.keys[which]))

    def vouched(self, plan: Plan, public: bytes) -> OfferedKey:
        """Anything as its key, vouched for."""
        unsigned = OfferedKey(study=plan.fingerprint, site=self.name, key=public, signature=b"")
        signature = self.identity.sign(unsigned.signed)
        return OfferedKey(study=plan.fingerprint, site=self.name, key=public, signature=signature)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of a request: what was said, if anything, and what the site remembers then."""

    said: Said | None
    state: int
    equations: tuple[Equation, ...]


class Honest:
    """An honest site with the real state machine, at any of the states that it was ever in."""

    def __init__(self, desk: Desk, identity: Identity) -> None:
        """Begin with what a site remembers that was never asked."""
        self._desk, self._identity = desk, identity
        self._states: list[Remembered] = []
        self._numbers: dict[str, int] = {}
        self._outcomes: dict[tuple[int, bytes], Outcome] = {}
        self._number(Remembered(Ledger(desk.site, desk.plan.budget)))

    def memory(self, state: int) -> Remembered:
        """What the site remembers at a state, to be used up."""
        return _copy(self._states[state])

    def member(self, memory: Remembered) -> Member:
        """The site, started anew."""
        return Member(self._desk, self._identity, memory)

    def ask(self, state: int, asked: bytes) -> Outcome:
        """What comes of a request at a state."""
        key = state, asked
        if key not in self._outcomes:
            self._outcomes[key] = self._asked(state, decode_asked(asked))
        return self._outcomes[key]

    def _asked(self, state: int, asked: Asked) -> Outcome:
        memory = self.memory(state)
        said: Said | None = None
        equations: tuple[Equation, ...] = ()
        with watched() as (passages, drawn), suppress(HeterofedsynError):
            said = decode(self.member(memory).answer(asked), _REPLIES[type(asked)])
        after = self._number(memory)
        require(
            said is not None or after == state or bool(memory.locked),
            "a request that was refused changed what a site remembers",
        )
        if isinstance(said, Masked) and passages:
            equations = tuple(_equations(said, passages, drawn))
        return Outcome(said, after, equations)

    def _number(self, memory: Remembered) -> int:
        seen = repr(vars(memory))
        if seen not in self._numbers:
            self._numbers[seen] = len(self._states)
            self._states.append(_copy(memory))
        return self._numbers[seen]


@dataclass(eq=False)
class Cast:
    """All sites of one study at one moment, and all that hub and colluding sites have heard.

    Attributes:
        states: of what each honest site remembers.
        equations: of every word of every masked answer that an honest site gave.
        broken: rules that an honest site did not keep, whether or not anything is learnt by it.
    """

    plan: Plan
    honest: dict[str, Honest]
    colluders: dict[str, Colluder]
    offers: dict[str, OfferedKey] = field(default_factory=dict)
    states: dict[str, int] = field(default_factory=dict)
    equations: dict[tuple[str, str], tuple[Equation, ...]] = field(default_factory=dict)
    heard: dict[int, Said] = field(default_factory=dict)
    answers: dict[tuple[str, str], Masked] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, trust: SecureAggregation, seed: int, *, first: bool = False) -> Cast:
        """A study in which the sites whose names sort last collude, or those that sort first."""
        names = NAMES[: trust.sites]
        identities = {name: Identity.fresh() for name in names}
        plan = hidden_plan(
            trust, {name: identity.public for name, identity in identities.items()}, seed
        )
        friends = names[: trust.colluding] if first else names[trust.sites - trust.colluding :]
        honest = {n: Honest(_desk(n, plan, seed), identities[n]) for n in names if n not in friends}
        cast = cls(plan, honest, {name: Colluder.of(name, identities[name]) for name in friends})
        cast.offers = {name: friend.offer(plan) for name, friend in cast.colluders.items()}
        for name in honest:
            cast.states[name] = 0
            offer = cast.ask(name, encode(AskKey(study=plan.fingerprint)))
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

    def ask(self, site: str, asked: bytes) -> Said | None:
        """What an honest site says to a request, which is then known to the hub."""
        outcome = self.honest[site].ask(self.states[site], asked)
        self.states[site] = outcome.state
        said = outcome.said
        if said is not None:
            self.heard[id(said)] = said
        if isinstance(said, Masked):
            key = said.site, said.query
            known = self.answers.setdefault(key, said)
            require(known == said, f"{site} gave a query two answers: noise was drawn again")
            if outcome.equations:
                self.equations[key] = outcome.equations
        return said

    def mask(
        self, site: str, query: Query, keys: Sequence[OfferedKey] | None = None
    ) -> Said | None:
        """A masked answer of an honest site."""
        listed = self.listed() if keys is None else tuple(keys)
        asked = AskMasked(study=self.plan.fingerprint, query=query, keys=listed)
        return self.ask(site, encode(asked))

    def copy(self) -> Cast:
        """The same moment once more, to go on from in another way."""
        kept = (self.offers, self.states, self.equations, self.heard, self.answers)
        return Cast(self.plan, self.honest, self.colluders, *map(dict, kept))  # type: ignore[arg-type]


def hidden_plan(trust: SecureAggregation, keys: dict[str, str], seed: int) -> Plan:
    """A plan under which sites with these keys hide their answers in sums."""
    hidden = Aggregation(trust.colluding, trust.quorum, keys)
    return plan_of(SCHEMA, seed, *keys, epsilon=1.0, trust=trust.name, aggregation=hidden)


def _copy(memory: Remembered) -> Remembered:
    """Another that remembers the same; all that is in its collections is frozen."""
    other = copy.copy(memory)
    for name, value in vars(memory).items():
        setattr(other, name, copy.copy(value))
    return other


def _desk(name: str, plan: Plan, seed: int) -> Desk:
    rows = table_of(SCHEMA, _ROWS, np.random.default_rng(seed))
    counts = TableCounts(rows)
    return Desk(name, plan, rows.domain, lambda: counts, SecureNoise(), plan.trust_model)


@contextmanager
def watched() -> Iterator[tuple[list[Passage], list[tuple[bytes, Words]]]]:
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
    reply: Masked, passages: Sequence[Passage], drawn: Sequence[tuple[bytes, Words]]
) -> Iterator[Equation]:
    """Which words hide which integers of a masked answer, found by trying."""
    values: Integers = np.concatenate([passage.noisy for passage in passages])
    masked = np.frombuffer(reply.data, dtype="<u8")
    require(masked.size == values.size, "a masked answer has another length than what it hides")
    pools: dict[bytes, dict[int, int]] = {}
    for seed, words in drawn:
        pools.setdefault(seed, {}).update(enumerate(words.tolist()))
    for place, hidden in enumerate((masked - values.view(np.uint64)).tolist()):
        found = _decomposed(int(hidden), pools)
        require(found is not None, "a masked answer is not its integers and some masks")
        unknown: Hashable = Unknown(reply.site, reply.query, place)
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
