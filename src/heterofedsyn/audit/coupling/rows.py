"""What a row counts as follows from it alone, and its statistics from all rows alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import numpy as np

from heterofedsyn._arrays import stream
from heterofedsyn.audit.cases import mixed_schema, ruled_schema
from heterofedsyn.audit.coupling.answers import examine
from heterofedsyn.audit.findings import Broken, Check, require
from heterofedsyn.audit.fixtures import SITE, InMemory, ask, plain_schema, plan_of, table_of
from heterofedsyn.audit.sources import STORES
from heterofedsyn.errors import DataError
from heterofedsyn.marginals import Flat, Grouped
from heterofedsyn.privacy.noise import SimulatedNoise
from heterofedsyn.schema import EncodedTable, Schema, encode
from heterofedsyn.schema.table import columns_of
from heterofedsyn.site import Site
from heterofedsyn.sources import open_source, read

_MOST_MAPS = 9
"""Maps of one pair in one query."""

_CELLS: Mapping[str, Sequence[object]] = {
    "age": (17, 30, 41, 52, 63, 74, 0, 99, -5, 100, 10_000, 42, -(2**40), 98, 12, 3),
    "cost": (
        *(10.5, 20.25, 333.3, 500.0, 749.99, 980.0, 0.0, 1000.0, -1.0, 1e300, float("inf")),
        *(999.99, 250.0, -1e-9, 75.5, 37.25),
    ),
    "seen": tuple(datetime(year, 1, 2) for year in (2026, 1999, 2026, 2100)) * 4,
    "ward": (*"abaab", "?", "b", "?", "zoo", "b", "", "a", "A", "b", "b", "a"),
    "outcome": (
        *("home", "died", "home", "died", "never seen", "home", "died", "never seen", "home"),
        *("died", "home", "zoo", "home", "died", "home", "home"),
    ),
    "smoker": (True, False) * 8,
    "born": (
        *(date(2001, 2, 3), date(1960, 1, 31), date(1949, 12, 31), date(1987, 6, 5)),
        *(date(2020, 2, 2), date(1, 1, 1), date(1975, 5, 5), date(2025, 12, 31)),
        *(date(2026, 1, 1), date(1987, 6, 5), date(1999, 9, 9), date(2001, 2, 3)),
        *(date(1990, 1, 1), date(2020, 2, 2), date(2010, 1, 1), date(2020, 2, 3)),
    ),
    "left": (
        *(date(2001, 2, 4), None, date(1950, 1, 1), date(2020, 3, 4), date(2020, 2, 2), None),
        *(date(1980, 1, 1), date(2025, 12, 31), date(9999, 12, 31), date(2020, 3, 4), None),
        *(date(2001, 2, 3), None, date(2020, 2, 2), date(2009, 12, 31), date(2020, 2, 2)),
    ),
    "fever": (
        *(36.96, 37.25, 35.0, 34.9, 38.19, 39.05, 36.6, 42.0, 99.9, 37.0, float("inf")),
        *(38.19, 41.98, float("-inf"), 36.5, 40.07),
    ),
}
"""Values of some rows: inside of the schema's ranges and beyond them, known, unknown and missing,
in order and out of it; the last two are out of order."""

_ODD: Mapping[str, Sequence[object]] = {
    "cost": (Decimal("1.5"), Decimal("2.5"), 3, 700.25, "900", Decimal("1.25"), b"4", None, True),
    "ward": ("a", "b", "a", "b", b"a", 3, None, Decimal("1.25"), True),
}
"""Cells of every type in one column, as a data frame of objects may hold them."""


def checks(seed: int) -> Iterator[Check]:
    """Rows, alone and among others."""
    yield "a row by itself", _alone
    yield "a row by itself, in a data frame of objects", _objects
    yield "many maps of one pair", partial(_maps, seed)
    yield "many maps of three columns", partial(_maps, seed, 6, 6, 3)


def _alone() -> str:
    """The code of a cell is the same in whatever batch it comes."""
    import pyarrow as pa

    schema = ruled_schema()
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
                codes = _codes(encode(schema, whole.to_batches(max_chunksize=step)).table)
                right = list(chain.from_iterable(alone[::-1])) if backwards else wanted
                require(codes == right, f"{kind} cells: a row counts as another among others")
                compared += len(rows)
    return f"{compared} rows alone and among others"


def _objects() -> str:
    """A data frame's types come from no other row than the one that is read."""
    if find_spec("pandas") is None:
        return "there is no pandas here to read from"

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
                codes = read_from_pandas(column, [cell, *many] if first else [*many, cell])
                right = Counter(chain(alone[i], alone[0] * len(many)))
                require(
                    Counter(codes) == right,
                    f"{column}: one cell ({type(cell).__name__}) changes what other rows count as",
                )
                compared += 1
    return f"{compared} columns with one odd cell"


def _read(frame: object, schema: Schema) -> list[tuple[int, ...]]:
    source = open_source(frame).forgiving(lambda line: None)
    try:
        return _codes(encode(schema, read([source], columns_of(schema, None))).table)
    except DataError:
        raise Broken("one cell of a data frame makes all of it unreadable") from None


def _text(value: object) -> str:
    if value is None:
        return ""
    return value.isoformat() if isinstance(value, date) else str(value).lower()


def _codes(table: EncodedTable) -> list[tuple[int, ...]]:
    return [tuple(row) for row in table.codes.T.tolist()]


def _maps(seed: int, *sizes: int) -> str:
    """However many maps of the same columns are asked for, each has its own counts."""
    schema = plain_schema(*(sizes or (9, 6)))
    names = schema.domain.names
    plan = plan_of(schema, seed, epsilon=1.0)
    rng = stream(seed, f"maps of {len(names)} columns")
    asked = 0
    for rows in (0, 20, 3_000):
        table = table_of(schema, rows, rng)
        site = Site(SITE, table, plan, SimulatedNoise(seed, SITE))
        for many in range(1, _MOST_MAPS + 1):
            maps = [
                Grouped(names, tuple(_groups(rng, size) for size in schema.domain.sizes))
                for _ in range(many)
            ]
            query = ask(plan, many, [*maps, Flat(("a0",))], plan.budget.rho / 100)
            try:
                examine(InMemory(site), query, table, plan, seed)
            except Broken as broken:
                raise Broken(f"{many} maps of {rows:,} rows: {broken}") from None
            asked += many
    return f"{asked} maps, up to {_MOST_MAPS} in one query"


def _groups(rng: np.random.Generator, size: int) -> tuple[int, ...]:
    """A group for every value; no group is left out."""
    drawn = np.unique(rng.integers(0, size, size), return_inverse=True)[1]
    return tuple(int(group) for group in drawn)
