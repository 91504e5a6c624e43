"""`simulate` from end to end, on a file and on the file with one row more, less or changed.

Rows that are dealt to simulated sites must each be dealt by itself: with the same seed one row more
is one row more at one site, and a row that changes moves no other. Without a seed nothing that is
published tells how they were dealt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from heterofedsyn._arrays import stream
from heterofedsyn.audit.coupling.neighbours import (
    Published,
    Recorded,
    check_published,
    distance,
    record,
    simulate,
)
from heterofedsyn.audit.findings import Check, require
from heterofedsyn.audit.fixtures import temporary_folder
from heterofedsyn.audit.sources import STORES
from heterofedsyn.simulate.split import Split

_SCHEMA = """\
label = "outcome"
columns = [
  {name = "age", type = "integer", min = 0, max = 99, bins = 20},
  {name = "ward", type = "categorical", values = ["true", "false", "unknown"]},
  {name = "outcome", type = "categorical", values = ["home", "ward", "died"]},
]
"""
_HEADER = ("patient", "age", "ward", "outcome")
_Cells = tuple[str, int, str, str]

_ADDED: Mapping[str, _Cells] = {
    "a usual row": ("new", 30, "true", "home"),
    "values nobody has": ("new", 99, "unknown", "died"),
    "a row out of range": ("new", 10_000, "false", "home"),
    "a row that does not fit": ("new", 30, "zoo", "home"),
}
_QUERIES = {
    "an engine that guesses types": "SELECT * FROM read_csv('{text}')",
    "a query with so many rows": "SELECT * FROM rows LIMIT {rows}",
}
"""By what is wrong with them."""

_MOST_SEEDS = 20
"""Numbers of a public file that are tried as seeds."""


@dataclass(frozen=True)
class _Way:
    """How a study is run: what its name says, and the arguments beside the rows."""

    name: str
    arguments: tuple[str, ...] = ()
    kind: str = "csv"
    per_unit: bool = False
    sites: tuple[str, ...] = ("--sites", "3")


_SPLITS = tuple(_Way(f"split {split}", ("--split", str(split))) for split in Split)
_WAYS = (
    *_SPLITS,
    _Way("a Parquet file", kind="parquet"),
    _Way("a DuckDB table", kind="duckdb"),
    _Way("sites named by a column", ("--site-column", "ward"), sites=()),
    _Way("persons", ("--unit", "patient", "--max-rows-per-unit", "2"), per_unit=True),
    _Way("local-merge", ("--method", "local-merge")),
    _Way("secure aggregation", ("--method", "fedprivsyn", "--trust", "secure-aggregation")),
    _Way("privsyn", ("--method", "privsyn")),
)


def checks(seed: int) -> Iterator[Check]:
    """Whole simulations of neighbouring files."""
    yield "simulate: what is published", partial(_published, seed)
    for way in _WAYS:
        yield f"simulate: a row more, {way.name}", partial(_row_more, way, seed)
    for way in _SPLITS:
        yield f"simulate: a row changed, {way.name}", partial(_row_changed, way, seed)
    yield "simulate: the deal cannot be repeated", partial(_secret, seed)
    for what, query in _QUERIES.items():
        yield f"simulate: {what}", partial(_engine, query, seed)
    yield "simulate: a person at two sites", partial(_twice, seed)


def _rows(seed: int, many: int = 90) -> list[_Cells]:
    """Invented rows, two of each patient; one ward and one outcome are never seen."""
    rng = stream(seed, "rows of a simulation")
    return [
        (
            f"p{i // 2}",
            int(rng.integers(100)),
            ("true", "false")[int(rng.integers(2))],
            ("home", "ward")[int(rng.random() < 0.3)],
        )
        for i in range(many)
    ]


@dataclass(frozen=True)
class _Place:
    """A folder for folders of rows, each written once."""

    folder: Path

    def source(self, rows: Sequence[_Cells], kind: str, name: str) -> str:
        """The location of rows in a new folder."""
        folder = self.folder / name
        folder.mkdir()
        cells = dict(zip(_HEADER, zip(*rows, strict=True), strict=True))
        return str(STORES[kind](cells, folder))

    def run(self, way: _Way, seed: int | None, source: str) -> Published:
        """A simulation of these rows."""
        noise = () if seed is None else ("--seed", str(seed))
        return self.simulate("--data", source, *way.sites, *noise, *way.arguments)

    def simulate(self, *arguments: str) -> Published:
        """The command with these arguments."""
        schema = self.folder / "schema.toml"
        return simulate("--schema", schema, "--epsilon", "1", "--delta", "1e-9", *arguments)


def _published(seed: int) -> str:
    """Files, words and the exit code follow from the answers, whatever the rows are."""
    rows = _rows(seed)
    compared = 0
    with _folder() as place:
        base = place.source(rows, "csv", "base")
        for way, what in product((_Way("wavetree"), _WAYS[-3]), _ADDED):
            other = place.source([*rows, _ADDED[what]], "csv", f"{way.name} {what}")
            one = check_published(
                partial(place.run, way, seed, base), partial(place.run, way, seed, other)
            )
            require(one.published.code == 0, f"{way.name} ends with {one.published.code}")
            compared += len(one.published.files)
    return f"{compared} files built from answers alone"


def _row_more(way: _Way, seed: int) -> str:
    """One row more is one row more at one site, at the price of one."""
    if way.kind == "duckdb" and find_spec("duckdb") is None:
        return "there is no DuckDB here to read from"

    rows = _rows(seed)
    most, allowed = Fraction(0), 2 if way.per_unit else 1
    with _folder() as place:
        base = place.source(rows, way.kind, "base")
        one = record(partial(place.run, way, seed, base))
        for what, row in _ADDED.items():
            # A person comes with more rows than may count.
            more = [row] * (4 if way.per_unit else 1)
            other = place.source([*rows, *more], way.kind, what)
            two = record(partial(place.run, way, seed, other))
            require(two.published.code == 0, f"{what}: the exit code is {two.published.code}")
            moved, sites = _moved(one, two)
            require(
                moved <= allowed and sites <= 1,
                f"{what}: {moved} rows at {sites} sites are others, for one that was added",
            )
            apart = distance(one, two)
            require(apart <= 1, f"{what} moves {float(apart):.3f} times what was charged")
            most = max(most, apart)
            for where in (0, len(rows) // 2):
                elsewhere = [*rows[:where], *more, *rows[where:]]
                other = place.source(elsewhere, way.kind, f"{what} at {where}")
                moved = _pooled(one, record(partial(place.run, way, seed, other)))
                require(moved <= allowed, f"{what} at {where}: {moved} rows count as others")
        fewer = record(partial(place.run, way, seed, place.source(rows[:-1], way.kind, "fewer")))
        require(_moved(one, fewer)[0] <= 1, "one row less, and others went to other sites")
        # Of a person, too: one of two rows that count costs a quarter, and may bring in another.
        require(distance(one, fewer) <= 1, "one row less moves too much")
    return f"{len(_ADDED)} rows: {float(most):.9f} of the charge at most"


def _row_changed(way: _Way, seed: int) -> str:
    """A row at the start, in the middle or at the end that changes takes no other with it."""
    rows = _rows(seed)
    with _folder() as place:
        one = record(partial(place.run, way, seed, place.source(rows, way.kind, "base")))
        for where in (0, len(rows) // 2, len(rows) - 1):
            for what in ("a usual row", "values nobody has"):
                changed = [*rows]
                changed[where] = _ADDED[what]
                other = place.source(changed, way.kind, f"{where} {what}")
                moved, _ = _moved(one, record(partial(place.run, way, seed, other)))
                require(
                    moved <= 2, f"row {where} changed, and {moved - 2} rows went to other sites"
                )
    return "3 places, no other row moved"


def _moved(one: Recorded, other: Recorded) -> tuple[int, int]:
    """How many rows are in one site's table and not in the other's, and at how many sites."""
    _, plan, _ = one.begun
    require(other.begun[1].sites == plan.sites, "a row changes which sites there are")
    moved = [_apart(one.rows(site), other.rows(site)) for site in plan.sites]
    return sum(moved), sum(many > 0 for many in moved)


def _apart(first: Counter[tuple[int, ...]], second: Counter[tuple[int, ...]]) -> int:
    """How many rows are in one table and not in the other."""
    return ((first - second) + (second - first)).total()


def _pooled(one: Recorded, other: Recorded) -> int:
    """How many rows of all sites together are in one run and not in the other."""
    return _apart(one.pooled, other.pooled)


def _secret(seed: int) -> str:
    """Whoever has all rows and all that is published cannot deal the rows as they were dealt."""
    rows = _rows(seed)
    tried = 0
    with _folder() as place:
        base = place.source(rows, "csv", "base")
        for way in _SPLITS:
            true = record(partial(place.run, way, None, base))
            dealt = _dealt(true)
            if _dealt(record(partial(place.run, way, None, base))) == dealt:
                continue  # no secret is in it: a row's own values say where it goes
            numbers: set[int] = set()
            for name in ("run.json", "privacy.json"):
                numbers |= {*_integers(msgspec.json.decode(true.published.files[name]))}
            # Small numbers are counts and versions; a seed that can be guessed is none.
            likely = sorted(numbers, reverse=True)[:_MOST_SEEDS]
            for number in likely:
                require(
                    _dealt(record(partial(place.run, way, number, base))) != dealt,
                    f"{way.name}: a number of a public file deals the rows as they were dealt",
                )
                tried += 1
                if number < 2**32:
                    break
    return f"{tried} numbers tried as seeds"


def _dealt(run: Recorded) -> list[Counter[tuple[int, ...]]]:
    return [run.rows(site) for site in run.tables]


def _integers(value: Any) -> Iterator[int]:
    """Every whole number in a file that could be a seed."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _integers(one)
    elif isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
        yield value


