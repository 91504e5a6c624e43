"""A real site on disk: settings, rows, books, an approved study and the agent that answers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.noise import NoiseSource
from heterofedsyn.protocol import Plan, Study
from heterofedsyn.protocol.plan import unit_name
from heterofedsyn.schema import Schema
from heterofedsyn.site.agent import Agent
from heterofedsyn.site.consent import approve
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.settings import SETTINGS, SiteSettings

if TYPE_CHECKING:
    import pyarrow as pa

WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_DECLARED = 1_000
"""Rows; tables of an audit that have more are answered in the same way."""


@dataclass(frozen=True, eq=False)
class SiteOnDisk:
    """A site whose steward consented to some studies."""

    settings: SiteSettings

    @classmethod
    def make(
        cls,
        place: Path,
        name: str,
        schema: Schema,
        plan: Plan,
        rows: pa.Table | bytes,
        *,
        more: Sequence[Plan] = (),
        epsilon: float | None = None,
    ) -> SiteOnDisk:
        """A site in a new folder, with an empty ledger.

        Args:
            plan: of an approved study; each may spend as much as this one.
            rows: as a table, or as the file that holds them.
            more: plans of other approved studies.
            epsilon: the cap of the table, twice that of a study unless given.
        """
        import pyarrow.csv

        settings = SiteSettings(
            folder=place / "site",
            name=name,
            schema=place / "schema.toml",
            source=str(place / "rows.csv"),
            epsilon=plan.epsilon * 2 if epsilon is None else epsilon,
            delta=plan.delta,
            study_epsilon=plan.epsilon,
            anchor=place / "elsewhere" / "anchor",
            socket=place / "socket" / "agent",
            engine=str(os.geteuid()),
            group=str(os.getegid()),
            unit=plan.unit,
            rows=_DECLARED,
            tick=0.001,
        )
        settings.anchor.parent.mkdir(parents=True)
        schema.save(settings.schema)
        if isinstance(rows, bytes):
            Path(settings.source).write_bytes(rows)
        else:
            pyarrow.csv.write_csv(rows, settings.source)
        Books.create(settings.folder, settings.anchor, unit=unit_name(settings.unit))
        settings.studies.mkdir()
        (settings.folder / SETTINGS).write_text(settings.to_toml())
        made = cls(settings)
        for agreed in (plan, *more):
            made.approve(agreed, schema)
        return made

    def approve(self, plan: Plan, schema: Schema) -> None:
        """The steward consents to a study."""
        study = Study(plan=plan, schema=schema.settings, quorum=1)
        approve(self.settings, study, who="an auditor", now=WHEN)

    @contextmanager
    def serving(self, noise: NoiseSource) -> Iterator[Serving]:
        """The site while its agent has the books."""
        with Books.open(self.settings.folder, self.settings.anchor) as books:
            yield Serving(Agent(self.settings, books, noise=noise, log=lambda line: None), books)


@dataclass(frozen=True, eq=False)
class Serving:
    """An agent that answers, and its books."""

    agent: Agent
    books: Books

    def answer(self, message: bytes) -> bytes:
        """The answer to a query."""
        return self.agent.answer(message)

    @property
    def spent(self) -> Budget:
        """All that was charged."""
        return self.books.account.spent
