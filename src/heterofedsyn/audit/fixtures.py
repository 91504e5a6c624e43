"""Schemas, tables, plans and queries, and real sites on disk with the agents that answer them.

The one builder of sites, for the audit and for tests.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, get_args

import numpy as np

from heterofedsyn.audit.findings import require
from heterofedsyn.marginals import (
    Dependence,
    Flat,
    Grouped,
    Haar,
    Sketched,
    SketchKind,
    Statistic,
    Total,
)
from heterofedsyn.marginals.counts import PAIRS, TRIPLES
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.noise import NoiseSource
from heterofedsyn.privacy.terms import Terms
from heterofedsyn.protocol import Part, Plan, Query, Study
from heterofedsyn.protocol.plan import unit_name
from heterofedsyn.protocol.refusal import Refused
from heterofedsyn.schema import CategoricalColumn, Domain, EncodedTable, Schema
from heterofedsyn.site import Site
from heterofedsyn.site.agent import Agent
from heterofedsyn.site.consent import approve
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.server import Service
from heterofedsyn.site.settings import SETTINGS, SiteSettings

if TYPE_CHECKING:
    import pyarrow as pa

SITE = "elm"
DELTA = 1e-9
MOST_EPSILON = 100.0
"""What a plan may spend at most: enough for noise of any size that is looked at."""

UNIT = "person"
"""A column that tells people apart; no schema names it."""

WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_DECLARED = 1_000
"""Rows; tables of an audit that have more are answered in the same way."""


# TABLES AND QUERIES


@cache
def plain_schema(*sizes: int) -> Schema:
    """A schema of categorical attributes a0, a1, ... of these sizes."""
    return Schema(
        tuple(
            CategoricalColumn(f"a{i}", values=tuple(f"v{j}" for j in range(size)))
            for i, size in enumerate(sizes)
        )
    )


def table_of(schema: Schema, rows: int, rng: np.random.Generator) -> EncodedTable:
    """Random rows."""
    codes = np.stack([rng.integers(0, size, rows) for size in schema.domain.sizes])
    return EncodedTable.from_codes(schema.domain, codes)


def as_csv(table: EncodedTable) -> bytes:
    """The rows of a plain schema as a file."""
    lines = [",".join(f"v{code}" for code in row) for row in table.codes.T.tolist()]
    return "\n".join([",".join(table.domain.names), *lines, ""]).encode()


def plan_of(
    schema: Schema, seed: int, *sites: str, epsilon: float = MOST_EPSILON, **terms: Any
) -> Plan:
    """A plan for these sites, by which three columns may be counted together if there are three."""
    columns = min(TRIPLES, max(PAIRS, len(schema.domain)))
    usual = {
        "delta": DELTA,
        "sites": sites or (SITE,),
        "method": "independent",
        "columns": columns,
    }
    return Plan(schema=schema.fingerprint, epsilon=epsilon, seed=seed, **{**usual, **terms})


def query_of(
    study: Plan | Study, /, *statistics: Statistic, share: float = 0.1, **terms: Any
) -> Query:
    """A query in which every statistic has this share of the study's budget."""
    parts = tuple(Part(statistic, share) for statistic in statistics)
    usual = {"study": study.fingerprint, "number": 0, "label": "q", "parts": parts}
    return Query(**{**usual, **terms})


def ask(plan: Plan, number: int, statistics: Sequence[Statistic], rho: float) -> Query:
    """A query in which every statistic may cost this much."""
    share = rho / plan.budget.rho
    return query_of(plan, *statistics, share=share, number=number, label=f"query {number}")


def ask_all(plan: Plan, statistics: Sequence[Statistic]) -> Query:
    """A query that spends a study's whole budget, evenly."""
    return ask(plan, 0, statistics, plan.budget.evenly(len(statistics))[0].rho)


