"""What a row counts as, and whether it counts, follows from it and from its own person's rows.

Each row is read alone, and among others in every order and batch; each person likewise. What
differs is what one record does to others, which no price covers.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from functools import partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import msgspec
import numpy as np

from heterofedsyn._arrays import Integers, stream
from heterofedsyn.audit.agents import mixed_schema
from heterofedsyn.audit.effort import Effort
from heterofedsyn.audit.exhibit import SITE, ask, every_kind, plain_schema, plan_of, table_of
from heterofedsyn.audit.findings import Broken, Check, Finding, require
from heterofedsyn.audit.hearing import Heard, InMemory, hear, loss
from heterofedsyn.audit.stores import STORES
from heterofedsyn.audit.streams import Row, kept
from heterofedsyn.audit.subject import UNIT
from heterofedsyn.errors import DataError
from heterofedsyn.marginals import Counts, Flat, Grouped
from heterofedsyn.privacy.noise import SimulatedNoise
from heterofedsyn.protocol import Plan, Query
from heterofedsyn.schema import EncodedTable, Schema, encode
from heterofedsyn.schema.table import columns_of
from heterofedsyn.site import Site
from heterofedsyn.site.counting import count
from heterofedsyn.sources import open_source, read

_MOST_MAPS = 9
"""Maps of one pair in one query."""

_WITHIN = 4
"""Times the price of a row: what exchanging it for another may move. L rows cost L^2 times it."""

_CELLS: Mapping[str, Sequence[object]] = {
    "age": (17, 0, 99, -5, 100, 10_000, 42, -(2**40), 98, 3),
    "cost": (10.5, 0.0, 1000.0, -1.0, 1e300, float("inf"), 999.99, 250.0, -1e-9, 37.25),
    "seen": tuple(datetime(year, 1, 2) for year in (2026, 1999, 2026, 2100, 2026)) * 2,
    "ward": ("a", "b", "?", "zoo", "b", "", "a", "A", "b", "a"),
    "outcome": (
        "home",
        "died",
        "never seen",
        "home",
        "died",
        "home",
        "zoo",
        "home",
        "died",
        "home",
    ),
    "smoker": (True, False) * 5,
}
"""Values of ten rows: inside of the schema's ranges and beyond them, known and unknown."""

_ODD: Mapping[str, Sequence[object]] = {
    "cost": (Decimal("1.5"), Decimal("2.5"), 3, 700.25, "900", Decimal("1.25"), b"4", None, True),
    "ward": ("a", "b", "a", "b", b"a", 3, None, Decimal("1.25"), True),
}
"""Cells of every type in one column, as a data frame of objects may hold them."""

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


def checks(effort: Effort, seed: int) -> Iterator[Check]:
    """Rows and people, alone and among others."""
    yield "a row by itself", _alone
    yield "a row by itself, in a data frame of objects", _objects
    yield "people, however spelt", _spelt
    yield "many people", partial(_many, effort)
    yield "people in any order", partial(_orders, seed)
    yield "one row of a person", partial(_one_row, seed)
    yield "many maps of one pair", partial(_maps, seed)


