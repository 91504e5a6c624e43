"""Rows of persons: L of each count, whichever source, batch, order or spelling they come in.

A person's number is spelt in many ways, some rows have none, some do not fit. Which rows must be
counted is worked out row by row in plain Python. One row less of a person changes nobody else's.
"""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from heterofedsyn._arrays import Integers, stream
from heterofedsyn.audit.coupling.answers import Examined, compare, examine_in_memory, loss
from heterofedsyn.audit.effort import Effort
from heterofedsyn.audit.findings import Check, require
from heterofedsyn.audit.fixtures import (
    UNIT,
    ask_all,
    every_kind,
    plain_schema,
    plan_of,
    temporary_folder,
)
from heterofedsyn.audit.patches import patched
from heterofedsyn.audit.sources import STORES
from heterofedsyn.marginals import Flat, tally
from heterofedsyn.marginals.counts import PairCounts
from heterofedsyn.protocol import Plan, Query
from heterofedsyn.schema import EncodedTable, Schema, encode
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

_SMALL = plain_schema(9, 6)
_WITHIN = 4
"""Times the price of a row: what exchanging it for another may move. L rows cost L^2 times it."""

_SPELT: Sequence[Sequence[str]] = (
    ("17", "17.0", " 17", "17.00  ", "17."),
    ("1.5", "1.50", " 1.500"),
    *(
        tuple(unicodedata.normalize(form, name) for form in ("NFC", "NFD"))
        for name in ("Zoé", "Jürgen Åström", "Nguyễn", "각")
    ),
    ("zoe",),
    ("Zoe",),
    ("17a",),
)
"""People, each in all spellings that mean the same person."""

_SMALL_BLOCK = 64
"""Bytes; a block of a site's codes is full after some rows instead of millions."""


@dataclass(frozen=True)
class Row:
    """A row: whose it is, if that is known, and its codes; -1 is a value nobody agreed on."""

    person: int | None
    codes: tuple[int, ...]


@dataclass(frozen=True)
class Way:
    """How rows become counts: their schema, the bytes of a block, and what is kept in the end."""

    name: str
    sizes: tuple[int, ...]
    block: int
    pairs: bool
    rows_per_unit: int

    @property
    def title(self) -> str:
        """The check in words."""
        return f"people over files and batches, {self.name}"


_WAYS = (
    Way("in memory", (9, 6, 2), tally.BLOCK_BYTES, False, 1),
    Way("codes in a file", (300, 7), _SMALL_BLOCK, False, 2),
    Way("codes in a file for three columns", (9, 6, 2), _SMALL_BLOCK, False, 3),
    Way("counts of all pairs", (9, 6), _SMALL_BLOCK, True, 3),
)


def checks(effort: Effort, seed: int) -> Iterator[Check]:
    """L rows of a person count, wherever they lie and however the person is spelt."""
    for way in _WAYS:
        yield way.title, partial(_audited, way, seed)
    yield "people, however spelt", _spelt
    yield "many people", partial(_many, effort)
    yield "people in any order", partial(_orders, seed)
    yield "one row of a person", partial(_one_row, seed)


def _audited(way: Way, seed: int) -> str:
    """The rows of one way with and without a person, and rows of nobody."""
    schema = plain_schema(*way.sizes)
    plan = plan_of(schema, seed, epsilon=1.0, unit=UNIT, rows_per_unit=way.rows_per_unit)
    kinds = every_kind(schema.domain, seed)
    query = ask_all(plan, kinds)
    rows = _rows(schema, seed)

    def examined(stretches: Sequence[Sequence[Row]]) -> Examined:
        with temporary_folder() as place, patched(tally, BLOCK_BYTES=way.block):
            counts = count(
                _sources(stretches, place),
                schema,
                unit=UNIT,
                max_rows_per_unit=way.rows_per_unit,
                folder=place,
                together=plan.together,
            ).counts
            left = {path.name for path in place.iterdir()}
        require(left == _FILES, "rows are in a file that has a name")
        require(isinstance(counts, PairCounts) == way.pairs, "rows are kept in another way")
        table = kept(stretches, schema, way.rows_per_unit)
        return examine_in_memory(counts, query, table, plan, seed)

    one = examined(rows)
    last = tuple(size - 1 for size in way.sizes)
    most = Fraction(0)
    for canary in (Row(_CANARY, last), Row(None, last)):
        other = examined([_with(stretch, canary) for stretch in rows])
        moved = compare(one, other, plan.trust_model, "a person")
        require(canary.person is not None or moved == 0, "rows of nobody were counted")
        most = max(most, moved / one.charged)
    return (
        f"{len(kinds)} releases, {_STRETCHES} sources, {way.rows_per_unit} of "
        f"{_STRETCHES * len(_PLACES)} rows of a person: {float(most):.9f} of the charge at most"
    )


