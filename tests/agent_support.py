"""A real site on disk for tests: settings, rows, books, approved studies, queries."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from heterofedsyn._arrays import Integers
from heterofedsyn.marginals import Statistic
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.terms import Terms
from heterofedsyn.protocol import Part, Query, Study, encode
from heterofedsyn.protocol.plan import unit_name
from heterofedsyn.schema import Schema
from heterofedsyn.site.consent import approve
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.settings import SiteSettings
from support import categories, dependent_table, make_plan

SCHEMA = categories(3, 4, 2)
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class FreshNoise:
    """Other numbers at every draw, and quick: two draws are never taken for one."""

    simulated = True

    def draw(self, terms: Terms, alone: Budget, key: bytes) -> Integers:
        return np.random.default_rng().integers(-(2**40), 2**40, terms.integers)


def write_rows(path: Path, schema: Schema, rows: int) -> None:
    """A CSV file of rows that lean on their first attribute."""
    codes = dependent_table(schema.domain, rows).codes
    lines = [",".join(schema.domain.names)]
    lines += [",".join(f"v{code}" for code in row) for row in codes.T]
    path.write_text("\n".join(lines) + "\n")


def make_site(place: Path, schema: Schema = SCHEMA, rows: int = 20, **terms: Any) -> SiteSettings:
    """A site in a new folder `place`, with an empty ledger and no study."""
    folder = place / "site"
    usual: dict[str, Any] = {
        "folder": folder,
        "name": "one",
        "schema": place / "schema.toml",
        "source": str(place / "rows.csv"),
        "epsilon": 10.0,
        "delta": 1e-9,
        "study_epsilon": 2.0,
        "anchor": place / "elsewhere" / "anchor",
        "socket": place / "socket" / "agent",
        "engine": str(os.geteuid()),
        "group": str(os.getegid()),
        "rows": 1_000,
        "tick": 0.001,
    }
    settings = SiteSettings(**{**usual, **terms})
    settings.anchor.parent.mkdir(parents=True)
    schema.save(settings.schema)
    write_rows(Path(settings.source), schema, rows)
    Books.create(folder, settings.anchor, unit=unit_name(settings.unit))
    settings.studies.mkdir()
    (folder / "site.toml").write_text(settings.to_toml())
    return settings


def make_study(schema: Schema = SCHEMA, **terms: Any) -> Study:
    """A study of sites `one` and `two`."""
    plan = make_plan(schema, ("one", "two"), **terms)
    return Study(plan=plan, schema=schema.settings, quorum=1)


def approved_study(settings: SiteSettings, schema: Schema = SCHEMA, **terms: Any) -> Study:
    """A study that this site's steward consented to."""
    study = make_study(schema, **terms)
    approve(settings, study, who="a steward", now=NOW)
    return study


def ask(
    study: Study, /, *statistics: Statistic, share: float = 0.1, label: str = "q", **terms: Any
) -> bytes:
    """An encoded query."""
    parts = tuple(Part(statistic, share) for statistic in statistics)
    usual = {"study": study.fingerprint, "number": 0, "label": label, "parts": parts}
    return encode(Query(**{**usual, **terms}))


def books_of(settings: SiteSettings) -> Books:
    """The books of a site, opened."""
    return Books.open(settings.folder, settings.anchor)
