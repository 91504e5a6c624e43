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
import tempfile
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from itertools import combinations, product
from pathlib import Path
from typing import TypeAlias

import numpy as np

from heterofedsyn._arrays import Exact, Integers, stream
from heterofedsyn.audit import prices, reference, surroundings
from heterofedsyn.audit.clock import stopped_clock
from heterofedsyn.audit.disk import SiteOnDisk
from heterofedsyn.audit.effort import USUAL, Effort
from heterofedsyn.audit.exhibit import SITE, ask, every_kind, plain_schema, plan_of, table_of
from heterofedsyn.audit.findings import Check, Finding, require
from heterofedsyn.audit.witness import at_the_door
from heterofedsyn.errors import PrivacyRefusal
from heterofedsyn.hub import make_method
from heterofedsyn.marginals import Flat, Statistic
from heterofedsyn.privacy.budget import Budget
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
)
from heterofedsyn.privacy.terms import Terms
from heterofedsyn.protocol import Answer, Query, decode, encode
from heterofedsyn.protocol.terms import MOST_SIGMA
from heterofedsyn.schema import EncodedTable
from heterofedsyn.simulate.run import run_study
from heterofedsyn.site import Site
from heterofedsyn.site.agent import Agent
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.selfcheck import check_version

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


_Seen: TypeAlias = dict[str, list[tuple[Integers, float]]]
"""Vectors of noise and their sigmas, by their source."""


def checks(effort: Effort, seed: int) -> Iterator[Check]:
    """The noise by its size, by the kind of release, and against itself."""
    yield "OpenDP draws without bias", _version
    seen: _Seen = {}
    for sigma in SIGMAS:
        yield f"sigma {sigma:g}", partial(_sigma, effort, seed, sigma, seen)
    yield "all sigmas together", partial(_together, seen)
    yield "large sigmas", partial(_large, effort, seed)
    yield "far tails", partial(_far, effort)
    yield "every kind of release", partial(_kinds, effort, seed)
    yield "independence", partial(_independence, seed)
    yield "restarts and forks", partial(_processes, seed)
    yield "noise by default", partial(_unasked, seed)
    yield "the same query again", partial(_again, seed)
    yield "one long vector", partial(_long, seed)
    yield "variances are rounded up", partial(prices.calibrations, effort, seed)


def _version() -> Iterator[Finding]:
    check_version()
    yield Finding("OpenDP draws without bias", True, f"version {version('opendp')}")


