"""Sites on disk that take part in sums, with their keys, address books and consents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from heterofedsyn.audit.fixtures import as_csv, make_settings
from heterofedsyn.hub.methods import make_method
from heterofedsyn.hub.methods.base import settings_of
from heterofedsyn.hub.replies import Absence, Reply
from heterofedsyn.hub.requests import Request
from heterofedsyn.privacy.noise import NoiseSource, SecureNoise
from heterofedsyn.protocol import Plan, Study
from heterofedsyn.protocol.plan import Aggregation
from heterofedsyn.protocol.refusal import Refused
from heterofedsyn.schema import EncodedTable, Schema
from heterofedsyn.site.agent import Agent
from heterofedsyn.site.consent import approve
from heterofedsyn.site.create import create_site
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.peers import Peers
from heterofedsyn.site.settings import SiteSettings
from heterofedsyn.site.signing import Identity
from site_support import NOW, WHO


def sites_on_disk(
    place: Path, tables: Mapping[str, EncodedTable], schema: Schema, **other: Any
) -> dict[str, SiteSettings]:
    """New sites that know each other's keys."""
    made = {}
    for name, table in tables.items():
        usual = {"name": name, "epsilon": 3.0, "study_epsilon": 1.0, "alone_epsilon": 9.0}
        (place / name).mkdir()
        made[name] = make_settings(
            place / name, schema, as_csv(table), **{**usual, "tick": 0.0, **other}
        )
        create_site(made[name])
    keys = {name: Identity.load(settings.key).public for name, settings in made.items()}
    for name, settings in made.items():
        book = Peers()
        for peer, key in keys.items():
            book = book if peer == name else book.add(peer, key)
        book.save(settings.folder)
    return made


def study_of(
    sites: Mapping[str, SiteSettings],
    schema: Schema,
    *,
    colluding: int = 1,
    quorum: int = 0,
    method: str = "independent",
    **terms: Any,
) -> Study:
    """A study of these sites under secure aggregation."""
    keys = {name: Identity.load(settings.key).public for name, settings in sites.items()}
    made = make_method(method)
    many = quorum or len(sites)
    plan = Plan(
        schema=made.encoding(schema).fingerprint,
        sites=tuple(sites),
        trust="secure-aggregation",
        aggregation=Aggregation(colluding, many, keys),
        method=method,
        settings=settings_of(made),
        **{"epsilon": 1.0, "delta": 1e-9, "seed": 7, **terms},
    )
    return Study(plan=plan, schema=schema.settings, quorum=many)


def approve_all(sites: Mapping[str, SiteSettings], study: Study) -> None:
    """Every steward consents."""
    for settings in sites.values():
        approve(settings, study, who=WHO, now=NOW)


@contextmanager
def agents_of(
    sites: Mapping[str, SiteSettings], noise: Mapping[str, NoiseSource] | None = None
) -> Iterator[dict[str, Agent]]:
    """The agents of all sites, for a while."""
    with ExitStack() as stack:
        yield {
            name: Agent(
                settings,
                stack.enter_context(Books.open(settings.folder, settings.anchor)),
                noise=SecureNoise() if noise is None else noise[name],
                log=lambda line: None,
            )
            for name, settings in sites.items()
        }


def ask_agents(
    agents: Mapping[str, Agent], request: Request, away: Sequence[str] = ()
) -> list[Reply]:
    """What agents say to a request."""
    replies: list[Reply] = []
    for site in request.asked:
        if site in away:
            continue
        try:
            data = agents[site].answer(request.message(site))
        except Refused as refused:
            replies.append(Absence.refused(site, refused.reason))
        else:
            replies.append(request.read(site, data, simulated=True))
    return replies
