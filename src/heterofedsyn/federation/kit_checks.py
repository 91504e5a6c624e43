"""Whether a kit is as it was hardened, whose it is, and how long its certificate lasts."""

from __future__ import annotations

import datetime
import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from heterofedsyn._files import read_whole
from heterofedsyn._words import aloud, count
from heterofedsyn.engines.nvflare.hardening import (
    AUTHORIZATION,
    AUTHORIZATION_FILE,
    EXECUTOR,
    MOST_SETTINGS_BYTES,
    OWN_CODE,
    RESOURCES_FILE,
    SITE_RESOURCES,
    differences,
    settings_of_kit,
)
from heterofedsyn.engines.nvflare.provisioning import certificate_fingerprint
from heterofedsyn.federation.finding import Finding, judged, ok, unknown, wrong
from heterofedsyn.federation.joining import BEFORE, REQUEST
from heterofedsyn.federation.party import Party
from heterofedsyn.federation.services import START_SCRIPT, USERS_SCRIPT

SOON = 30
"""Days before its end at which a certificate is to be renewed."""

AS_ROOT = "run this as root, or as the user that owns it"
RENEW = "heterofedsyn site join --renew"
NEW_ROOT = "ask the hub for its root certificate, and join anew with `heterofedsyn site flower`"
CERTIFICATE = Path("startup", "client.crt")
_STREAMING = "allow_log_streaming"


def harden_command(party: Party) -> str:
    """What writes settings, units and scripts of a kit anew."""
    command = "flower" if party.flower else "kit"
    return f"heterofedsyn site {command} --harden --folder {shlex.quote(str(party.folder))}"


def renew_command(party: Party) -> str:
    """What to do about a key or certificate that is of no use any more."""
    return NEW_ROOT if party.flower else RENEW


def users_command(party: Party) -> str:
    """What makes users and folders as they must be."""
    return f"sh {shlex.quote(str(party.folder / USERS_SCRIPT))}"


def start_command(party: Party) -> str:
    """What puts units in place and starts them."""
    return f"sh {shlex.quote(str(party.folder / START_SCRIPT))}"


def check_kit(party: Party, engine: int | None) -> Iterator[Finding]:
    """Every rule about a kit.

    Args:
        engine: the number of the user that must own it; None if there is none.
    """
    kit = party.kit
    if not kit.is_dir():
        made = "flower" if party.flower else "kit"
        yield wrong("kit", f"there is no folder {kit}", f"make it with `heterofedsyn site {made}`")
        return
    yield _private(party, engine)
    if not os.access(kit if party.flower else kit / "startup", os.R_OK | os.X_OK):
        yield unknown("kit settings", f"{kit} cannot be read from here", AS_ROOT)
        return
    if party.flower:
        yield _apps(party)
        yield _root(party)
        yield _expiry("root's end", party.root, NEW_ROOT)
        yield _expiry("SuperNode's certificate", party.runtime_certificate, NEW_ROOT)
        return
    again = f"{harden_command(party)}; systemctl restart {party.engine}"
    yield _authorization(kit, again)
    yield from _resources(kit, again)
    yield _own_code(kit)
    yield _connection(party)
    yield _root(party)
    yield _expiry("certificate", kit / CERTIFICATE, RENEW)
    yield _expiry("root's end", party.root, "the hub makes a new root for everybody")
    left = [path for name in (REQUEST, BEFORE) if (path := party.folder / name).exists()]
    yield judged(
        "keys left over",
        (f"{path} holds a private key once more" for path in left),
        f"rm -r {' '.join(shlex.quote(str(path)) for path in left)} # if the engine is connected",
        "none",
    )


def _apps(party: Party) -> Finding:
    """Whether what the submitter of a run ships is left alone."""
    return judged(
        "code refused",
        [f"whoever may submit runs has their code run here, as {party.engine}"]
        if party.runs_apps
        else [],
        f'{harden_command(party)}; {start_command(party)} # or decide: --accept "code refused"',
        "what runs ship is never opened: the relay answers for the SuperNode",
    )


def _private(party: Party, engine: int | None) -> Finding:
    kit = party.kit
    faults, remedies = [], []
    there = kit.stat()
    if stat.S_IMODE(there.st_mode) != 0o700:
        faults.append(f"{kit} has mode {stat.S_IMODE(there.st_mode):04o}, not 0700")
        remedies.append(f"chmod 700 {shlex.quote(str(kit))}")
    if engine is not None and there.st_uid != engine:
        faults.append(f"{kit} does not belong to {party.engine}")
        remedies.append(users_command(party))
    more = (party.secret, party.runtime_key, party.runtime_certificate) if party.flower else ()
    opened = []
    for key in (party.key, *more):
        try:
            if stat.S_IMODE(key.stat().st_mode) & 0o077:
                faults.append(f"others may read {key}")
                opened.append(shlex.quote(str(key)))
        except PermissionError:
            pass  # whoever may not enter the kit cannot read its key either
        except OSError:
            faults.append(f"there is no {key}")
            remedies.append(renew_command(party))
    if opened:
        remedies.append(
            f"chmod 600 {' '.join(opened)} # and {renew_command(party)}, if somebody may have read "
            "it"
        )
    remedy = "; ".join(remedies)
    if engine is None and not faults:
        words = f"there is no user {party.engine} yet that it could belong to"
        return unknown("kit private", words, users_command(party))
    return judged("kit private", faults, remedy, f"{kit} is open to {party.engine} alone")


