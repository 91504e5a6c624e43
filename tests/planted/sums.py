"""Bugs of secure aggregation: masks, sets, seals, keys, and what a sum costs."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from msgspec import structs

from planted import places as at
from planted.bugs import Planting, sums
from planted.planting import changed, instead_of, leave_out, never, shadow, through, wrap

# A site may be missing there: what is hidden by one piece alone is seen when that is gone.
lying = partial(sums, first="lies: 4 sites, 1 collude, quorum 3")
LEARNT = r"a hub that lies.*: sets: (answers can be told apart|a sum over|two sums)"


# MASKS


@lying("an answer has no self mask", LEARNT)
@instead_of(at.streams.add_streams)
def _(true: Any, values: Any, plus: Any, minus: Any) -> Any:
    return true(values, [*plus][1:], minus)


@lying("the self seed of a site is the same in every query", LEARNT)
def _() -> None:
    def seed(own: at.Member, true: Any, many: int) -> bytes:
        return hashlib.sha256(own.identity.sign(b"seed")).digest()[:many]

    through(at.Member._hide, secrets.token_bytes, seed)


@lying("the key of a self mask is the hash that is published", LEARNT)
@instead_of(at.streams.self_mask_seed)
def _(true: Any, seed: bytes) -> bytes:
    return at.words.seed_hash(seed)


@lying("a stream begins anew with every part", LEARNT)
def _() -> None:
    sizes: list[int] = []

    def hide(true: Any, own: Any, keys: Any, query: Any, fingerprint: Any, noised: Any) -> Any:
        sizes[:] = [each.values.size for each in noised]
        return true(own, keys, query, fingerprint, noised)

    def add(true: Any, values: Any, plus: Any, minus: Any) -> Any:
        plus, minus = [*plus], [*minus]
        parts = np.split(values, np.cumsum(sizes)[:-1])
        return np.concatenate([true(part, plus, minus) for part in parts])

    wrap(at.Member._hide, hide)
    wrap(at.streams.add_streams, add, only=at.member)


@sums(
    "three columns are answered under masks without the plan's word",
    r"a sum of three columns: three columns without the plan's word: answered",
    "a sum of three",
)
def _() -> None:
    leave_out(at.Desk._check, at.check_together)


@sums("the low bytes of masks are nought", r"answer.*: .*p 0", "uniform")
@instead_of(at.streams.stream)
def _(true: Any, *how: Any) -> Any:
    return true(*how) & ~np.uint64(255)


# SETS AND SIGNATURES


def believes(how: Callable[[at.SecureAggregation], dict[str, int]]) -> Planting:
    """A site reckons with other numbers than the plan's."""

    @instead_of(at.Member._trust)
    def planting(true: Any, own: Any) -> Any:
        trust = true(own)
        return changed(trust, **how(trust))

    return planting


@lying("nobody looks at signatures under a set", LEARNT)
@instead_of(at.Member._check_votes)
def _(true: Any, *how: Any) -> None:
    return None


@lying("one signature too few is enough", LEARNT)
@believes
def _(trust: at.SecureAggregation) -> dict[str, int]:
    return {"signatures": trust.signatures - 1}


@sums("a set of as many sites as must sign is enough", LEARNT, "4 sites, 1 collude, quorum 4")
@believes
def _(trust: at.SecureAggregation) -> dict[str, int]:
    return {"quorum": trust.signatures}


@lying("as many shares as there are colluding sites open a self mask", LEARNT)
@believes
def _(trust: at.SecureAggregation) -> dict[str, int]:
    return {"shares": trust.colluding}


@lying("the first site's share is the secret itself", LEARNT)
def _() -> None:
    def from_zero(true: Any, own: Any) -> dict[str, int]:
        return {name: point - 1 for name, point in true(own).items()}

    wrap(at.Member._points, from_zero)
    wrap(at.shamir._check, lambda true, points: None)


