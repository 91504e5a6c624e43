"""Game: an attacker who knows everything but one thing guesses whether a record was in the table.

In each run a coin decides whether the canary is in. The attacker sees the whole transcript, knows
the table, the canary and the recorded noise, and scores with the likelihood ratio. From the two
heaps of scores follows how far apart the worlds are (mu, as of two Gaussians of variance 1) and
so an epsilon, with its interval; both are held against what the plan claims.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist

import numpy as np

from heterofedsyn._arrays import Integers, stream
from heterofedsyn.audit import oracle
from heterofedsyn.audit.cases import SITES, Case, carry, deal
from heterofedsyn.audit.effort import Effort
from heterofedsyn.audit.findings import ALARM, Check, Finding
from heterofedsyn.audit.fixtures import DELTA, SITE, ask, ask_all, classes, plain_schema, plan_of
from heterofedsyn.errors import PrivacyRefusal
from heterofedsyn.marginals import Sketched, Statistic
from heterofedsyn.privacy.noise import NoiseSource, SecureNoise, SimulatedNoise
from heterofedsyn.privacy.trust import Local, SecureAggregation
from heterofedsyn.protocol import Answer, Plan, Query, decode, encode
from heterofedsyn.schema import Domain, EncodedTable
from heterofedsyn.simulate.run import summed
from heterofedsyn.site import Site

EPSILON = 8.0
"""What every game claims, at `DELTA`: worlds about 1.2 apart, so that a halved sigma stands out."""

_INTERVAL = NormalDist().inv_cdf(1 - ALARM)
"""Standard errors of an interval that leaves out the promise only where a game fails."""

_RUNS = 10**6
"""More than any game has, so that the noise of one seed is not that of the next."""

_ADAPTIVE = (Case("fedprivsyn", epsilon=EPSILON), Case("wavetree", epsilon=EPSILON))


def checks(effort: Effort, seed: int, own: Case | None = None) -> Iterator[Check]:
    """One game for each class of release, with either source of noise, and for whole studies.

    Args:
        own: a study that takes the place of the built-in ones, with its epsilon and delta.
    """
    claim = Claim(own.epsilon, own.delta) if own else Claim()
    names = classes(plain_schema(9, 6, 2).domain, seed)
    for name in names:
        yield f"{name}, seeded", partial(_class, effort.runs, seed, claim, name, secure=False)
        yield f"{name}, OpenDP", partial(_class, effort.secure_runs, seed, claim, name, secure=True)
    yield "sum over sites, OpenDP", partial(_sum, 2 * effort.secure_runs, seed, claim)
    for case in (own,) if own else _ADAPTIVE:
        if plays_whole(effort, case):
            work = partial(_study, effort.adaptive_runs, seed, case)
            yield f"whole study: {case.method}", work


def plays_whole(effort: Effort, case: Case) -> bool:
    """Whether there is a game of a whole study; a sum has a game of its own."""
    return effort.adaptive_runs > 0 and case.trust == Local.name


@dataclass(frozen=True)
class Claim:
    """What a game is held against."""

    epsilon: float = EPSILON
    delta: float = DELTA


def _class(runs: int, seed: int, claim: Claim, name: str, *, secure: bool) -> Iterator[Finding]:
    """The whole budget spent on one class of release."""
    schema = plain_schema(9, 6, 2)
    domain = schema.domain
    plan = plan_of(schema, seed, epsilon=claim.epsilon, delta=claim.delta)
    statistics = classes(domain, seed)[name]
    shared = plan.budget.evenly(len(statistics))[0].rho
    queries = [ask(plan, number, statistics, shared) for number in range(2)]
    worlds = _worlds(statistics, domain)
    exact = [_told(queries[0], world) for world in worlds]

    def play(run: int, inside: bool) -> float:
        noise: NoiseSource = SecureNoise() if secure else SimulatedNoise(seed * _RUNS + run, SITE)
        site = Site(SITE, worlds[inside], plan, noise)
        return sum(_score(reply, *exact) for reply in _pressed(site, queries))

    who = "OpenDP" if secure else "seeded"
    yield _judged(f"{name}, {who}", runs, seed, plan, play)


def _sum(runs: int, seed: int, claim: Claim) -> Iterator[Finding]:
    """The whole budget where the sum over sites is seen, and one site tells the hub its part."""
    schema = plain_schema(9, 6, 2)
    domain = schema.domain
    trust = SecureAggregation.name
    plan = plan_of(schema, seed, *SITES, epsilon=claim.epsilon, delta=claim.delta, trust=trust)
    statistics = classes(domain, seed)["gaussian sketch"]
    query = ask_all(plan, statistics)
    worlds = _worlds(statistics, domain)
    exact = [
        [rest + own for rest, own in zip(_told(query, worlds[0]), told, strict=True)]
        for told in (_told(query, world) for world in worlds)
    ]

    def play(run: int, inside: bool) -> float:
        told = [
            Site(name, rows, plan, SecureNoise(), trust=plan.trust_model).answer(encode(query))
            for name, rows in zip(plan.sites, [worlds[inside], *[worlds[0]] * 2], strict=True)
        ]
        # What the last site said is taken off again: it is in with the hub.
        *honest, _ = (decode(reply, Answer) for reply in told)
        return _score(encode(summed(honest)), *exact)

    yield _judged("sum over sites, OpenDP", runs, seed, plan, play)


def _worlds(statistics: Sequence[Statistic], domain: Domain) -> tuple[EncodedTable, EncodedTable]:
    """A table, and the same with the canary.

    All rows are in one corner and the canary far from it: the worst there is for a dependence.
    """
    table = EncodedTable.from_codes(domain, np.zeros((len(domain), 300), dtype=np.int64))
    canary = EncodedTable.from_codes(domain, _furthest(statistics, domain)[:, None])
    return table, EncodedTable.concatenate([table, canary])


def _pressed(site: Site, queries: Sequence[Query]) -> set[bytes]:
    """All answers that a hub gets that asks for more than was agreed."""
    answers = set()
    for query in (queries[0], *queries):
        try:
            answers.add(site.answer(encode(query)))
        except PrivacyRefusal:
            continue
    return answers


def _furthest(statistics: Sequence[Statistic], domain: Domain) -> Integers:
    """A record that moves these statistics most, as codes."""
    record = np.array([size - 1 for size in domain.sizes], dtype=np.int64)
    for statistic in statistics:
        if isinstance(statistic, Sketched):
            cell = int(oracle.squared_rows(statistic, domain).argmax())
            pair = [domain.index(name) for name in statistic.attributes]
            record[pair] = np.unravel_index(cell, domain.shape(statistic.attributes))
            break
    return record


def _study(runs: int, seed: int, case: Case) -> Iterator[Finding]:
    """A whole study in every run: its queries follow from its answers."""
    import pyarrow as pa

    plan = case.plan(seed)
    dealt = deal(case.people(20 * len(plan.sites), seed), len(plan.sites))
    own = [dealt[0], pa.concat_tables([dealt[0], case.person([case.corners[1]], dealt[0])])]
    worlds = [case.encoded(rows) for rows in own]
    others = [case.encoded(rows) for rows in dealt[1:]]

    def play(run: int, inside: bool) -> float:
        tables = dict(zip(plan.sites, [worlds[inside], *others], strict=True))
        sites = {
            name: Site(name, table, plan, SimulatedNoise(seed * _RUNS + run, name))
            for name, table in tables.items()
        }
        said = carry(case.encoding, plan, case.conducted, sites)
        return sum(
            _score(replies[plan.sites[0]], _told(query, worlds[0]), _told(query, worlds[1]))
            for query, replies in zip(said.queries, said.replies, strict=True)
            if plan.sites[0] in replies
        )

    yield _judged(f"whole study: {case.method}", runs, seed, plan, play)


def _told(query: Query, table: EncodedTable) -> list[Integers]:
    return [oracle.exact(part.statistic, table) for part in query.parts]


def _score(reply: bytes, without: list[Integers], within: list[Integers]) -> float:
    """The log of how much likelier an answer is if the canary is in."""
    score = 0.0
    for part, zero, one in zip(decode(reply, Answer).parts, without, within, strict=True):
        middle = (zero + one) / 2
        score += float(((part.values - middle) * (one - zero)).sum()) / part.sigma**2
    return score


def _judged(
    name: str, runs: int, seed: int, plan: Plan, play: Callable[[int, bool], float]
) -> Finding:
    """What the scores say about epsilon."""
    coins = stream(seed, f"coins of {name}").random(runs) < 0.5
    scores = np.array([play(run, bool(coin)) for run, coin in enumerate(coins)])
    heaps = scores[~coins], scores[coins]
    spread = math.sqrt(sum(float(((h - h.mean()) ** 2).sum()) for h in heaps) / (runs - 2))
    apart = float(heaps[1].mean() - heaps[0].mean())
    mu = apart / spread if spread > 0 else math.inf if apart else 0.0
    error = math.sqrt(1 / heaps[0].size + 1 / heaps[1].size + min(mu, 1e3) ** 2 / (2 * runs))
    claimed = math.sqrt(2 * plan.budget.rho)
    chance = 0.5 * math.erfc((mu - claimed) / error / math.sqrt(2))
    low, middle, high = (
        epsilon_of_mu(max(0.0, mu + z * error), plan.delta) for z in (-_INTERVAL, 0.0, _INTERVAL)
    )
    most = epsilon_of_mu(claimed, plan.delta)
    return Finding.of_chance(
        f"game: {name}",
        chance,
        f"{compared(middle, plan.epsilon, chance)}: measured epsilon {middle:.2f}, by "
        f"{runs:,} runs between {low:.2f} and {high:.2f}; promised {plan.epsilon:g} (exactly "
        f"{most:.2f} for Gaussian noise of this size)",
    )


def compared(measured: float, promised: float, chance: float) -> str:
    """A measured epsilon beside the promised one, in words.

    >>> compared(7.9, 8.0, 0.6), compared(8.5, 8.0, 0.2)
    ('not above the promise', 'not above the promise, within the error of the experiment')
    """
    if chance < ALARM:
        return "ABOVE the promise"
    if measured <= promised:
        return "not above the promise"
    return "not above the promise, within the error of the experiment"


def epsilon_of_mu(mu: float, delta: float) -> float:
    """The epsilon at which two Gaussians this far apart are told with this delta.

    >>> round(epsilon_of_mu(1.0, 1e-5), 3)
    4.377
    """
    if mu == 0:
        return 0.0
    if mu > 50:
        return math.inf

    def excess(epsilon: float) -> float:
        return _normal(-epsilon / mu + mu / 2) - math.exp(epsilon) * _normal(-epsilon / mu - mu / 2)

    low, high = 0.0, mu**2 / 2 + 40 * mu
    high = min(high, 700.0)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > delta else (low, middle)
    return high


def _normal(z: float) -> float:
    return math.erfc(-z / math.sqrt(2)) / 2