def classes(domain: Domain, seed: int) -> dict[str, tuple[Statistic, ...]]:
    """The classes of releases over the first two attributes, or three, each by its statistics."""
    pair = domain.names[0], domain.names[1]
    first, second = domain.shape(pair)
    halves = (tuple(i * 3 // first for i in range(first)), tuple(i // 2 for i in range(second)))
    levels = (first - 1).bit_length()
    every: dict[str, tuple[Statistic, ...]] = {
        "total": (Total(),),
        "one-way": (Flat((pair[0],)),),
        "haar": tuple(Haar((pair[0],), level) for level in range(levels)),
        "grouped column": (Grouped((pair[0],), halves[:1]),),
        "pair": (Flat(pair),),
        "grouped pair": (Grouped(pair, halves),),
        "sketch of signs": (Sketched(pair, 10, seed),),
        "gaussian sketch": (Sketched(pair, 10, seed, SketchKind.GAUSSIAN),),
        "dependence": (Dependence(pair),),
    }
    if len(domain) > PAIRS:
        every["grouped three"] = (grouped_three(domain),)
    shown = {type(statistic) for statistics in every.values() for statistic in statistics}
    require(shown == {*get_args(Statistic)}, "there is a kind of statistic that no audit looks at")
    return every


def grouped_three(domain: Domain) -> Grouped:
    """The first three attributes, the first two merged, so that the second has most groups."""
    first, second, third = domain.sizes[:TRIPLES]
    two, halves = (i * 2 // first for i in range(first)), (i // 2 for i in range(second))
    return Grouped(domain.names[:TRIPLES], (tuple(two), tuple(halves), tuple(range(third))))


def every_kind(domain: Domain, seed: int) -> list[Statistic]:
    """The statistics of all classes."""
    return [statistic for statistics in classes(domain, seed).values() for statistic in statistics]


def noise_terms(
    sigma: float, integers: int, sensitivity: float = 1.0, rho: float | None = None
) -> tuple[Terms, Budget]:
    """Noise of this sigma, and a price that it can be had for."""
    price = Budget(sensitivity**2 / (2 * sigma**2) * (1 + 1e-9) if rho is None else rho)
    return Terms("flat", (), sensitivity, sigma, integers, price.rho), price


# SITES


class Charging(Protocol):
    """A site that says what it has charged."""

    def answer(self, message: bytes) -> bytes:
        """The answer to a query."""
        ...

    @property
    def spent(self) -> Budget:
        """All that was charged."""
        ...


@dataclass(frozen=True, eq=False)
class InMemory:
    """A site of a simulation."""

    site: Site

    def answer(self, message: bytes) -> bytes:
        """The answer to a query."""
        return self.site.answer(message)

    @property
    def spent(self) -> Budget:
        """All that was charged."""
        return self.site.ledger.spent


@dataclass(frozen=True, eq=False)
class Serving:
    """An agent that answers, with its settings and books."""

    settings: SiteSettings
    agent: Agent
    books: Books

    def answer(self, message: bytes) -> bytes:
        """The answer to a query."""
        return self.agent.answer(message)

    def reply(self, message: bytes) -> str:
        """What a hub hears: "answered", or the reason of a refusal."""
        try:
            self.agent.answer(message)
        except Refused as refused:
            return refused.reason
        return "answered"

    @property
    def spent(self) -> Budget:
        """All that was charged."""
        return self.books.account.spent


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder for a while."""
    with tempfile.TemporaryDirectory(prefix="heterofedsyn-audit-") as place:
        yield Path(place)


def make_settings(
    place: Path, schema: Schema, rows: pa.Table | bytes, /, **terms: Any
) -> SiteSettings:
    """Settings of a site in this folder, with its schema, its rows and a place for its anchor.

    Args:
        rows: as a table, or as the file that holds them.
        terms: settings that are not the usual ones.
    """
    import pyarrow.csv

    usual: dict[str, Any] = {
        "folder": place / "site",
        "name": SITE,
        "schema": place / "schema.toml",
        "source": str(place / "rows.csv"),
        "delta": DELTA,
        "anchor": place / "elsewhere" / "anchor",
        "socket": place / "socket" / "agent",
        "engine": str(os.geteuid()),
        "group": str(os.getegid()),
        "rows": _DECLARED,
        "tick": 0.001,
    }
    settings = SiteSettings(**{**usual, **terms})
    settings.anchor.parent.mkdir(parents=True, exist_ok=True)
    schema.save(settings.schema)
    if isinstance(rows, bytes):
        (place / "rows.csv").write_bytes(rows)
    else:
        pyarrow.csv.write_csv(rows, place / "rows.csv")
    return settings


@dataclass(frozen=True, eq=False)
class SiteOnDisk:
    """A real site on disk: settings, rows, books, and studies that its steward consented to."""

    settings: SiteSettings

    @classmethod
    def create(cls, settings: SiteSettings) -> SiteOnDisk:
        """A new site with an empty ledger and no study; unlike others it has no key."""
        Books.create(settings.folder, settings.anchor, unit=unit_name(settings.unit))
        settings.studies.mkdir()
        site = cls(settings)
        site.write_settings()
        return site

    @classmethod
    def make(
        cls, place: Path, schema: Schema, rows: pa.Table | bytes, /, *plans: Plan, **terms: Any
    ) -> SiteOnDisk:
        """A new site that consented to these plans.

        Args:
            plans: each may spend as much as the first one, whose first site this is.
            terms: settings that are not the usual ones; the cap is that of two studies.
        """
        first = plans[0]
        usual = {
            "name": first.sites[0],
            "epsilon": first.epsilon * 2,
            "delta": first.delta,
            "study_epsilon": first.epsilon,
            "unit": first.unit,
        }
        site = cls.create(make_settings(place, schema, rows, **{**usual, **terms}))
        for plan in plans:
            site.approve(plan, schema)
        return site

    def write_settings(self) -> None:
        """The settings in the file of the site, as its steward would write them."""
        (self.settings.folder / SETTINGS).write_text(self.settings.to_toml(), "utf-8")

    def changed(self, **terms: Any) -> SiteOnDisk:
        """The same site after its steward wrote other settings."""
        site = SiteOnDisk(replace(self.settings, **terms))
        site.write_settings()
        return site

    def approve(self, plan: Plan, schema: Schema) -> None:
        """The steward consents to a study."""
        study = Study(plan=plan, schema=schema.settings, quorum=len(plan.sites))
        approve(self.settings, study, who="an auditor", now=WHEN)

    def open_books(self) -> Books:
        """Its books, for one who has them alone."""
        return Books.open(self.settings.folder, self.settings.anchor)

    @contextmanager
    def serving(
        self, noise: NoiseSource | None = None, clock: Callable[[], datetime] | None = None
    ) -> Iterator[Serving]:
        """The site while its agent has the books; noise and clock are any agent's, unless given."""
        given: dict[str, Any] = {} if noise is None else {"noise": noise}
        given |= {} if clock is None else {"clock": clock}
        with self.open_books() as books:
            agent = Agent(self.settings, books, log=lambda line: None, **given)
            yield Serving(self.settings, agent, books)


@contextmanager
def listening(site: Serving, log: Callable[[str], None] = lambda line: None) -> Iterator[None]:
    """An agent's socket, for a while."""
    with Service(site.agent, site.settings, log=log) as service:
        running = threading.Thread(target=service.run)
        running.start()
        try:
            yield
        finally:
            service.stop()
            running.join()


@contextmanager
def serving(
    schema: Schema, rows: pa.Table | bytes, /, *plans: Plan, noise: NoiseSource, **terms: Any
) -> Iterator[Serving]:
    """An agent with these rows that may answer these plans, for a while; see `SiteOnDisk.make`."""
    with (
        temporary_folder() as place,
        SiteOnDisk.make(place, schema, rows, *plans, **terms).serving(noise) as agent,
    ):
        yield agent
