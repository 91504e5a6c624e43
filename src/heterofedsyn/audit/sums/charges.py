"""What a sum costs: D and D with one more record, over all that a hub with its friends sees.

Real members count both tables with the same noise, mask, agree and open; their masks are taken off
by what they say. The colluding sites take away their own part of a sum, so what is seen is the sum
of the honest ones. What one record moves in it is priced by Kairouz, Liu and Steinke with the noise
of those honest sites alone, and must not be above what its site has charged; if everyone else
colludes, above what it has charged for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from heterofedsyn._arrays import Integers
from heterofedsyn.audit import oracle
from heterofedsyn.audit.effort import Effort
from heterofedsyn.audit.findings import Broken, Check, require
from heterofedsyn.audit.fixtures import (
    every_kind,
    grouped_three,
    plain_schema,
    plan_of,
    table_of,
)
from heterofedsyn.audit.patches import Passage, at_the_door
from heterofedsyn.errors import ProtocolError
from heterofedsyn.marginals import Flat, TableCounts
from heterofedsyn.masking.streams import Words, self_mask_seed, sign_of, stream
from heterofedsyn.masking.words import list_hash
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.ledger import Ledger
from heterofedsyn.privacy.noise import SimulatedNoise
from heterofedsyn.privacy.trust import Local, SecureAggregation
from heterofedsyn.protocol import Part, Plan, Query, decode
from heterofedsyn.protocol.aggregation import (
    AskMasked,
    AskOpened,
    AskVote,
    Masked,
    OfferedKey,
    Opened,
)
from heterofedsyn.protocol.aggregation import Member as InSet
from heterofedsyn.protocol.plan import Aggregation
from heterofedsyn.schema import EncodedTable
from heterofedsyn.site.answering import Desk, Price
from heterofedsyn.site.member import Member
from heterofedsyn.site.remembered import Remembered
from heterofedsyn.site.signing import Identity

SCHEMA = plain_schema(5, 4, 2)
SETTINGS = (
    *((3, 1, 3), (5, 1, 5), (5, 1, 4), (5, 2, 5), (5, 2, 4), (5, 3, 5)),
    *((25, 1, 25), (25, 1, 14), (25, 5, 25), (25, 5, 16)),
)
"""Sites, how many collude, and the quorum: all sites, and as few as there may be."""

_ROWS = 12
_NEAR = 1.35
"""A site's sigma, where it can be: near the least there is, a sum is least like a Gaussian."""

_MOST = Budget(2.0)
"""That one part may cost."""

_PLENTY = 100.0
"""Epsilon of the study."""


def checks(effort: Effort, seed: int) -> Iterator[Check]:
    """One check for each setting."""
    for setting in SETTINGS:
        sites, colluding, quorum = setting
        name = f"{sites} sites, {colluding} collude, quorum {quorum}"
        trust = SecureAggregation(*setting)
        yield f"what a sum costs: {name}", partial(costs, trust, seed)
    yield "a sum of three columns", partial(_three, seed)


def _three(seed: int) -> str:
    """Of three columns together no site tells its part of a sum, unless the plan says so."""
    plan, identities = _study(SecureAggregation(*SETTINGS[0]), seed, columns=2)
    rows = table_of(SCHEMA, _ROWS, np.random.default_rng(seed))
    world = _World(plan, identities, rows, seed)
    share = plan.budget.share(Budget(0.001))
    parts = (Part(Flat(("a0",)), share), Part(grouped_three(SCHEMA.domain), share))
    for number, some in enumerate((parts, parts[1:])):
        query = Query(study=plan.fingerprint, number=number, label="three", parts=some)
        try:
            world.seen(query)
        except ProtocolError:
            continue
        raise Broken("three columns without the plan's word: answered")
    require(not world.prices, "three columns without the plan's word: charged")
    return "refused for nothing where the plan does not say so"