def _sigma(effort: Effort, seed: int, sigma: float, seen: _Seen) -> Iterator[Finding]:
    """Both sources at one sigma; what was drawn is added to what was seen."""
    for source, draws in ((SecureNoise(), effort.draws), (SimulatedNoise(seed, SITE), None)):
        many = 4 * effort.draws if draws is None else draws
        schema = plain_schema(100, 100)
        plan = plan_of(schema, seed)
        table = table_of(schema, 50, stream(seed, "few rows"))
        pair: tuple[Statistic, ...] = (Flat(("a0", "a1")),)
        added: list[Integers] = []
        for number in range(max(1, many // 10_000)):
            # A site of its own for each query, since small noise is dear.
            site = Site(SITE, table, plan, source)
            query = ask(plan, number, pair, 1 / (2 * sigma**2))
            added += _added(site, query, table)[0]
        noise = np.concatenate(added)
        recorded = _added(site, query, table)[1][0]
        require(
            math.isclose(recorded, sigma, rel_tol=1e-9), f"sigma {recorded} for a price of {sigma}"
        )
        who = "seeded" if source.simulated else "OpenDP"
        seen.setdefault(who, []).append((noise, recorded))
        yield Finding.of_chance(
            f"sigma {sigma:g}, {who}",
            gaussian_p_value(noise, recorded),
            f"{noise.size:,} draws, measured {noise.std():.6g}",
        )


def _together(seen: _Seen) -> Iterator[Finding]:
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


def _large(effort: Effort, seed: int) -> Iterator[Finding]:
    """Both sources at sigmas that tiny prices mean, as sites add them, and up to the largest."""
    exact = Exact(np.zeros(max(10_000, effort.draws // 3), dtype=np.int64))
    sources: tuple[NoiseSource, ...] = (SecureNoise(), SimulatedNoise(seed, SITE))
    for source, sigma in product(sources, _LARGE):
        price = Budget(1 / (2 * sigma**2) * (1 + 1e-9))
        terms = Terms("flat", (), 1.0, sigma, exact.values.size, price.rho)
        noise: Integers = add_noise(exact, terms, price, source, b"large").values
        yield Finding.of_chance(
            f"sigma {sigma:.4g}, {'seeded' if source.simulated else 'OpenDP'}",
            gaussian_p_value(noise, sigma),
            f"{noise.size:,} draws, measured {noise.std():.6g}",
        )
    schema = plain_schema(100, 100)
    plan = plan_of(schema, seed)
    table = table_of(schema, 50, stream(seed, "few rows"))
    for sigma in (2.0**20 + 0.5, 7.5e6):
        query = ask(plan, 0, (Flat(("a0", "a1")),), 1 / (2 * sigma**2))
        try:
            (noise,), (recorded,) = _added(Site(SITE, table, plan, SecureNoise()), query, table)
        except PrivacyRefusal:
            continue  # a price too small for any answer
        yield Finding.of_chance(
            f"sigma {sigma:.4g}, of a site",
            gaussian_p_value(noise, recorded),
            f"{noise.size:,} draws, measured {noise.std():.6g}",
        )


def _far(effort: Effort) -> Iterator[Finding]:
    """So many draws that the tails beyond 4 sigma are seen: noise has no end within reach."""
    many = _FAR_DRAWS * max(1, effort.draws // USUAL.draws)
    price = Budget(1 / (2 * _FAR**2) * (1 + 1e-9))
    terms = Terms("flat", (), 1.0, _FAR, many, price.rho)
    nothing = Exact(np.zeros(many, dtype=np.int64))
    noise = add_noise(nothing, terms, price, SecureNoise(), b"far").values
    beyond = int((np.abs(noise) > 4 * _FAR).sum())
    yield Finding.of_chance(
        "far tails, OpenDP",
        tails_p_value([(noise, _FAR)]),
        f"{many:,} draws, {beyond:,} beyond 4 sigma",
    )


def _kinds(effort: Effort, seed: int) -> Iterator[Finding]:
    """Every kind of release gets its noise on every integer."""
    schema = plain_schema(9, 6)
    plan = plan_of(schema, seed)
    table = table_of(schema, 200, stream(seed, "rows"))
    for name, statistics in every_kind(schema.domain, seed).items():
        each = sum(reference.integers(statistic, schema.domain) for statistic in statistics)
        copies = max(1, min(1_000, effort.draws // 20) // each)
        site = Site(SITE, table, plan, SecureNoise())
        noises, sigmas = _added(site, ask(plan, 0, statistics * copies, 1e-4), table)
        # Different sensitivities mean different sigmas: each of them by itself.
        for sigma in sorted({*sigmas}):
            own = np.concatenate([n for n, s in zip(noises, sigmas, strict=True) if s == sigma])
            yield Finding.of_chance(
                f"noise of a release: {name}",
                gaussian_p_value(own, sigma),
                f"{own.size:,} draws at sigma {sigma:.4g}",
            )


def _independence(seed: int) -> Iterator[Finding]:
    """No noise tells of another: of parts, releases, sites and sources."""
    schema = plain_schema(32, 64)
    plan = plan_of(schema, seed, SITE, "oak")
    table = table_of(schema, 50, stream(seed, "few rows"))
    rho = 1 / (2 * _WIDE**2)
    pair = Flat(("a0", "a1"))
    sources: dict[str, tuple[NoiseSource, NoiseSource]] = {
        "OpenDP": (SecureNoise(), SecureNoise()),
        "seeded": (SimulatedNoise(seed, SITE), SimulatedNoise(seed, "oak")),
    }
    for who, (one, two) in sources.items():
        drawn: dict[str, Integers] = {}
        for name, source in ((SITE, one), ("oak", two)):
            site = Site(name, table, plan, source)
            for number in range(2):
                noises, _ = _added(site, ask(plan, number, (pair, pair), rho), table)
                for place, noise in enumerate(noises):
                    drawn[f"{name} query {number} part {place}"] = noise
        yield from _apart(f"{who} noise", drawn)


def _processes(seed: int) -> Iterator[Finding]:
    """Noise of new processes and of forks, all with the same clock, is fresh.

    The environment does not change that: in later processes every variable is set that the first
    one looked up.
    """
    schema = plain_schema(32, 64)
    plan = plan_of(schema, seed)
    table = table_of(schema, 50, stream(seed, "few rows"))
    rho = 1 / (2 * _WIDE**2)
    queries = [ask(plan, number, (Flat(("a0", "a1")),), rho) for number in range(2)]
    told = json.dumps({"seed": seed, "messages": [encode(query).hex() for query in queries]})
    drawn: dict[str, Integers] = {}
    names: set[str] = set()
    for start in ("first start", "second start", "third start"):
        done = subprocess.run(
            [sys.executable, "-P", surroundings.__file__],
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
            require(not decode(bytes.fromhex(message), Answer).simulated, "noise has a seed")
            drawn[f"{start}, {name}"] = _noise(bytes.fromhex(message), queries[0], table)[0][0]
    yield from _apart("processes", drawn)


def _unasked(seed: int) -> Iterator[Finding]:
    """The noise of agents and studies that were given none: sites serve with that.

    Everything is as equal as it can be, names, rows, queries and clocks: the noise must not be.
    """
    agents, studies = _agents(seed), _studies(seed)
    for what, vectors in (("agents by default", agents), ("studies by default", studies)):
        yield from _apart(what, {name: noise for name, (noise, _) in vectors.items()})
        least = min(gaussian_p_value(noise, sigma) for noise, sigma in vectors.values())
        many = sum(noise.size for noise, _ in vectors.values())
        yield Finding.of_chance(f"noise: {what}", min(1.0, least * len(vectors)), f"{many:,} draws")


def _agents(seed: int) -> dict[str, tuple[Integers, float]]:
    """What two agents on disk add, each started twice."""
    import pyarrow as pa

    schema = plain_schema(32, 64)
    plan = plan_of(schema, seed, epsilon=1.0)
    table = table_of(schema, 50, stream(seed, "few rows"))
    rows = pa.table(
        {f"a{i}": [f"v{code}" for code in codes] for i, codes in enumerate(table.codes)}
    )
    found: dict[str, tuple[Integers, float]] = {}
    with tempfile.TemporaryDirectory() as folder, stopped_clock():
        for place in ("one place", "another place"):
            site = SiteOnDisk.make(Path(folder) / place, SITE, schema, plan, rows)
            for number in range(2):
                query = ask(plan, number, (Flat(("a0", "a1")),), 1 / (2 * _WIDE**2))
                with Books.open(site.settings.folder, site.settings.anchor) as books:
                    agent = Agent(site.settings, books, log=lambda line: None)
                    reply = agent.answer(encode(query))
                (noise,), (sigma,) = _noise(reply, query, table)
                found[f"{place}, start {number}"] = noise, sigma
    return found


def _studies(seed: int) -> dict[str, tuple[Integers, float]]:
    """What two sites add in a study in memory, run twice."""
    schema = plain_schema(2048)
    plan = plan_of(schema, seed, SITE, "oak", epsilon=1.0)
    tables = [table_of(schema, 50, stream(seed, f"few rows {i}")) for i in range(2)]
    found: dict[str, tuple[Integers, float]] = {}
    for run in range(2):
        with stopped_clock(), at_the_door() as passages:
            run_study(schema, plan, make_method(plan.method, {}), tables)
        large = [passage for passage in passages if passage.exact.size == 2048]
        require(len(large) >= 2, "a study asked its sites for nothing")
        for place, passage in enumerate(large):
            added = passage.noisy - passage.exact
            found[f"run {run}, release {place}"] = added, passage.terms.sigma
    return found


def _apart(what: str, drawn: dict[str, Integers]) -> Iterator[Finding]:
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
    yield Finding.of_chance(
        f"independence: {what}", min(1.0, least * many), f"{many} pairs, closest {worst}"
    )


def _again(seed: int) -> Iterator[Finding]:
    """The same query gets the same bytes, and is charged once."""
    schema = plain_schema(9, 6)
    plan = plan_of(schema, seed)
    table = table_of(schema, 200, stream(seed, "rows"))
    site = Site(SITE, table, plan, SecureNoise())
    asked = 0
    for number, statistics in enumerate(every_kind(schema.domain, seed).values()):
        message = encode(ask(plan, number, statistics, 1e-3))
        first, spent = site.answer(message), site.ledger.spent
        for _ in range(3):
            require(site.answer(message) == first, "the same query again got other bytes")
            require(site.ledger.spent == spent, "the same query again was charged again")
            asked += 1
    yield Finding("the same query again", True, f"{asked} times the same bytes, for nothing")


def _long(seed: int) -> Iterator[Finding]:
    """One vector longer than any block in which noise might be drawn is sound throughout."""
    schema = plain_schema(*_LONG)
    plan = plan_of(schema, seed)
    table = table_of(schema, 50, stream(seed, "few rows"))
    query = ask(plan, 0, (Flat(("a0", "a1")),), 1 / (2 * _WIDE**2))
    (noise,), (sigma,) = _added(Site(SITE, table, plan, SecureNoise()), query, table)
    chance = min(gaussian_p_value(noise, sigma), reuse_p_value(noise))
    yield Finding.of_chance("one long vector", min(1.0, 2 * chance), f"{noise.size:,} draws")


def _added(site: Site, query: Query, table: EncodedTable) -> tuple[list[Integers], list[float]]:
    """The noise of every part of an answer, and the sigma that is recorded with it."""
    return _noise(site.answer(encode(query)), query, table)


def _noise(reply: bytes, query: Query, table: EncodedTable) -> tuple[list[Integers], list[float]]:
    parts = decode(reply, Answer).parts
    exact = [reference.exact(part.statistic, table) for part in query.parts]
    return [p.values - e for p, e in zip(parts, exact, strict=True)], [p.sigma for p in parts]
