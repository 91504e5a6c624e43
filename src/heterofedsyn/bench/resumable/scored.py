"""A study over rows dealt to sites, and those of its scores that are kept."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from heterofedsyn.bench.resumable.cells import Cell
from heterofedsyn.bench.resumable.results import REFUSED, Block, Item, Value
from heterofedsyn.errors import HeterofedsynError, PrivacyRefusal, SimulatedNoiseWarning, UsageError
from heterofedsyn.evaluation import Scores
from heterofedsyn.simulate import FederatedSynthesizer
from heterofedsyn.simulate.run import RoundReport
from heterofedsyn.simulate.synthesizer import name_sites

if TYPE_CHECKING:
    import pyarrow as pa

KEPT = (
    *("tvd.one_way", "tvd.two_way", "query.test.2_way", "query.test.3_way", "query.train.2_way"),
    *("fidelity.histogram", "fidelity.num_num"),
    *("ml.average", "ml.ceiling", "ml.trivial"),
    *("ml.rmse_rank.average", "ml.rmse_rank.ceiling", "ml.rmse_rank.trivial"),
)
"""Scores that are kept; the others could be made again from the seeds."""


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
