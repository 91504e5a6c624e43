"""A study without sites: the conversation of any study, answered from invented tables.

Everything runs as in a study: what is asked, the noise on it, what is made of the answers. Errors
are those of the model's own marginals against the invented truth, as if rows were drawn from them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np

from heterofedsyn._arrays import Floats, Integers
from heterofedsyn.hub.conversation import converse, drive
from heterofedsyn.hub.methods.base import Later, Method, Model, Setting
from heterofedsyn.hub.planning.population import TURNS, Invented, Likeness, Population, invent
from heterofedsyn.hub.release import Release
from heterofedsyn.hub.replies import SUM
from heterofedsyn.hub.requests import Request
from heterofedsyn.privacy.terms import Noised, NoisyIntegers
from heterofedsyn.protocol import Answer, Plan, Released
from heterofedsyn.protocol.terms import of_the_sum
from heterofedsyn.schema import Clique, Schema
from heterofedsyn.synthesis.estimates import Estimates
from heterofedsyn.synthesis.grid import grouped

MOST_VALUES_IN_ALL = 60_000
MOST_PAIRS_IN_ALL = 4_000
"""Values and pairs of columns in all dry runs, after which there are fewer runs."""

FEWEST = 2
"""Runs of a long study, so that columns are met tied and untied."""

ADAPTIVE = 4
"""Runs of a method that asks in turns, since it synthesizes in between."""

PAIRS = 3
"""Pairs of each kind looked at in one run."""

MOST_APART = 8
"""Sites of which each tells its own story; of more, so many are run."""

MOST_VALUES = 128
"""Values of a column whose cells are looked at one by one; of more, a weighted part."""


@dataclass(frozen=True, eq=False)
class Finding:
    """What one dry run found.

    Attributes:
        requests: what was asked.
        errors: total variation of the 1-way of every column.
        groups: of every column in a measured pair.
        loose: total variation of pairs of columns that do not depend on each other.
        close: the same of pairs that depend strongly, if possible of measured ones.
    """

    requests: tuple[Request, ...]
    errors: dict[str, float]
    groups: dict[str, int]
    measured: int
    loose: tuple[float, ...]
    close: tuple[float, ...]

    def asked(self, label: str) -> tuple[float, float]:
        """Releases and integers of the rounds with this label, at one site."""
        requests = [request for request in self.requests if request.query.label == label]
        terms = [terms for request in requests for terms in request.terms]
        sites = max(1, len({request.query.to for request in requests}))
        return len(terms) / sites, sum(each.integers for each in terms) / sites


@dataclass(frozen=True, eq=False)
class DryRuns:
    """Dry runs of one study on the same invented tables, whatever its budget.

    Attributes:
        schema: the public schema, on whose grid errors are told.
        thorough: as many runs as there is time for; else half of them.
    """

    schema: Schema
    plan: Plan
    method: Method
    rows: int
    seed: int
    thorough: bool = True

    @cached_property
    def encoding(self) -> Schema:
        """The schema by which sites encode."""
        return self.method.encoding(self.schema)

    @property
    def many(self) -> int:
        """How many runs: fewer where each is long."""
        domain, method = self.encoding.domain, self.method
        pairs = max(1, len(domain) * (len(domain) - 1) // 2)
        most = min(TURNS, MOST_VALUES_IN_ALL // sum(domain.sizes), MOST_PAIRS_IN_ALL // pairs)
        ahead = method.ahead(Setting.of(self.encoding, self.plan))
        if any(isinstance(part, Later) and part.rounds != 1 for part in ahead):
            most = min(most, ADAPTIVE)
        if not method.sums:
            most //= min(len(self.plan.sites), MOST_APART)
        return max(FEWEST, most) if self.thorough else max(1, most // 2)

    def run(self) -> list[Finding]:
        """One finding for every invented table."""
        likenesses = invent(self.encoding, self.many, self.seed)
        return [self._run(number, likeness) for number, likeness in enumerate(likenesses)]

    def _run(self, number: int, likeness: Likeness) -> Finding:
        # Rows and noise have streams of their own: another budget meets the same rows.
        invented = np.random.default_rng([self.seed, 3, number])
        noise = np.random.default_rng([self.seed, 4, number])
        plan = self.plan
        if self.method.sums:
            tables = {SUM: likeness.draw(self.rows, invented)}
        else:
            share = max(1, self.rows // len(plan.sites))
            plan = msgspec.structs.replace(plan, sites=plan.sites[:MOST_APART])
            tables = {site: likeness.draw(share, invented) for site in plan.sites}
        first, *others = tables.values()
        counts = {site: Invented(table, noise) for site, table in tables.items()}
        release, requests = run_dry(self.encoding, plan, self.method, counts, noise)
        truth = sum(others, start=first)
        return _Measuring(self.schema, truth, release.model, invented, noise).finding(requests)


def run_dry(
    schema: Schema,
    plan: Plan,
    method: Method,
    counts: Mapping[str, Invented],
    rng: np.random.Generator,
) -> tuple[Release, tuple[Request, ...]]:
    """Drive a study to its release; each request is answered once for all sites it asks."""
    requests: list[Request] = []

    def answer(request: Request) -> list[Answer]:
        requests.append(request)
        return answers_to(request, counts, rng)

    return drive(converse(schema, plan, method, summed=True), answer), tuple(requests)


def answers_to(
    request: Request, counts: Mapping[str, Invented], rng: np.random.Generator
) -> list[Answer]:
    """What everyone who is asked says, or all sites together."""
    return [_answer(request, site, counts[site], rng) for site in request.asked]


def _answer(request: Request, site: str, counts: Invented, rng: np.random.Generator) -> Answer:
    """What a site says, or all of them together, with the noise that was agreed on."""
    query, parts = request.query, []
    for part, own in zip(request.query.parts, request.terms, strict=True):
        terms = of_the_sum(own, len(request.plan.sites)) if site == SUM else own
        noise = np.rint(terms.sigma * rng.standard_normal(terms.integers)).astype(np.int64)
        noisy = NoisyIntegers(part.statistic.exact(counts).values + noise)
        parts.append(Released.of(Noised(noisy, terms)))
    return Answer(
        study=query.study,
        query=query.fingerprint,
        site=site,
        simulated=True,
        parts=tuple(parts),
    )


@dataclass(frozen=True, eq=False)
class _Measuring:
    """A finished dry run beside the truth."""

    schema: Schema
    truth: Population
    model: Model
    invented: np.random.Generator
    rng: np.random.Generator

    def finding(self, requests: tuple[Request, ...]) -> Finding:
        names = self.truth.schema.domain.names
        tied = self.truth.tied
        measured = {pair for part in self.believed for pair in part.pairs}
        every = [(a, b) for place, a in enumerate(names) for b in names[place + 1 :]]
        loose = [pair for pair in every if not tied.issuperset(pair)]
        close = [pair for pair in every if tied.issuperset(pair)]
        close = [pair for pair in close if pair in measured] or close
        return Finding(
            requests=requests,
            errors={name: self._single_error(name) for name in names},
            groups={
                name: part.singles[name].size
                for part in self.believed
                for pair in part.pairs
                for name in pair
            },
            measured=len(measured),
            loose=tuple(self._pair_error(pair) for pair in self._some(loose)),
            close=tuple(self._pair_error(pair) for pair in self._some(close)),
        )

    def _some(self, pairs: Sequence[Clique]) -> Iterator[Clique]:
        for place in self.invented.permutation(len(pairs))[:PAIRS]:
            yield pairs[place]

    @cached_property
    def believed(self) -> list[Estimates]:
        """What the model says of every population."""
        return [targets.estimates for targets in self.model.targets]

    @cached_property
    def _made(self) -> int:
        """How many rows would be drawn."""
        return max(1, round(self.model.total))

    def _single_error(self, name: str) -> float:
        exact = self.truth.single(name) / self.truth.rows
        guess = np.sum([_single(part, name) for part in self.believed], axis=0)
        drawn = _allocated(guess, self._made, self.rng) / self._made
        return 0.5 * float(np.abs(self._merged(name, exact - drawn)).sum())

    def _pair_error(self, pair: Clique) -> float:
        sides = [_Side.of(self.truth.single(name), self.invented) for name in pair]
        counts = [self.truth.counts[n][:, s.places] for n, s in zip(pair, sides, strict=True)]
        whole = all(side.whole for side in sides)
        shares = self.truth.expected(*counts) / self.truth.rows
        exact = _drawn(shares, self.truth.rows, self.invented, whole=whole) / self.truth.rows
        guess = np.sum([_pair(part, pair, sides) for part in self.believed], axis=0)
        guess /= math.fsum(part.total for part in self.believed)
        drawn = _drawn(guess, self._made, self.rng, whole=whole) / self._made
        apart = (exact - drawn) * np.outer(sides[0].weights, sides[1].weights)
        for name, side in zip(pair, sides, strict=True):
            # Turned over twice: each side is merged along its rows.
            apart = (self._merged(name, apart) if side.whole else apart).T
        return min(1.0, 0.5 * float(np.abs(apart).sum()))

    def _merged(self, name: str, shares: Floats) -> Floats:
        """Shares (or rows of them) on the public schema's grid: an added atom joins its bin."""
        if self.truth.schema.column(name).size == self.schema.column(name).size:
            return shares
        joined: Floats = np.concatenate([shares[:1] + shares[1:2], shares[2:]])
        return joined


