"""What a site of a sum refuses: whatever a hub says, nothing is revealed and nothing changes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest

from heterofedsyn.errors import HeterofedsynError, LedgerDisputed, NotApproved, ProtocolError
from heterofedsyn.hub.conversation import drive, of_study
from heterofedsyn.hub.replies import Reply
from heterofedsyn.hub.requests import Request
from heterofedsyn.masking import sealing
from heterofedsyn.masking.words import list_hash
from heterofedsyn.privacy.ledger import Ledger
from heterofedsyn.protocol.aggregation import (
    AskKey,
    AskMasked,
    AskOpened,
    AskVote,
    Masked,
    Member,
    OfferedKey,
    Opened,
    Told,
    Vote,
    hash_of,
)
from heterofedsyn.protocol.codec import Asked, decode, decode_asked
from heterofedsyn.protocol.messages import Answer, Query, encode
from heterofedsyn.protocol.refusal import Reason, Refused
from heterofedsyn.site import Site
from heterofedsyn.site import member as site_member
from heterofedsyn.site.answering import InMemory, Price
from heterofedsyn.site.member import Member as SiteMember
from heterofedsyn.site.remembered import read_hidden
from heterofedsyn.site.signing import Identity
from sums_support import Federation

OWN = "elm"
"""The site that is lied to; of four, of which one may collude and three must be in a sum."""

LOW_ORDER = [
    bytes(32),
    bytes([1]) + bytes(31),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
    bytes.fromhex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
]


@dataclass
class Scene:
    """A study on its way: what was asked of each site, and what it said, by step and site."""

    federation: Federation
    asked: dict[tuple[str, str], Asked] = field(default_factory=dict)
    said: dict[tuple[str, str], bytes] = field(default_factory=dict)

    def message(self, step: str, site: str = OWN) -> Any:
        return self.asked[step, site]

    def answer(self, asked: Asked, site: str = OWN) -> bytes:
        return self.federation.members[site].answer(decode_asked(encode(asked)))

    def state(self) -> dict[str, Any]:
        return copy.deepcopy(vars(self.federation.members[OWN].memory))

    def signed(self, site: str, key: bytes, study: str | None = None) -> OfferedKey:
        """A key that a site vouches for."""
        study = study or self.federation.plan.fingerprint
        offered = OfferedKey(study=study, site=site, key=key, signature=b"")
        signature = self.federation.identities[site].sign(offered.signed)
        return msgspec.structs.replace(offered, signature=signature)


def drawn_again(member: SiteMember) -> Site:
    """A site that answers in clear, with the very noise of a member."""
    desk = member.desk
    return Site(desk.site, desk.counts(), desk.plan, desk.noise, trust=desk.trust)


class _Stop(Exception):
    pass


def until(step: str, *, quorum: int = 3, away: str = "") -> Scene:
    """A study up to this step of its first query: others have answered it, `OWN` has not."""
    scene = Scene(Federation(4, quorum=quorum))

    def carry(request: Request) -> list[Reply]:
        for site in request.asked:
            scene.asked[request.step, site] = decode_asked(request.message(site))
        if request.step == step:
            for site in request.asked:
                if site != OWN:
                    scene.said[step, site] = scene.answer(scene.asked[step, site], site)
            raise _Stop
        there = [s for s in request.asked if s != away or request.step == "keys"]
        replies = [scene.federation.ask(request, site) for site in there]
        for place, site, _, data in scene.federation.said:
            scene.said[place.rpartition("-")[2], site] = data
        return replies

    with pytest.raises(_Stop):
        drive(of_study(scene.federation.study), carry)
    return scene


def replaced(message: Any, **others: Any) -> Any:
    return msgspec.structs.replace(message, **others)


def with_keys(change: Callable[[Scene, list[OfferedKey]], Any]) -> Callable[[Scene], Any]:
    def made(scene: Scene) -> Any:
        message: AskMasked = scene.message("masked")
        keys = list(message.keys)
        return msgspec.structs.replace(message, keys=tuple(change(scene, keys) or keys))

    return made


def other_key(scene: Scene, keys: list[OfferedKey], site: str, key: bytes) -> None:
    keys[[k.site for k in keys].index(site)] = scene.signed(site, key)


LISTS: dict[str, Callable[[Scene, list[OfferedKey]], Any]] = {
    "a wrong signature": lambda scene, keys: [
        replaced(k, signature=bytes(64)) if k.site == "oak" else k for k in keys
    ],
    "a signature of somebody else": lambda scene, keys: [
        replaced(k, signature=keys[0].signature) for k in keys
    ],
    "a site is missing": lambda scene, keys: keys[1:],
    "a site comes twice": lambda scene, keys: [*keys[1:], keys[1]],
    "an unknown site": lambda scene, keys: [replaced(keys[0], site="stranger"), *keys[1:]],
    "one more site": lambda scene, keys: [*keys, replaced(keys[0], site="stranger")],
    "one key under two names": lambda scene, keys: other_key(
        scene, keys, "oak", next(k.key for k in keys if k.site == "Fir")
    ),
    "my own key under another name": lambda scene, keys: other_key(
        scene, keys, "oak", next(k.key for k in keys if k.site == OWN)
    ),
    "the same key, written otherwise": lambda scene, keys: other_key(
        scene, keys, "oak", _other_way(next(k.key for k in keys if k.site == "Fir"))
    ),
    "keys of another study": lambda scene, keys: [
        scene.signed(k.site, k.key, "0" * 64) for k in keys
    ],
    "a short key": lambda scene, keys: other_key(scene, keys, "oak", bytes(31)),
    "no keys": lambda scene, keys: [replaced(keys[0], site="x")],
    **{
        f"point {number} of low order": partial(other_key, site="oak", key=key)
        for number, key in enumerate(LOW_ORDER)
    },
}


def _other_way(key: bytes) -> bytes:
    """The same point with the bit that X25519 does not look at."""
    return key[:-1] + bytes([key[-1] | 0x80])


def check_refused(scene: Scene, asked: Asked) -> None:
    """Nothing comes back, nothing changes, and the hub hears that it was malformed."""
    before = scene.state()
    with pytest.raises(ProtocolError) as refused:
        scene.answer(asked)
    assert scene.state() == before
    assert Refused.because_of(refused.value).reason is Reason.MALFORMED


def check_goes_on(scene: Scene, step: str) -> None:
    """What was refused is as if it had never been asked."""
    assert scene.answer(scene.message(step))


@pytest.mark.parametrize("change", LISTS.values(), ids=LISTS)
def test_a_list_of_keys_that_is_not_the_rosters_is_refused(
    change: Callable[[Scene, list[OfferedKey]], Any],
) -> None:
    scene = until("masked")
    check_refused(scene, with_keys(change)(scene))
    check_goes_on(scene, "masked")


def test_the_first_list_of_keys_is_the_only_one() -> None:
    scene = until("agree")
    second = with_keys(lambda s, keys: other_key(s, keys, "oak", _fresh_key()))(scene)
    check_refused(scene, second)
    check_refused(scene, replaced(second, query=replaced(second.query, number=9)))
    check_goes_on(scene, "masked")


def _fresh_key() -> bytes:
    return sealing.public_of(sealing.make_key())


def test_an_answer_in_clear_is_refused_and_so_is_one_for_a_single_site() -> None:
    scene = until("masked")
    message: AskMasked = scene.message("masked")
    check_refused(scene, message.query)
    scene = until("masked")
    alone = msgspec.structs.replace(message.query, study=scene.federation.plan.fingerprint, to=OWN)
    with pytest.raises(ProtocolError, match="one site"):
        scene.answer(replaced(scene.message("masked"), query=alone))
    assert not scene.federation.members[OWN].memory.ledger.charges  # type: ignore[attr-defined]


def test_a_request_of_another_study_is_refused_at_every_step() -> None:
    for step in ("masked", "agree", "open"):
        scene = until(step)
        check_refused(scene, replaced(scene.message(step), study="0" * 64))
    scene = until("masked")
    check_refused(scene, AskKey(study="0" * 64))
    other = replaced(scene.message("masked").query, study="0" * 64)
    with pytest.raises(ProtocolError):
        scene.answer(replaced(scene.message("masked"), query=other))


def members_but(change: Callable[[list[Member]], list[Member]]) -> Callable[[Any], Any]:
    return lambda message: replaced(message, members=tuple(change(list(message.members))))


SETS: dict[str, Callable[[Any], Any]] = {
    "too few": members_but(lambda m: [each for each in m if each.site in (OWN, "oak")]),
    "without me": members_but(lambda m: [each for each in m if each.site != OWN]),
    "another answer for me": members_but(
        lambda m: [Member(e.site, bytes(32)) if e.site == OWN else e for e in m]
    ),
    "somebody else's answer for me": members_but(
        lambda m: [Member(e.site, m[-1].answer) if e.site == OWN else e for e in m]
    ),
    "a stranger": members_but(lambda m: [*m, Member("stranger", bytes(32))]),
    "somebody twice": members_but(lambda m: [*m, m[-1]]),
    "somebody twice with another answer": members_but(lambda m: [*m, Member("oak", bytes(32))]),
    "me twice": members_but(lambda m: [*m, *(e for e in m if e.site == OWN)]),
    "nobody": members_but(lambda m: []),
    "too few, but somebody twice": members_but(
        lambda m: [*(e for e in m if e.site in (OWN, "oak")), *(e for e in m if e.site == "oak")]
    ),
    "another query": lambda message: replaced(message, query="0" * 64),
}


@pytest.mark.parametrize("change", SETS.values(), ids=SETS)
@pytest.mark.parametrize("step", ["agree", "open"])
def test_a_set_that_is_none_is_neither_signed_nor_opened(
    change: Callable[[Any], Any], step: str
) -> None:
    scene = until(step)
    check_refused(scene, change(scene.message(step)))
    check_goes_on(scene, step)


def test_one_set_is_signed_for_a_query_whatever_comes_later() -> None:
    scene = until("agree")
    vote = scene.answer(scene.message("agree"))
    smaller = members_but(lambda m: [e for e in m if e.site != "oak"])(scene.message("agree"))
    check_refused(scene, smaller)
    assert scene.answer(scene.message("agree")) == vote
    assert scene.answer(scene.message("masked")) == scene.said["masked", OWN]


def votes_but(change: Callable[[Scene, list[Vote]], list[Vote]]) -> Callable[[Scene], Any]:
    def made(scene: Scene) -> Any:
        message: AskOpened = scene.message("open")
        return replaced(message, votes=tuple(change(scene, list(message.votes))))

    return made


def over_another_set(scene: Scene, votes: list[Vote]) -> list[Vote]:
    """A signature of one member under another set than the others'."""
    message: AskOpened = scene.message("open")
    federation = scene.federation
    listed = scene.message("masked").keys
    other = tuple(m for m in message.members if m.site != "Fir")
    vote = replaced(votes[-1], signature=b"")
    data = vote.signed(list_hash((k.site, k.key) for k in listed), hash_of(other))
    return [*votes[:-1], replaced(vote, signature=federation.identities[vote.site].sign(data))]


