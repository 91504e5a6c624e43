"""A Markov random field over a table's columns, fitted by private-pgm (`mbi`)."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np

from heterofedsyn._arrays import Codes, Floats
from heterofedsyn.errors import UsageError
from heterofedsyn.schema import Clique, Domain, EncodedTable
from heterofedsyn.synthesis.allocation import allocate_within
from heterofedsyn.synthesis.pgm import Structure, eliminate

CALM = 1e-5
"""Relative progress of 50 steps, twice in a row, below which a fit ends."""


def need_mbi() -> None:
    """Refuse to begin where the library is missing.

    Raises:
        UsageError: saying how to get it.
    """
    if find_spec("mbi") is None:
        raise UsageError("mst and aim need the package mbi; pip install 'heterofedsyn[pgm]'")


@dataclass(frozen=True, eq=False)
class Measured:
    """A noisy table.

    Attributes:
        values: of each cell its weight times its count, and noise.
        sigma: of the noise.
        weights: of the cells; 1 unless given.
    """

    clique: Clique
    values: Floats
    sigma: float
    weights: Floats | None = None

    @property
    def total(self) -> tuple[float, float]:
        """How many rows there are by this table alone, and the variance of that."""
        weights = np.ones(self.values.size) if self.weights is None else self.weights
        return float((self.values / weights).sum()), float(self.sigma**2 * (weights**-2).sum())


@dataclass(frozen=True, eq=False)
class Bough:
    """A clique of a junction tree, with what it shares with the one it hangs on."""

    clique: Clique
    parent: int | None
    shared: Clique


@dataclass(frozen=True, eq=False)
class Field:
    """A fitted model: expected counts on the cliques of a junction tree.

    Attributes:
        boughs: cliques of the tree, each after the one it hangs on.
        tables: of the cliques.
        model: mbi's own, from which the next fit starts.
    """

    domain: Domain
    total: float
    boughs: tuple[Bough, ...]
    tables: dict[Clique, Floats]
    model: Any

    def draw(self, rows: int, rng: np.random.Generator) -> EncodedTable:
        """Rows, one clique after the other, with as little randomness as there must be."""
        columns: dict[str, Codes] = {}
        for bough in self.boughs:
            for name in bough.clique:
                if name in columns:
                    continue
                given = [other for other in bough.clique if other in columns]
                weights = self._on(bough.clique, (*given, name))
                strata = np.zeros(rows, dtype=np.int64)
                for other in given:
                    strata = strata * self.domain.size(other) + columns[other]
                table = weights.reshape(-1, self.domain.size(name))
                columns[name] = allocate_within(strata, np.maximum(table, 0), rng)
        codes = np.stack([columns[name] for name in self.domain.names])
        return EncodedTable.from_codes(self.domain, codes)

    def singles(self) -> dict[Clique, Floats]:
        """The expected counts of every attribute."""
        return {
            (name,): self._on(bough.clique, (name,))
            for bough in self.boughs
            for name in bough.clique
        }

    def pairs(self) -> dict[Clique, Floats]:
        """The expected counts of every pair, whether or not a clique holds it."""
        found: dict[Clique, Floats] = {}
        for name in self.domain.names:
            for other, table in self._beside(name):
                if self.domain.index(name) < self.domain.index(other):
                    found[name, other] = table
        return found

    def _beside(self, name: str) -> Iterator[tuple[str, Floats]]:
        """An attribute's table with every other: its chances are handed on from clique to clique.

        What is handed on is the chance of each of its values given what two cliques share.
        """
        start = next(place for place, own in enumerate(self.boughs) if name in own.clique)
        waiting: list[tuple[int, int | None, Clique, Floats | None]] = [(start, None, (), None)]
        while waiting:
            place, before, shared, chances = waiting.pop()
            clique = self.boughs[place].clique
            for other in clique:
                if other not in (*shared, name):
                    if name in clique:
                        yield other, self._on(clique, (name, other))
                    else:
                        assert chances is not None
                        both = self._on(clique, (*shared, other))
                        size = self.domain.size(other)
                        yield other, chances.reshape(len(chances), -1) @ both.reshape(-1, size)
            for beyond, passed in self._around[place]:
                if beyond != before:
                    handed = self._handed(name, clique, shared, passed, chances)
                    waiting.append((beyond, place, passed, handed))

    def _handed(
        self, name: str, clique: Clique, shared: Clique, passed: Clique, chances: Floats | None
    ) -> Floats | None:
        """The chances of an attribute given what the next clique shares with this one."""
        if name in passed:
            return None  # the next clique holds it too
        if name in clique:
            joint = self._on(clique, (name, *passed))
        else:
            assert chances is not None
            both = [other for other in shared if other in passed]
            gone = [other for other in shared if other not in passed]
            new = [other for other in passed if other not in shared]
            cells = self.domain.cells
            order = [shared.index(other) + 1 for other in (*both, *gone)]
            left = chances.transpose(0, *order).reshape(len(chances), cells(both), cells(gone))
            right = self._on(clique, (*both, *gone, *new))
            right = right.reshape(cells(both), cells(gone), cells(new))
            mixed = np.matmul(left.transpose(1, 0, 2), right).transpose(1, 0, 2)
            mixed = mixed.reshape(len(chances), *self.domain.shape((*both, *new)))
            kept = [*both, *new]
            joint = mixed.transpose(0, *(kept.index(other) + 1 for other in passed))
        among = self._on(clique, passed)
        return np.divide(joint, among, out=np.zeros_like(joint), where=among > 0)

    @cached_property
    def _around(self) -> list[list[tuple[int, Clique]]]:
        """The neighbours of every clique, and what they share."""
        around: list[list[tuple[int, Clique]]] = [[] for _ in self.boughs]
        for place, bough in enumerate(self.boughs):
            if bough.parent is not None:
                around[place].append((bough.parent, bough.shared))
                around[bough.parent].append((place, bough.shared))
        return around

    @cached_property
    def _sums(self) -> dict[tuple[Clique, Clique], Floats]:
        return {}

    def _on(self, clique: Clique, names: Sequence[str]) -> Floats:
        """A clique's table summed to some of its attributes, in this order; found once."""
        key = (clique, tuple(names))
        if key not in self._sums:
            axes = [clique.index(name) for name in names]
            table = self.tables[clique]
            summed = table.sum(axis=tuple(i for i in range(table.ndim) if i not in axes))
            left = sorted(axes)
            self._sums[key] = summed.transpose([left.index(axis) for axis in axes])
        return self._sums[key]