@dataclass(frozen=True, eq=False)
class _Side:
    """One column of a pair: the values that are looked at, and how many each stands for."""

    places: Integers
    weights: Floats
    whole: bool

    @classmethod
    def of(cls, counts: Integers, rng: np.random.Generator) -> _Side:
        if counts.size <= MOST_VALUES:
            return cls(np.arange(counts.size), np.ones(counts.size), whole=True)
        falling = np.argsort(-counts, kind="stable")
        top, rest = falling[: MOST_VALUES // 2], falling[MOST_VALUES // 2 :]
        some = rng.permutation(rest)[: MOST_VALUES // 2]
        weights = np.concatenate([np.ones(top.size), np.full(some.size, rest.size / some.size)])
        return cls(np.concatenate([top, some]), weights, whole=False)


def _single(part: Estimates, name: str) -> Floats:
    """The 1-way of a model: groups refined to values."""
    refined: Floats = part.singles[name][part.groups[name]] * _within(part, name)
    return refined


def _pair(part: Estimates, pair: Clique, sides: Sequence[_Side]) -> Floats:
    """The cells of a pair as a model has them: measured, or independent."""
    table = part.pairs.get(pair)
    if table is None:
        table = np.outer(part.singles[pair[0]], part.singles[pair[1]]) / part.total
    groups = [part.groups[name][side.places] for name, side in zip(pair, sides, strict=True)]
    within = [_within(part, name)[side.places] for name, side in zip(pair, sides, strict=True)]
    cells: Floats = table[np.ix_(*groups)] * np.outer(*within)
    return cells


def _within(part: Estimates, name: str) -> Floats:
    """The share of every value in its group."""
    weights = part.values[name] + 1e-9
    shares: Floats = weights / grouped(weights, part.groups[name])[part.groups[name]]
    return shares


def _drawn(shares: Floats, rows: int, rng: np.random.Generator, *, whole: bool) -> Integers:
    """Rows over the cells of a table, or over those of a part of it."""
    if whole:
        mass = shares.ravel() / shares.sum()
        return rng.multinomial(rows, mass).reshape(shares.shape)
    return rng.poisson(rows * shares)


def _allocated(weights: Floats, rows: int, rng: np.random.Generator) -> Floats:
    """Whole rows in proportion to the weights, up to less than one row each."""
    expected = weights * (rows / weights.sum())
    counts: Floats = np.floor(expected + 1e-9)
    left = np.maximum(expected - counts, 0)
    rest = round(rows - counts.sum())
    if rest > 0 and left.sum() > 0:
        counts += rng.multinomial(rest, left / left.sum())
    return counts
