"""Who may be in a sum: plans and lists of keys that would let one site be two are refused."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from heterofedsyn.audit.findings import Broken, Check, require
from heterofedsyn.audit.sums.members import Cast, Colluder, hidden_plan
from heterofedsyn.errors import HeterofedsynError
from heterofedsyn.masking import sealing
from heterofedsyn.privacy.trust import SecureAggregation
from heterofedsyn.protocol.aggregation import OfferedKey
from heterofedsyn.site.signing import Identity

_TRUST = SecureAggregation(4, 1, 3)
_FIELD = 2**255 - 19
_LOW = (
    *(0, 1, _FIELD - 1),
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
)
"""Points of low order: with them everybody knows what two sites share."""


def checks(seed: int) -> Iterator[Check]:
    """Plans, and lists of keys."""
    yield "one site under two names", partial(rosters, seed)
    yield "lists of keys that a site refuses", partial(lists, seed)


def rosters(seed: int) -> str:
    """Plans in which a site is there twice."""
    keys = {f"s{i}": Identity.fresh().public for i in range(_TRUST.sites)}
    hidden_plan(_TRUST, keys, seed)
    wrong = {
        "one key under two names": {**keys, "s1": keys["s0"]},
        "names that differ in capitals": {**dict([*keys.items()][:-1]), "S0": keys["s3"]},
        "a key that is none": {**keys, "s1": keys["s1"][:-4]},
    }
    for what, roster in wrong.items():
        try:
            hidden_plan(_TRUST, roster, seed)
        except HeterofedsynError:
            continue
        raise Broken(f"a plan with {what} was accepted")
    return f"{len(wrong)} rosters refused"


def lists(seed: int) -> str:
    """Whatever colluding sites vouch for; nothing is then answered, and nothing is kept."""
    cast = Cast.of(_TRUST, seed)
    (friend,) = cast.colluders.values()
    tried = 0
    for what, keys in _wrong_lists(cast, friend, seed):
        for name in cast.honest:
            own = cast.copy()
            said = own.mask(name, own.query(0), keys)
            require(said is None, f"{name} takes a list with {what}")
            tried += 1
    name = next(iter(cast.honest))
    require(cast.mask(name, cast.query(0)) is not None, "no list of keys is taken")
    return f"{tried} refusals"


def _wrong_lists(
    cast: Cast, friend: Colluder, seed: int
) -> Iterator[tuple[str, tuple[OfferedKey, ...]]]:
    right = {offer.site: offer for offer in cast.listed()}
    victim, other = [*cast.honest][:2]
    replaced = msgspec.structs.replace

    def with_key(key: bytes) -> tuple[OfferedKey, ...]:
        return tuple({**right, friend.name: friend.vouched(cast.plan, key)}.values())

    yield "a site missing", tuple(right.values())[1:]
    yield "a site twice", (*right.values(), right[friend.name])
    yield "a stranger", (*right.values(), replaced(right[friend.name], site="stranger"))
    yield "one key of two sites", with_key(right[victim].key)
    yield "a key of too few bytes", with_key(right[friend.name].key[:-1])
    for point in _LOW:
        yield "a point of low order", with_key(point.to_bytes(32, "little"))
    for number in (_FIELD, _FIELD + 1, 2**255 - 1):
        yield "a key that is no number of the field", with_key(number.to_bytes(32, "little"))
    high = int.from_bytes(right[friend.name].key, "little") | 2**255
    yield "a second name of a key", with_key(high.to_bytes(32, "little"))
    yield (
        "a key that nobody signed",
        tuple({**right, other: replaced(right[other], signature=bytes(64))}.values()),
    )
    stolen = replaced(right[other], key=sealing.public_of(friend.keys[1]))
    yield "a key that another signed", tuple({**right, other: _by(friend, stolen)}.values())
    elsewhere = hidden_plan(_TRUST, cast.plan.roster, seed + 1)
    foreign = friend.vouched(elsewhere, right[friend.name].key)
    yield "a key of another study", tuple({**right, friend.name: foreign}.values())
    renamed = replaced(foreign, study=cast.plan.fingerprint)
    yield "a signature of another study", tuple({**right, friend.name: renamed}.values())


def _by(friend: Colluder, offer: OfferedKey) -> OfferedKey:
    return msgspec.structs.replace(offer, signature=friend.identity.sign(offer.signed))
