"""The hub's half of secure aggregation: which messages count, and the sum that they hide.

Pure functions of messages. Nothing here, and nothing that can be made from it, is the answer of a
single site: masks between the members of a sum are never opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from heterofedsyn.errors import ProtocolError
from heterofedsyn.hub.replies import SLACK, SUM, Round
from heterofedsyn.masking import shamir
from heterofedsyn.masking.identity import is_exchange_key, is_signed
from heterofedsyn.masking.streams import SEED_BYTES, Words, add_streams, self_mask_seed, sign_of
from heterofedsyn.masking.words import HASH_BYTES, list_hash, seed_hash, share_hash
from heterofedsyn.privacy.terms import Terms
from heterofedsyn.privacy.trust import SecureAggregation
from heterofedsyn.protocol import Answer, Plan, Released
from heterofedsyn.protocol.aggregation import (
    SEALED_BYTES,
    AskOpened,
    Masked,
    Member,
    OfferedKey,
    Opened,
    SealedShare,
    Told,
    Vote,
    hash_of,
)
from heterofedsyn.protocol.terms import of_the_sum


def trust_of(plan: Plan) -> SecureAggregation:
    """The plan's trust model, which must be secure aggregation.

    Raises:
        ProtocolError: if it is another.
    """
    trust = plan.trust_model
    if not isinstance(trust, SecureAggregation):
        raise ProtocolError(f"under trust {plan.trust!r} nobody hides answers in sums")
    return trust


def wrong_key(offered: OfferedKey, plan: Plan) -> str | None:
    """What is wrong with an offered key, in words that fit after the site's name."""
    if not is_signed(offered.signed, plan.roster[offered.site], offered.signature):
        return "offered a key that does not bear its signature"
    if offered.study != plan.fingerprint or not _can_exchange(offered.key):
        return "offered what is no key for this study"
    return None


def shared_keys(offered: Sequence[OfferedKey]) -> frozenset[str]:
    """Sites that offered a key which another one offered too."""
    keys = [each.key for each in offered]
    return frozenset(each.site for each in offered if keys.count(each.key) > 1)


def wrong_masked(masked: Masked, query: str, integers: int, plan: Plan) -> str | None:
    """What is wrong with a masked answer, in words that fit after the site's name."""
    if (masked.study, masked.query) != (plan.fingerprint, query):
        return "answered another query"
    if len(masked.data) != 8 * integers:
        return "sent a masked answer of the wrong length"
    receivers = [share.receiver for share in masked.shares]
    others = sorted(site for site in plan.sites if site != masked.site)
    hashes = [masked.seed_hash, *(share.hash for share in masked.shares)]
    if sorted(receivers) != others or any(len(each) != HASH_BYTES for each in hashes):
        return "did not share its self seed with every other site"
    if any(len(share.data) != SEALED_BYTES for share in masked.shares):
        return "sealed a share of the wrong length"
    return None