@lying("who signed twice counts twice", LEARNT)
@instead_of(at.Member._check_votes)
def _(true: Any, own: at.Member, asked: Any, ring: Any) -> None:
    distinct = {vote.site: vote for vote in asked.votes}
    more = len(asked.votes) - len(distinct)
    trust = changed(own._trust, signatures=own._trust.signatures - more)
    votes = tuple(distinct.values())
    true(changed(own, _trust=trust), structs.replace(asked, votes=votes), ring)


@lying("who is outside of a set may sign it", r"a set that was not signed as it must be")
@instead_of(at.Member._check_votes)
def _(true: Any, own: at.Member, asked: Any, ring: Any) -> None:
    within = {member.site for member in asked.members}
    outside = [
        vote
        for vote in asked.votes
        if vote.site not in within
        and at.is_signed(
            vote.signed(ring.hash, at.hash_of(asked.members)),
            own.plan.roster[vote.site],
            vote.signature,
        )
    ]
    trust = changed(own._trust, signatures=own._trust.signatures - len(outside))
    votes = tuple(vote for vote in asked.votes if vote.site in within)
    true(changed(own, _trust=trust), structs.replace(asked, votes=votes), ring)


@lying("a site opens a set that it is not in", LEARNT)
@instead_of(at.Member.open)
def _(true: Any, own: at.Member, asked: Any) -> Any:
    if own.site in {member.site for member in asked.members}:
        return true(own, asked)
    memory = changed(
        own.memory,
        agreed=lambda query: at.hash_of(asked.members),
        keep_opened=lambda query, outside: None,
    )
    outsider = {"_check_set": lambda *_: None, "_check_remembered": lambda asked: None}
    return true(changed(own, memory=memory, **outsider), asked)


@lying("a site outside of a set gives its own self seed", LEARNT)
@instead_of(at.Member.open)
def _(true: Any, own: at.Member, asked: Any) -> Any:
    if own.site in {member.site for member in asked.members}:
        return true(own, asked)
    hidden, ring = own._answered(asked.query)
    own._check_votes(asked, ring)
    return at.Opened(
        study=asked.study,
        query=asked.query,
        site=own.site,
        seed=hidden.seed,
        shares=(),
        seeds=(),
    )


@lying("a site opens another set than it signed", r"opened a set that it had not signed")
def _() -> None:
    never(at.Member.open, "agreed", "hash_of")


@lying("a signature leaves before its set is stored", r"signed two sets for one")
@instead_of(at.Member.vote)
def _(true: Any, own: at.Member, asked: Any) -> Any:
    waiting = vars(own).setdefault("waiting", [])
    while waiting:
        own.memory.keep_agreed(*waiting.pop())
    memory = changed(own.memory, keep_agreed=lambda *how: waiting.append(how))
    return true(changed(own, memory=memory), asked)


@lying("a site forgets which set it signed when it is started anew", r"signed two sets for one")
def _() -> None:
    def with_own(true: Any, own: at.Member, asked: Any) -> Any:
        signed = vars(own).setdefault("signed", {})
        memory = changed(
            own.memory,
            agreed=signed.get,
            keep_agreed=lambda query, members, sites: signed.update({query: members}),
        )
        return true(changed(own, memory=memory), asked)

    wrap(at.Member.vote, with_own)
    wrap(at.Member.open, with_own)


# SEALS AND NAMES

sealed = partial(sums, first="sealed share")


@sealed("one key seals both directions", r"one key serves both directions")
@instead_of(at.sealing.Pair._cipher)
def _(true: Any, own: Any, sender: str, receiver: str) -> Any:
    return true(own, *sorted((sender, receiver)))


@sealed("every seal has the same nonce", r"two seals have the same nonce")
def _() -> None:
    shadow(at.sealing, secrets, token_bytes=bytes)


@sealed("a share is bound to nothing", r"a share opens for another answer")
@instead_of(at.bound_to)
def _(true: Any, *how: Any) -> bytes:
    return b""


@lying("what is signed or derived from is joined without lengths", LEARNT)
@instead_of(at.words.joined)
def _(true: Any, purpose: str, *fields: Any) -> bytes:
    return b"".join(each.encode() if isinstance(each, str) else each for each in (purpose, *fields))


