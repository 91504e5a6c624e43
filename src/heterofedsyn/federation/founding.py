"""A new federation: its root key, its hardened server, and its coordinator."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from heterofedsyn import __version__
from heterofedsyn._defaults import PORT, PREFIX
from heterofedsyn._files import check_place, written_whole
from heterofedsyn.engines.nvflare.hardening import harden_hub, make_private
from heterofedsyn.engines.nvflare.provisioning import (
    SERVER,
    USER,
    certificate_fingerprint,
    make_request,
    make_root,
    nvflare_version,
)
from heterofedsyn.errors import UsageError
from heterofedsyn.federation.admission import ROOT, admit, federation_of, read_asking
from heterofedsyn.federation.joining import REQUEST, place_kit
from heterofedsyn.federation.party import (
    KIT,
    Party,
    check_federation_name,
    check_host,
    check_port,
    check_prefix,
    own_programs,
)
from heterofedsyn.federation.services import write_services

HUB, COORDINATOR = "hub", "coordinator"
_ORGANISATION = "hub"


@dataclass(frozen=True)
class Founded:
    """Where the parts of a new federation are."""

    folder: Path
    hub: Party
    coordinator: str

    @property
    def root(self) -> Path:
        """The folder of the root key."""
        return self.folder / ROOT

    @property
    def hub_folder(self) -> Path:
        """What goes to the server."""
        return self.folder / HUB

    @property
    def coordinator_kit(self) -> Path:
        """What `study run --kit` needs."""
        return self.folder / COORDINATOR / KIT


def new_federation(
    name: str,
    host: str,
    folder: Path,
    *,
    port: int = PORT,
    prefix: str = PREFIX,
    at: Path | None = None,
    programs: Path | None = None,
    coordinator: str | None = None,
) -> Founded:
    """Make a federation in a new folder, whole or not at all.

    Args:
        host: how sites reach the hub's server.
        at: where the hub's folder will lie on its server; where it is made unless given.
        programs: the folder of the installed programs there; that of this program unless given.
        coordinator: who submits studies, written like an e-mail address.

    Raises:
        UsageError: if a name cannot be used, or there is such a folder.
    """
    check_federation_name(name)
    check_host(host)
    check_port(port)
    check_prefix(prefix)
    check_place(folder)
    if os.path.lexists(folder):
        raise UsageError(
            f"{folder} exists already, and a federation never replaces anything; name another "
            "folder with --folder"
        )
    who = coordinator or default_coordinator(host)
    place = Path(os.path.realpath(folder))
    with written_whole(folder) as partial:
        partial.chmod(0o755)
        fingerprint = make_root(name, host, port, partial / ROOT)
        hub = Party(
            federation=name,
            kind="hub",
            name=host,
            host=host,
            port=port,
            fingerprint=fingerprint,
            folder=place / HUB if at is None else at,
            prefix=prefix,
            programs=programs or own_programs(),
            version=__version__,
            nvflare=nvflare_version(),
        )
        _own_kits(partial, hub, who)
        write_services(hub, partial / HUB)
        hub.save(partial / HUB)
    return Founded(place, hub, who)


def default_coordinator(host: str) -> str:
    """The coordinator's name; NVFlare wants one that looks like an e-mail address.

    >>> default_coordinator("hub.example.org"), default_coordinator("localhost")
    ('coordinator@hub.example.org', 'coordinator@localhost.internal')
    """
    last = host.rsplit(".", 1)[-1]
    whole = host if "." in host and last.isalpha() and len(last) > 1 else f"{host}.internal"
    return f"coordinator@{whole}"


def _own_kits(folder: Path, hub: Party, coordinator: str) -> None:
    """The server's kit and the coordinator's, both at once."""
    root = folder / ROOT
    places = [folder / HUB, folder / COORDINATOR]
    for place in places:
        place.mkdir(mode=0o755)

    def harden(kit: Path) -> None:
        harden_hub(kit, hub.state)

    with ThreadPoolExecutor(2) as pool:
        server = pool.submit(own_kit, places[0], root, hub.name, SERVER, harden)
        person = pool.submit(own_kit, places[1], root, coordinator, USER, make_private)
        server.result()
        person.result()


def own_kit(
    folder: Path,
    root: Path,
    name: str,
    kind: str,
    harden: Callable[[Path], None],
    *,
    renew: bool = False,
) -> None:
    """Make the kit of the server or of a coordinator, whose key is made beside the root's.

    Args:
        folder: in which the kit will be.
        root: the folder of the root key.
        renew: whether somebody of that name is in already.
    """
    participant = {"name": name, "type": SERVER, "org": _ORGANISATION}
    if kind == USER:
        participant |= {"type": "admin", "role": "lead"}
    request, signed = folder / REQUEST, folder / "signed.zip"
    made = make_request(federation_of(root), participant, request)
    admit(read_asking(made, root, renew=renew, kind=kind), signed)
    fingerprint = certificate_fingerprint(root / "rootCA.pem")
    place_kit(signed.read_bytes(), request, fingerprint, folder / KIT, harden)
    signed.unlink()
    shutil.rmtree(request)
