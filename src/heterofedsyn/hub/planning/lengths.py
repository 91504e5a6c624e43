"""How long a site's messages are; it depends on nothing but the sizes of its releases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from heterofedsyn.masking.identity import KEY_BYTES, SIGNATURE_BYTES
from heterofedsyn.masking.shamir import SECRET_BYTES, SHARE_BYTES
from heterofedsyn.masking.streams import SEED_BYTES
from heterofedsyn.masking.words import HASH_BYTES
from heterofedsyn.privacy.trust import SecureAggregation
from heterofedsyn.protocol import Answer, Plan, Released, encode
from heterofedsyn.protocol.aggregation import Masked, OfferedKey, Opened, SealedShare, Told, Vote

SEALED_BYTES = SHARE_BYTES + 28
"""A share with nonce and tag."""


class Weight:
    """The bytes of a site's answers.

    Attributes:
        once: bytes that a site sends before it is asked anything.
    """

    once: int = 0

    def __init__(self, plan: Plan, site: str) -> None:
        def length(*parts: Released) -> int:
            study = plan.fingerprint
            answer = Answer(study=study, query=study, site=site, simulated=False, parts=parts)
            return len(encode(answer))

        self._empty = length()
        nothing = Released(data=b"", sensitivity=1.0, sigma=1.0, rho=1.0)
        self._release = length(nothing) - self._empty - _head(0)

    @staticmethod
    def of_plan(plan: Plan, site: str) -> Weight:
        """Of the answers themselves, or of what hides them where sites have keys."""
        return _MaskedWeight(plan, site) if plan.roster else Weight(plan, site)

    def of(self, sizes: Sequence[int]) -> int:
        """Bytes of one answer with releases of these sizes."""
        found = self._empty + _list_head(len(sizes))
        for size, times in Counter(sizes).items():
            found += times * (self._release + _head(8 * size) + 8 * size)
        return found

    def most(self, rounds: int | None, releases: int | None, integers: int | None) -> int | None:
        """Bytes that so many answers have at most."""
        if rounds is None or releases is None or integers is None:
            return None
        answers = rounds * (self._empty + _list_head(releases))
        # So many integers in one release are the most that its head can tell.
        return answers + releases * (self._release + _head(8 * integers)) + 8 * integers


class _MaskedWeight(Weight):
    """The bytes of masked answers, of a vote for each and of what opens it, at most."""

    def __init__(self, plan: Plan, site: str) -> None:
        study, others = plan.fingerprint, [name for name in plan.sites if name != site]
        shares = tuple(SealedShare(name, bytes(SEALED_BYTES), bytes(HASH_BYTES)) for name in others)
        masked = Masked(
            study=study,
            query=study,
            site=site,
            simulated=False,
            data=b"",
            seed_hash=bytes(HASH_BYTES),
            shares=shares,
        )
        vote = Vote(study=study, query=study, site=site, signature=bytes(SIGNATURE_BYTES))
        opened = max(_opened(plan, site, others, missing) for missing in _may_miss(plan))
        self._empty = len(encode(masked)) - _head(0) + len(encode(vote)) + opened
        key = OfferedKey(
            study=study, site=site, key=bytes(KEY_BYTES), signature=bytes(SIGNATURE_BYTES)
        )
        self.once = len(encode(key))

    def of(self, sizes: Sequence[int]) -> int:
        """All parts are one row of integers."""
        many = 8 * sum(sizes)
        return self._empty + _head(many) + many

    def most(self, rounds: int | None, releases: int | None, integers: int | None) -> int | None:
        """Bytes that so many answers have at most."""
        if rounds is None or integers is None:
            return None
        return rounds * (self._empty + _head(8 * integers)) + 8 * integers


def _may_miss(plan: Plan) -> range:
    """How many sites may be outside of a sum."""
    trust = plan.trust_model
    fewest = trust.quorum if isinstance(trust, SecureAggregation) else trust.sites
    return range(trust.sites - fewest + 1)


def _opened(plan: Plan, site: str, others: Sequence[str], missing: int) -> int:
    """Bytes by which a sum is opened: of a member a share, of a site outside the seed of a mask."""
    opened = Opened(
        study=plan.fingerprint,
        query=plan.fingerprint,
        site=site,
        seed=bytes(SECRET_BYTES),
        shares=tuple(Told(name, bytes(SHARE_BYTES)) for name in others[missing:]),
        seeds=tuple(Told(name, bytes(SEED_BYTES)) for name in others[:missing]),
    )
    return len(encode(opened))


def _head(many: int) -> int:
    """Bytes by which msgpack tells the length of a buffer."""
    return 2 if many < 2**8 else 3 if many < 2**16 else 5


def _list_head(many: int) -> int:
    """Bytes by which msgpack tells the length of a list, beyond the one of an empty list."""
    return 0 if many < 2**4 else 2 if many < 2**16 else 4