def _rows(schema: Schema, seed: int) -> list[list[Row]]:
    """Rows of a hundred people, few of them in one source only; some of nobody, some unfit."""
    rng = stream(seed, "rows of an audit's files")
    sizes = schema.domain.sizes

    def row() -> Row:
        person = None if rng.random() < 0.05 else int(rng.integers(100, 200))
        first = -1 if rng.random() < 0.05 else int(rng.integers(sizes[0]))
        return Row(person, (first, *(int(rng.integers(size)) for size in sizes[1:])))

    return [[row() for _ in range(_ROWS)] for _ in range(_STRETCHES)]


def _with(rows: Sequence[Row], canary: Row) -> list[Row]:
    """The canary's rows between those of others; the first of them does not fit."""
    more = list(rows)
    for place in reversed(_PLACES):
        more.insert(place, canary)
    return [Row(canary.person, (-1, *canary.codes[1:])), *more]


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
    fitting = [row.codes for row in rows if min(row.codes) >= 0]
    if len(fitting) <= most:
        return [*fitting]
    encoded = encode(schema, _numbered(rows).to_batches(), UNIT, most).table
    chosen = [tuple(codes) for codes in encoded.codes.T.tolist()]
    require(
        len(chosen) == most and Counter(chosen) <= Counter(fitting),
        f"of a person with {len(fitting)} rows {len(chosen)} count, not {most} of them",
    )
    return chosen


def _sources(stretches: Sequence[Sequence[Row]], place: Path) -> list[Source]:
    """A table of whole numbers, a stream of floats, a file of Parquet and one of CSV, of texts."""
    import pyarrow as pa

    whole, floats, parquet, text = stretches
    ids = [None if row.person is None else float(row.person) for row in floats]
    reader = as_table(floats, pa.array(ids, pa.float64())).to_reader(max_chunksize=_BATCH)
    in_batches = pa.Table.from_batches(_numbered(whole).to_batches(max_chunksize=_BATCH))
    files = [
        STORES[kind](as_table(rows, _texts(rows)).to_pydict(), place)
        for kind, rows in (("parquet", parquet), ("csv", text))
    ]
    return [open_source(source) for source in (in_batches, reader, *files)]


def _texts(rows: Sequence[Row]) -> list[str]:
    """People as texts: 17, 17.0, or either with blanks around it; blanks alone for nobody."""
    ways = ("{}", "{}.0", " {}", "{}.0  ")
    return [
        " " * (i % 2) if row.person is None else ways[i % len(ways)].format(row.person)
        for i, row in enumerate(rows)
    ]


def as_table(rows: Sequence[Row], people: Sequence[object]) -> pa.Table:
    """The rows with these ids of their people."""
    import pyarrow as pa

    codes = {f"a{i}": [f"v{row.codes[i]}" for row in rows] for i in range(len(rows[0].codes))}
    return pa.table({UNIT: people, **codes})


def _numbered(rows: Sequence[Row]) -> pa.Table:
    """The rows with numbers of people."""
    import pyarrow as pa

    return as_table(rows, pa.array([row.person for row in rows], pa.int64()))


def _counted(table: pa.Table, batch: int, most: int = 1) -> Integers:
    """The counts of the pair as a site reads a table of the small schema."""
    source = open_source(table.to_reader(max_chunksize=batch))
    counts = count([source], _SMALL, unit=UNIT, max_rows_per_unit=most).counts
    return Flat(("a0", "a1")).exact(counts).values


