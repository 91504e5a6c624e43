"""A real site in a folder, for tests of what its steward does."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from heterofedsyn.marginals.statistics import Flat
from heterofedsyn.protocol import Part, Query, Study, encode
from heterofedsyn.schema import Schema
from heterofedsyn.site.consent import approve
from heterofedsyn.site.create import found_site
from heterofedsyn.site.settings import SiteSettings
from support import categories, make_plan

SCHEMA = categories(4, 6, 3)
NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
WHO = "Ada, data steward"


def write_rows(place: Path, schema: Schema, rows: int = 300) -> Path:
    """Private rows of any schema of `categories`, as CSV."""
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, rows) for size in schema.domain.sizes], axis=1)
    lines = [",".join(schema.domain.names), *(",".join(f"v{c}" for c in row) for row in codes)]
    path = place / "rows.csv"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def make_settings(place: Path, schema: Schema = SCHEMA, **other: Any) -> SiteSettings:
    """Settings of a site in this folder, with its schema, rows and a place for its anchor."""
    schema.save(place / "schema.toml")
    (place / "vault").mkdir(exist_ok=True)
    usual = {
        "folder": place / "site",
        "name": "elmwood",
        "schema": place / "schema.toml",
        "source": str(write_rows(place, schema)),
        "epsilon": 3.0,
        "delta": 1e-9,
        "study_epsilon": 1.0,
        "anchor": place / "vault" / "anchor",
        "socket": place / "run" / "agent.sock",
        "engine": str(os.geteuid()),
        "group": str(os.getegid()),
        "rows": 1_000,
        "tick": 0.001,
    }
    return SiteSettings(**{**usual, **other})


def make_site(place: Path, schema: Schema = SCHEMA, **other: Any) -> SiteSettings:
    """A new site in this folder."""
    settings = make_settings(place, schema, **other)
    found_site(settings)
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
    parts = (Part(Flat(attributes), share),)
    label = f"question {number}"
    return encode(Query(study=study.fingerprint, number=number, label=label, parts=parts))
