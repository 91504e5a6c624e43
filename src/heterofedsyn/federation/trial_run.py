"""A whole federation on one machine, for a first look: real processes, invented patients."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from heterofedsyn._defaults import SITE_OF_KIT
from heterofedsyn.engines.nvflare.provisioning import rest
from heterofedsyn.errors import UsageError
from heterofedsyn.federation.admission import admit, read_asking
from heterofedsyn.federation.founding import Founded, new_federation
from heterofedsyn.federation.joining import join, unpack_kit
from heterofedsyn.federation.party import Party
from heterofedsyn.federation.services import services
from heterofedsyn.federation.trial_processes import Processes
from heterofedsyn.hub.planning.new_study import Roster, new_study
from heterofedsyn.privacy.trust import Local, SecureAggregation
from heterofedsyn.protocol import Study
from heterofedsyn.protocol.about import About
from heterofedsyn.simulate.hospitals import hospital_schema, hospitals
from heterofedsyn.site.consent import approve
from heterofedsyn.site.create import create_site
from heterofedsyn.site.peers import Peers
from heterofedsyn.site.receipt import SignedReceipt, make_receipt
from heterofedsyn.site.settings import SiteSettings, propose

Outcome = TypeVar("Outcome")

FEDERATION = "hospitals"
SITES = ("elmwood", "kingsbridge", "lakeside")
TRUSTS = (Local.name, SecureAggregation.name)
EPSILON, DELTA = 1.0, 1e-9
LEAST_PATIENTS, MOST_PATIENTS = 1_000, 1_000_000

_HUB = "localhost"
"""Under this name NVFlare's server listens on the loopback interface alone."""

_CAP, _STUDY_CAP = 5.0, 2.0
_ALONE_EPSILON = 9.0
_ABOUT = About(
    title="A first look",
    purpose="to see a federation at work; every patient in it is invented",
    contact="nobody: all of it runs on this machine",
)


@dataclass(frozen=True)
class Member:
    """A site of the trial.

    Attributes:
        key: the public key of its receipts.
    """

    party: Party
    settings: SiteSettings
    key: str


@dataclass(frozen=True)
class Trial:
    """A federation that was set up: its hub, and its sites by name."""

    folder: Path
    hub: Founded
    members: Mapping[str, Member]
    trust: str

    @property
    def study_file(self) -> Path:
        """The study that every steward gets."""
        return self.folder / "study.toml"

    @property
    def release(self) -> Path:
        """What comes of it."""
        return self.folder / "release"

    def receipt(self, site: str) -> Path:
        """The signed record of a site."""
        return self.folder / "receipts" / f"{site}.json"


def check_wishes(trust: str, patients: int) -> None:
    """Refuse what no trial can be.

    Raises:
        UsageError: saying what can.
    """
    if trust not in TRUSTS:
        raise UsageError(f"--trust ({trust!r}) must be {' or '.join(TRUSTS)}")
    if not LEAST_PATIENTS <= patients <= MOST_PATIENTS:
        raise UsageError(f"--patients ({patients}) must be in {LEAST_PATIENTS}..{MOST_PATIENTS}")


def set_up(running: Processes, *, trust: str, patients: int) -> Trial:
    """Certificates and kits of hub and sites, each site with rows and a ledger of its own.

    What every party would do on a machine of its own is done here beside each other.
    """
    folder = running.folder
    with _together(running) as pool:
        requests = [pool.submit(join, FEDERATION, site, _made(folder / site)) for site in SITES]
        founded = pool.submit(
            new_federation, FEDERATION, _HUB, folder / FEDERATION, port=_free_port()
        )
        _invent(folder, patients)
        settings = {site: _settings(running, site, trust) for site in SITES}
        keys = {site: create_site(settings[site]) for site in SITES}
        hub = founded.result()
        asked = [request.result() for request in requests]
        kits = [
            pool.submit(_kit, hub, request.request, folder / site)
            for site, request in zip(SITES, asked, strict=True)
        ]
        members = {
            site: Member(kit.result(), settings[site], keys[site])
            for site, kit in zip(SITES, kits, strict=True)
        }
    rest()
    return Trial(folder, hub, members, trust)