VOTES: dict[str, Callable[[Scene, list[Vote]], list[Vote]]] = {
    "too few": lambda scene, votes: votes[:2],
    "none": lambda scene, votes: [],
    "repeated": lambda scene, votes: [*votes[:2], votes[1]],
    "enough, and one repeated": lambda scene, votes: [*votes, votes[0]],
    "over another set": over_another_set,
    "by a stranger": lambda scene, votes: [*votes[:2], replaced(votes[2], site="stranger")],
    "under another name": lambda scene, votes: [*votes[:2], replaced(votes[2], site=votes[3].site)],
    "of another query": lambda scene, votes: [
        *votes[:2],
        *(replaced(vote, query="0" * 64) for vote in votes[2:]),
    ],
    "of another study": lambda scene, votes: [
        *votes[:2],
        *(replaced(vote, study="0" * 64) for vote in votes[2:]),
    ],
    "one is wrong": lambda scene, votes: [*votes[:3], replaced(votes[3], signature=bytes(64))],
    "signatures of keys": lambda scene, votes: [
        replaced(vote, signature=key.signature)
        for vote in votes
        for key in scene.message("masked").keys
        if key.site == vote.site
    ],
}


@pytest.mark.parametrize("change", VOTES.values(), ids=VOTES)
def test_a_sum_is_opened_only_if_enough_of_its_members_signed_it(
    change: Callable[[Scene, list[Vote]], list[Vote]],
) -> None:
    scene = until("open")
    check_refused(scene, votes_but(change)(scene))
    check_goes_on(scene, "open")


