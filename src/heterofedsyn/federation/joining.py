"""A site's way in: a key and a request, and the hardened kit that comes of the answer."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from heterofedsyn import __version__
from heterofedsyn._defaults import PARTY, PREFIX
from heterofedsyn._files import check_place, file_written_whole, written_whole
from heterofedsyn.engines.nvflare.hardening import harden_hub, harden_site, settings_of_kit
from heterofedsyn.engines.nvflare.provisioning import (
    SITE,
    Signed,
    build_kit,
    make_request,
    normal_fingerprint,
    nvflare_version,
    read_own_request,
    read_request,
    read_signed,
    read_zip,
)
from heterofedsyn.errors import PrivacyRefusal, UsageError
from heterofedsyn.federation.party import (
    KIT,
    Party,
    as_owner,
    check_carried_name,
    check_federation_name,
    check_prefix,
    default_anchor,
    own_programs,
)
from heterofedsyn.federation.services import write_services

REQUEST, RENEWAL, BEFORE = "request", "renewal", "kit-before"
_ORGANISATION = re.compile(r"[A-Za-z0-9_]{1,64}")


@dataclass(frozen=True)
class Joining:
    """A request that was made: the file to send, and the fingerprint to read out."""

    request: Path
    key: str


def join(
    federation: str,
    name: str,
    folder: Path,
    *,
    organisation: str | None = None,
    renew: bool = False,
) -> Joining:
    """Make a site's private key, and a request for its certificate beside it.

    Args:
        organisation: whose site it is; the site's name unless given.
        renew: whether there is a kit already, whose certificate runs out.

    Raises:
        UsageError: if a name cannot be used, or there is a request or a kit.
    """
    check_federation_name(federation)
    check_carried_name(name)
    owner = re.sub(r"[^A-Za-z0-9_]", "_", name) if organisation is None else organisation
    if not _ORGANISATION.fullmatch(owner):
        raise UsageError(
            f"organisation {owner[:100]!r} must be up to 64 letters, digits and _, which is what "
            "certificates take"
        )
    place = folder / (RENEWAL if renew else REQUEST)
    _check_turn(federation, name, folder, renew=renew)
    check_place(place)
    sent = folder / f"{name}.request.zip"
    check_place(sent)
    with written_whole(place) as partial:
        partial.chmod(0o700)
        participant = {"name": name, "type": "client", "org": owner}
        data = make_request(federation, participant, partial).read_bytes()
    with file_written_whole(sent) as partial:
        partial.write_bytes(data)
    return Joining(sent, read_request(data).public_key_sha256)


def unpack_kit(
    signed: Path,
    folder: Path,
    *,
    fingerprint: str | None = None,
    prefix: str = PREFIX,
    anchor: Path | None = None,
    programs: Path | None = None,
) -> Party:
    """Make a site's kit of the answer to its request, hardened before it is in its place.

    Without a kit in the folder this is the first one; with one, a renewal, whose root certificate
    must be that of the kit in use. The kit that it replaces is kept aside.

    Args:
        fingerprint: of the root certificate, as the hub told it.
        anchor: the folder of the ledger's anchor, best on another disk.
        programs: the folder of the installed programs; that of this program unless given.

    Raises:
        PrivacyRefusal: if the root certificate is another one.
        UsageError: if the file is no answer to the site's own request.
    """
    data = read_zip(signed)
    answer = read_signed(data)
    if os.path.lexists(folder / KIT) and not _unfinished(folder):
        return _renew(data, answer, signed.name, folder, fingerprint)
    check_prefix(prefix)
    if fingerprint is None:
        raise UsageError(
            "the fingerprint of the federation's root is needed: ask the hub for it by telephone, "
            "and give it with --fingerprint"
        )
    _check_answer(answer, signed.name, folder / REQUEST)
    told = _check_root(answer, normal_fingerprint(fingerprint))
    place = Path(os.path.realpath(folder))
    party = Party(
        federation=answer.project,
        kind="site",
        name=answer.name,
        host=answer.server.host,
        port=answer.server.fed_learn_port,
        fingerprint=told,
        folder=place,
        prefix=prefix,
        programs=programs or own_programs(),
        version=__version__,
        nvflare=nvflare_version(),
        anchor=Path(os.path.abspath(anchor or default_anchor(prefix))),  # noqa: PTH100
    )
    place_kit(data, folder / REQUEST, told, folder / KIT, harden_site)
    write_services(party, folder)
    party.save(folder)
    shutil.rmtree(folder / REQUEST)  # it holds the private key once more
    return party


def harden_again(
    folder: Path, kind: Literal["hub", "site"] = "site", programs: Path | None = None
) -> Party:
    """Write a kit's settings, units and scripts anew, for the version that is installed now.

    Args:
        programs: the folder of the installed programs, if it is another now.

    Raises:
        UsageError: if there is no kit of that kind.
    """
    party = Party.load(folder)
    if party.kind != kind or not (folder / KIT / "startup").is_dir():
        raise UsageError(f"there is no {kind}'s kit in {folder}; name its folder with --folder")
    with as_owner(folder / KIT):
        if kind == "hub":
            harden_hub(folder / KIT, party.state)
        else:
            harden_site(folder / KIT)
    party = msgspec.structs.replace(
        party,
        version=__version__,
        nvflare=nvflare_version(),
        programs=programs or party.programs,
    )
    write_services(party, folder)
    party.save(folder)
    return party


def place_kit(
    data: bytes,
    request: Path,
    fingerprint: str,
    kit: Path,
    harden: Callable[[Path], None],
) -> None:
    """Make a kit where nobody else can see it; it is in its place when it is hardened."""
    with written_whole(kit) as partial:
        partial.chmod(0o700)
        work = partial / ".work"
        work.mkdir(mode=0o700)
        made = build_kit(data, request, fingerprint, work)
        for path in made.iterdir():
            path.rename(partial / path.name)
        shutil.rmtree(work)
        _check_secured(partial)
        harden(partial)


def _renew(data: bytes, answer: Signed, file: str, folder: Path, fingerprint: str | None) -> Party:
    """Put a new kit in the place of the one in use; users, units and settings stay."""
    party = Party.load(folder)
    if not (folder / RENEWAL).is_dir():
        raise UsageError(
            f"there is a kit in {folder} already; `site join --renew` asks for a new certificate"
        )
    if os.path.lexists(folder / BEFORE):
        raise UsageError(
            f"{folder / BEFORE} is left from an earlier renewal and holds a private key; remove it "
            "first"
        )
    _check_answer(answer, file, folder / RENEWAL)
    if (answer.project, answer.name) != (party.federation, party.name):
        raise UsageError(
            f"{file} is for {answer.name} of {answer.project}, and this is {party.name} of "
            f"{party.federation}; `site kit` is run in the site's own folder"
        )
    told = party.fingerprint if fingerprint is None else normal_fingerprint(fingerprint)
    _check_root(answer, told)
    fresh, kit = folder / f"{KIT}-new", folder / KIT
    if os.path.lexists(fresh):
        shutil.rmtree(fresh)  # of a renewal that was interrupted; nothing uses it
    place_kit(data, folder / RENEWAL, told, fresh, harden_site)
    _give(fresh, kit)
    kit.rename(folder / BEFORE)
    try:
        fresh.rename(kit)
    except BaseException:
        (folder / BEFORE).rename(kit)
        raise
    shutil.rmtree(folder / RENEWAL)
    return party


def _unfinished(folder: Path) -> bool:
    """Whether a first kit was interrupted before all was written; it is made anew then."""
    return (folder / REQUEST).is_dir() and not os.path.lexists(folder / PARTY)


def _give(folder: Path, like: Path) -> None:
    """Let all in a folder belong to whom another folder belongs to."""
    owner = like.stat()
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.lchown(path, owner.st_uid, owner.st_gid)


def _check_turn(federation: str, name: str, folder: Path, *, renew: bool) -> None:
    """Refuse a request that would make an earlier one useless, or a renewal of nothing."""
    kit = os.path.lexists(folder / KIT)
    if renew:
        if not kit:
            raise UsageError(f"there is no kit in {folder} to renew; leave --renew out")
        party = Party.load(folder)
        if (party.federation, party.name) != (federation, name):
            raise UsageError(
                f"{folder} is {party.name} of {party.federation}, not {name} of {federation}; a "
                "renewal changes no name"
            )
        if os.path.lexists(folder / RENEWAL):
            raise UsageError(
                f"a renewal was asked for already; send {name}.request.zip, or remove "
                f"{folder / RENEWAL} to begin anew"
            )
    elif kit:
        raise UsageError(
            f"there is a kit in {folder} already; --renew asks for a new certificate, and another "
            "site needs another folder"
        )
    elif os.path.lexists(folder / REQUEST):
        raise UsageError(
            f"{folder / REQUEST} has the key of an earlier request; send {name}.request.zip, or "
            f"remove {folder / REQUEST} to begin anew"
        )


def _check_answer(answer: Signed, file: str, request: Path) -> None:
    """Refuse the answer to another request than the one whose key is here."""
    if answer.kind != SITE:
        raise UsageError(f"{file} is for a {answer.kind}, not for a site; ask the hub for yours")
    try:
        own = read_own_request(request)
    except OSError:
        raise UsageError(
            f"there is no request in {request}, whose private key a kit needs; `site kit` is run "
            "in the folder in which `site join` was"
        ) from None
    if answer.request_id != own.request_id or answer.name != own.name:
        raise UsageError(
            f"{file} answers another request than that of {own.name} in {request}; send "
            f"{own.name}.request.zip to the hub, and take the answer to it"
        )


def _check_root(answer: Signed, told: str) -> str:
    """Refuse a root certificate that is not the one that was told; NVFlare checks it once more."""
    found = normal_fingerprint(answer.ca_info.rootCA_fingerprint)
    if found != told:
        raise PrivacyRefusal(
            "the root certificate in this file has another fingerprint than you were told; do not "
            "use the file, and call the hub"
        )
    return told


def _check_secured(kit: Path) -> None:
    """Refuse a kit that would speak without certificates on both sides."""
    for name in ("fed_client.json", "fed_server.json", "fed_admin.json"):
        path = kit / "startup" / name
        if path.is_file() and "mtls" not in _values(settings_of_kit(path), "connection_security"):
            raise PrivacyRefusal(
                "this kit does not ask both sides for certificates (connection_security is not "
                "mtls); the federation must be made anew"
            )


def _values(settings: Any, name: str) -> set[str]:
    """Every value of a name, however deep it stands."""
    if isinstance(settings, list):
        return {value for item in settings for value in _values(item, name)}
    if not isinstance(settings, dict):
        return set()
    deeper = {value for item in settings.values() for value in _values(item, name)}
    return deeper | ({str(settings[name])} if name in settings else set())
