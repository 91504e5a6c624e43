"""One synthetic table of a match between methods, and what its rows are worth."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
import pyarrow as pa

from heterofedsyn.bench.compare.trial import MEASURED, TABLE, Bench
from heterofedsyn.bench.families import family
from heterofedsyn.bench.peers.aim import Aim
from heterofedsyn.bench.peers.central import Peer
from heterofedsyn.bench.peers.field import Measured, fit
from heterofedsyn.bench.peers.mst import Mst
from heterofedsyn.bench.resumable.cells import REAL, SCORES, Cell
from heterofedsyn.bench.resumable.results import Block, Item, Value
from heterofedsyn.bench.resumable.scored import block_of, kept_of, study_of
from heterofedsyn.errors import SimulatedNoiseWarning
from heterofedsyn.evaluation import Evaluator, cache_folder
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.schema import Domain, Schema, decode, encode
from heterofedsyn.schema.binned import BinnedColumn
from heterofedsyn.simulate import FederatedSynthesizer

CENTRAL = "central"
"""In the place of a trust model: somebody holds all rows."""

SECONDS = "synthesis_seconds"
"""CPU seconds from rows to synthetic rows."""


class Material(Protocol):
    """Where the rows of a match come from; another process can get them as well."""

    @property
    def bench(self) -> Bench:
        """The rows, got once."""
        ...


@dataclass(frozen=True)
class InventedRows:
    """A table of a family, and a quarter as many rows of the same law for tests.

    Attributes:
        rows, columns: those of the family unless given.
    """

    family: str
    rows: int | None
    columns: int | None
    seed: int

    @property
    def bench(self) -> Bench:
        """The rows, invented once in every process."""
        return _invented(self)


@lru_cache(maxsize=1)
def _invented(asked: InventedRows) -> Bench:
    kind = family(asked.family)
    many = kind.rows if asked.rows is None else asked.rows
    made = kind.invent(np.random.default_rng(asked.seed), many + many // 4, asked.columns)
    rows, test = made.rows.slice(0, many), made.rows.slice(many)
    return Bench(made.schema, rows, Evaluator(made.schema, rows, [test], cache=cache_folder()))


@dataclass(frozen=True)
class Match:
    """Does an item of a match; another process can do it as well.

    Attributes:
        bins: of columns that central methods cut into fewer bins than the schema does; None for
            the schema's own.
    """

    material: Material
    delta: float
    bins: int | None = None
    mst: Mst = Mst()
    aim: Aim = Aim()

    def __call__(self, item: Item, *, noise_seed: int) -> Block:
        """The figures of an item, or why it was declined."""
        return block_of(item, lambda: self._figures(item, noise_seed))

    @property
    def bench(self) -> Bench:
        """The rows, got once."""
        return self.material.bench

    @property
    def peers(self) -> dict[str, Peer]:
        """The central methods by name."""
        return {"mst": self.mst, "aim": self.aim}

    def settings(self, name: str) -> tuple[tuple[str, Value], ...]:
        """What is special about a central method here."""
        own: dict[str, Value] = dict(self.peers[name].settings)
        return tuple(sorted({**own, **({"bins": self.bins} if self.bins else {})}.items()))

    def synthesizer(self, cell: Cell, noise_seed: int) -> FederatedSynthesizer:
        """One of ours that was not fitted yet."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SimulatedNoiseWarning)
            return FederatedSynthesizer(
                self.bench.schema,
                epsilon=cell.epsilon,
                delta=self.delta,
                method=cell.method,
                trust=cell.trust,
                noise_seed=noise_seed,
            )

    def made(self, cell: Cell, noise_seed: int) -> tuple[pa.Table, dict[str, float]]:
        """Synthetic rows, how many pairs were measured for them, and CPU seconds."""
        _warm(self, cell.method)
        start = time.process_time()
        if cell.trust == CENTRAL:
            rows, facts = self._central(cell, noise_seed)
        else:
            rows, facts = study_of(
                self.synthesizer(cell, noise_seed), cell, [self.bench.rows], noise_seed
            )
        return rows, {**facts, SECONDS: time.process_time() - start}

    def _central(self, cell: Cell, noise_seed: int) -> tuple[pa.Table, dict[str, float]]:
        schema = coarser(self.bench.schema.without_rules(), self.bins)
        table = encode(schema, self.bench.rows.to_batches()).table
        budget = Budget.of(epsilon=cell.epsilon, delta=self.delta)
        rng = np.random.default_rng(noise_seed)
        made = self.peers[cell.method].run(table, budget, rng)
        return decode(schema, made.table, rng), {"pairs": float(made.pairs)}

    def _figures(self, item: Item, noise_seed: int) -> Mapping[str, Value]:
        evaluator = self.bench.evaluator
        if item.cell.method == REAL:
            return kept_of(evaluator.floor(MEASURED[item.kind]))
        rows, facts = _made(self, item.cell, noise_seed)
        kept = kept_of(evaluator.score(rows, MEASURED[item.kind]))
        return {**kept, **facts} if item.kind == SCORES else kept


@lru_cache(maxsize=16)
def _warm(match: Match, method: str) -> None:
    """Load what a method needs, once in every process, so that its first table is timed fairly."""
    if method in match.peers:
        two = Domain(("only",), (2,))
        fit(two, [Measured(("only",), np.ones(2), 1.0)], 50)
    else:
        cell = Cell(TABLE, method, 1.0)
        study_of(match.synthesizer(cell, 0), cell, [match.bench.rows.slice(0, 1_000)], 0)


@lru_cache(maxsize=1)
def _made(match: Match, cell: Cell, noise_seed: int) -> tuple[pa.Table, dict[str, float]]:
    """Once for closeness and for models, which one process does one after the other."""
    return match.made(cell, noise_seed)


def coarser(schema: Schema, bins: int | None) -> Schema:
    """The same columns with at most so many bins each."""
    if bins is None:
        return schema
    columns = tuple(
        dataclasses.replace(column, bins=bins)
        if isinstance(column, BinnedColumn) and (column.bins or 0) > bins
        else column
        for column in schema.columns
    )
    return Schema(columns, schema.label, schema.task)
