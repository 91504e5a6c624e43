"""Real members of a study under secure aggregation, in memory, and what can happen to them."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from typing import Any

from heterofedsyn.errors import HeterofedsynError
from heterofedsyn.hub import Absence, Request, make_method
from heterofedsyn.hub.methods.base import settings_of
from heterofedsyn.hub.replies import NO_ANSWER, Reply
from heterofedsyn.marginals import TableCounts
from heterofedsyn.privacy.ledger import Ledger
from heterofedsyn.privacy.noise import SimulatedNoise
from heterofedsyn.protocol import Plan, Study
from heterofedsyn.protocol.codec import decode_asked
from heterofedsyn.protocol.plan import Aggregation
from heterofedsyn.protocol.refusal import Refused
from heterofedsyn.schema import EncodedTable
from heterofedsyn.simulate.run import run_study
from heterofedsyn.site.answering import Desk
from heterofedsyn.site.member import Member
from heterofedsyn.site.remembered import Remembered
from heterofedsyn.site.signing import Identity
from support import categories, deal, dependent_table

NAMES = ("birch", "elm", "Fir", "oak", "pine")
SCHEMA = categories(3, 4, 5, label=0)
TABLE = dependent_table(SCHEMA.domain, 6_000)
NOISE_SEED = 5

Change = Callable[[Request, str, bytes], object]
"""What becomes of a site's reply on its way: other bytes, or None for none at all."""


def unchanged(request: Request, site: str, data: bytes) -> object:
    """What a site said."""
    return data


class Federation:
    """All sites of a study, and the study."""

    def __init__(
        self,
        sites: int,
        *,
        colluding: int = 1,
        quorum: int = 0,
        method: str = "allmarg",
        identities: dict[str, Identity] | None = None,
        **terms: Any,
    ) -> None:
        names = NAMES[:sites]
        self.identities = identities or {name: Identity.fresh() for name in names}
        made = make_method(method)
        keys = {name: identity.public for name, identity in self.identities.items()}
        self.method = made
        self.plan = Plan(
            schema=made.encoding(SCHEMA).fingerprint,
            method=method,
            settings=settings_of(made),
            sites=names,
            trust="secure-aggregation",
            aggregation=Aggregation(colluding, quorum or sites, keys),
            **{"epsilon": 1.0, "delta": 1e-9, "seed": 7, **terms},
        )
        self.study = Study(
            plan=self.plan, schema=tomllib.loads(SCHEMA.to_toml()), quorum=quorum or sites
        )
        self.tables = deal(TABLE, sites)
        self.memories: dict[str, Remembered] = {}
        self.members = {
            name: self._member(name, table) for name, table in zip(names, self.tables, strict=True)
        }
        self.said: list[tuple[str, str, bytes, bytes]] = []
        """Of every exchange: its place, the site, what was asked and what was answered."""

    def _member(self, name: str, table: EncodedTable) -> Member:
        plan, counts = self.plan, TableCounts(table)
        noise = SimulatedNoise(NOISE_SEED, name)
        desk = Desk(name, plan, counts.domain, lambda: counts, noise, plan.trust_model)
        self.memories[name] = Remembered(Ledger(name, plan.budget))
        return Member(desk, self.identities[name], self.memories[name])

    def ask(self, request: Request, site: str, change: Change = unchanged) -> Reply:
        """What comes of asking one site."""
        message = request.message(site)
        try:
            data = self.members[site].answer(decode_asked(message))
        except HeterofedsynError as error:
            return Absence.refused(site, Refused.because_of(error).reason)
        self.said.append((request.place, site, message, data))
        found = change(request, site, data)
        if found is None:
            return Absence(site, NO_ANSWER)
        return request.read(site, found, simulated=True)

    def carry(self, request: Request) -> list[Reply]:
        """Everyone answers."""
        return [self.ask(request, site) for site in request.asked]

    def without(self, away: Callable[[Request, str], bool]) -> Callable[[Request], list[Reply]]:
        """Some do not even hear what is asked."""

        def carry(request: Request) -> list[Reply]:
            return [
                Absence(site, NO_ANSWER) if away(request, site) else self.ask(request, site)
                for site in request.asked
            ]

        return carry

    def changed(self, change: Change) -> Callable[[Request], list[Reply]]:
        """What some say becomes something else on its way."""

        def carry(request: Request) -> list[Reply]:
            return [self.ask(request, site, change) for site in request.asked]

        return carry

    def simulated(self, tables: Sequence[EncodedTable] | None = None) -> Any:
        """The release of the same study where the driver adds up, with the same noise."""
        return run_study(
            self.method.encoding(SCHEMA),
            self.plan,
            self.method,
            self.tables if tables is None else tables,
            noise_seed=NOISE_SEED,
        )