def test_members_outside_of_the_set_cannot_sign_for_it() -> None:
    scene = until("open", away="oak")
    message: AskOpened = scene.message("open")
    assert {member.site for member in message.members} == {"birch", OWN, "Fir"}
    vote = Vote(study=message.study, query=message.query, site="oak", signature=b"")
    listed = list_hash((k.site, k.key) for k in scene.message("masked").keys)
    signature = scene.federation.identities["oak"].sign(
        vote.signed(listed, hash_of(message.members))
    )
    outside = replaced(vote, signature=signature)
    check_refused(scene, replaced(message, votes=(*message.votes[:2], outside)))
    check_refused(scene, replaced(message, votes=(*message.votes, outside)))
    check_goes_on(scene, "open")


def test_nothing_is_opened_before_the_set_was_signed_here() -> None:
    signed = until("open")
    scene = until("agree")
    others = {
        site: decode(scene.said["agree", site], Vote)
        for site in scene.federation.plan.sites
        if site != OWN
    }
    message = AskOpened(
        study=scene.federation.plan.fingerprint,
        query=scene.message("agree").query,
        listed=list_hash((k.site, k.key) for k in scene.message("masked").keys),
        members=scene.message("agree").members,
        votes=tuple(others.values()),
        shares=(),
    )
    check_refused(scene, message)
    with pytest.raises(ProtocolError, match="no set was signed here for this query"):
        scene.answer(message)
    check_goes_on(scene, "agree")
    assert scene.answer(message)
    assert signed.answer(signed.message("open"))


