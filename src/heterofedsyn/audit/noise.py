"""Noise: what is really added, taken from answers of real sites, against what is recorded.

Noise is an answer minus the counts, which are counted anew. Its source is the one that sites have
(OpenDP, from the operating system) unless a check says otherwise.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import combinations, product
from typing import TypeAlias

import numpy as np

from heterofedsyn._arrays import Exact, Integers, stream
from heterofedsyn.audit import _fresh_process, oracle
from heterofedsyn.audit.cases import Case, carry, deal
from heterofedsyn.audit.coupling import prices
from heterofedsyn.audit.effort import USUAL, Effort
from heterofedsyn.audit.findings import Check, Finding, require
from heterofedsyn.audit.fixtures import (
    MOST_EPSILON,
    SITE,
    SiteOnDisk,
    as_csv,
    ask,
    classes,
    noise_terms,
    plain_schema,
    plan_of,
    table_of,
    temporary_folder,
)
from heterofedsyn.audit.patches import at_the_door, stopped_clock
from heterofedsyn.errors import PrivacyRefusal
from heterofedsyn.hub import make_method
from heterofedsyn.marginals import Flat
from heterofedsyn.privacy.goodness import (
    gaussian_p_value,
    relation_p_value,
    reuse_p_value,
    tails_p_value,
)
from heterofedsyn.privacy.noise import (
    NoiseSource,
    SecureNoise,
    SimulatedNoise,
    add_noise,
    check_version,
)
from heterofedsyn.protocol import Answer, Plan, Query, decode, encode
from heterofedsyn.protocol.terms import MOST_SIGMA
from heterofedsyn.schema import EncodedTable, Schema
from heterofedsyn.simulate.run import run_study
from heterofedsyn.site import Site

SIGMAS = (0.5, 0.8, 1.0, 1.5, 2.5, 3.0, 7.3, 41.0, 173.2, 1000.5)
"""Whole and fractional, small and large."""

_LARGE = (2.0**20 + 0.5, 7.5e6, 2.0**31, MOST_SIGMA)
"""Up to the largest noise that may be added to 64-bit integers."""

_FAR = 173.2
_FAR_DRAWS = 500_000
"""Of which some 32 must be beyond 4 sigma; none has a chance of 1e-14."""

_WIDE = 41.0
_LONG = (363, 362)
"""Values of two attributes: their pair has more than 2^17 cells."""

_CHILD_SECONDS = 600
_VALUE = "7"
"""Of every environment variable that is looked up: a seed, if anything is."""

_Sample: TypeAlias = tuple[Integers, float]
"""A vector of noise, and the sigma that is recorded with it."""


@dataclass(frozen=True, eq=False)
class FewRows:
    """A study of few rows: whatever is added to the counts of a pair is nearly all that is seen."""

    schema: Schema
    plan: Plan
    table: EncodedTable

    @classmethod
    def of(cls, seed: int, *sizes: int, epsilon: float = MOST_EPSILON) -> FewRows:
        """Rows of attributes of these sizes."""
        schema = plain_schema(*sizes)
        table = table_of(schema, 50, stream(seed, "few rows"))
        return cls(schema, plan_of(schema, seed, SITE, "oak", epsilon=epsilon), table)

    def query(self, number: int = 0, sigma: float = _WIDE, copies: int = 1) -> Query:
        """The pair, so many times, at the price of noise of this sigma."""
        return ask(self.plan, number, (Flat(("a0", "a1")),) * copies, 1 / (2 * sigma**2))

    def site(self, source: NoiseSource, name: str = SITE) -> Site:
        """A new site with these rows."""
        return Site(name, self.table, self.plan, source)

    def noise(self, reply: bytes, query: Query) -> list[_Sample]:
        """The noise of every part of an answer."""
        parts = decode(reply, Answer).parts
        return [
            (released.values - oracle.exact(part.statistic, self.table), released.sigma)
            for released, part in zip(parts, query.parts, strict=True)
        ]

    def added(self, site: Site, query: Query) -> list[_Sample]:
        """What a site adds to every part of a query."""
        return self.noise(site.answer(encode(query)), query)


def checks(effort: Effort, seed: int, own: Case | None = None) -> Iterator[Check]:
    """The noise by its size, by the kind of release, and against itself.

    Args:
        own: a study whose sigmas take the place of the built-in ones.
    """
    yield "OpenDP draws without bias", _version
    seen: dict[str, list[_Sample]] = {"OpenDP": [], "seeded": []}
    for sigma in _sigmas_of(own, seed) if own else SIGMAS:
        yield f"sigma {sigma:g}", partial(_sigma, effort, seed, sigma, seen)
    yield "all sigmas together", partial(_together, seen)
    yield "large sigmas", partial(_large, effort, seed)
    yield "far tails", partial(_far, effort)
    yield "every kind of release", partial(_kinds, effort, seed)
    yield "independence", partial(_independence, seed)
    yield "restarts and forks", partial(_processes, seed)
    yield "noise by default", partial(_by_default, seed)
    yield "the same query again", partial(_again, seed)
    yield "one long vector", partial(_long, seed)
    yield "variances are rounded up", partial(prices.calibrations, effort, seed)


def _sigmas_of(case: Case, seed: int) -> list[float]:
    """What a study adds, from the least noise to the most, as many sizes as are built in."""
    plan = case.plan(seed)
    trust = plan.trust_model
    dealt = deal(case.people(case.rows, seed), len(plan.sites))
    sites = {
        name: Site(name, case.encoded(rows), plan, SimulatedNoise(seed, name), trust=trust)
        for name, rows in zip(plan.sites, dealt, strict=True)
    }
    said = carry(case.encoding, plan, case.conducted, sites)
    sigmas = sorted(
        {
            float(f"{part.sigma:.4g}")
            for replies in said.replies
            for reply in replies.values()
            for part in decode(reply, Answer).parts
        }
    )
    places = np.linspace(0, len(sigmas) - 1, min(len(sigmas), len(SIGMAS)))
    return [sigmas[int(place)] for place in places]


def _version() -> str:
    check_version()
    return f"version {version('opendp')}"


def _sources(seed: int, name: str = SITE) -> dict[str, NoiseSource]:
    """What may be drawn from, by its name."""
    return {"OpenDP": SecureNoise(), "seeded": SimulatedNoise(seed, name)}


def _measured(name: str, noise: Integers, sigma: float) -> Finding:
    """Whether noise is that of its sigma."""
    figure = f"{noise.size:,} draws, measured {noise.std():.6g}"
    return Finding.of_chance(name, gaussian_p_value(noise, sigma), figure)


def _sigma(
    effort: Effort, seed: int, sigma: float, seen: dict[str, list[_Sample]]
) -> Iterator[Finding]:
    """Both sources at one sigma; what was drawn is added to what was seen."""
    study = FewRows.of(seed, 100, 100)
    for who, source in _sources(seed).items():
        draws = effort.draws * (4 if source.simulated else 1)
        # A site of its own for each query, since small noise is dear.
        samples = [
            study.added(study.site(source), study.query(number, sigma))[0]
            for number in range(max(1, draws // 10_000))
        ]
        noise, recorded = np.concatenate([added for added, _ in samples]), samples[-1][1]
        require(
            math.isclose(recorded, sigma, rel_tol=1e-9), f"sigma {recorded} for a price of {sigma}"
        )
        seen[who].append((noise, recorded))
        yield _measured(f"sigma {sigma:g}, {who}", noise, recorded)


def _together(seen: dict[str, list[_Sample]]) -> Iterator[Finding]:
    """The tails, which are rare at any one sigma, and draws used twice in one vector."""
    for who, samples in seen.items():
        many = sum(noise.size for noise, _ in samples)
        yield Finding.of_chance(f"tails, {who}", tails_p_value(samples), f"{many:,} draws")
        least, sigma = min((reuse_p_value(noise), sigma) for noise, sigma in samples)
        yield Finding.of_chance(
            f"draws used twice, {who}",
            min(1.0, least * len(samples)),
            f"{len(samples)} sigmas, closest {sigma:g}",
        )


def _drawn(source: NoiseSource, sigma: float, many: int, key: bytes) -> Integers:
    """What the door adds to nothing."""
    nothing = Exact(np.zeros(many, dtype=np.int64))
    return add_noise(nothing, *noise_terms(sigma, many), source, key).values


def _large(effort: Effort, seed: int) -> Iterator[Finding]:
    """Both sources at sigmas that tiny prices mean, as sites add them, and up to the largest."""
    many = max(10_000, effort.draws // 3)
    for (who, source), sigma in product(_sources(seed).items(), _LARGE):
        noise = _drawn(source, sigma, many, b"large")
        yield _measured(f"sigma {sigma:.4g}, {who}", noise, sigma)
    study = FewRows.of(seed, 100, 100)
    for sigma in _LARGE[:2]:
        try:
            ((noise, recorded),) = study.added(study.site(SecureNoise()), study.query(0, sigma))
        except PrivacyRefusal:
            continue  # a price too small for any answer
        yield _measured(f"sigma {sigma:.4g}, of a site", noise, recorded)


def _far(effort: Effort) -> Iterator[Finding]:
    """So many draws that the tails beyond 4 sigma are seen: noise has no end within reach."""
    many = _FAR_DRAWS * max(1, effort.draws // USUAL.draws)
    noise = _drawn(SecureNoise(), _FAR, many, b"far")
    beyond = int((np.abs(noise) > 4 * _FAR).sum())
    yield Finding.of_chance(
        "far tails, OpenDP",
        tails_p_value([(noise, _FAR)]),
        f"{many:,} draws, {beyond:,} beyond 4 sigma",
    )


def _kinds(effort: Effort, seed: int) -> Iterator[Finding]:
    """Every kind of release gets its noise on every integer."""
    study = FewRows.of(seed, 9, 6, 2)
    domain = study.schema.domain
    for name, statistics in classes(domain, seed).items():
        each = sum(oracle.integers(statistic, domain) for statistic in statistics)
        copies = max(1, min(1_000, effort.draws // 20) // each)
        query = ask(study.plan, 0, statistics * copies, 1e-4)
        samples = study.added(study.site(SecureNoise()), query)
        # Different sensitivities mean different sigmas: each of them by itself.
        for sigma in sorted({sigma for _, sigma in samples}):
            own = np.concatenate([noise for noise, drawn_at in samples if drawn_at == sigma])
            yield Finding.of_chance(
                f"noise of a release: {name}",
                gaussian_p_value(own, sigma),
                f"{own.size:,} draws at sigma {sigma:.4g}",
            )


def _independence(seed: int) -> Iterator[Finding]:
    """No noise tells of another: of parts, releases, sites and sources."""
    study = FewRows.of(seed, 32, 64)
    for who in _sources(seed):
        drawn: dict[str, Integers] = {}
        for name in (SITE, "oak"):
            site = study.site(_sources(seed, name)[who], name)
            for number in range(2):
                for place, (noise, _) in enumerate(
                    study.added(site, study.query(number, copies=2))
                ):
                    drawn[f"{name} query {number} part {place}"] = noise
        yield _apart(f"{who} noise", drawn)


def _processes(seed: int) -> Iterator[Finding]:
    """Noise of new processes and of forks, all with the same clock, is fresh.

    The environment does not change that: in later processes every variable is set that the first
    one looked up.
    """
    study = FewRows.of(seed, 32, 64)
    queries = [study.query(number) for number in range(2)]
    told = json.dumps({"seed": seed, "messages": [encode(query).hex() for query in queries]})
    drawn: dict[str, Integers] = {}
    names: set[str] = set()
    for start in ("first start", "second start", "third start"):
        done = subprocess.run(
            [sys.executable, "-P", _fresh_process.__file__],
            input=told,
            env={**os.environ, **dict.fromkeys(names, _VALUE)},
            capture_output=True,
            text=True,
            timeout=_CHILD_SECONDS,
            check=False,
        )
        require(done.returncode == 0, f"a new process failed: {done.stderr.strip()[-200:]}")
        said = json.loads(done.stdout)
        names |= {*said.pop("asked")}
        for name, message in said.items():
            reply = bytes.fromhex(message)
            require(not decode(reply, Answer).simulated, "noise has a seed")
            drawn[f"{start}, {name}"] = study.noise(reply, queries[0])[0][0]
    yield _apart("processes", drawn)


def _by_default(seed: int) -> Iterator[Finding]:
    """The noise of agents and studies that were given none: sites serve with that.

    Everything is as equal as it can be, names, rows, queries and clocks: the noise must not be.
    """
    agents, studies = _agents(seed), _studies(seed)
    for what, samples in (("agents by default", agents), ("studies by default", studies)):
        yield _apart(what, {name: noise for name, (noise, _) in samples.items()})
        least = min(gaussian_p_value(noise, sigma) for noise, sigma in samples.values())
        many = sum(noise.size for noise, _ in samples.values())
        yield Finding.of_chance(f"noise: {what}", min(1.0, least * len(samples)), f"{many:,} draws")


def _agents(seed: int) -> dict[str, _Sample]:
    """What two agents on disk add, each started twice."""
    study = FewRows.of(seed, 32, 64, epsilon=1.0)
    samples: dict[str, _Sample] = {}
    with temporary_folder() as folder, stopped_clock():
        for place in ("one place", "another place"):
            (folder / place).mkdir()
            site = SiteOnDisk.make(folder / place, study.schema, as_csv(study.table), study.plan)
            for number in range(2):
                query = study.query(number)
                with site.serving() as agent:
                    (sample,) = study.noise(agent.answer(encode(query)), query)
                samples[f"{place}, start {number}"] = sample
    return samples


def _studies(seed: int) -> dict[str, _Sample]:
    """What two sites add in a study in memory, run twice."""
    schema = plain_schema(2048)
    plan = plan_of(schema, seed, SITE, "oak", epsilon=1.0)
    tables = [table_of(schema, 50, stream(seed, f"few rows {i}")) for i in range(2)]
    samples: dict[str, _Sample] = {}
    for run in range(2):
        with stopped_clock(), at_the_door() as passages:
            run_study(schema, plan, make_method(plan.method, {}), tables)
        large = [passage for passage in passages if passage.exact.size == 2048]
        require(len(large) >= 2, "a study asked its sites for nothing")
        for place, passage in enumerate(large):
            added = passage.noisy - passage.exact
            samples[f"run {run}, release {place}"] = added, passage.terms.sigma
    return samples


def _apart(what: str, drawn: dict[str, Integers]) -> Finding:
    """That these vectors of noise of one sigma have nothing to do with each other."""
    least, worst = 1.0, ""
    for (name, one), (other, two) in combinations(drawn.items(), 2):
        require(not np.array_equal(one, two), f"{what}: the same numbers in {name} and {other}")
        chance = relation_p_value(one, two)
        if chance <= least:
            least, worst = chance, f"{name} and {other}"
    for name, one in drawn.items():
        chance = reuse_p_value(one)
        if chance <= least:
            least, worst = chance, f"{name} and itself"
    many = len(drawn) * (len(drawn) + 1) // 2
    return Finding.of_chance(
        f"independence: {what}", min(1.0, least * many), f"{many} pairs, closest {worst}"
    )


def _again(seed: int) -> str:
    """The same query gets the same bytes, and is charged once."""
    study = FewRows.of(seed, 9, 6, 2)
    site = study.site(SecureNoise())
    asked = 0
    for number, statistics in enumerate(classes(study.schema.domain, seed).values()):
        message = encode(ask(study.plan, number, statistics, 1e-3))
        first, spent = site.answer(message), site.ledger.spent
        for _ in range(3):
            require(site.answer(message) == first, "the same query again got other bytes")
            require(site.ledger.spent == spent, "the same query again was charged again")
            asked += 1
    return f"{asked} times the same bytes, for nothing"


def _long(seed: int) -> Iterator[Finding]:
    """One vector longer than any block in which noise might be drawn is sound throughout."""
    study = FewRows.of(seed, *_LONG)
    ((noise, sigma),) = study.added(study.site(SecureNoise()), study.query())
    chance = min(gaussian_p_value(noise, sigma), reuse_p_value(noise))
    yield Finding.of_chance("one long vector", min(1.0, 2 * chance), f"{noise.size:,} draws")
