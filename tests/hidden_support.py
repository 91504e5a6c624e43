"""Sites on disk that know each other's keys, and studies that hide their answers in sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from heterofedsyn.audit.fixtures import as_csv, make_settings
from heterofedsyn.hub import Absence, Request, drive, of_study
from heterofedsyn.hub.replies import NO_ANSWER, Reply
from heterofedsyn.privacy.noise import NoiseSource, SecureNoise
from heterofedsyn.protocol import Study
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
from site_support import NOW, SCHEMA, WHO, make_site
from support import make_plan

NAMES = ("elmwood", "birch", "oak", "pine")
Sites = Mapping[str, SiteSettings]


def key_of(settings: SiteSettings) -> str:
    """A site's public key."""
    return Identity.load(settings.key).public


def make_sites(place: Path, *names: str, **terms: Any) -> dict[str, SiteSettings]:
    """Sites, each in a folder of its own, that allow secure aggregation and know each other."""
    sites = {}
    for name in names or NAMES[:3]:
        (place / name).mkdir(parents=True)
        usual = {"name": name, "alone_epsilon": 9.0}
        sites[name] = make_site(place / name, **{**usual, **terms})
    acquaint(sites)
    return sites


def sites_of(
    place: Path, tables: Mapping[str, EncodedTable], schema: Schema
) -> dict[str, SiteSettings]:
    """The same with these rows, and without ticks."""
    sites = {}
    for name, table in tables.items():
        (place / name).mkdir(parents=True)
        terms = {"name": name, "epsilon": 3.0, "study_epsilon": 1.0, "alone_epsilon": 9.0}
        sites[name] = make_settings(place / name, schema, as_csv(table), tick=0.0, **terms)
        create_site(sites[name])
    acquaint(sites)
    return sites


def acquaint(sites: Sites) -> None:
    """Every steward confirms the keys of all others."""
    for settings in sites.values():
        book = Peers()
        for other in sites.values():
            if other.name != settings.name:
                book = book.add(other.name, key_of(other))
        book.save(settings.folder)


def hidden_study(
    sites: Sites, schema: Schema = SCHEMA, *, colluding: int = 1, quorum: int = 0, **terms: Any
) -> Study:
    """A study under secure aggregation with the keys that these sites have now."""
    keys = {name: key_of(settings) for name, settings in sites.items()}
    hidden = Aggregation(colluding, quorum or len(keys), keys)
    plan = make_plan(schema, (*keys,), trust="secure-aggregation", aggregation=hidden, **terms)
    return Study(plan=plan, schema=schema.settings, quorum=hidden.quorum)


def approve_all(sites: Sites, study: Study) -> None:
    """Every steward consents."""
    for settings in sites.values():
        approve(settings, study, who=WHO, now=NOW)


@contextmanager
def agents_of(
    sites: Sites, noise: Callable[[str], NoiseSource] = lambda name: SecureNoise()
) -> Iterator[dict[str, Agent]]:
    """The agents of all sites, for a while."""
    with ExitStack() as stack:
        yield {
            name: Agent(
                settings,
                stack.enter_context(Books.open(settings.folder, settings.anchor)),
                noise=noise(name),
                log=lambda line: None,
            )
            for name, settings in sites.items()
        }


def ask_agents(agents: Mapping[str, Agent], request: Request) -> list[Reply]:
    """What those of the sites that are there say to a request."""
    return [ask_agent(agents[site], request, site) for site in request.asked if site in agents]


def ask_agent(agent: Agent, request: Request, site: str) -> Reply:
    """What one says, or why it does not."""
    try:
        data = agent.answer(request.message(site))
    except Refused as refused:
        return Absence.refused(site, refused.reason)
    return request.read(site, data, simulated=agent.noise.simulated)


def conduct(
    study: Study,
    sites: Sites,
    away: Callable[[Request, str], bool] = lambda request, site: False,
    noise: NoiseSource = SecureNoise(),
) -> list[str]:
    """Run a study with real agents; what was refused, by step and site."""
    refused: list[str] = []
    with agents_of(sites, lambda name: noise) as agents:

        def ask(request: Request, site: str) -> Reply:
            if away(request, site):
                return Absence(site, NO_ANSWER)
            reply = ask_agent(agents[site], request, site)
            if isinstance(reply, Absence):
                refused.append(f"{request.step} {site}: {reply.reason}")
            return reply

        drive(of_study(study), lambda request: [ask(request, site) for site in request.asked])
    return refused