SHARES: dict[str, Callable[[list[Told]], list[Told]]] = {
    "from a stranger": lambda shares: [*shares, Told("stranger", shares[0].data)],
    "from myself": lambda shares: [*shares, Told(OWN, shares[0].data)],
    "twice": lambda shares: [*shares, shares[0]],
}


@pytest.mark.parametrize("change", SHARES.values(), ids=SHARES)
def test_shares_of_nobody_in_the_set_are_refused(
    change: Callable[[list[Told]], list[Told]],
) -> None:
    scene = until("open")
    message: AskOpened = scene.message("open")
    check_refused(scene, replaced(message, shares=tuple(change(list(message.shares)))))
    check_goes_on(scene, "open")


def test_a_share_that_does_not_open_is_left_out_and_harms_nobody() -> None:
    scene = until("open")
    message: AskOpened = scene.message("open")
    first, *rest = message.shares
    whole = decode(scene.answer(message), Opened)
    assert {told.site for told in whole.shares} == {"birch", "Fir", "oak"}
    for data in (b"", b"x", bytes(len(first.data)), rest[0].data, first.data[:-1]):
        spoilt = replaced(message, shares=(Told(first.site, data), *rest))
        opened = decode(scene.answer(spoilt), Opened)
        assert opened.seed == whole.seed
        assert opened.shares == tuple(t for t in whole.shares if t.site != first.site)