def _spelt() -> str:
    """One row counts of everybody, in however many ways a name or number is written."""
    spellings = [*chain(*_SPELT), *chain(*(reversed(ways) for ways in _SPELT))]
    table = as_table([Row(None, (0, 0))] * len(spellings), spellings)
    for batch in (1, 7, len(spellings)):
        people = int(_counted(table, batch).sum())
        require(
            people == len(_SPELT),
            f"{len(_SPELT)} people in {len(spellings)} rows are counted as {people}",
        )
    return f"{len(_SPELT)} people in {len(spellings)} spellings"


def _many(effort: Effort) -> str:
    """Whoever was counted is remembered, however many came since."""
    import pyarrow as pa

    people = effort.people
    ids = pa.array(np.concatenate([np.arange(people), np.arange(0, people, 7)]))
    same = pa.array(["v0"]).take(pa.array(np.zeros(len(ids), np.int64)))
    counted = int(_counted(pa.table({UNIT: ids, "a0": same, "a1": same}), 50_000).sum())
    require(counted == people, f"{people:,} people with one row each are counted as {counted:,}")
    return f"{people:,}, of whom every seventh came once more"


def _people(seed: int) -> list[Row]:
    """Rows of forty people, some with many, most of them different."""
    rng = stream(seed, "rows of people")

    def row() -> Row:
        codes = (int(rng.integers(9)), int(rng.integers(6)))
        return Row(int(rng.integers(40)), codes)

    return [row() for _ in range(150)]


def _joint(rows: Sequence[Row], most: int, batch: int = 40) -> Integers:
    return _counted(_numbered(rows), batch, most)


def _orders(seed: int) -> str:
    """Which rows of a person count does not follow the order in which a source delivers them."""
    rng = stream(seed, "orders of rows")
    rows = _people(seed)
    orders = 6
    for most in (1, 3):
        first = _joint(rows, most, len(rows))
        for _ in range(orders):
            mixed = [rows[i] for i in rng.permutation(len(rows))]
            other = _joint(mixed, most, int(rng.integers(5, len(rows))))
            moved = int(np.abs(other - first).sum()) // 2
            require(moved == 0, f"{moved} rows count in another order that did not before")
    return f"{orders} orders of {len(rows)} rows"


def _one_row(seed: int) -> str:
    """One row less of a person leaves everybody else's as they are, and moves that person's own.

    What is charged protects persons. Within one, a row may leave and another come in its place.
    """
    rows = _people(seed)
    many = Counter(row.person for row in rows)
    asked = 0
    worst = Fraction(0)
    for most in (1, 3):
        plan = plan_of(_SMALL, seed, epsilon=1.0, unit=UNIT, rows_per_unit=most)
        query = ask_all(plan, every_kind(_SMALL.domain, seed))
        whole = _joint(rows, most)
        for place in range(0, len(rows), 5):
            person = rows[place].person
            fewer = [*rows[:place], *rows[place + 1 :]]
            own = [[row for row in some if row.person == person] for some in (rows, fewer)]
            moved = _joint(fewer, most) - whole
            alone = [_joint(some, most) if some else np.zeros_like(whole) for some in own]
            require(
                np.array_equal(moved, alone[1] - alone[0]),
                "one row less of a person changes which rows of others count",
            )
            asked += 1
            if many[person] > most and moved.any():
                worst = max(worst, _within(plan, query, rows, fewer, most, seed))
    require(worst > 0, "no row of a person moved anything")
    return (
        f"{asked} rows removed; another row of a person in its place moves {float(worst):.3f} "
        "times the charge, of 4 that are allowed"
    )


def _within(
    plan: Plan, query: Query, rows: Sequence[Row], fewer: Sequence[Row], most: int, seed: int
) -> Fraction:
    """What a row less moves, as a multiple of the charge."""
    tables = [kept([some], _SMALL, most) for some in (rows, fewer)]
    one, other = (examine_in_memory(table, query, table, plan, seed) for table in tables)
    moved = loss(one.values, other.values, one.sigmas, plan.trust_model) / one.charged
    require(
        moved <= Fraction(_WITHIN, most**2),
        f"a row less of a person with {most} that count moves {float(moved):.3f} times the charge",
    )
    return moved
