"""Who is in a federation: requests that are signed, and sites that are removed."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import msgspec

from heterofedsyn._defaults import CERTIFICATE_DAYS
from heterofedsyn._files import check_place, file_written_whole, read_whole, reason
from heterofedsyn._words import aloud
from heterofedsyn.engines.nvflare.provisioning import (
    MOST_DAYS,
    SITE,
    Request,
    read_request,
    read_zip,
    sign_request,
)
from heterofedsyn.errors import PrivacyRefusal, UsageError, did_you_mean
from heterofedsyn.federation.party import as_owner, check_carried_name

ROOT = "root"
ROOT_KEY = "rootCA.key"
ADMITTED = "admitted"
DISABLED = "disabled_clients.json"
"""In the server's kit: names that it does not let in, read when it starts."""

_MOST_BYTES = 2**20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,253}")


class Admitted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A participant that was let in, in the folder of the root key.

    Attributes:
        key: SHA-256 of its public key.
        removed: the day on which it was removed, if it was.
    """

    name: str
    kind: str
    organisation: str
    key: str
    day: str
    removed: str = ""


class Asking(msgspec.Struct, frozen=True):
    """A request as it was read: what is signed is what was shown.

    Attributes:
        root: the folder of the root key that would sign it.
        before: what was signed under the same name earlier.
    """

    request: Request
    data: bytes
    root: Path
    before: Admitted | None

    def lines(self) -> tuple[str, ...]:
        """Who asks, for people."""
        asks = self.request
        lines = [
            f"{asks.name} of {asks.org} asks to be a {asks.kind} of {asks.project}",
            f"fingerprint of its key, to compare by telephone: {aloud(asks.public_key_sha256)}",
        ]
        if self.before is not None:
            lines.append(f"{asks.name} was admitted on {self.before.day} with another key")
        if self.before is not None and self.before.key == asks.public_key_sha256:
            lines[-1] = f"{asks.name} was admitted on {self.before.day} with this very key"
        return tuple(lines)


def read_asking(
    path: Path, root: Path | None = None, *, renew: bool = False, kind: str = SITE
) -> Asking:
    """Read a request and find the root key of its federation.

    Args:
        root: the folder of that key; `NAME/root` or `root` here unless given.
        renew: whether somebody who is in gets a new certificate.

    Raises:
        UsageError: if it is no request, of another federation, or by somebody who is in.
    """
    data = read_zip(path)
    request = read_request(data)
    if request.kind != kind:
        raise UsageError(
            f"{path.name} asks for the certificate of a {request.kind}, not of a {kind}; only "
            "sites are admitted here"
        )
    if kind == SITE:
        check_carried_name(request.name)
    place = root or _find_root(request.project)
    federation = federation_of(place)
    if federation != request.project:
        raise UsageError(
            f"{path.name} asks {request.project!r}, but {place} is the root of {federation!r}; "
            "name that of the federation with --root"
        )
    before = _read_admitted(place, request.name)
    if before is not None and not renew:
        state = (
            f"was removed on {before.removed}" if before.removed else f"is in since {before.day}"
        )
        raise UsageError(
            f"{request.name} {state}; if it asks itself, as a telephone call tells, add --renew, "
            "and another site takes another name"
        )
    if before is None and renew:
        raise UsageError(f"{request.name} was never admitted; leave --renew out")
    return Asking(request, data, place, before)


def admit(
    asking: Asking, out: Path, *, days: int = CERTIFICATE_DAYS, fingerprint: str | None = None
) -> None:
    """Sign a request and write the answer to a new file.

    Args:
        days: how long the certificate is valid.
        fingerprint: that of the key, as it was told; no other key is signed.

    Raises:
        PrivacyRefusal: if the key has another fingerprint.
        UsageError: if NVFlare finds the request at fault, or there is such a file.
    """
    request = asking.request
    if not 1 <= days <= MOST_DAYS:
        raise UsageError(f"days ({days}) must be in 1..{MOST_DAYS}")
    if fingerprint is not None and fingerprint != request.public_key_sha256:
        raise PrivacyRefusal(
            f"the key's fingerprint is {aloud(request.public_key_sha256)}, not "
            f"{aloud(fingerprint)}; ask {request.name} for its request again"
        )
    if not (asking.root / ROOT_KEY).is_file():
        raise UsageError(
            f"there is no root key in {asking.root}; put back the disk it is kept on, or name its "
            "folder with --root"
        )
    check_place(out)
    if out.exists() and asking.before is None:
        raise UsageError(f"{out} exists already; name another file with --out")
    with file_written_whole(out) as partial:
        sign_request(asking.data, asking.root, partial, days=days)
    record = Admitted(request.name, request.kind, request.org, request.public_key_sha256, _today())
    _write_admitted(asking.root, record)


def remove(name: str, root: Path, kit: Path | None) -> Admitted:
    """Write down that a site is out, and let the server refuse its name from its next start on.

    Args:
        kit: of the server; None if it is elsewhere.

    Raises:
        UsageError: if nobody of that name is in.
    """
    before = _read_admitted(root, name)
    if before is None:
        hint = did_you_mean(name, admitted_sites(root))
        raise UsageError(f"no site {name!r} was ever admitted; {hint}")
    if before.kind != SITE:
        raise UsageError(
            f"{name} is no site, and no server refuses it by name; without it the federation must "
            "be made anew"
        )
    if kit is not None:
        refuse_name(kit, name)
    record = msgspec.structs.replace(before, removed=before.removed or _today())
    _write_admitted(root, record)
    return record


def admitted_sites(root: Path) -> list[str]:
    """Which sites were admitted and not removed."""
    names = sorted(path.stem for path in (root / ADMITTED).glob("*.json"))
    records = (_read_admitted(root, name) for name in names)
    return [one.name for one in records if one and one.kind == SITE and not one.removed]


def refuse_name(kit: Path, name: str, *, refused: bool = True) -> None:
    """Let a server refuse a name, or take it again, from its next start on.

    Raises:
        UsageError: if that is no server's kit, or its list is damaged.
    """
    if not (kit / "startup" / "fed_server.json").is_file():
        raise UsageError(f"{kit} is no server's kit; name it with --kit")
    path = kit / DISABLED
    try:
        names = set(json.loads(read_whole(path, _MOST_BYTES))["disabled_clients"])
    except FileNotFoundError:
        names = set()
    except (OSError, ValueError, KeyError, TypeError):
        raise UsageError(
            f"{path} is damaged, so the server does not start; write it again: "
            '{"disabled_clients": ["NAME"]}'
        ) from None
    names = names | {name} if refused else names - {name}
    with as_owner(kit), file_written_whole(path) as partial:
        partial.write_text(json.dumps({"disabled_clients": sorted(names)}) + "\n", "utf-8")
        partial.chmod(0o600)


def _find_root(federation: str) -> Path:
    places = (Path(federation, ROOT), Path(ROOT))
    for place in places:
        if _is_root(place) and federation_of(place) == federation:
            return place
    there = [federation_of(place) for place in roots_here()]
    if there:
        raise UsageError(
            f"the request asks for federation {federation!r}, and here is "
            f"{', '.join(map(repr, there))}; if the name was mistyped, the site joins anew with "
            "the right one; else name the folder of its root key with --root"
        )
    raise UsageError(
        f"the root key of {federation!r} is neither in {places[0]} nor in {places[1]}; name its "
        "folder with --root"
    )


def roots_here() -> list[Path]:
    """The folders of all roots here."""
    here = Path()
    return [place for place in (here / ROOT, *sorted(here.glob(f"*/{ROOT}"))) if _is_root(place)]


def only_root() -> Path:
    """The folder of a root here, if there is one and no other.

    Raises:
        UsageError: if there is none, or several.
    """
    found = roots_here()
    if len(found) != 1:
        many = "no root key" if not found else "several root keys"
        raise UsageError(f"found {many} here; name the folder of one with --root")
    return found[0]


def _is_root(place: Path) -> bool:
    return (place / "rootCA.pem").is_file()


def federation_of(root: Path) -> str:
    """The federation whose root a folder holds."""
    try:
        found: Any = json.loads(read_whole(root / "ca.json", _MOST_BYTES))
        return str(found["project"])
    except OSError as error:
        raise UsageError(
            f"cannot read the root of a federation in {root}: {reason(error)}; name its folder "
            "with --root"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{root}/ca.json is damaged; restore it from a copy") from None


def _read_admitted(root: Path, name: str) -> Admitted | None:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name[:100]!r} can be nobody's name; is it the one you mean?")
    path = root / ADMITTED / f"{name}.json"
    try:
        return msgspec.json.decode(read_whole(path, _MOST_BYTES), type=Admitted)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, ValueError):
        raise UsageError(f"{path} is damaged; restore it from a copy, or remove it") from None


def _write_admitted(root: Path, record: Admitted) -> None:
    (root / ADMITTED).mkdir(mode=0o700, exist_ok=True)
    with file_written_whole(root / ADMITTED / f"{record.name}.json") as partial:
        partial.write_bytes(msgspec.json.encode(record) + b"\n")


def _today() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())
