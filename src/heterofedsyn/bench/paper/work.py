"""What one item is: a study with fresh noise, and what its synthetic rows are worth."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heterofedsyn._arrays import stream
from heterofedsyn.bench.paper.cost_experiment import measure_cost
from heterofedsyn.bench.paper.experiments import (
    CONVERSION,
    COST,
    DELTA,
    ML,
    REAL,
    SCORES,
    TRANSPORT,
    Cell,
)
from heterofedsyn.bench.paper.results import REFUSED, Block, Item, Value
from heterofedsyn.errors import HeterofedsynError, PrivacyRefusal, SimulatedNoiseWarning, UsageError
from heterofedsyn.evaluation import Evaluator, Scores, cache_folder
from heterofedsyn.schema import Schema
from heterofedsyn.simulate import FederatedSynthesizer
from heterofedsyn.simulate.run import RoundReport
from heterofedsyn.simulate.synthesizer import name_sites
from heterofedsyn.sources import open_source

if TYPE_CHECKING:
    import pyarrow as pa

MEASURED = {SCORES: ("tvd", "query", "histogram"), TRANSPORT: ("num_num",), ML: ("ml",)}
"""What every kind of work asks of the evaluator."""

TRANSPORT_ROWS = 1_000
"""Rows that exact transport compares: all of it takes hours with the evaluator's usual 2,000."""

KEPT = (
    *("tvd.one_way", "tvd.two_way", "query.test.2_way", "query.test.3_way", "query.train.2_way"),
    *("fidelity.histogram", "fidelity.num_num"),
    *("ml.average", "ml.ceiling", "ml.trivial"),
    *("ml.rmse_rank.average", "ml.rmse_rank.ceiling", "ml.rmse_rank.trivial"),
)
"""Scores that are kept; the others could be made again from the seeds."""


def run_item(item: Item, folder: Path, noise_seed: int) -> Block:
    """The figures of one item; work that is declined gives the reason in one word."""
    return block_of(item, lambda: _figures(item, folder, noise_seed))


def block_of(item: Item, work: Callable[[], Mapping[str, Value]]) -> Block:
    """What some work gave, or why it was declined, and the time it took."""
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SimulatedNoiseWarning)
            figures = work()
    except HeterofedsynError as error:
        figures = {f"{REFUSED}.{item.kind}": _word(error)}
    return Block(item, figures, round(time.process_time() - start, 3))


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


def study_of(
    synthesizer: FederatedSynthesizer, cell: Cell, rows: Sequence[object], noise_seed: int
) -> tuple[pa.Table, dict[str, float]]:
    """Synthetic rows of a study over rows dealt to sites; its pairs, and bytes a site sent."""
    reports: list[RoundReport] = []
    tables = synthesizer.split(synthesizer.encode(rows), cell.sites, cell.split)
    synthesizer.fit_encoded(name_sites(tables), watch=reports.append)
    senders = {name for report in reports for name in report.sent}
    sent = sum(many for report in reports for many in report.sent.values())
    pairs = sum(pair.measured for pair in synthesizer.release.run.pairs)
    facts = {"pairs": float(pairs), "bytes_per_site": sent / len(senders)}
    return synthesizer.sample(seed=noise_seed), facts


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


def kept_of(scores: Scores) -> dict[str, Value]:
    """The scores that are kept, by dotted names."""
    scored = dict(_flat(scores.to_dict()))
    return {name: scored[name] for name in KEPT if name in scored}


def _flat(scores: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Nested scores as dotted names; what was not measured is left out."""
    for name, value in scores.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, int | float) and math.isfinite(value):
            yield f"{prefix}{name}", float(value)


def _word(error: HeterofedsynError) -> str:
    if isinstance(error, PrivacyRefusal):
        return "privacy"
    return "unsupported" if isinstance(error, UsageError) else "failed"