def start(running: Processes, trial: Trial) -> None:
    """The hub's server, and agent and engine of every site, all at once; they are ready then."""
    (server,) = services(trial.hub.hub)
    running.start("hub", server.command, _own(server.environment, {}))
    for site, member in trial.members.items():
        agent, engine = services(member.party)
        running.start(f"{site} agent", agent.command, _own(agent.environment, {}))
        where = {"HETEROFEDSYN_SOCKET": str(member.settings.socket)}
        running.start(f"{site} engine", engine.command, _own(engine.environment, where))
    for site in trial.members:
        running.until(
            lambda name=f"{site} agent": running.says(name, "answering on"),  # type: ignore[misc]
            f"the agent of {site}",
        )
    port = trial.hub.hub.port
    running.until(lambda: _listens(port), "the hub's server")


def agree(trial: Trial) -> Study:
    """A study that every steward approves; under secure aggregation they know each other's keys."""
    keys = {site: member.key for site, member in trial.members.items()}
    hidden = trial.trust == SecureAggregation.name
    if hidden:
        for site, member in trial.members.items():
            book = Peers.load(member.settings.folder)
            for other in keys.keys() - {site}:
                book = book.add(other, keys[other])
            book.save(member.settings.folder)
    study = new_study(
        hospital_schema(),
        Roster(SITES, keys if hidden else {}),
        epsilon=EPSILON,
        delta=DELTA,
        trust=trial.trust,
        about=_ABOUT,
        now=datetime.now(UTC),
    )
    study.save(trial.study_file)
    for site, member in trial.members.items():
        approve(member.settings, study, who=f"the steward of {site}", now=datetime.now(UTC))
    return study


def sign_receipts(trial: Trial, study: Study) -> list[SignedReceipt]:
    """Every site's signed record of what the study got, checked against the site's key."""
    trial.receipt("").parent.mkdir()
    signed = []
    for site, member in trial.members.items():
        made, _ = make_receipt(member.settings, study.fingerprint, now=datetime.now(UTC))
        made.save(trial.receipt(site))
        signed.append(SignedReceipt.load(trial.receipt(site)))
        signed[-1].check(member.key)
    return signed


@contextmanager
def _together(running: Processes) -> Iterator[_Pool]:
    """Several pieces of work at once; if one fails or all are interrupted, none goes on."""
    with _Pool(3) as pool:
        try:
            yield pool
        except BaseException:
            for work in pool.begun:
                work.cancel()
            while wait(pool.begun, timeout=0.1).not_done:
                running.end()  # what they wait for
            raise


class _Pool(ThreadPoolExecutor):
    """One that knows what it was given."""

    def __init__(self, many: int) -> None:
        super().__init__(many)
        self.begun: list[Future[Any]] = []

    def submit(self, work: Callable[..., Outcome], /, *args: Any, **more: Any) -> Future[Outcome]:
        begun = super().submit(work, *args, **more)
        self.begun.append(begun)
        return begun


def _kit(hub: Founded, request: Path, folder: Path) -> Party:
    """The hub's answer to a site's request, and the kit that the site makes of it."""
    signed = folder / request.name.replace("request", "signed")
    admit(read_asking(request, hub.root), signed)
    anchor = _made(folder / "anchor")
    return unpack_kit(signed, folder, fingerprint=hub.hub.fingerprint, anchor=anchor)


def _invent(folder: Path, patients: int) -> None:
    """The rows of every site, and the public schema beside them."""
    import pyarrow.parquet as pq

    schema = hospital_schema()
    for site, rows in hospitals(patients=patients).items():
        if site in SITES:
            place = _made(_made(folder / site) / "rows")
            schema.save(place / "schema.toml")
            pq.write_table(rows, place / "rows.parquet")


def _settings(running: Processes, site: str, trust: str) -> SiteSettings:
    """What the steward of a site decides."""
    import pyarrow.parquet as pq

    folder = running.folder / site
    rows = folder / "rows" / "rows.parquet"
    return SiteSettings(
        folder=folder / SITE_OF_KIT,
        name=site,
        schema=folder / "rows" / "schema.toml",
        source=str(rows),
        epsilon=_CAP,
        study_epsilon=_STUDY_CAP,
        delta=DELTA,
        alone_epsilon=_ALONE_EPSILON if trust == SecureAggregation.name else None,
        anchor=_made(folder / "anchor") / site,
        socket=running.scratch / site / "agent.sock",
        engine=str(os.getuid()),
        group=str(os.getgid()),
        rows=propose(pq.read_metadata(rows).num_rows),
    )


def _own(stated: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """The environment of a unit, but with folders of this machine and user."""
    kept = {name: value for name, value in stated.items() if name != "NUMBA_CACHE_DIR"}
    return {**kept, **more}


def _made(folder: Path) -> Path:
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