def _engine(query: str, seed: int) -> str:
    """A query in which one row decides about others is refused, or does nothing of the kind."""
    if find_spec("duckdb") is None:
        return "there is no DuckDB here to read from"

    rows = _rows(seed)
    with _folder() as place:
        runs: list[Recorded] = []
        for what, some in (("base", rows), ("more", [_ADDED["values nobody has"], *rows])):
            text = place.source(some, "csv", what)
            database = place.source(some, "duckdb", f"{what} lake").partition("#")[0]
            asked = query.format(text=text, rows=len(rows))
            location = f"{database}?files={Path(text).parent}#{asked}"
            runs.append(record(partial(place.run, _Way("a query"), seed, location)))
        codes = [one.published.code for one in runs]
        require(codes[0] == codes[1], f"a row changes the exit code from {codes[0]} to {codes[1]}")
        if codes[0] == 0:
            moved = _pooled(*runs)
            require(moved <= 1, f"one row more changes what {moved} rows count as")
    return "refused" if codes[0] else "a row more is a row more"


def _twice(seed: int) -> str:
    """Where persons are protected, one process that holds all ids lets nobody be at two sites."""
    rows = _rows(seed)
    with _folder() as place:
        whole = place.source(rows, "csv", "whole")
        halves = [place.source(rows[i::2], "csv", f"half {i}") for i in range(2)]
        apart = [place.source(rows[:46], "csv", "a"), place.source(rows[46:], "csv", "b")]

        def code(sites: Sequence[str], *more: str) -> int:
            named = [word for site in sites for word in ("--site", site)]
            return place.simulate(*named, "--seed", str(seed), *more).code

        unit = ("--unit", "patient")
        require(code(apart, *unit) == 0, "people at one site each are refused")
        for what, said, wanted in (
            ("people have rows at two sites", code(halves, *unit), 3),
            ("one file is given as two sites", code([whole, whole]), 2),
        ):
            require(said == wanted, f"{what}: the exit code is {said}, not {wanted}")
    return "2 studies refused, 1 run"


@contextmanager
def _folder() -> Iterator[_Place]:
    with temporary_folder() as place:
        (place / "schema.toml").write_text(_SCHEMA, "utf-8")
        yield _Place(place)
