"""A site's side of secure aggregation: it offers a key, masks, agrees to one set, and opens that.

Whatever a hub and the colluding sites do, all they learn from a query is one sum over at least
`quorum` sites, those that collude among them, or nothing. Each rule below is there because a hub
that lies gains something without it; what they must remember for that is on disk before anything
leaves.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import msgspec
import numpy as np

from heterofedsyn.errors import LedgerDisputed, NotApproved, ProtocolError
from heterofedsyn.masking import shamir
from heterofedsyn.masking.identity import is_exchange_key, is_signed
from heterofedsyn.masking.sealing import Pair, make_key, public_of
from heterofedsyn.masking.streams import Words, add_streams, self_mask_seed, sign_of
from heterofedsyn.masking.words import answer_hash, list_hash, seed_hash, share_hash
from heterofedsyn.privacy.terms import Noised
from heterofedsyn.privacy.trust import SecureAggregation
from heterofedsyn.protocol.aggregation import (
    AskKey,
    AskMasked,
    AskOpened,
    AskVote,
    Masked,
    OfferedKey,
    Opened,
    SealedShare,
    Told,
    Vote,
    bound_to,
    hash_of,
)
from heterofedsyn.protocol.aggregation import Member as InSet
from heterofedsyn.protocol.codec import Asked, decode
from heterofedsyn.protocol.messages import Query, encode
from heterofedsyn.protocol.plan import Plan
from heterofedsyn.site.answering import Desk
from heterofedsyn.site.remembered import Hidden, Keys, Memory, read_hidden
from heterofedsyn.site.signing import Identity


@dataclass(frozen=True)
class _Ring:
    """A site's private key for a study, and the list of all public ones with its hash."""

    private: bytes
    keys: Keys

    @cached_property
    def hash(self) -> bytes:
        return list_hash(self.keys.items())


