"""A new key and certificate for the hub's server or the coordinator, in the kit that is in use."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from heterofedsyn._files import file_written_whole, read_whole
from heterofedsyn.engines.nvflare.hardening import MOST_SETTINGS_BYTES, make_private
from heterofedsyn.engines.nvflare.provisioning import (
    ROOT_CERTIFICATE,
    SERVER,
    USER,
    certificate_fingerprint,
)
from heterofedsyn.errors import UsageError
from heterofedsyn.federation.founding import own_kit
from heterofedsyn.federation.party import KIT, as_owner

_KINDS = {"fed_server.json": (SERVER, "server"), "fed_admin.json": (USER, "client")}
"""What kits of the hub have in `startup`, whose they are, and how their key's files are called."""


@dataclass(frozen=True)
class Renewed:
    """Whose certificate is new."""

    name: str
    server: bool


def renew_own(kit: Path, root: Path) -> Renewed:
    """Put a new key and certificate into the kit of the server or of a coordinator.

    Args:
        root: the folder of the root key.

    Raises:
        UsageError: if it is no such kit, or one of another root.
    """
    startup = kit / "startup"
    mark = next((mark for mark in _KINDS if (startup / mark).is_file()), None)
    if mark is None:
        raise UsageError(
            f"{kit} is no kit of a server or coordinator; name it, such as hospitals/hub/kit (a "
            "site's is renewed with `site join --renew`)"
        )
    kind, called = _KINDS[mark]
    try:
        same = certificate_fingerprint(kit / ROOT_CERTIFICATE) == certificate_fingerprint(
            root / "rootCA.pem"
        )
        name = _name_in(startup / f"{called}.crt")
    except (OSError, ValueError):
        raise UsageError(
            f"a certificate in {kit} or {root} is missing or damaged; restore it from a copy"
        ) from None
    if not same:
        raise UsageError(f"{kit} belongs to another root than {root}; name its with --root")
    with tempfile.TemporaryDirectory() as scratch:
        own_kit(Path(scratch), root, name, kind, make_private, renew=True)
        made = (Path(scratch) / KIT / "startup").glob(f"{called}.*")
        files = {path.name: read_whole(path, MOST_SETTINGS_BYTES) for path in made}
    with as_owner(kit):
        for file, data in files.items():
            with file_written_whole(startup / file) as partial:
                partial.write_bytes(data)
                partial.chmod(0o600)
    return Renewed(name, kind == SERVER)


def _name_in(path: Path) -> str:
    """Whose certificate a file holds."""
    from cryptography import x509

    certificate = x509.load_pem_x509_certificate(read_whole(path, MOST_SETTINGS_BYTES))
    (name,) = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return str(name.value)
