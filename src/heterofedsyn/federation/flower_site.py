"""A site that joins a federation which Flower carries: a key of its own, units and users."""

from __future__ import annotations

import datetime
import os
import secrets
from ipaddress import ip_address
from pathlib import Path

import msgspec

from heterofedsyn import __version__
from heterofedsyn._defaults import PREFIX
from heterofedsyn._files import check_place, file_written_whole, read_whole, reason, written_whole
from heterofedsyn.engines.flower.bundle import flower_version
from heterofedsyn.engines.nvflare.provisioning import certificate_fingerprint, normal_fingerprint
from heterofedsyn.errors import PrivacyRefusal, UsageError
from heterofedsyn.federation.party import (
    KIT,
    NODE_KEY,
    ROOT,
    RUNTIME_CERTIFICATE,
    RUNTIME_KEY,
    SECRET,
    Party,
    check_carried_name,
    check_federation_name,
    check_prefix,
    default_anchor,
    own_programs,
)
from heterofedsyn.federation.services import write_services

RUNTIME_PORT = 9094
"""Flower's own for a SuperNode."""

_MOST_ROOT_BYTES = 2**20
_SECRET_BYTES = 32
_RUNTIME_DAYS = 3_650


def join_flower(
    federation: str,
    name: str,
    folder: Path,
    *,
    superlink: str,
    root: Path,
    fingerprint: str,
    runtime_port: int = RUNTIME_PORT,
    runs_apps: bool = False,
    prefix: str = PREFIX,
    anchor: Path | None = None,
    programs: Path | None = None,
) -> tuple[Party, Path]:
    """Make a SuperNode's key, which stays, and what starts it; the party and its public key.

    Args:
        superlink: host and port.
        root: the certificate that signed the SuperLink's.
        fingerprint: of that certificate, as the hub told it.
        runs_apps: whether the SuperNode runs what submitters ship.

    Raises:
        PrivacyRefusal: if the root certificate is another one.
        UsageError: if a name cannot be used, or there is a kit already.
    """
    check_federation_name(federation)
    check_carried_name(name)
    check_prefix(prefix)
    host, _, port = superlink.rpartition(":")
    if not port.isdigit():
        raise UsageError(f"{superlink[:100]!r} is no address; write it as HOST:PORT")
    certificate, told = _root(root, normal_fingerprint(fingerprint))
    if os.path.lexists(folder / KIT):
        raise UsageError(
            f"there is a kit in {folder} already; another site needs another folder, and a new key "
            "of this one a kit that was moved away"
        )
    public = folder / f"{name}.pub"
    check_place(public)
    party = Party(
        federation=federation,
        kind="site",
        name=name,
        host=host,
        port=int(port),
        fingerprint=told,
        folder=Path(os.path.realpath(folder)),
        prefix=prefix,
        programs=programs or own_programs(),
        version=__version__,
        flower=flower_version(),
        runtime_port=runtime_port,
        runs_apps=runs_apps,
        anchor=Path(os.path.abspath(anchor or default_anchor(prefix))),  # noqa: PTH100
    )
    party.check()
    private, shown = _key_pair()
    runtime_key, runtime_certificate = runtime_pair()
    with written_whole(folder / KIT) as partial:
        partial.chmod(0o700)
        for file, content in (
            (NODE_KEY, private),
            (ROOT, certificate),
            (SECRET, secrets.token_bytes(_SECRET_BYTES)),
            (RUNTIME_KEY, runtime_key),
            (RUNTIME_CERTIFICATE, runtime_certificate),
        ):
            (partial / file).touch(0o600)
            (partial / file).write_bytes(content)
    with file_written_whole(public) as partial:
        partial.write_bytes(shown)
    write_services(party, folder)
    party.save(folder)
    return party, public


def harden_flower(folder: Path, *, runs_apps: bool = False, programs: Path | None = None) -> Party:
    """Write units and scripts anew, for the version that is installed now.

    Raises:
        UsageError: if the folder is no site of a federation that Flower carries.
    """
    party = Party.load(folder)
    if not party.flower:
        raise UsageError(f"{folder} is no site that Flower carries; see `heterofedsyn site kit`")
    party = msgspec.structs.replace(
        party,
        version=__version__,
        flower=flower_version(),
        runs_apps=runs_apps,
        programs=programs or party.programs,
    )
    write_services(party, folder)
    party.save(folder)
    return party


def _root(path: Path, told: str) -> tuple[bytes, str]:
    """The root certificate, if it is the one that was told."""
    try:
        content = read_whole(path, _MOST_ROOT_BYTES)
        found = certificate_fingerprint(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {reason(error)}") from None
    except ValueError:
        raise UsageError(f"{path} is no certificate; ask the hub for its root's") from None
    if found != told:
        raise PrivacyRefusal(
            "this root certificate has another fingerprint than you were told; do not use the "
            "file, and call the hub"
        )
    return content, told


def _key_pair() -> tuple[bytes, bytes]:
    """A private key and its public half, as Flower reads them."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    key = ec.generate_private_key(ec.SECP384R1())
    return (
        key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()),
        key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b"\n",
    )


def runtime_pair() -> tuple[bytes, bytes]:
    """A key and a certificate for 127.0.0.1 that can sign no other."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA384
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "SuperNode")])
    now = datetime.datetime.now(datetime.UTC)
    public = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))  # clocks are set back
        .not_valid_after(now + datetime.timedelta(days=_RUNTIME_DAYS))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        .add_extension(public, False)
        .sign(key, SHA384())
    )
    return (
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        certificate.public_bytes(Encoding.PEM),
    )