def test_a_share_sealed_for_another_site_query_or_answer_does_not_open() -> None:
    scene, other = until("open"), until("open")
    message: AskOpened = scene.message("open")
    sender = message.shares[0].site
    given = decode(scene.said["masked", sender], Masked)
    for_others = [share.data for share in given.shares if share.receiver != OWN]
    elsewhere = next(t.data for t in other.message("open").shares if t.site == sender)
    for data in (*for_others, elsewhere):
        opened = decode(scene.answer(replaced(message, shares=(Told(sender, data),))), Opened)
        assert opened.shares == ()


def test_the_same_request_gets_the_same_bytes_at_every_step() -> None:
    for step in ("keys", "masked", "agree", "open"):
        scene = until(step)
        first = scene.answer(scene.message(step))
        charges = scene.federation.members[OWN].memory.ledger.charges  # type: ignore[attr-defined]
        assert scene.answer(scene.message(step)) == first
        after = scene.federation.members[OWN].memory.ledger.charges  # type: ignore[attr-defined]
        assert after == charges


def test_only_what_hides_the_sum_is_opened() -> None:
    scene = until("open", away="oak")
    opened = decode(scene.answer(scene.message("open")), Opened)
    assert {told.site for told in opened.seeds} == {"oak"}
    assert {told.site for told in opened.shares} == {"birch", "Fir"}
    scene = until("open")
    assert decode(scene.answer(scene.message("open")), Opened).seeds == ()


def test_a_site_that_is_shown_its_own_forgotten_key_locks_itself() -> None:
    scene = until("masked")
    member = scene.federation.members[OWN]
    member.memory._key = sealing.make_key()  # type: ignore[attr-defined]
    with pytest.raises(LedgerDisputed, match="older copy"):
        scene.answer(scene.message("masked"))
    for asked in (AskKey(study=member.plan.fingerprint), scene.message("masked")):
        with pytest.raises(NotApproved):
            scene.answer(asked)


@pytest.mark.parametrize("forgotten", ["the set", "the answer too", "all but the key"])
def test_a_site_that_is_shown_its_own_forgotten_vote_locks_itself(forgotten: str) -> None:
    scene = until("open")
    memory: Any = scene.federation.members[OWN].memory
    memory._agreed.clear()
    if forgotten != "the set":
        memory._answers.clear()
    if forgotten == "the answer too":
        scene.answer(scene.message("masked"))
    if forgotten == "all but the key":
        memory._keys = None
    with pytest.raises(LedgerDisputed, match="older copy"):
        scene.answer(scene.message("open"))
    for step in ("masked", "agree", "open"):
        with pytest.raises(HeterofedsynError):
            scene.answer(scene.message(step))


def test_a_stranger_cannot_make_a_site_lock_itself() -> None:
    scene = until("open")
    scene.federation.members[OWN].memory._agreed.clear()  # type: ignore[attr-defined]
    message: AskOpened = scene.message("open")
    forged = tuple(
        replaced(v, signature=Identity.fresh().sign(b"")) if v.site == OWN else v
        for v in message.votes
    )
    with pytest.raises(ProtocolError):
        scene.answer(replaced(message, votes=forged))
    assert scene.answer(scene.message("agree"))


def test_un_masked_integers_are_kept_nowhere() -> None:
    scene = until("agree")
    member = scene.federation.members[OWN]
    query: Query = scene.message("masked").query
    kept = member.memory.kept(query.fingerprint)
    assert kept is not None
    masked = decode(read_hidden(kept).masked, Masked)
    clear = decode(drawn_again(member).answer(encode(query)), Answer)
    integers = np.concatenate([part.values for part in clear.parts])
    hiding = np.frombuffer(masked.data, "<u8") - integers.view(np.uint64)
    assert len({*hiding.tolist()}) == integers.size > 10
    exact = [part.statistic.exact(member.desk.counts()).values for part in query.parts]
    for values in (*(part.values for part in clear.parts), *exact):
        assert values.size == 1 or values.astype("<i8").tobytes() not in kept


