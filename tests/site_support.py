"""A site with a key in a folder, for tests of what its steward does."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from heterofedsyn.audit import fixtures
from heterofedsyn.marginals.statistics import Flat
from heterofedsyn.protocol import Study, encode
from heterofedsyn.schema import Schema
from heterofedsyn.site.consent import approve
from heterofedsyn.site.create import create_site
from heterofedsyn.site.settings import SiteSettings
from support import categories, make_plan

SCHEMA = categories(4, 6, 3)
NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
WHO = "Ada, data steward"


def rows_of(schema: Schema, rows: int = 300) -> bytes:
    """Private rows of any schema of `categories`, as CSV."""
    return fixtures.as_csv(fixtures.table_of(schema, rows, np.random.default_rng(0)))


def write_rows(place: Path, schema: Schema, rows: int = 300) -> Path:
    """The same as a file."""
    path = place / "rows.csv"
    path.write_bytes(rows_of(schema, rows))
    return path


def make_settings(place: Path, schema: Schema = SCHEMA, **other: Any) -> SiteSettings:
    """Settings of a site in this folder, with its schema, rows and a place for its anchor."""
    usual = {
        "name": "elmwood",
        "epsilon": 3.0,
        "study_epsilon": 1.0,
        "anchor": place / "vault" / "anchor",
        "socket": place / "run" / "agent.sock",
    }
    return fixtures.make_settings(place, schema, rows_of(schema), **{**usual, **other})


def make_site(place: Path, schema: Schema = SCHEMA, **other: Any) -> SiteSettings:
    """A new site in this folder."""
    settings = make_settings(place, schema, **other)
    create_site(settings)
    return settings


def make_study(schema: Schema = SCHEMA, sites: Sequence[str] = ("elmwood",), **terms: Any) -> Study:
    """A study that any site of this schema could take part in."""
    return Study(plan=make_plan(schema, sites, **terms), schema=schema.settings, quorum=1)


def approved_study(settings: SiteSettings, **terms: Any) -> Study:
    """A study that the site has approved."""
    study = make_study(settings.load_schema(), **terms)
    approve(settings, study, who=WHO, now=NOW)
    return study


def make_message(
    study: Study, number: int, share: float, attributes: tuple[str, ...] = ("a0",)
) -> bytes:
    """A query of its own for each number."""
    label = f"question {number}"
    query = fixtures.query_of(study, Flat(attributes), share=share, number=number, label=label)
    return encode(query)