def shape_of(domain: Domain, cliques: Sequence[Clique]) -> tuple[Clique, ...]:
    """The cliques of a junction tree that holds all of these, single attributes too."""
    pairs = [*dict.fromkeys(clique for clique in cliques if len(clique) == 2)]
    held = Structure(domain, tuple(pairs), eliminate(pairs, domain)).maximal
    known = {name for clique in held for name in clique}
    return (*held, *((name,) for name in domain.names if name not in known))


def megabytes(domain: Domain, cliques: Sequence[Clique]) -> float:
    """How large a model with these cliques is."""
    return sum(map(domain.cells, shape_of(domain, cliques))) * 8 / 2**20


def total_of(measured: Sequence[Measured]) -> float:
    """How many rows there are by all tables together, at least 1."""
    estimates, variances = zip(*(own.total for own in measured), strict=True)
    return max(1.0, float(np.average(estimates, weights=1 / np.array(variances))))


def combined(measured: Sequence[Measured]) -> list[Measured]:
    """One table for each clique, those of more noise counting less: the fit stays the same.

    jax then need not compile again when a clique is measured once more.
    """
    held: dict[Clique, Measured] = {}
    for own in measured:
        before = held.get(own.clique)
        if before is None:
            held[own.clique] = own
        elif before.weights is None and own.weights is None:
            one, two = before.sigma**-2, own.sigma**-2
            values = (one * before.values + two * own.values) / (one + two)
            held[own.clique] = Measured(own.clique, values, (one + two) ** -0.5)
        else:
            raise ValueError(f"{own.clique} was measured twice, and not every cell alike")
    return [*held.values()]


def fit(
    domain: Domain, measured: Sequence[Measured], iterations: int, before: Field | None = None
) -> Field:
    """The model that explains noisy tables of one and two attributes best.

    Args:
        iterations: steps of mirror descent at most; it ends before where it makes no progress.
        before: an earlier model to start from.
    """
    import jax

    if not jax.config.jax_platforms:
        jax.config.update("jax_platforms", "cpu")
    total = total_of(measured)
    measured = combined(measured)
    cliques = shape_of(domain, [own.clique for own in measured])
    # In single precision mirror descent stalls; this way other users of jax keep theirs.
    with jax.enable_x64(True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # advice on jax's caches
            import mbi

        def numbered(clique: Clique) -> tuple[int, ...]:
            # mbi walks through sets: of names the order is another in every process.
            return tuple(domain.index(name) for name in clique)

        heard = [
            mbi.LinearMeasurement(
                own.values,
                numbered(own.clique),
                own.sigma,
                **({} if own.weights is None else {"query": mbi.WeightedQuery(own.weights)}),
            )
            for own in measured
        ]
        names = mbi.Domain(numbered(domain.names), domain.sizes)
        loss = mbi.marginal_loss.from_linear_measurements(heard, names)
        loss = dataclasses.replace(loss, cliques=tuple(map(numbered, cliques)))
        model = mbi.estimation.MirrorDescent().estimate(
            names,
            loss,
            known_total=total,
            iters=iterations,
            warm_start=None if before is None else before.model.potentials,
            tol=CALM,
        )
        tables = {
            clique: np.asarray(model.marginals[numbered(clique)].values, dtype=np.float64)
            for clique in cliques
        }
    return Field(domain, total, _tree(cliques), tables, model)


def _tree(cliques: Sequence[Clique]) -> tuple[Bough, ...]:
    """The cliques as a tree in which any two neighbours share as much as can be."""
    boughs = [Bough(cliques[0], None, ())]
    left = [*cliques[1:]]
    best = {clique: (len({*clique} & {*cliques[0]}), 0) for clique in left}
    while left:
        clique = max(left, key=lambda own: best[own][0])
        left.remove(clique)
        parent = best[clique][1]
        above = {*boughs[parent].clique}
        boughs.append(Bough(clique, parent, tuple(name for name in clique if name in above)))
        for other in left:
            common = len({*other} & {*clique})
            if common > best[other][0]:
                best[other] = (common, len(boughs) - 1)
    return tuple(boughs)


def forget_compiled() -> None:
    """Let go of what jax compiled: each new model is a program of its own, and a process may hold
    only so many of them."""
    import jax

    jax.clear_caches()


def bias(sigma: float, cells: int) -> float:
    """What noise alone adds to the distance between a noisy table and another."""
    return math.sqrt(2 / math.pi) * sigma * cells
