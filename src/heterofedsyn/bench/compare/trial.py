"""One study of a comparison, and what its rows are worth."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa

from heterofedsyn.bench.resumable.cells import ML, REAL, SCORES
from heterofedsyn.bench.resumable.results import Block, Item, Value
from heterofedsyn.bench.resumable.scored import block_of, kept_of, study_of
from heterofedsyn.errors import DataError
from heterofedsyn.evaluation import Evaluator, cache_folder
from heterofedsyn.schema import Schema
from heterofedsyn.schema.table import columns_of
from heterofedsyn.simulate import FederatedSynthesizer
from heterofedsyn.sources import check_apart, open_source

TABLE = "data"
"""What results call the rows."""

MEASURED = {SCORES: ("tvd", "query", "histogram"), ML: ("ml",)}
"""What every kind of work asks of the evaluator."""


@dataclass(frozen=True, eq=False)
class Bench:
    """The rows of a comparison, read once in every process."""

    schema: Schema
    rows: pa.Table
    evaluator: Evaluator


@dataclass(frozen=True)
class Trial:
    """Does an item of a comparison; another process can do it as well.

    Attributes:
        schema: where the schema is.
        data: where the rows are, which are public.
        test: where rows for tests are; machine learning needs some.
        made: tells apart trials of files that changed in between.
    """

    schema: str
    data: tuple[str, ...]
    test: tuple[str, ...]
    delta: float
    made: str = field(default_factory=lambda: secrets.token_hex(8))

    def __call__(self, item: Item, *, noise_seed: int) -> Block:
        """The figures of an item, or why it was declined."""
        return block_of(item, lambda: self._figures(item, noise_seed))

    @property
    def bench(self) -> Bench:
        """The rows, read once."""
        return _bench(self)

    def synthesizer(self, method: str, epsilon: float, noise_seed: int) -> FederatedSynthesizer:
        """One that was not fitted yet."""
        return FederatedSynthesizer(
            _schema(self),
            epsilon=epsilon,
            delta=self.delta,
            method=method,
            noise_seed=noise_seed,
        )

    def _figures(self, item: Item, noise_seed: int) -> Mapping[str, Value]:
        bench, cell = self.bench, item.cell
        if cell.method == REAL:
            return kept_of(bench.evaluator.floor(MEASURED[item.kind]))
        synthesizer = self.synthesizer(cell.method, cell.epsilon, noise_seed)
        made, facts = study_of(synthesizer, cell, [bench.rows], noise_seed)
        kept = kept_of(bench.evaluator.score(made, MEASURED[item.kind]))
        return {**kept, **facts} if item.kind == SCORES else kept


@lru_cache(maxsize=1)
def _schema(trial: Trial) -> Schema:
    return Schema.load(trial.schema)


@lru_cache(maxsize=1)
def _bench(trial: Trial) -> Bench:
    check_apart(trial.data)
    schema = _schema(trial)
    wanted = columns_of(schema, None)
    sources = [open_source(location) for location in trial.data]
    batches = [batch for source in sources for batch in source.batches(wanted)]
    if not sum(batch.num_rows for batch in batches):
        raise DataError(f"{sources[0].name}: there is no row to compare with; name another table")
    rows = pa.Table.from_batches(batches)
    return Bench(schema, rows, Evaluator(schema, rows, [*trial.test] or None, cache=cache_folder()))