@dataclass(frozen=True, eq=False)
class HiddenSum:
    """One sum as the hub knows it: who is in it, and how it is opened.

    Attributes:
        query: its fingerprint.
        keys: of all sites, as they were offered.
        masked: the answers of its members.
    """

    plan: Plan
    query: str
    keys: tuple[OfferedKey, ...]
    masked: Mapping[str, Masked]

    @cached_property
    def members(self) -> tuple[Member, ...]:
        """The set that is signed."""
        names = sorted(self.masked, key=str.encode)
        return tuple(Member(name, self.masked[name].hash) for name in names)

    @cached_property
    def sites(self) -> tuple[str, ...]:
        """Its members in the order of the plan."""
        return tuple(site for site in self.plan.sites if site in self.masked)

    @cached_property
    def outside(self) -> tuple[str, ...]:
        """The sites that are not in it."""
        return tuple(site for site in self.plan.sites if site not in self.masked)

    @cached_property
    def listed(self) -> bytes:
        """The hash of the list of keys."""
        return list_hash((each.site, each.key) for each in self.keys)

    @cached_property
    def _set(self) -> bytes:
        """The hash of the set."""
        return hash_of(self.members)

    @cached_property
    def _sealed(self) -> dict[str, dict[str, SealedShare]]:
        """Of every member's self seed, the share that each other site has."""
        return {
            name: {share.receiver: share for share in masked.shares}
            for name, masked in self.masked.items()
        }

    def wrong_vote(self, vote: Vote) -> str | None:
        """What is wrong with a vote, in words that fit after the site's name."""
        signed = vote.signed(self.listed, self._set)
        if (vote.study, vote.query) != (self.plan.fingerprint, self.query):
            return "signed for another query"
        if not is_signed(signed, self.plan.roster[vote.site], vote.signature):
            return "signed another set of sites"
        return None

    def asked(self, site: str, votes: tuple[Vote, ...]) -> AskOpened:
        """What asks a member to open the sum."""
        shares = tuple(
            Told(name, self._sealed[name][site].data) for name in self.sites if name != site
        )
        return AskOpened(
            study=self.plan.fingerprint,
            query=self.query,
            listed=self.listed,
            members=self.members,
            votes=votes,
            shares=shares,
        )

    def wrong_opened(self, opened: Opened) -> str | None:
        """What is wrong with what a member opened, in words that fit after its name.

        Shares are another matter: who dealt a wrong one, or who opened it, may be at fault.
        """
        if (opened.study, opened.query) != (self.plan.fingerprint, self.query):
            return "opened another sum"
        if seed_hash(opened.seed) != self.masked[opened.site].seed_hash:
            return "told a wrong self seed"
        told = sorted(seed.site for seed in opened.seeds)
        if told != sorted(self.outside) or any(len(s.data) != SEED_BYTES for s in opened.seeds):
            return "did not tell the masks that it shares with sites outside of the sum"
        return None

    def seeds(self, opened: Sequence[Opened]) -> dict[str, bytes]:
        """The self seeds of members that are known: told, or put together from shares.

        Where some site is outside of the sum nobody else knows the masks that a member shares with
        it, so its self seed is of no use without the member.
        """
        own = {each.site: each.seed for each in opened}
        if self.outside:
            return own
        for name in self.sites:
            seed = None if name in own else self._from_shares(name, opened)
            if seed is not None:
                own[name] = seed
        return own

    def total(self, opened: Sequence[Opened], seeds: Mapping[str, bytes]) -> Words:
        """The sum over its members, modulo 2^64; all self seeds must be known."""
        rows = [np.frombuffer(masked.data, dtype="<u8") for masked in self.masked.values()]
        total = np.add.reduce(rows, dtype=np.uint64)
        pairs = [(each.site, told) for each in opened for told in each.seeds]
        plus = [told.data for site, told in pairs if sign_of(site, told.site) < 0]
        minus = [told.data for site, told in pairs if sign_of(site, told.site) > 0]
        return add_streams(total, plus, [*map(self_mask_seed, seeds.values()), *minus])

    def _from_shares(self, owner: str, opened: Sequence[Opened]) -> bytes | None:
        """A member's self seed from good shares of it, if there are enough."""
        dealt = self._sealed[owner]
        order = sorted(self.plan.sites, key=str.encode)
        good = {
            order.index(each.site) + 1: told.data
            for each in opened
            for told in each.shares
            if told.site == owner
            and share_hash(owner, each.site, told.data) == dealt[each.site].hash
        }
        needed = trust_of(self.plan).shares
        if len(good) < needed:
            return None
        seed = shamir.combine(dict(sorted(good.items())[:needed]))
        good_seed = seed is not None and seed_hash(seed) == self.masked[owner].seed_hash
        return seed if good_seed else None


def answer_of(hidden: HiddenSum, total: Words, terms: Sequence[Terms]) -> Answer:
    """The sum as an answer, each part with the noise of all members.

    Args:
        terms: on which each of them released.
    """
    values, parts, start = total.view(np.int64), [], 0
    for each in terms:
        stop = start + each.integers
        parts.append(
            Released(
                data=values[start:stop].astype("<i8").tobytes(),
                sensitivity=each.sensitivity,
                sigma=of_the_sum(each, len(hidden.masked)).sigma,
                rho=each.rho,
            )
        )
        start = stop
    return Answer(
        study=hidden.plan.fingerprint,
        query=hidden.query,
        site=SUM,
        simulated=any(masked.simulated for masked in hidden.masked.values()),
        parts=tuple(parts),
    )


def check_totals(round_: Round) -> None:
    """Refuse a sum whose tables do not tell the same number of rows, as far as noise allows.

    Raises:
        ProtocolError: if two of them cannot be over the same rows; nobody can say whose fault it
            is.
    """
    for answer in round_.answers:
        parts = zip(round_.query.parts, answer.parts, strict=True)
        tables = [released for part, released in parts if part.statistic.partitions]
        if len(tables) < 2:
            continue
        totals = np.array([float(table.values.sum()) for table in tables])
        variances = np.array([table.sigma**2 * table.values.size for table in tables])
        best = int(variances.argmin())
        apart = np.abs(totals - totals[best])
        if np.any(apart > SLACK * np.sqrt(variances + variances[best])):
            raise ProtocolError(
                f"the tables of query {round_.query.label!r}, each summed over the same sites, "
                "tell different numbers of rows, by far more than their noise; nobody can say "
                "which site is at fault, so make the study anew with sites that you are sure of"
            )


def _can_exchange(key: bytes) -> bool:
    """Whether sites can exchange secrets with this key: it is one, and not of low order."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    try:
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(key))
    except ValueError:
        return False
    return is_exchange_key(key)