def test_what_is_kept_of_a_masked_answer_is_no_longer_than_was_said_before() -> None:
    scene = until("agree")
    member = scene.federation.members[OWN]
    query: Query = scene.message("masked").query
    said: list[Price] = []

    class Watched(InMemory):
        def charge(self, price: Price) -> None:
            said.append(price)
            super().charge(price)

    parts = tuple(replaced(part, share=part.share / 100) for part in query.parts) * 100
    query = replaced(query, parts=parts)
    asked = encode(query)
    keys = member.memory.keys()
    assert keys is not None
    pack = partial(member._hide, keys)
    kept = member.desk.answer(query, Watched(Ledger(OWN, member.plan.budget)), pack)
    assert len(asked) + len(kept) <= said[0].bytes < 3 * (len(asked) + len(kept))


def test_asking_for_a_vote_without_an_answer_is_refused() -> None:
    scene = until("masked")
    members = tuple(Member(name, bytes(32)) for name in scene.federation.plan.sites)
    query = scene.message("masked").query.fingerprint
    study = scene.federation.plan.fingerprint
    check_refused(scene, AskVote(study=study, query=query, members=members))
    opened = AskOpened(
        study=study, query=query, listed=bytes(32), members=members, votes=(), shares=()
    )
    check_refused(scene, opened)


def test_what_was_answered_in_one_study_is_had_through_no_other() -> None:
    scene = until("open")
    member = scene.federation.members[OWN]
    other = Federation(4, quorum=3, seed=8, identities=scene.federation.identities)
    stranger = other.members[OWN]
    offers = tuple(
        decode(other.members[name].answer(AskKey(study=other.plan.fingerprint)), OfferedKey)
        for name in other.plan.sites
    )
    # One site keeps the answers of all its studies together.
    stranger.memory._answers = member.memory._answers  # type: ignore[attr-defined]
    asked: AskMasked = scene.message("masked")
    through = AskMasked(study=other.plan.fingerprint, query=asked.query, keys=offers)
    vote = AskVote(
        study=other.plan.fingerprint,
        query=scene.message("agree").query,
        members=scene.message("agree").members,
    )
    opened = replaced(scene.message("open"), study=other.plan.fingerprint)
    for message in (through, vote, opened):
        with pytest.raises(ProtocolError):
            stranger.answer(decode_asked(encode(message)))
    assert not stranger.memory._agreed  # type: ignore[attr-defined]
    mine = replaced(
        asked,
        keys=offers,
        study=other.plan.fingerprint,
        query=replaced(asked.query, study=other.plan.fingerprint),
    )
    assert stranger.answer(mine)
    with pytest.raises(ProtocolError, match="another study"):
        stranger.answer(vote)


@pytest.mark.parametrize("part", ["votes", "members", "shares"])
def test_no_message_makes_a_site_look_at_more_than_there_are_sites(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = until("open")
    message: AskOpened = scene.message("open")
    many = replaced(message, **{part: getattr(message, part) * 1_000})
    looked: list[bytes] = []

    def is_signed(data: bytes, key: str, signature: bytes) -> bool:
        looked.append(data)
        return False

    monkeypatch.setattr(site_member, "is_signed", is_signed)
    check_refused(scene, many)
    assert not looked


def test_a_list_that_came_with_a_refused_query_is_not_kept() -> None:
    scene = until("masked")
    message: AskMasked = scene.message("masked")
    other = with_keys(lambda s, keys: other_key(s, keys, "oak", _fresh_key()))(scene)
    check_refused(scene, replaced(other, query=replaced(message.query, parts=())))
    check_goes_on(scene, "masked")
