"""What one item is: a study with fresh noise, and what its synthetic rows are worth."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from heterofedsyn._arrays import stream
from heterofedsyn.bench.paper.cost_experiment import measure_cost
from heterofedsyn.bench.paper.experiments import CONVERSION, DELTA
from heterofedsyn.bench.resumable.cells import COST, ML, REAL, SCORES, TRANSPORT, Cell
from heterofedsyn.bench.resumable.results import Block, Item, Value
from heterofedsyn.bench.resumable.scored import block_of, kept_of, study_of
from heterofedsyn.evaluation import Evaluator, cache_folder
from heterofedsyn.schema import Schema
from heterofedsyn.simulate import FederatedSynthesizer
from heterofedsyn.sources import open_source

if TYPE_CHECKING:
    import pyarrow as pa

MEASURED = {SCORES: ("tvd", "query", "histogram"), TRANSPORT: ("num_num",), ML: ("ml",)}
"""What every kind of work asks of the evaluator."""

TRANSPORT_ROWS = 1_000
"""Rows that exact transport compares: all of it takes hours with the evaluator's usual 2,000."""


def run_item(item: Item, folder: Path, noise_seed: int) -> Block:
    """The figures of one item; work that is declined gives the reason in one word."""
    return block_of(item, lambda: _figures(item, folder, noise_seed))


def synthesize(cell: Cell, folder: Path, noise_seed: int) -> tuple[pa.Table, dict[str, float]]:
    """The synthetic rows of one study of a cell; how many pairs it chose, and bytes a site sent."""
    if cell.method == REAL:
        return _drawn_again(private_files(folder, cell.table), noise_seed), {}
    synthesizer = FederatedSynthesizer(
        schema_of(folder, cell.table),
        epsilon=cell.epsilon,
        delta=DELTA,
        conversion=CONVERSION,
        method=cell.method,
        settings=dict(cell.settings),
        trust=cell.trust,
        noise_seed=noise_seed,
    )
    return study_of(synthesizer, cell, private_files(folder, cell.table), noise_seed)


def private_files(folder: Path, table: str) -> list[Path]:
    """The rows a synthesizer may see."""
    return [folder / table / f"{part}.csv" for part in ("train", "val")]


def _drawn_again(files: list[Path], seed: int) -> pa.Table:
    """As many rows as there are, drawn with replacement."""
    import pyarrow as pa

    rows = pa.Table.from_batches([batch for file in files for batch in open_source(file).batches()])
    return rows.take(stream(seed, "real rows").integers(0, rows.num_rows, rows.num_rows))


@cache
def schema_of(folder: Path, table: str) -> Schema:
    """The public schema of a benchmark table."""
    return Schema.load(folder / table / "schema.toml")


@cache
def _evaluator(folder: Path, table: str) -> Evaluator:
    """One per table and process: it knows the real answers already."""
    return Evaluator(
        schema_of(folder, table),
        private_files(folder, table),
        [folder / table / "test.csv"],
        transport_rows=TRANSPORT_ROWS,
        cache=cache_folder(),
    )


def _figures(item: Item, folder: Path, noise_seed: int) -> Mapping[str, Value]:
    if item.kind == COST:
        return measure_cost(item.cell, folder, noise_seed)
    rows, facts = synthesize(item.cell, folder, noise_seed)
    scores = _evaluator(folder, item.cell.table).score(rows, measures=MEASURED[item.kind])
    kept = kept_of(scores)
    return {**kept, **facts} if item.kind == SCORES else kept
