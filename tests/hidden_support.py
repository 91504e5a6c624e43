"""Sites on disk that know each other's keys, and studies that hide their answers in sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from heterofedsyn.hub import Absence, Request, drive, of_study
from heterofedsyn.hub.replies import NO_ANSWER, Reply
from heterofedsyn.privacy.noise import NoiseSource, SecureNoise
from heterofedsyn.protocol import Study
from heterofedsyn.protocol.plan import Aggregation
from heterofedsyn.protocol.refusal import Refused
from heterofedsyn.site.agent import Agent
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.peers import Peers
from heterofedsyn.site.settings import SiteSettings
from heterofedsyn.site.signing import Identity
from site_support import SCHEMA, make_site
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
    for settings in sites.values():
        book = Peers()
        for other in sites.values():
            if other.name != settings.name:
                book = book.add(other.name, key_of(other))
        book.save(settings.folder)
    return sites


def hidden_study(sites: Sites, *, colluding: int = 1, quorum: int = 0, **terms: Any) -> Study:
    """A study under secure aggregation with the keys that these sites have now."""
    keys = {name: key_of(settings) for name, settings in sites.items()}
    hidden = Aggregation(colluding, quorum or len(keys), keys)
    plan = make_plan(SCHEMA, (*keys,), trust="secure-aggregation", aggregation=hidden, **terms)
    return Study(plan=plan, schema=SCHEMA.settings, quorum=hidden.quorum)


def conduct(
    study: Study,
    sites: Sites,
    away: Callable[[Request, str], bool] = lambda request, site: False,
    noise: NoiseSource = SecureNoise(),
) -> list[str]:
    """Run a study with real agents; what was refused, by step and site."""
    refused: list[str] = []
    with ExitStack() as stack:
        agents = {
            name: Agent(
                settings,
                stack.enter_context(Books.open(settings.folder, settings.anchor)),
                noise=noise,
                log=lambda line: None,
            )
            for name, settings in sites.items()
        }

        def ask(request: Request, site: str) -> Reply:
            if away(request, site):
                return Absence(site, NO_ANSWER)
            try:
                data = agents[site].answer(request.message(site))
            except Refused as error:
                refused.append(f"{request.step} {site}: {error.reason}")
                return Absence.refused(site, error.reason)
            return request.read(site, data, simulated=noise.simulated)

        drive(of_study(study), lambda request: [ask(request, site) for site in request.asked])
    return refused
