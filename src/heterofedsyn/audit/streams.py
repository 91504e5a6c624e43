"""Rows as a site reads them: from several files and streams, batch by batch, people all over them.

A person's number is spelt in many ways, some rows have none, some do not fit. Which rows must be
counted is worked out row by row in plain Python.
"""

from __future__ import annotations

import csv
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import msgspec
import numpy as np

from heterofedsyn._arrays import stream
from heterofedsyn.audit.exhibit import SITE, ask, every_kind, plain_schema, plan_of
from heterofedsyn.audit.findings import Check, Finding, require
from heterofedsyn.audit.hearing import Heard, InMemory, check_charges, compare, hear
from heterofedsyn.audit.subject import UNIT
from heterofedsyn.marginals import tally
from heterofedsyn.marginals.counts import PairCounts
from heterofedsyn.privacy.noise import SimulatedNoise
from heterofedsyn.schema import EncodedTable, Schema, encode
from heterofedsyn.site import Site
from heterofedsyn.site.counting import count
from heterofedsyn.sources import Source, open_source

if TYPE_CHECKING:
    import pyarrow as pa

_STRETCHES = 4
"""Sources; each spells people in its own way."""

_ROWS = 150
"""Of one source."""

_BATCH = 20
_CANARY = 17
_FILES = {"rows.parquet", "rows.csv"}
_PLACES = (0, 25, 26, 60, 150)
"""Before which rows of every source one more is put."""

_SMALL_BLOCK = 64
"""Bytes; a block of a site's codes is full after some rows instead of millions."""


@dataclass(frozen=True)
class Row:
    """A row: whose it is, if that is known, and its two codes; -1 is a value nobody agreed on."""

    person: int | None
    codes: tuple[int, int]


@dataclass(frozen=True)
class Way:
    """How rows become counts: their schema, the bytes of a block, and what is kept in the end."""

    name: str
    sizes: tuple[int, int]
    block: int
    pairs: bool
    rows_per_unit: int

    @property
    def title(self) -> str:
        """The check in words."""
        return f"people over files and batches, {self.name}"


_WAYS = (
    Way("in memory", (9, 6), tally.BLOCK_BYTES, False, 1),
    Way("codes in a file", (300, 7), _SMALL_BLOCK, False, 2),
    Way("counts of all pairs", (9, 6), _SMALL_BLOCK, True, 3),
)


def checks(seed: int) -> Iterator[Check]:
    """L rows of a person count, wherever they lie and however the person is spelt."""
    for way in _WAYS:
        yield way.title, partial(_audited, way, seed)


def _audited(way: Way, seed: int) -> Iterator[Finding]:
    """The rows of one way with and without a person, and rows of nobody."""
    schema = plain_schema(*way.sizes)
    plan = msgspec.structs.replace(
        plan_of(schema, seed, epsilon=1.0), unit=UNIT, rows_per_unit=way.rows_per_unit
    )
    kinds = [s for statistics in every_kind(schema.domain, seed).values() for s in statistics]
    query = ask(plan, 0, kinds, plan.budget.evenly(len(kinds))[0].rho)
    rows = _rows(schema, seed)

    def heard(stretches: Sequence[Sequence[Row]]) -> Heard:
        with (
            tempfile.TemporaryDirectory(prefix="heterofedsyn-audit-") as place,
            mock.patch.object(tally, "BLOCK_BYTES", way.block),
        ):
            counts = count(
                _sources(stretches, Path(place)),
                schema,
                unit=UNIT,
                max_rows_per_unit=way.rows_per_unit,
                folder=Path(place),
            ).counts
            left = {path.name for path in Path(place).iterdir()}
        require(left == _FILES, "rows are in a file that has a name")
        require(isinstance(counts, PairCounts) == way.pairs, "rows are kept in another way")
        site = Site(SITE, counts, plan, SimulatedNoise(seed, SITE))
        table = kept(stretches, schema, way.rows_per_unit)
        found = hear(InMemory(site), query, table, plan, seed)
        check_charges(site.ledger.spent, [found], plan.budget, plan.budget.rho)
        return found

    one = heard(rows)
    last = (way.sizes[0] - 1, way.sizes[1] - 1)
    most = Fraction(0)
    for canary in (Row(_CANARY, last), Row(None, last)):
        other = heard([_with(stretch, canary) for stretch in rows])
        loss = compare(one, other, plan.trust_model, "a person")
        require(canary.person is not None or loss == 0, "rows of nobody were counted")
        most = max(most, loss / one.charged)
    yield Finding(
        way.title,
        True,
        f"{len(kinds)} releases, {_STRETCHES} sources, {way.rows_per_unit} of "
        f"{_STRETCHES * len(_PLACES)} rows of a person: {float(most):.9f} of the charge at most",
    )