@dataclass(frozen=True, eq=False)
class Member:
    """One site of a study under secure aggregation, as far as its memory reaches.

    Attributes:
        desk: counts, charges and draws noise.
    """

    desk: Desk
    identity: Identity
    memory: Memory

    def answer(self, asked: Asked) -> bytes:
        """The reply to any of the four requests.

        Raises:
            ProtocolError: if it is none of them, or a rule forbids it; nothing is revealed then.
            PrivacyRefusal: if the query does not fit a cap, or the site no longer knows enough.
        """
        if asked.study != self.plan.fingerprint:
            raise ProtocolError("the request belongs to another study")
        match asked:
            case AskKey():
                return encode(self.offer())
            case AskMasked():
                return self.mask(asked)
            case AskVote():
                return encode(self.vote(asked))
            case AskOpened():
                return encode(self.open(asked))
            case Query():
                raise ProtocolError(
                    f"query {asked.label!r} asks for an answer that everyone could read, where "
                    "only sums over sites may be seen"
                )

    def offer(self) -> OfferedKey:
        """The site's key for the study, made when it is first asked for."""
        private = self.memory.key()
        if private is None:
            private = self.memory.keep_key(make_key())
        unsigned = OfferedKey(
            study=self.plan.fingerprint, site=self.site, key=public_of(private), signature=b""
        )
        signature = self.identity.sign(unsigned.signed)
        return msgspec.structs.replace(unsigned, signature=signature)

    def mask(self, asked: AskMasked) -> bytes:
        """The masked answer to a query; the same query again gets the same bytes, uncharged."""
        if asked.query.study != self.plan.fingerprint:
            raise ProtocolError(f"query {asked.query.label!r} belongs to another study")
        keys = self._checked_keys(asked.keys)
        if self.memory.keys() not in (None, keys):
            raise ProtocolError("this is another list of keys than the one that was taken before")
        pack = partial(self._hide, keys)
        return read_hidden(self.desk.answer(asked.query, self.memory, pack)).masked

    def vote(self, asked: AskVote) -> Vote:
        """This site's signature under the set of a sum: of one set for each query, ever."""
        hidden, ring = self._answered(asked.query)
        self._check_set(asked.members, hidden)
        members = hash_of(asked.members)
        signed = self.memory.agreed(asked.query)
        if signed is None:
            sites = tuple(sorted(member.site for member in asked.members))
            self.memory.keep_agreed(asked.query, members, sites)
        elif signed != members:
            raise ProtocolError("another set was signed for this query before")
        return self._signed(asked.query, asked.members, ring)

    def open(self, asked: AskOpened) -> Opened:
        """What opens the sum over the signed set, and nothing else."""
        if max(map(len, (asked.members, asked.votes, asked.shares))) > len(self.plan.sites):
            raise ProtocolError("more members, votes or shares than there are sites")
        self._check_remembered(asked)
        hidden, ring = self._answered(asked.query)
        self._check_set(asked.members, hidden)
        if (signed := self.memory.agreed(asked.query)) != hash_of(asked.members):
            words = "no set was" if signed is None else "this is not the set that was"
            raise ProtocolError(f"{words} signed here for this query")
        self._check_votes(asked, ring)
        within = {member.site: member.answer for member in asked.members}
        outside = tuple(sorted({*self.plan.sites} - {*within}))
        shares = tuple(self._unsealed(asked, within, ring))
        seeds = tuple(
            Told(name, self._pair(name, asked.query, ring).mask_seed()) for name in outside
        )
        self.memory.keep_opened(asked.query, outside)
        return Opened(
            study=self.plan.fingerprint,
            query=asked.query,
            site=self.site,
            seed=hidden.seed,
            shares=shares,
            seeds=seeds,
        )

    @property
    def site(self) -> str:
        """The name of this site."""
        return self.desk.site

    @property
    def plan(self) -> Plan:
        """The study's plan."""
        return self.desk.plan

    @cached_property
    def _trust(self) -> SecureAggregation:
        trust = self.plan.trust_model
        if not isinstance(trust, SecureAggregation) or not self.plan.roster:
            raise NotApproved("the study has no roster of keys, so no answer can be hidden in it")
        return trust

    @cached_property
    def _points(self) -> dict[str, int]:
        """Every site's point of a shared seed; 0 would be the seed itself."""
        return {name: i for i, name in enumerate(sorted(self.plan.sites, key=str.encode), start=1)}

    def _checked_keys(self, offered: Sequence[OfferedKey]) -> Keys:
        """A list of keys that names exactly the roster, each key vouched for and of its own."""
        roster, study = self.plan.roster, self.plan.fingerprint
        names = [each.site for each in offered]
        if len(names) != len(roster) or {*names} != {*roster}:
            raise ProtocolError("the list of keys does not name every site of the study once")
        for each in offered:
            if each.study != study or not is_exchange_key(each.key):
                raise ProtocolError(f"the key of {each.site!r} is none for this study")
            if not is_signed(each.signed, roster[each.site], each.signature):
                raise ProtocolError(f"the key of {each.site!r} does not bear its signature")
        keys = {each.site: each.key for each in offered}
        if len({*keys.values()}) != len(keys):
            raise ProtocolError("two sites of the list have the same key")
        private = self.memory.key()
        if private is None or public_of(private) != keys[self.site]:
            self._lock(f"a key for study {study} that it did not make")
        ring = self._ring(keys)
        for name in self._others:
            self._pair(name, "", ring)
        return keys

    def _hide(self, keys: Keys, query: Query, fingerprint: str, noised: Sequence[Noised]) -> bytes:
        """Noisy integers under a self mask and a mask shared with each other site.

        The list of keys is kept first: from the first masked answer on there is no other.
        """
        if self.memory.keys() is None:
            self.memory.keep_keys(keys)
        ring = self._ring(keys)
        seed = secrets.token_bytes(shamir.SECRET_BYTES)
        pairs = {name: self._pair(name, fingerprint, ring) for name in self._others}
        plus = [p.mask_seed() for name, p in pairs.items() if sign_of(self.site, name) > 0]
        minus = [p.mask_seed() for name, p in pairs.items() if sign_of(self.site, name) < 0]
        masked = add_streams(_in_a_row(noised), [self_mask_seed(seed), *plus], minus)
        data = masked.astype("<u8").tobytes()
        answer = answer_hash(data, seed_hash(seed))
        points = self._points
        shares = shamir.split(seed, self._trust.shares, [points[name] for name in pairs])
        message = Masked(
            study=self.plan.fingerprint,
            query=fingerprint,
            site=self.site,
            simulated=self.desk.noise.simulated,
            data=data,
            seed_hash=seed_hash(seed),
            shares=tuple(
                SealedShare(
                    name,
                    pair.seal(shares[points[name]], self._bound(fingerprint, name, answer)),
                    share_hash(self.site, name, shares[points[name]]),
                )
                for name, pair in pairs.items()
            ),
        )
        terms = tuple(each.terms for each in noised)
        return msgspec.msgpack.encode(Hidden(encode(message), seed, terms))

    def _answered(self, query: str) -> tuple[Hidden, _Ring]:
        """What was answered to a query, under which keys."""
        kept, keys = self.memory.kept(query), self.memory.keys()
        if kept is None or keys is None:
            raise ProtocolError("no masked answer was given to this query")
        hidden = read_hidden(kept)
        if decode(hidden.masked, Masked).study != self.plan.fingerprint:
            raise ProtocolError("this query was answered in another study")
        return hidden, self._ring(keys)

    def _check_set(self, members: Sequence[InSet], hidden: Hidden) -> None:
        """Refuse a set that is no set of a sum which this site is in, with its own answer."""
        names = [member.site for member in members]
        if len({*names}) != len(names) or not {*names} <= {*self.plan.sites}:
            raise ProtocolError("the set names a site twice, or one that is not of the study")
        if len(names) < self._trust.quorum:
            raise ProtocolError(f"the set has {len(names)} sites, fewer than the quorum")
        own = decode(hidden.masked, Masked).hash
        if [member.answer for member in members if member.site == self.site] != [own]:
            raise ProtocolError("the set does not hold the answer that this site gave")

    def _check_votes(self, asked: AskOpened, ring: _Ring) -> None:
        """Refuse unless enough different members of the set signed this very set."""
        if asked.listed != ring.hash:
            raise ProtocolError("the set was signed under another list of keys")
        roster, members = self.plan.roster, hash_of(asked.members)
        names = [vote.site for vote in asked.votes]
        within = {member.site for member in asked.members}
        if len({*names}) != len(names) or not {*names} <= within:
            raise ProtocolError("somebody signed twice, or is not in the set")
        if len(names) < self._trust.signatures:
            raise ProtocolError(f"{len(names)} sites signed the set, which is too few")
        for vote in asked.votes:
            if (vote.study, vote.query) != (asked.study, asked.query) or not is_signed(
                vote.signed(ring.hash, members), roster[vote.site], vote.signature
            ):
                raise ProtocolError(f"{vote.site!r} did not sign this set")

    def _check_remembered(self, asked: AskOpened) -> None:
        """Lock the site if it is shown its own signature under a set that it does not know."""
        members = hash_of(asked.members)
        if self.memory.agreed(asked.query) == members:
            return
        data = self._unsigned(asked.query).signed(asked.listed, members)
        if any(is_signed(data, self.identity.public, vote.signature) for vote in asked.votes):
            self._lock(f"a set for query {asked.query} that it does not know")

    def _unsealed(
        self, asked: AskOpened, within: Mapping[str, bytes], ring: _Ring
    ) -> Iterator[Told]:
        """Shares of other members' self seeds; one that does not open is left out."""
        names = [share.site for share in asked.shares]
        if len({*names}) != len(names) or not {*names} <= {*within} - {self.site}:
            raise ProtocolError("a share comes twice, from this site or from outside of the set")
        for share in sorted(asked.shares, key=lambda share: share.site.encode()):
            sender = share.site
            bound = bound_to(asked.study, asked.query, sender, self.site, within[sender])
            opened = self._pair(sender, asked.query, ring).unseal(share.data, bound)
            if opened is not None and len(opened) == shamir.SHARE_BYTES:
                yield Told(sender, opened)

    def _signed(self, query: str, members: tuple[InSet, ...], ring: _Ring) -> Vote:
        vote = self._unsigned(query)
        signature = self.identity.sign(vote.signed(ring.hash, hash_of(members)))
        return msgspec.structs.replace(vote, signature=signature)

    def _unsigned(self, query: str) -> Vote:
        return Vote(study=self.plan.fingerprint, query=query, site=self.site, signature=b"")

    def _bound(self, query: str, receiver: str, answer: bytes) -> bytes:
        return bound_to(self.plan.fingerprint, query, self.site, receiver, answer)

    @property
    def _others(self) -> list[str]:
        return [name for name in self._points if name != self.site]

    def _ring(self, keys: Keys) -> _Ring:
        private = self.memory.key()
        if private is None:
            raise NotApproved("the study's key is gone from this site")
        return _Ring(private, keys)

    def _pair(self, other: str, query: str, ring: _Ring) -> Pair:
        """What this site shares with another for one query.

        Raises:
            ProtocolError: if the other's key is none.
        """
        where = (self.plan.fingerprint, query, ring.hash)
        try:
            return Pair(ring.private, ring.keys[other], own=self.site, other=other, where=where)
        except ValueError:
            raise ProtocolError(f"the key of {other!r} is no key") from None

    def _lock(self, what: str) -> None:
        """Stop for good: an older copy of this site lives, or this one is it."""
        reason = f"the site was shown its own signature under {what}"
        self.memory.lock(reason)
        raise LedgerDisputed(
            f"{reason}: it was restored from an older copy, and would mask or sign a second time; "
            "nothing is answered until `heterofedsyn site ledger repair --restored`"
        )


def _in_a_row(noised: Sequence[Noised]) -> Words:
    """All parts of an answer as one row of integers modulo 2^64: one stream masks all of them."""
    return np.concatenate([each.values for each in noised]).astype(np.int64).view(np.uint64)