def _alone() -> Iterator[Finding]:
    """The code of a cell is the same in whatever batch it comes."""
    import pyarrow as pa

    schema = mixed_schema()
    texts = {name: [_text(value) for value in values] for name, values in _CELLS.items()}
    tables = {"typed": pa.table(_CELLS), "text": pa.table(texts)}
    compared = 0
    for kind, table in tables.items():
        rows = [table.slice(i, 1) for i in range(table.num_rows)]
        alone = [_codes(encode(schema, row.to_batches()).table) for row in rows]
        wanted = list(chain.from_iterable(alone))
        require(len(wanted) > len(rows) // 2, f"{kind} cells: hardly a row fits by itself")
        for step in (1, 3, len(rows)):
            for backwards in (False, True):
                order = rows[::-1] if backwards else rows
                whole = pa.concat_tables(order).combine_chunks()
                found = _codes(encode(schema, whole.to_batches(max_chunksize=step)).table)
                right = list(chain.from_iterable(alone[::-1])) if backwards else wanted
                require(found == right, f"{kind} cells: a row counts as another among others")
                compared += len(rows)
    yield Finding("a row by itself", True, f"{compared} rows alone and among others")


def _objects() -> Iterator[Finding]:
    """A data frame's types come from no other row than the one that is read."""
    name = "a row by itself, in a data frame of objects"
    if find_spec("pandas") is None:
        yield Finding(name, True, "there is no pandas here to read from")
        return
    schema = mixed_schema()
    fitting = {column: values[0] for column, values in _CELLS.items()}

    def read_from_pandas(column: str, cells: Sequence[object]) -> list[tuple[int, ...]]:
        others = {name: [value] * len(cells) for name, value in fitting.items()}
        return _read(STORES["pandas"]({**others, column: cells}, Path()), schema)

    compared = 0
    for column, cells in _ODD.items():
        alone = [read_from_pandas(column, [cell]) for cell in cells]
        for i, cell in enumerate(cells):
            for first in (True, False):
                many = [cells[0]] * 20
                found = read_from_pandas(column, [cell, *many] if first else [*many, cell])
                right = Counter(chain(alone[i], alone[0] * len(many)))
                require(
                    Counter(found) == right,
                    f"{column}: one cell ({type(cell).__name__}) changes what other rows count as",
                )
                compared += 1
    yield Finding(name, True, f"{compared} columns with one odd cell")


def _read(frame: object, schema: Schema) -> list[tuple[int, ...]]:
    source = open_source(frame).forgiving(lambda line: None)
    try:
        return _codes(encode(schema, read([source], columns_of(schema, None))).table)
    except DataError:
        raise Broken("one cell of a data frame makes all of it unreadable") from None


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value).lower()


def _codes(table: EncodedTable) -> list[tuple[int, ...]]:
    return [tuple(row) for row in table.codes.T.tolist()]


def _spelt() -> Iterator[Finding]:
    """One row counts of everybody, in however many ways a name or number is written."""
    import pyarrow as pa

    schema = plain_schema(3, 2)
    spellings = [*chain(*_SPELT), *chain(*(reversed(ways) for ways in _SPELT))]
    for batch in (1, 7, len(spellings)):
        ids = pa.array(spellings, pa.string())
        table = pa.table({UNIT: ids, "a0": ["v0"] * len(ids), "a1": ["v0"] * len(ids)})
        reader = table.to_reader(max_chunksize=batch)
        found = _total(count([open_source(reader)], schema, unit=UNIT).counts)
        require(
            found == len(_SPELT),
            f"{len(_SPELT)} people in {len(spellings)} rows are counted as {found}",
        )
    yield Finding(
        "people, however spelt", True, f"{len(_SPELT)} people in {len(spellings)} spellings"
    )


def _total(counts: Counts) -> int:
    return int(Flat(("a0",)).exact(counts).values.sum())


def _many(effort: Effort) -> Iterator[Finding]:
    """Whoever was counted is remembered, however many came since."""
    import pyarrow as pa

    schema = plain_schema(3, 2)
    people = effort.people
    ids = pa.array(np.concatenate([np.arange(people), np.arange(0, people, 7)]))
    same = pa.array(["v0"]).take(pa.array(np.zeros(len(ids), np.int64)))
    reader = pa.table({UNIT: ids, "a0": same, "a1": same}).to_reader(max_chunksize=50_000)
    found = _total(count([open_source(reader)], schema, unit=UNIT).counts)
    require(found == people, f"{people:,} people with one row each are counted as {found:,}")
    yield Finding("many people", True, f"{people:,}, of whom every seventh came once more")


def _people(seed: int) -> list[Row]:
    """Rows of forty people, some with many, most of them different."""
    rng = stream(seed, "rows of people")
    sizes = (9, 6)

    def row() -> Row:
        code = (int(rng.integers(sizes[0])), int(rng.integers(sizes[1])))
        return Row(int(rng.integers(40)), code)

    return [row() for _ in range(150)]


def _joint(rows: Sequence[Row], most: int, batch: int) -> Integers:
    """The counts of the pair as a site reads these rows."""
    import pyarrow as pa

    schema = plain_schema(9, 6)
    table = pa.table(
        {
            UNIT: pa.array([row.person for row in rows], pa.int64()),
            **{f"a{i}": [f"v{row.codes[i]}" for row in rows] for i in range(2)},
        }
    )
    source = open_source(table.to_reader(max_chunksize=batch))
    found = count([source], schema, unit=UNIT, max_rows_per_unit=most).counts
    return Flat(("a0", "a1")).exact(found).values