def costs(trust: SecureAggregation, seed: int) -> str:
    """What every record there is costs in the sums of two queries."""
    plan, identities = _study(trust, seed)
    rows = table_of(SCHEMA, _ROWS, np.random.default_rng(seed))
    more = EncodedTable.from_codes(SCHEMA.domain, np.c_[rows.codes, [[0], [0], [0]]])
    queries = [_near_the_edge(plan, seed), _usual(plan, seed)]
    one, two = (_World(plan, identities, table, seed) for table in (rows, more))
    closest = Fraction(0)
    spent, spent_alone, charged, charged_alone = (Fraction(0) for _ in range(4))
    for query in queries:
        before, after = (world.seen(query) for world in (one, two))
        passages = one.passages[one.first]
        moved = _in_parts(after - before, passages)
        for part, passage, seen in zip(query.parts, passages, moved, strict=True):
            exact = partial(oracle.exact, part.statistic)
            require(
                np.array_equal(seen, exact(more) - exact(rows)),
                f"{passage.terms.kind}: what a hub sees moves otherwise than the counts",
            )
            worst, alone = _worst(passage, exact, rows, trust)
            require(
                worst <= Fraction(passage.terms.rho),
                f"{passage.terms.kind}: a record costs rho {float(worst)} in the sum of "
                f"{oracle.shares(trust)} honest sites, charged was {passage.terms.rho}",
            )
            spent, spent_alone = spent + worst, spent_alone + alone
            closest = max(closest, worst / Fraction(passage.terms.rho))
        price = one.prices[-1]
        charged += Fraction(price.cost.rho)
        charged_alone += Fraction(price.alone.rho)
        require(spent <= charged, f"two queries cost rho {float(spent)}, {float(charged)} charged")
        require(
            spent_alone <= charged_alone,
            f"seen alone, answers cost rho {float(spent_alone)}; for that "
            f"{float(charged_alone)} was charged",
        )
    require(closest > Fraction(99, 100), "a sum has far more noise than it needs")
    share = float(spent_alone / charged_alone)
    return f"{float(closest):.9f} of the charge at most, alone {share:.3f}"


def _worst(
    passage: Passage,
    exact: Callable[[EncodedTable], Integers],
    rows: EncodedTable,
    trust: SecureAggregation,
) -> tuple[Fraction, Fraction]:
    """What the dearest record costs in a sum, and in the answer of its own site."""
    sigma, before = passage.terms.sigma, exact(rows)
    worst = alone = Fraction(0)
    for record in product(*map(range, rows.domain.sizes)):
        with_it = np.c_[rows.codes, np.array(record)[:, None]]
        moved = exact(EncodedTable.from_codes(rows.domain, with_it)) - before
        squared = Fraction(int((moved.astype(object) ** 2).sum()))
        many, l1 = int((moved != 0).sum()), int(np.abs(moved).sum())
        worst = max(worst, oracle.price_of(squared, sigma, many, trust, l1))
        alone = max(alone, oracle.price_of(squared, sigma, many, Local(trust.sites), l1))
    return worst, alone


def _study(trust: SecureAggregation, seed: int, **other: Any) -> tuple[Plan, dict[str, Identity]]:
    names = [f"s{i:02}" for i in range(trust.sites)]
    identities = {name: Identity.fresh() for name in names}
    keys = {name: identity.public for name, identity in identities.items()}
    hidden = Aggregation(trust.colluding, trust.quorum, keys)
    terms = {"trust": trust.name, "aggregation": hidden, **other}
    return plan_of(SCHEMA, seed, *names, epsilon=_PLENTY, **terms), identities


def _near_the_edge(plan: Plan, seed: int) -> Query:
    """Every kind of statistic at nearly the least noise that a site may add."""
    domain, honest = SCHEMA.domain, oracle.shares(plan.trust_model)
    parts = []
    for statistic in every_kind(domain, seed):
        rho = oracle.furthest(statistic, domain) / (2 * honest * _NEAR**2)
        parts.append(Part(statistic, plan.budget.share(min(_MOST, Budget(rho)))))
    return Query(study=plan.fingerprint, number=0, label="edge", parts=tuple(parts))


