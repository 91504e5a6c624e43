"""Masks themselves: uniform whatever they hide, never used twice, sealed for one site alone.

What linear algebra takes for granted is looked at here: that a stream is known to nobody who was
not told its seed, that every mask has a stream of its own, and that names for things are not
names for other things too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, permutations, product

import numpy as np

from heterofedsyn._arrays import Integers
from heterofedsyn.audit.effort import Effort
from heterofedsyn.audit.findings import Check, Finding, require
from heterofedsyn.audit.fixtures import plain_schema, plan_of, query_of
from heterofedsyn.audit.sums.members import watched
from heterofedsyn.marginals import Flat, TableCounts, Total
from heterofedsyn.masking import sealing, words
from heterofedsyn.masking.streams import Words
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.goodness import chi_square_tail
from heterofedsyn.privacy.ledger import Ledger
from heterofedsyn.privacy.noise import NoiseSource, SimulatedNoise
from heterofedsyn.privacy.terms import Terms
from heterofedsyn.privacy.trust import SecureAggregation
from heterofedsyn.protocol import Plan, decode
from heterofedsyn.protocol.aggregation import AskMasked, Masked, OfferedKey, bound_to
from heterofedsyn.protocol.plan import Aggregation
from heterofedsyn.schema import EncodedTable
from heterofedsyn.site.answering import Desk
from heterofedsyn.site.member import Member
from heterofedsyn.site.remembered import Remembered
from heterofedsyn.site.signing import Identity

_NAMES = ("a", "ab", "bc")
_FEW = 6
"""Values of each attribute where every word of every answer is compared with all others."""

_NONCE = 12


def checks(effort: Effort, seed: int) -> Iterator[Check]:
    """Masks, seals and encodings."""
    yield "masked answers are uniform", partial(uniform, effort, seed)
    yield "every mask has a stream of its own", partial(own_streams, seed)
    yield "a sealed share opens for one site", partial(seals, seed)
    yield "different things have different names", encodings


@dataclass(frozen=True)
class Silence:
    """A source of noise that adds none: what masks hide is then known to be nothing but zeros."""

    simulated = True

    def draw(self, terms: Terms, alone: Budget, key: bytes) -> Integers:
        """Zeros."""
        return np.zeros(terms.integers, dtype=np.int64)


class Sites:
    """Real members whose keys of a study are given."""

    def __init__(self, width: int) -> None:
        """Who they are, whatever the study; their rows have two attributes of so many values."""
        self.identities = {name: Identity.fresh() for name in _NAMES}
        self.keys = {name: sealing.make_key() for name in _NAMES}
        self.schema = plain_schema(width, width)

    def plan(self, seed: int) -> Plan:
        """A study of theirs."""
        keys = {name: identity.public for name, identity in self.identities.items()}
        trust = SecureAggregation(len(_NAMES))
        return plan_of(
            self.schema,
            seed,
            *_NAMES,
            epsilon=1.0,
            trust=trust.name,
            aggregation=Aggregation(trust.colluding, trust.quorum, keys),
        )

    def listed(self, plan: Plan, keys: dict[str, bytes]) -> tuple[OfferedKey, ...]:
        """A list of these keys, vouched for."""
        offers = [
            OfferedKey(study=plan.fingerprint, site=n, key=sealing.public_of(k), signature=b"")
            for n, k in keys.items()
        ]
        return tuple(
            OfferedKey(
                study=offer.study,
                site=offer.site,
                key=offer.key,
                signature=self.identities[offer.site].sign(offer.signed),
            )
            for offer in offers
        )

    def answer(
        self,
        name: str,
        plan: Plan,
        noise: NoiseSource,
        keys: dict[str, bytes],
        number: int = 0,
        rows: int = 0,
    ) -> Masked:
        """The masked answer of one of them, which has so many equal rows."""
        domain = self.schema.domain
        counts = TableCounts(EncodedTable.from_codes(domain, np.zeros((2, rows), dtype=int)))
        desk = Desk(name, plan, domain, lambda: counts, noise, plan.trust_model)
        memory = Remembered(Ledger(name, plan.budget))
        memory.keep_key(keys[name])
        query = query_of(plan, Flat(("a0", "a1")), Total(), number=number, label=f"q{number}")
        asked = AskMasked(study=plan.fingerprint, query=query, keys=self.listed(plan, keys))
        return decode(Member(desk, self.identities[name], memory).mask(asked), Masked)


def uniform(effort: Effort, seed: int) -> Iterator[Finding]:
    """Masked words have every byte equally often at every place, whatever they hide."""
    sites = Sites(math.isqrt(effort.draws))
    plan = sites.plan(seed)
    for what, rows in (("no rows, no noise", 0), ("rows and noise", 1_000)):
        answers: dict[str, Words] = {}
        for name in _NAMES:
            noise = SimulatedNoise(seed, name) if rows else Silence()
            data = sites.answer(name, plan, noise, sites.keys, rows=rows).data
            answers[name] = np.frombuffer(data, "<u8")
        for name, masked in answers.items():
            yield _bytes(f"{what}: bytes of {name}'s answer", masked)
        for one, two in combinations(_NAMES, 2):
            yield _bytes(f"{what}: {one}'s answer less {two}'s", answers[one] - answers[two])
            yield _bytes(f"{what}: {one}'s answer and {two}'s", answers[one] + answers[two])


def _bytes(what: str, masked: Words) -> Finding:
    """Chi-squares of bytes, of the lowest and of the highest bits of neighbouring words."""
    looks = [
        np.bincount(column, minlength=256) for column in masked.view(np.uint8).reshape(-1, 8).T
    ]
    pairs = masked[: masked.size // 2 * 2].reshape(-1, 2)
    for bits in (pairs & np.uint64(15), pairs >> np.uint64(60)):
        both = bits[:, 0] * np.uint64(16) + bits[:, 1]
        looks.append(np.bincount(both.astype(np.int64), minlength=256))
    p = min(_chi_square(counts) for counts in looks)
    return Finding.of_chance(what, min(1.0, p * len(looks)), f"{masked.size:,} integers")


def _chi_square(counts: Integers) -> float:
    expected = counts.sum() / counts.size
    return chi_square_tail(float(((counts - expected) ** 2).sum() / expected), counts.size - 1)


def own_streams(seed: int) -> str:
    """No stream serves two answers but those of its pair; keys may be the same as ever."""
    sites = Sites(_FEW)
    other = {**sites.keys, _NAMES[-1]: sealing.make_key()}
    seen: dict[bytes, Counter[tuple[int, int, int, str]]] = {}
    drawn_words: dict[int, bytes] = {}
    for study, (which, keys), number in product(range(2), enumerate((sites.keys, other)), range(2)):
        plan = sites.plan(seed + study)
        for name in _NAMES:
            with watched() as (_, drawn):
                sites.answer(name, plan, Silence(), keys, number)
            for stream_seed, drawn_now in drawn:
                seen.setdefault(stream_seed, Counter())[study, which, number, name] += 1
                for word in drawn_now.tolist():
                    known = drawn_words.setdefault(word, stream_seed)
                    require(known == stream_seed, "two streams share an integer")
            require(len(drawn) == len(_NAMES), "an answer has not as many masks as there are sites")
    for uses in seen.values():
        require(max(uses.values()) == 1, "a stream is begun anew within one answer")
        moments = {moment[:3] for moment in uses}
        require(
            len(moments) == 1,
            "one stream masks answers of two queries, studies or lists of keys: "
            + " and ".join(_moment(each) for each in sorted(moments)),
        )
        require(len(uses) <= 2, "one stream masks answers of three sites")
    many = Counter(len(uses) for uses in seen.values())
    require(many[2] == many[1], "a pair does not share one stream, or a site has none of its own")
    return f"{len(seen)} streams, {len(drawn_words):,} integers, all different"


def _moment(moment: tuple[int, int, int]) -> str:
    return "study {} list {} query {}".format(*moment)


def seals(seed: int) -> str:
    """Shares that real members sealed: each opens for its receiver, bound as it is, or not."""
    sites = Sites(_FEW)
    plan = sites.plan(seed)
    masked = {
        (name, number): sites.answer(name, plan, Silence(), sites.keys, number)
        for name, number in product(_NAMES, range(2))
    }
    again = sites.answer(_NAMES[0], plan, Silence(), sites.keys)  # as after a crash
    every = [share.data for m in (*masked.values(), again) for share in m.shares]
    require(len({data[:_NONCE] for data in every}) == len(every), "two seals have the same nonce")
    listed = words.list_hash((n, sealing.public_of(k)) for n, k in sites.keys.items())
    tried = 0
    for (name, number), answer in masked.items():
        for share in answer.shares:
            query = answer.query
            true = (plan.fingerprint, query, listed, name, share.receiver, answer.hash)
            require(_opens(sites, share.data, *true), "a share does not open for its receiver")
            other = masked[name, 1 - number]
            wrong: tuple[tuple[str, tuple[str, str, bytes, str, str, bytes]], ...] = (
                ("another study", (query, *true[1:])),
                ("another query", (true[0], other.query, *true[2:])),
                ("another list of keys", (*true[:2], bytes(32), *true[3:])),
                ("the other direction", (*true[:3], share.receiver, name, answer.hash)),
                ("another answer", (*true[:5], other.hash)),
                *(
                    (f"{two} from {one}", (*true[:3], one, two, answer.hash))
                    for one, two in permutations(_NAMES, 2)
                    if (one, two) != (name, share.receiver)
                ),
            )
            for what, how in wrong:
                require(not _opens(sites, share.data, *how), f"a share opens for {what}")
                tried += 1
            require(
                _turned_back(sites, share.data, *true),
                "a site opens what it sealed itself: one key serves both directions",
            )
    return f"{len(every)} seals, {tried} wrong ways to open them"


def _opens(
    sites: Sites,
    data: bytes,
    study: str,
    query: str,
    listed: bytes,
    sender: str,
    receiver: str,
    answer: bytes,
) -> bool:
    pair = _pair(sites, (study, query, listed), receiver, sender)
    return pair.unseal(data, bound_to(study, query, sender, receiver, answer)) is not None


def _turned_back(
    sites: Sites,
    data: bytes,
    study: str,
    query: str,
    listed: bytes,
    sender: str,
    receiver: str,
    answer: bytes,
) -> bool:
    """Whether the key of one direction does not open what was sealed for the other."""
    pair = _pair(sites, (study, query, listed), sender, receiver)
    return pair.unseal(data, bound_to(study, query, sender, receiver, answer)) is None


def _pair(sites: Sites, where: tuple[str, str, bytes], own: str, other: str) -> sealing.Pair:
    public = sealing.public_of(sites.keys[other])
    return sealing.Pair(sites.keys[own], public, own=own, other=other, where=where)


def encodings() -> str:
    """What is hashed, signed or derived from cannot be read as something else."""
    one, two = bytes(range(32)), bytes(range(32, 64))
    fields: Sequence[tuple[str | bytes, ...]] = (
        ("a", "bc"),
        ("ab", "c"),
        ("abc",),
        ("abc", ""),
        ("", "abc"),
        ("a", "b", "c"),
        (b"a", "bc", ""),
    )
    named = [words.joined("purpose", *each) for each in fields]
    named += [words.joined("purposea", "bc"), words.joined("purpos", "ea", "bc")]
    named += [
        words.signed_set("study", "a", "bquery", one, two),
        words.signed_set("study", "ab", "query", one, two),
        words.signed_set("studya", "b", "query", one, two),
        words.signed_key("study", "a", b"b" + one),
        words.signed_key("study", "ab", one),
        words.set_hash([("a", b"b" + one), ("c", two)]),
        words.set_hash([("ab", one), ("c", two)]),
        words.list_hash([("a", b"b" + one), ("c", two)]),
        words.list_hash([("ab", one), ("c", two)]),
        words.share_hash("a", "bc", one),
        words.share_hash("ab", "c", one),
        words.seed_hash(one),
        words.answer_hash(one, two),
        words.answer_hash(one + two, b""),
        bound_to("study", "query", "a", "bc", one),
        bound_to("study", "query", "ab", "c", one),
    ]
    require(len({*named}) == len(named), "two different things have the same name")
    return f"{len(named)} things"