def _orders(seed: int) -> Iterator[Finding]:
    """Which rows of a person count does not follow the order in which a source delivers them."""
    rng = stream(seed, "orders of rows")
    rows = _people(seed)
    orders = 6
    for most in (1, 3):
        first = _joint(rows, most, len(rows))
        for _ in range(orders):
            mixed = [rows[i] for i in rng.permutation(len(rows))]
            found = _joint(mixed, most, int(rng.integers(5, len(rows))))
            moved = int(np.abs(found - first).sum()) // 2
            require(moved == 0, f"{moved} rows count in another order that did not before")
    yield Finding("people in any order", True, f"{orders} orders of {len(rows)} rows")


def _one_row(seed: int) -> Iterator[Finding]:
    """One row less of a person leaves everybody else's as they are, and moves that person's own.

    What is charged protects persons. Within one, a row may leave and another come in its place.
    """
    rows = _people(seed)
    schema = plain_schema(9, 6)
    many = Counter(row.person for row in rows)
    asked = 0
    worst = Fraction(0)
    for most in (1, 3):
        plan = msgspec.structs.replace(
            plan_of(schema, seed, epsilon=1.0), unit=UNIT, rows_per_unit=most
        )
        kinds = [s for statistics in every_kind(schema.domain, seed).values() for s in statistics]
        query = ask(plan, 0, kinds, plan.budget.evenly(len(kinds))[0].rho)
        whole = _joint(rows, most, 40)
        for place in range(0, len(rows), 5):
            person = rows[place].person
            fewer = [*rows[:place], *rows[place + 1 :]]
            own = [[row for row in some if row.person == person] for some in (rows, fewer)]
            moved = _joint(fewer, most, 40) - whole
            alone = [_joint(some, most, 40) if some else np.zeros_like(whole) for some in own]
            require(
                np.array_equal(moved, alone[1] - alone[0]),
                "one row less of a person changes which rows of others count",
            )
            asked += 1
            if many[person] > most and moved.any():
                worst = max(worst, _within(plan, query, rows, fewer, most, seed))
    require(worst > 0, "no row of a person moved anything")
    yield Finding(
        "one row of a person",
        True,
        f"{asked} rows removed; within a person {float(worst):.3f} of the charge at most",
    )


def _within(
    plan: Plan, query: Query, rows: Sequence[Row], fewer: Sequence[Row], most: int, seed: int
) -> Fraction:
    """What a row less moves, as a multiple of the charge."""
    schema = plain_schema(9, 6)

    def heard(some: Sequence[Row]) -> Heard:
        table = kept([some], schema, most)
        site = Site(SITE, table, plan, SimulatedNoise(seed, SITE))
        return hear(InMemory(site), query, table, plan, seed)

    one, other = heard(rows), heard(fewer)
    found = loss(one.values, other.values, one.sigmas, plan.trust_model) / one.charged
    require(
        found <= Fraction(_WITHIN, most**2),
        f"a row less of a person with {most} that count moves {float(found):.3f} times the charge",
    )
    return found


def _maps(seed: int) -> Iterator[Finding]:
    """However many maps of one pair are asked for, each has its own counts."""
    schema = plain_schema(9, 6)
    plan = plan_of(schema, seed, epsilon=1.0)
    rng = stream(seed, "maps of a pair")
    asked = 0
    for rows in (0, 20, 3_000):
        table = table_of(schema, rows, rng)
        site = Site(SITE, table, plan, SimulatedNoise(seed, SITE))
        for many in range(1, _MOST_MAPS + 1):
            maps = [Grouped(("a0", "a1"), (_groups(rng, 9), _groups(rng, 6))) for _ in range(many)]
            query = ask(plan, many, [*maps, Flat(("a0",))], plan.budget.rho / 100)
            try:
                hear(InMemory(site), query, table, plan, seed)
            except Broken as broken:
                raise Broken(f"{many} maps of {rows:,} rows: {broken}") from None
            asked += many
    yield Finding("many maps of one pair", True, f"{asked} maps, up to {_MOST_MAPS} in one query")


def _groups(rng: np.random.Generator, size: int) -> tuple[int, ...]:
    """A group for every value; no group is left out."""
    drawn = np.unique(rng.integers(0, size, size), return_inverse=True)[1]
    return tuple(int(group) for group in drawn)
