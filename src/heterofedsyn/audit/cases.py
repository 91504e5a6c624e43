"""What is audited: a small table of invented people, records to add to it, and studies of it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from heterofedsyn._arrays import stream
from heterofedsyn.audit.fixtures import DELTA, UNIT
from heterofedsyn.hub import METHODS, Release, make_method
from heterofedsyn.hub.methods.base import Method, Value, with_columns
from heterofedsyn.protocol import Plan, Query
from heterofedsyn.schema import EncodedTable, Schema, encode
from heterofedsyn.simulate import run
from heterofedsyn.simulate.run import site_names

if TYPE_CHECKING:
    import pyarrow as pa

SITES = ("elm", "oak", "fir")
ROWS = 600
ALL_ROUNDS = 30.0
"""An epsilon at which `wavetree` asks in all of its rounds, so few rows there are."""

_SCHEMA = """\
columns = [
  {name = "age", type = "integer", min = 0, max = 100, bins = 20, nullable = true},
  {name = "cost", type = "number", min = 0, max = 1000, bins = 12},
  {name = "ward", type = "categorical", values = ["a", "b", "c", "d", "e", "never seen"]},
  {name = "triage", type = "categorical", ordered = true, values = ["1", "2", "3", "4", "5"]},
  {name = "smoker", type = "boolean"},
  {name = "outcome", type = "categorical", values = ["home", "ward", "died"]},
]
"""
_MIXED = """\
columns = [
  {name = "age", type = "integer", min = 0, max = 99, bins = 5},
  {name = "cost", type = "number", min = 0, max = 1000, bins = 4},
  {name = "seen", type = "datetime", min = "2026-01-01", max = "2026-01-04 23:59:59", bins = 4},
  {name = "ward", type = "categorical", values = ["a", "b", "?"], other = "?"},
  {name = "outcome", type = "categorical", values = ["home", "died", "never seen"]},
  {name = "smoker", type = "boolean"},
]
rules = [{never = {ward = "a", outcome = "never seen"}}]
"""
_RULED = """\
columns = [
  {name = "born", type = "date", min = "1950-01-01", max = "2025-12-31", bins = 4},
  {name = "left", type = "date", min = "1950-01-01", max = "2025-12-31", bins = 6, nullable = true},
  {name = "fever", type = "number", min = 35, max = 42, decimals = 1},
]
rules = [
  {never = {ward = "b", age = {above = 98}}},
  {never = {outcome = "died", age = {below = 1}}},
  {order = ["born", "left"]},
]
"""

FIRST = {"age": 0, "cost": 0.0, "ward": "a", "triage": "1", "smoker": False, "outcome": "home"}
LAST = {
    "age": 100,
    "cost": 1000.0,
    "ward": "never seen",
    "triage": "5",
    "smoker": True,
    "outcome": "died",
}
CANARIES: dict[str, dict[str, object]] = {
    "the first cell": FIRST,
    "the last bin": {**FIRST, "age": 100, "cost": 1000.0},
    "all rare": LAST,
    "nulls": {**FIRST, "age": None},
    "beyond the range": {**LAST, "age": 10_000, "cost": -5.0},
    "a row that does not fit": {**LAST, "ward": "unknown to the schema"},
}
"""Records that stand out, by what makes them."""


@cache
def schema(label: str | None = "outcome") -> Schema:
    """The public schema."""
    columns = tomllib.loads(_SCHEMA)
    return Schema.of(columns if label is None else {**columns, "label": label})


@cache
def mixed_schema() -> Schema:
    """Columns of many kinds, and a rule."""
    return Schema.of(tomllib.loads(_MIXED))


@cache
def ruled_schema() -> Schema:
    """The same with dates, decimals, and rules that cut bins or compare columns."""
    mixed, more = mixed_schema().settings, tomllib.loads(_RULED)
    return Schema.of({**mixed, **{key: [*mixed[key], *more[key]] for key in ("columns", "rules")}})


def people(rows: int, seed: int) -> pa.Table:
    """Invented rows, two of each person; the last ward is never seen."""
    import pyarrow as pa

    rng = stream(seed, "people of an audit")
    lean = rng.random(rows) ** 2
    age = np.clip(100 * lean + 8 * rng.standard_normal(rows), 0, 99).astype(int)
    unknown = rng.random(rows) < 0.05
    return pa.table(
        {
            UNIT: [f"p{i // 2}" for i in range(rows)],
            "age": [None if gone else int(a) for a, gone in zip(age, unknown, strict=True)],
            "cost": np.round(990 * rng.random(rows) * lean, 2),
            "ward": [list("abcde")[i] for i in np.minimum(4, rng.poisson(3 * lean))],
            "triage": [str(i) for i in rng.integers(1, 6, rows)],
            "smoker": rng.random(rows) < 0.3,
            "outcome": [("home", "ward", "died")[i] for i in (rng.random(rows) < lean) * 1],
        }
    )


def person(rows: Sequence[dict[str, object]], like: pa.Table) -> pa.Table:
    """One more person with these rows."""
    import pyarrow as pa

    return pa.Table.from_pylist([{**row, UNIT: "the canary"} for row in rows], like.schema)


@dataclass(frozen=True)
class Case:
    """A study that is audited."""

    method: str
    settings: dict[str, Value] = field(default_factory=dict)
    label: str | None = "outcome"
    trust: str = "local"
    rows_per_unit: int = 1
    epsilon: float = 1.0
    delta: float = DELTA

    @property
    def name(self) -> str:
        """The study in words."""
        words = [self.method, *(f"{key}={value}" for key, value in self.settings.items())]
        if self.label is None:
            words.append("no label")
        if self.rows_per_unit > 1:
            words.append(f"{self.rows_per_unit} rows a person")
        if self.epsilon == ALL_ROUNDS:
            words.append("all rounds")
        return f"{' '.join(words)}, {self.trust}"

    @property
    def conducted(self) -> Method:
        """The method itself."""
        return make_method(self.method, self.settings)

    @property
    def unit(self) -> str | None:
        """The column that tells people apart; None where every row stands for itself."""
        return None if self.rows_per_unit == 1 else UNIT

    @property
    def public(self) -> Schema:
        """The public schema."""
        return schema(self.label)

    @property
    def rows(self) -> int:
        """How many rows it is tried with."""
        return ROWS

    @property
    def canaries(self) -> dict[str, dict[str, object]]:
        """Records that stand out, by what makes them."""
        return CANARIES

    @property
    def corners(self) -> tuple[dict[str, object], dict[str, object]]:
        """The record of all first values, and that of all last ones."""
        return FIRST, LAST

    def people(self, rows: int, seed: int) -> pa.Table:
        """Invented rows."""
        return people(rows, seed)

    def person(self, rows: Sequence[dict[str, object]], like: pa.Table) -> pa.Table:
        """One more person with these rows."""
        return person(rows, like)

    @property
    def encoding(self) -> Schema:
        """The schema by which sites encode."""
        return self.conducted.encoding(self.public)

    def plan(self, seed: int) -> Plan:
        """The plan of the study."""
        plan = Plan(
            schema=self.public.fingerprint,
            encoding=self.encoding.fingerprint,
            epsilon=self.epsilon,
            delta=self.delta,
            trust=self.trust,
            sites=site_names(self.conducted, SITES),
            unit=self.unit,
            rows_per_unit=self.rows_per_unit,
            method=self.method,
            settings=self.settings,
            seed=seed,
        )
        return with_columns(plan, self.conducted, self.encoding)

    def encoded(self, rows: pa.Table) -> EncodedTable:
        """The rows as a site of this study has them."""
        return encode(self.encoding, rows.to_batches(), self.unit, self.rows_per_unit).table


def deal(rows: pa.Table, sites: int) -> list[pa.Table]:
    """The rows in equal stretches, people together."""
    size = rows.num_rows // sites // 2 * 2
    return [rows.slice(i * size, size) for i in range(sites)]


@dataclass(frozen=True, eq=False)
class Transcript:
    """All messages of a study, and what came of it."""

    queries: tuple[Query, ...]
    replies: tuple[Mapping[str, bytes], ...]
    release: Release

    def asked(self, site: str) -> list[Query]:
        """The queries that this site got."""
        return [query for query in self.queries if query.to in (None, site)]


def carry(
    schema: Schema, plan: Plan, method: Method, sites: Mapping[str, run.Answering]
) -> Transcript:
    """A whole study through the code that carries any, with all that was said."""
    said: list[tuple[Query, Mapping[str, bytes]]] = []
    release = run.carry(schema, plan, method, sites, lambda *heard: said.append(heard))
    return Transcript(tuple(query for query, _ in said), tuple(each for _, each in said), release)


_GAUSSIAN: dict[str, Value] = {"sketch": "gaussian"}


def cases(*, every: bool) -> tuple[Case, ...]:
    """The studies: every method under every trust model it allows, or the few that differ most."""
    few = (
        Case("wavetree"),
        Case("wavetree", epsilon=ALL_ROUNDS),
        Case("fedprivsyn", _GAUSSIAN, rows_per_unit=3),
        Case("privsyn"),
        Case("fedprivsyn", trust="secure-aggregation"),
    )
    if not every:
        return few
    more = [
        Case("wavetree", label=None),
        Case("wavetree", rows_per_unit=3),
        Case("wavetree", epsilon=ALL_ROUNDS, trust="secure-aggregation"),
        Case("fedprivsyn", _GAUSSIAN),
        Case("fedprivsyn", _GAUSSIAN, trust="secure-aggregation"),
    ]
    for name, kind in METHODS.items():
        more.append(Case(name))
        if kind.sums and not kind.pools:
            more.append(Case(name, trust="secure-aggregation"))
    return tuple({case.name: case for case in (*few, *more)}.values())