def derived(how: Callable[[str, str, bytes], tuple[str, str, bytes]]) -> Planting:
    """What a pair shares follows from another study, query or list of keys."""

    @instead_of(at.sealing.Pair.__init__)
    def planting(true: Any, pair: Any, *keys: Any, where: Any, **names: Any) -> None:
        true(pair, *keys, where=how(*where), **names)

    return planting


@sums(
    "masks do not follow from the list of keys",
    r"one stream masks .*list 0 .*list 1",
    "stream of its own",
)
@derived
def _(study: str, query: str, listed: bytes) -> tuple[str, str, bytes]:
    return study, query, b""


@lying("masks do not follow from the query", LEARNT)
@derived
def _(study: str, query: str, listed: bytes) -> tuple[str, str, bytes]:
    return study, "", listed


@sums(
    "masks do not follow from the study",
    r"one stream masks .*study 0 .*study 1",
    "stream of its own",
)
def _() -> None:
    def same(true: Any, secret: bytes, salt: bytes, info: bytes) -> Any:
        return true(secret, b"", info)

    wrap(at.streams.derive, same, only=at.sealing)
    wrap(at.query_fingerprint, lambda true, encoded: true(encoded[-1:]))


# KEYS


@sums("a plan has one key under two names", r"one key under two names was accepted", "two names")
def _() -> None:
    never(at.plan._check_roster, "raw_key")


@sums("two sites of a list have the same key", r"takes a list with one key of two", "refuses")
def _() -> None:
    never(at.Member._checked_keys, "values")


@sums("nobody looks at signatures of keys", r"takes a list with a key that nobody", "refuses")
def _() -> None:
    through(at.Member._checked_keys, at.is_signed, lambda own, true, *how: True)


@sums("a second list of keys is taken", r"took a second list of keys", "two lists of keys: 3 sites")
@instead_of(at.Member.mask)
def _(true: Any, own: at.Member, asked: Any) -> Any:
    return true(changed(own, memory=changed(own.memory, keys=lambda: None)), asked)


@lying("the same query again is answered with new noise", r"noise was drawn again")
@instead_of(at.Desk.answer)
def _(true: Any, desk: at.Desk, query: Any, store: Any, pack: Any = None) -> Any:
    return true(desk, query, changed(store, kept=lambda query: None), pack)


# WHAT MASKS REST ON


@sums("a self seed has 32 bits", r"a self seed is not the operating system's", "self seeds")
def _() -> None:
    def seed(own: at.Member, true: Any, many: int) -> bytes:
        return hashlib.sha256(true(4)).digest()[:many]

    through(at.Member._hide, secrets.token_bytes, seed)


@sums("all coefficients of shares are one number", r"not drawn by themselves", "too few shares")
def _() -> None:
    drawn = secrets.randbelow(at.shamir.PRIME)
    shadow(at.shamir, secrets, randbelow=lambda below: drawn)


@sums("shares are sealed with what opens a mask", r"opens a sealed share too", "two purposes")
@instead_of(at.sealing.Pair._derive)
def _(true: Any, own: Any, purpose: str, one: str, other: str) -> Any:
    first, second = sorted((one, other), key=str.encode)
    return true(own, "pair mask", first, second)


@sums("long answers are masked in part", r"a long stream repeats itself or ends", "long answers")
@instead_of(at.streams.stream)
def _(true: Any, seed: bytes, many: int) -> Any:
    drawn = true(seed, many).copy()
    drawn[2**17 :] = 0
    return drawn


@sums("a set names sites but not their answers", r"sets do not name answers", "sets name")
@instead_of(at.words.set_hash)
def _(true: Any, members: Any) -> Any:
    return true((name, b"") for name, _ in members)


@sums("a study's key follows from the site's own", r"made again as it was", "made anew")
def _() -> None:
    def key(own: at.Member, true: Any) -> bytes:
        return hashlib.sha256(own.identity.sign(own.plan.fingerprint.encode())).digest()

    through(at.Member.offer, at.sealing.make_key, key)
