"""Whether intervals of answers hold the truth: random questions, put to rows that are known."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heterofedsyn._arrays import stream
from heterofedsyn._files import file_written_whole
from heterofedsyn._sql import database_of
from heterofedsyn._version import __version__
from heterofedsyn.bench.random_questions import RandomQuestion, questions_of
from heterofedsyn.bench.with_rules import DELTA, HOSPITALS, SITES, plain_table
from heterofedsyn.errors import SimulatedNoiseWarning
from heterofedsyn.hub import METHODS, Release
from heterofedsyn.schema import Schema
from heterofedsyn.schema.binned import BinnedColumn
from heterofedsyn.schema.columns import KeyColumn
from heterofedsyn.simulate import FederatedSynthesizer
from heterofedsyn.simulate.synthesizer import name_sites

if TYPE_CHECKING:
    import pyarrow as pa

TABLES = (HOSPITALS, "adult", "shoppers", "insurance", "obesity", "abalone")
TRUSTS = ("local", "secure-aggregation")
MOST_SEEDS = 1_000
KINDS = 7
"""Of questions; what was kept of fewer is measured anew."""


@dataclass(frozen=True)
class Seen:
    """One cell: what was answered, perhaps without an interval, and what is true."""

    kind: str
    basis: str
    truth: float
    estimate: float
    low: float | None
    high: float | None

    @property
    def covered(self) -> bool:
        """Whether the interval holds the truth, up to rounding."""
        assert self.low is not None
        assert self.high is not None
        slack = 1e-9 * max(1.0, abs(self.truth))
        return self.low - slack <= self.truth <= self.high + slack

    @property
    def needed(self) -> float:
        """The factor by which the interval had to be wider, or could be narrower, to hold it."""
        if abs(self.truth - self.estimate) <= 1e-9 * max(1.0, abs(self.truth)):
            return 0.0
        assert self.low is not None
        assert self.high is not None
        # An end may be cut off, where nothing is possible: the other side has the whole width.
        side = max(self.high - self.estimate, self.estimate - self.low)
        return abs(self.truth - self.estimate) / side if side > 0 else np.inf


@dataclass(frozen=True)
class Coverage:
    """Of the cells of one kind: how many intervals held the truth.

    Attributes:
        cells: with an interval.
        factor: by which all widths could be multiplied so that 95 % do.
        without: cells that had an estimate, but too few rows for an interval.
    """

    table: str
    trust: str
    basis: str
    kind: str
    seeds: int
    cells: int
    covered: float
    factor: float
    without: int

    @classmethod
    def of(
        cls, table: str, trust: str, basis: str, kind: str, seeds: int, seen: list[Seen]
    ) -> Coverage:
        """Of these cells."""
        known = [cell for cell in seen if cell.low is not None]
        needed = np.array([cell.needed for cell in known])
        factor = float(np.quantile(needed, 0.95)) if known else np.nan
        share = float(np.mean([cell.covered for cell in known])) if known else np.nan
        without = len(seen) - len(known)
        return cls(table, trust, basis, kind, seeds, len(known), share, factor, without)


def measure(
    names: Sequence[str] = TABLES,
    trusts: Sequence[str] = TRUSTS,
    *,
    seeds: int = 20,
    questions: int = 200,
    replicates: int = 20,
    method: str = "wavetree",
    epsilon: float = 1.0,
    out: Path | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> Iterator[Coverage]:
    """The coverage of each table under each trust model, of all kinds and then of each.

    Args:
        out: a folder that keeps what was seen, a file for each release: running again goes on.
    """
    terms = f"{__version__}-{KINDS}-{method}-{epsilon:g}-{replicates}-{questions}"
    for name in names:
        schema, rows = real_rows(name)
        for trust in trusts:
            seen: list[Seen] = []
            for seed in range(seeds):
                kept = None if out is None else out / terms / f"{name}-{trust}-{seed}.json"
                if kept is not None and kept.is_file():
                    seen += [Seen(**cell) for cell in json.loads(kept.read_text())]
                    continue
                release = release_of(schema, rows, method, epsilon, trust, seed)
                cells = [*_seen(release, rows, questions, replicates, seed)]
                if kept is not None:
                    kept.parent.mkdir(parents=True, exist_ok=True)
                    with file_written_whole(kept) as partial:
                        partial.write_text(json.dumps([asdict(cell) for cell in cells]), "utf-8")
                seen += cells
                note(f"{name}, {trust}: seed {seed + 1} of {seeds}")
            yield from _told(name, trust, seeds, seen)


def real_rows(name: str) -> tuple[Schema, pa.Table]:
    """A table's schema and its rows that fit, in the types that a release has."""
    import pyarrow as pa

    schema, rows = plain_table(name)
    readings = {
        column.name: column.read(rows.column(column.name).combine_chunks())
        for column in schema.columns
        if not isinstance(column, KeyColumn)
    }
    fits = np.logical_and.reduce([reading.fits for reading in readings.values()])
    for mask in schema.rulebook.contradicted(readings, fits).values():
        fits = fits & ~mask
    columns = {}
    for column in schema.columns:
        reading = readings.get(column.name)
        if reading is None:
            continue
        if isinstance(column, BinnedColumn):
            assert reading.numbers is not None
            columns[column.name] = column.written(reading.numbers, reading.missing)
        else:
            columns[column.name] = column.decode(reading.codes, np.random.default_rng(0))
    return schema, pa.table(columns).filter(pa.array(fits))


def release_of(
    schema: Schema, rows: pa.Table, method: str, epsilon: float, trust: str, seed: int
) -> Release:
    """A release of all rows, dealt to five sites."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimulatedNoiseWarning)
        synthesizer = FederatedSynthesizer(
            schema, epsilon=epsilon, delta=DELTA, method=method, trust=trust, noise_seed=seed
        )
        encoded = synthesizer.encode([rows])
        if METHODS[method].pools:
            tables = {"pooled": encoded.table}
        else:
            tables = name_sites(synthesizer.split(encoded, SITES, "uniform"))
        return synthesizer.fit_encoded(tables).release


def _seen(
    release: Release, rows: pa.Table, questions: int, replicates: int, seed: int
) -> Iterator[Seen]:
    rng = stream(seed, "questions")
    asked = questions_of(release, questions, rng)
    with database_of("measuring coverage", {"release": rows}) as connection:
        for question in asked:
            answer = release.answer(question.sql, replicates=replicates)
            truth = _truth(connection, question, len(answer.keys))
            names = [*dict.fromkeys(cell.what for cell in answer.cells)]
            for cell in answer.cells:
                known = truth.get(cell.keys)
                true = question.of_nobody if known is None else known[names.index(cell.what)]
                if true is None or cell.estimate is None:
                    continue
                yield Seen(
                    question.kind, cell.basis, float(true), cell.estimate, cell.low, cell.high
                )


def _truth(
    connection: Any, question: RandomQuestion, keys: int
) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """The true figures of every group."""
    found = connection.execute(question.sql).fetchall()
    return {row[:keys]: row[keys:] for row in found}


def _told(name: str, trust: str, seeds: int, seen: list[Seen]) -> Iterator[Coverage]:
    for basis in ("measured", "follows"):
        own = [cell for cell in seen if cell.basis == basis]
        yield Coverage.of(name, trust, basis, "all", seeds, own)
        for kind in dict.fromkeys(cell.kind for cell in own):
            yield Coverage.of(name, trust, basis, kind, seeds, [c for c in own if c.kind == kind])
