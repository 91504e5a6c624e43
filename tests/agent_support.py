"""Sites and studies of an agent's tests: small, with noise that is quick."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from heterofedsyn._arrays import Integers
from heterofedsyn.audit.fixtures import WHEN, SiteOnDisk, as_csv, make_settings, query_of
from heterofedsyn.marginals import Statistic
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.terms import Terms
from heterofedsyn.protocol import Study, encode
from heterofedsyn.schema import Schema
from heterofedsyn.site.consent import approve
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.settings import SiteSettings
from support import categories, dependent_table, make_plan

SCHEMA = categories(3, 4, 2)
NOW = WHEN


class FreshNoise:
    """Other numbers at every draw, and quick: two draws are never taken for one."""

    simulated = True

    def draw(self, terms: Terms, alone: Budget, key: bytes) -> Integers:
        return np.random.default_rng().integers(-(2**40), 2**40, terms.integers)


def make_site(place: Path, schema: Schema = SCHEMA, rows: int = 20, **terms: Any) -> SiteSettings:
    """A site in a new folder `place`, with an empty ledger and no study."""
    text = as_csv(dependent_table(schema.domain, rows))
    usual = {"name": "one", "epsilon": 10.0, "study_epsilon": 2.0}
    settings = make_settings(place, schema, text, **{**usual, **terms})
    return SiteOnDisk.create(settings).settings


def make_study(
    schema: Schema = SCHEMA,
    sites: Sequence[str] = ("one", "two"),
    quorum: int = 1,
    **terms: Any,
) -> Study:
    """A study of these sites."""
    return Study(plan=make_plan(schema, sites, **terms), schema=schema.settings, quorum=quorum)


def approved_study(settings: SiteSettings, schema: Schema = SCHEMA, **terms: Any) -> Study:
    """A study that this site's steward consented to."""
    study = make_study(schema, **terms)
    approve(settings, study, who="a steward", now=NOW)
    return study


def ask(study: Study, /, *statistics: Statistic, **terms: Any) -> bytes:
    """An encoded query."""
    return encode(query_of(study, *statistics, **terms))


def books_of(settings: SiteSettings) -> Books:
    """The books of a site, opened."""
    return SiteOnDisk(settings).open_books()
