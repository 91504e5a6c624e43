"""Sites in memory that answer a study's queries, and remember who was asked."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

from heterofedsyn.hub import Request, make_method, of_study
from heterofedsyn.hub.methods.base import settings_of
from heterofedsyn.hub.replies import Reply
from heterofedsyn.privacy.noise import SimulatedNoise
from heterofedsyn.protocol import Answer, Plan, Query, Study, decode, encode
from heterofedsyn.site import Site
from support import categories, deal, dependent_table

SITES = ("one", "two", "three")
SCHEMA = categories(3, 4, 5, label=0)
TABLE = dependent_table(SCHEMA.domain, 6_000)


class Sites:
    """All sites of a plan."""

    def __init__(self, plan: Plan) -> None:
        tables = deal(TABLE, len(plan.sites))
        self.sites = {
            name: Site(name, table, plan, SimulatedNoise(5, name), trust=plan.trust_model)
            for name, table in zip(plan.sites, tables, strict=True)
        }
        self.asked: list[tuple[Query, tuple[str, ...]]] = []

    def carry(self, request: Request, to: Sequence[str] | None = None) -> list[Reply]:
        """The answers of the sites that are asked, or of these alone."""
        to = request.asked if to is None else tuple(to)
        self.asked.append((request.query, to))
        message = encode(request.query)
        return [decode(self.sites[name].answer(message), Answer) for name in to]

    def spent(self) -> dict[str, float]:
        """What every site has booked."""
        return {name: site.ledger.spent.rho for name, site in self.sites.items()}


def study_of(method: str, quorum: int, **terms: Any) -> tuple[Study, Sites]:
    """A study over three sites, and the sites."""
    made = make_method(method)
    plan = Plan(
        schema=made.encoding(SCHEMA).fingerprint,
        method=method,
        settings=settings_of(made),
        sites=SITES,
        **{"epsilon": 4.0, "delta": 1e-9, "seed": 7, **terms},
    )
    study = Study(plan=plan, schema=tomllib.loads(SCHEMA.to_toml()), quorum=quorum)
    return study, Sites(plan)


def asked(study: Study) -> Request:
    """The first request of a study."""
    return next(of_study(study))