def _rows(schema: Schema, seed: int) -> list[list[Row]]:
    """Rows of a hundred people, few of them in one source only; some of nobody, some unfit."""
    rng = stream(seed, "rows of an audit's files")
    sizes = schema.domain.sizes

    def row() -> Row:
        person = None if rng.random() < 0.05 else int(rng.integers(100, 200))
        first = -1 if rng.random() < 0.05 else int(rng.integers(sizes[0]))
        return Row(person, (first, int(rng.integers(sizes[1]))))

    return [[row() for _ in range(_ROWS)] for _ in range(_STRETCHES)]


def _with(rows: Sequence[Row], canary: Row) -> list[Row]:
    """The canary's rows between those of others; the first of them does not fit."""
    found = list(rows)
    for place in reversed(_PLACES):
        found.insert(place, canary)
    return [Row(canary.person, (-1, 0)), *found]


def kept(stretches: Sequence[Sequence[Row]], schema: Schema, most: int) -> EncodedTable:
    """The rows that must be counted: of each person those that count if nobody else is there."""
    people: dict[int, list[Row]] = defaultdict(list)
    for row in chain.from_iterable(stretches):
        if row.person is not None:
            people[row.person].append(row)
    every = [codes for rows in people.values() for codes in _chosen(rows, schema, most)]
    codes = np.array(every, dtype=np.int64).reshape(-1, len(schema.columns))
    return EncodedTable.from_codes(schema.domain, codes.T)


def _chosen(rows: Sequence[Row], schema: Schema, most: int) -> list[tuple[int, ...]]:
    """The rows of one person that count: as many as may, and of those that fit."""
    import pyarrow as pa

    fitting = [row.codes for row in rows if min(row.codes) >= 0]
    if len(fitting) <= most:
        return [*fitting]
    table = _table(rows, pa.array([row.person for row in rows], pa.int64()))
    found = encode(schema, table.to_batches(), UNIT, most).table
    chosen = [tuple(codes) for codes in found.codes.T.tolist()]
    require(
        len(chosen) == most and Counter(chosen) <= Counter(fitting),
        f"of a person with {len(fitting)} rows {len(chosen)} count, not {most} of them",
    )
    return chosen


def _sources(stretches: Sequence[Sequence[Row]], place: Path) -> list[Source]:
    """A table of whole numbers, a stream of floats, a file of Parquet and one of CSV, of texts."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    whole, floats, parquet, text = stretches
    table = _table(whole, pa.array([row.person for row in whole], pa.int64()))
    ids = [None if row.person is None else float(row.person) for row in floats]
    reader = _table(floats, pa.array(ids, pa.float64())).to_reader(max_chunksize=_BATCH)
    spelt = pa.array(_spelt(parquet), pa.string())
    pq.write_table(_table(parquet, spelt), place / "rows.parquet", row_group_size=_BATCH)
    with (place / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow([UNIT, "a0", "a1"])
        for row, name in zip(text, _spelt(text), strict=True):
            lines.writerow([name, *(f"v{code}" for code in row.codes)])
    in_batches = pa.Table.from_batches(table.to_batches(max_chunksize=_BATCH))
    files = (str(place / "rows.parquet"), str(place / "rows.csv"))
    return [open_source(found) for found in (in_batches, reader, *files)]


def _spelt(rows: Sequence[Row]) -> list[str]:
    """People as texts: 17, 17.0, or either with blanks around it; blanks alone for nobody."""
    ways = ("{}", "{}.0", " {}", "{}.0  ")
    return [
        " " * (i % 2) if row.person is None else ways[i % len(ways)].format(row.person)
        for i, row in enumerate(rows)
    ]


def _table(rows: Sequence[Row], people: pa.Array) -> pa.Table:
    import pyarrow as pa

    codes = {f"a{i}": [f"v{row.codes[i]}" for row in rows] for i in range(2)}
    return pa.table({UNIT: people, **codes})