def _authorization(kit: Path, remedy: str) -> Finding:
    path = kit / AUTHORIZATION_FILE
    try:
        found = settings_of_kit(path)
    except (OSError, ValueError, RecursionError):
        return wrong("code refused", f"{path} is missing or damaged", remedy)
    return judged(
        "code refused",
        [f"{path.name} differs in {place}" for place in differences(found, AUTHORIZATION)][:3],
        remedy,
        "no code and no shell commands from the hub",
    )


def _resources(kit: Path, remedy: str) -> Iterator[Finding]:
    """The allow list and all else that `resources.json` says, and log streaming by itself."""
    path = kit / RESOURCES_FILE
    try:
        found = settings_of_kit(path)
        streaming = found.get(_STREAMING, True)
    except (OSError, ValueError, RecursionError, AttributeError):
        yield wrong("allow list", f"{path} is missing or damaged", remedy)
        return
    places = [place for place in differences(found, SITE_RESOURCES) if place != _STREAMING]
    yield judged(
        "allow list",
        [f"{path.name} differs in {place}" for place in places][:3],
        remedy,
        f"one class, {EXECUTOR}",
    )
    yield judged(
        "log streaming",
        ["the hub may be sent this site's log"] if streaming is not False else [],
        remedy,
        "no log goes to the hub",
    )


def _own_code(kit: Path) -> Finding:
    places = [kit / path for path in OWN_CODE]
    return judged(
        "code beside the kit",
        [f"NVFlare would run what lies in {path}" for path in places if os.path.lexists(path)],
        "look at who put it there, and remove it",
        "none",
    )


def _connection(party: Party) -> Finding:
    path = party.kit / "startup" / "fed_client.json"
    try:
        found = settings_of_kit(path)
        target = found["servers"][0]["service"]["target"]
        secured = found["client"]["connection_security"]
    except (OSError, ValueError, KeyError, IndexError, TypeError, RecursionError):
        return wrong("connection", f"{path} is missing or damaged", RENEW)
    faults = []
    if target != f"{party.host}:{party.port}":
        faults.append(f"{path.name} leads to {target}, not to {party.host}:{party.port}")
    if secured != "mtls":
        faults.append(f"{path.name} says connection_security {secured}, not mtls")
    return judged("connection", faults, RENEW, f"to {target}, certificates on both sides")


def _root(party: Party) -> Finding:
    path = party.root
    try:
        found = certificate_fingerprint(path)
    except (OSError, ValueError):
        return wrong("root certificate", f"{path} is missing or damaged", renew_command(party))
    return judged(
        "root certificate",
        [f"it is {aloud(found)}, not the one that was told"] if found != party.fingerprint else [],
        "stop the engine, call the hub, and compare by telephone",
        "the one that was told by telephone",
    )


def _expiry(rule: str, path: Path, remedy: str) -> Finding:
    from cryptography import x509

    try:
        certificate = x509.load_pem_x509_certificate(read_whole(path, MOST_SETTINGS_BYTES))
    except (OSError, ValueError):
        return wrong(rule, f"{path} is missing or damaged", remedy)
    now = datetime.datetime.now(datetime.UTC)
    start, end = _ends(certificate)
    if now < start:
        return wrong(rule, f"valid from {start:%Y-%m-%d %H:%M} UTC on only", "set the clock")
    days = (end - now).days
    if now >= end:
        return wrong(rule, f"ran out on {end:%Y-%m-%d}", remedy)
    if days < SOON:
        return wrong(rule, f"runs out on {end:%Y-%m-%d}, in {count(days, 'day')}", remedy)
    return ok(rule, f"valid until {end:%Y-%m-%d}")


def _ends(certificate: object) -> tuple[datetime.datetime, datetime.datetime]:
    """From when to when; older versions of the library know no time zones."""
    ends = []
    for name in ("not_valid_before", "not_valid_after"):
        moment = getattr(certificate, f"{name}_utc", None)
        ends.append(moment or getattr(certificate, name).replace(tzinfo=datetime.UTC))
    return ends[0], ends[1]