def _usual(plan: Plan, seed: int) -> Query:
    """Every kind of statistic at a thousandth of rho."""
    share = plan.budget.share(Budget(0.001))
    parts = tuple(Part(statistic, share) for statistic in every_kind(SCHEMA.domain, seed))
    return Query(study=plan.fingerprint, number=1, label="usual", parts=parts)


def _in_parts(moved: Words, passages: Sequence[Passage]) -> list[Integers]:
    ends = np.cumsum([passage.noisy.size for passage in passages])[:-1]
    return [part.view(np.int64) for part in np.split(moved, ends)]


class _Priced(Remembered):
    """Remembers every price that was booked, too."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self.prices: list[Price] = []

    def charge(self, price: Price) -> None:
        super().charge(price)
        self.prices.append(price)


class _World:
    """All sites of a study, the first of which has these rows, and a hub whose friends are last."""

    def __init__(
        self, plan: Plan, identities: Mapping[str, Identity], rows: EncodedTable, seed: int
    ) -> None:
        self._plan = plan
        trust = plan.trust_model
        assert isinstance(trust, SecureAggregation)
        self.first = plan.sites[0]
        honest = trust.quorum - trust.colluding
        self._within = (*plan.sites[:honest], *plan.sites[trust.sites - trust.colluding :])
        self._friends = self._within[honest:]
        self.passages: dict[str, list[Passage]] = {}
        none = EncodedTable.from_codes(rows.domain, np.zeros((len(SCHEMA.domain), 0), dtype=int))
        self._members = {
            name: _member(name, plan, identities[name], rows if name == self.first else none, seed)
            for name in plan.sites
        }
        self._keys: tuple[OfferedKey, ...] = tuple(m.offer() for m in self._members.values())

    @property
    def prices(self) -> list[Price]:
        """What the first site has booked."""
        memory = self._members[self.first].memory
        assert isinstance(memory, _Priced)
        return memory.prices

    def seen(self, query: Query) -> Words:
        """The sum over the fewest honest sites that hub and friends can come to know."""
        study, fingerprint, masked = self._plan.fingerprint, query.fingerprint, {}
        ask_masked = AskMasked(study=study, query=query, keys=self._keys)
        for name in self._within:
            with at_the_door() as passages:
                masked[name] = decode(self._members[name].mask(ask_masked), Masked)
            self.passages[name] = passages
        members = tuple(InSet(name, masked[name].hash) for name in sorted(masked))
        ask_vote = AskVote(study=study, query=fingerprint, members=members)
        votes = tuple(self._members[name].vote(ask_vote) for name in masked)
        total: Words = np.zeros(len(next(iter(masked.values())).data) // 8, dtype=np.uint64)
        asked = AskOpened(
            study=study,
            query=fingerprint,
            listed=list_hash((each.site, each.key) for each in self._keys),
            members=members,
            votes=votes,
            shares=(),
        )
        for name, answer in masked.items():
            total += _unmasked(answer, self._members[name].open(asked))
        for name in self._friends:
            own = np.concatenate([passage.noisy for passage in self.passages[name]])
            total -= own.view(np.uint64)
        return total


def _unmasked(masked: Masked, said: Opened) -> Words:
    """A masked answer without its self mask and without masks that it shares with outsiders."""
    words = np.frombuffer(masked.data, dtype="<u8").copy()
    words -= stream(self_mask_seed(said.seed), words.size)
    for told in said.seeds:
        mask = stream(told.data, words.size)
        words += -mask if sign_of(said.site, told.site) > 0 else mask
    return words


def _member(name: str, plan: Plan, identity: Identity, rows: EncodedTable, seed: int) -> Member:
    counts = TableCounts(rows)
    noise = SimulatedNoise(seed, name)
    desk = Desk(name, plan, rows.domain, lambda: counts, noise, plan.trust_model)
    return Member(desk, identity, _Priced(Ledger(name, plan.budget)))
