"""What hub and sites say to each other so that the hub sees nothing but sums over sites.

Four steps: every site offers a key for the study; then, for every query, sites send masked answers,
agree to the set of those who are in the sum, and open what hides that sum and nothing else.
"""

from __future__ import annotations

import msgspec

from heterofedsyn.masking import words
from heterofedsyn.masking.shamir import SHARE_BYTES
from heterofedsyn.protocol.messages import MESSAGE_VERSION, Query


class _Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    study: str
    version: int = MESSAGE_VERSION


class OfferedKey(_Message, frozen=True, tag="key"):
    """A site's X25519 key for a study, under the signature that its roster key vouches with."""

    site: str
    key: bytes
    signature: bytes

    @property
    def signed(self) -> bytes:
        """What the signature is over."""
        return words.signed_key(self.study, self.site, self.key)


class AskKey(_Message, frozen=True, tag="ask-key"):
    """Asks a site for its key."""


class AskMasked(_Message, frozen=True, tag="ask-masked"):
    """Asks for a masked answer; every site must have the same list of keys."""

    query: Query
    keys: tuple[OfferedKey, ...]


class SealedShare(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A share of a self seed that only one site can open, and the share's hash."""

    receiver: str
    data: bytes
    hash: bytes


class Masked(_Message, frozen=True, tag="masked"):
    """A site's noisy integers, all parts in one row, under masks.

    Attributes:
        query: fingerprint of the query.
        data: little-endian, modulo 2^64.
        seed_hash: of the self seed.
        shares: of the self seed, one for each other site.
    """

    query: str
    site: str
    simulated: bool
    data: bytes
    seed_hash: bytes
    shares: tuple[SealedShare, ...]

    @property
    def hash(self) -> bytes:
        """By which sets name this answer."""
        return words.answer_hash(self.data, self.seed_hash)


class Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A site of a sum, with the hash of its masked answer."""

    site: str
    answer: bytes


class AskVote(_Message, frozen=True, tag="ask-vote"):
    """Asks a site to agree to the set of a sum."""

    query: str
    members: tuple[Member, ...]


class Vote(_Message, frozen=True, tag="vote"):
    """A site's signature under the set of a sum."""

    query: str
    site: str
    signature: bytes

    def signed(self, listed: bytes, members: bytes) -> bytes:
        """What the signature must be over: hashes of the list of keys and of the set."""
        return words.signed_set(self.study, self.site, self.query, listed, members)


class Told(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something about another site."""

    site: str
    data: bytes


class AskOpened(_Message, frozen=True, tag="ask-opened"):
    """Asks a site to open what hides a sum that enough of its members signed.

    Attributes:
        listed: hash of the list of keys, by which a site knows its own vote though it forgot all.
        shares: sealed for this site, each by the member it tells of.
    """

    query: str
    listed: bytes
    members: tuple[Member, ...]
    votes: tuple[Vote, ...]
    shares: tuple[Told, ...]


class Opened(_Message, frozen=True, tag="opened"):
    """What a site tells so that the sum can be read.

    Attributes:
        seed: its own self seed.
        shares: of other members' self seeds.
        seeds: of the masks that it shares with sites outside of the sum.
    """

    query: str
    site: str
    seed: bytes
    shares: tuple[Told, ...]
    seeds: tuple[Told, ...]


SEALED_BYTES = 12 + SHARE_BYTES + 16
"""Of a sealed share: its nonce, the share, and what makes it certain."""


def hash_of(members: tuple[Member, ...]) -> bytes:
    """By which the set of a sum is known."""
    return words.set_hash((member.site, member.answer) for member in members)


def bound_to(study: str, query: str, sender: str, receiver: str, answer: bytes) -> bytes:
    """What a sealed share is bound to; `answer` is the hash of the sender's masked answer."""
    return words.joined("share", study, query, sender, receiver, answer)
