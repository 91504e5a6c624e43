"""Verdicts beside the truth, on tables whose rows are at hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from heterofedsyn import FederatedSynthesizer
from heterofedsyn.report.bars import Display, released_counts
from heterofedsyn.report.verdicts import Word, column_verdicts
from heterofedsyn.schema import Schema, encode
from heterofedsyn.sources import open_source
from heterofedsyn.synthesis.grid import grouped

SITES = 5
DRAWN = 200_000


def distances(
    schema: Schema, tables: Sequence[object], epsilon: float, seed: int
) -> Iterator[tuple[Word, float]]:
    """Each column's verdict, and how far its synthetic bars are from the true ones."""
    batches = [batch for each in tables for batch in open_source(each).batches()]
    rows = pa.Table.from_batches(batches)
    rows = rows.take(np.random.default_rng(1).permutation(rows.num_rows))
    many = -(-rows.num_rows // SITES)
    sites = {f"site-{i}": rows.slice(i * many, many) for i in range(SITES)}
    synthesizer = FederatedSynthesizer(schema, epsilon=epsilon, delta=1e-9, noise_seed=seed)
    release = synthesizer.fit(sites).release
    tables_of = [
        encode(release.schema, each.to_batches()).table
        for each in (rows, release.sample(DRAWN, seed=seed))
    ]
    for verdict in column_verdicts(release):
        column, place = (
            release.schema.column(verdict.name),
            release.schema.domain.index(verdict.name),
        )
        groups = Display.of(column, released_counts(release, verdict.name)).groups
        shares = []
        for table in tables_of:
            counts = np.bincount(table.codes[place], minlength=column.size).astype(np.float64)
            shares.append(grouped(counts, groups) / counts.sum())
        yield verdict.word, 0.5 * float(np.abs(shares[0] - shares[1]).sum())
