"""Certificates and startup kits, by NVFlare's own commands; what they say is put in our words."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import re
import ssl
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from heterofedsyn._files import read_whole, reason
from heterofedsyn._words import digits_of
from heterofedsyn.engines.nvflare.commands import Commands
from heterofedsyn.errors import EngineError, UsageError

MOST_ZIP_BYTES = 2**20
ROOT_CERTIFICATE = Path("startup", "rootCA.pem")
MOST_DAYS = 3_650
SITE, SERVER, USER = "site", "server", "user"
"""Kinds of participants, as requests call them."""

_Decoded = TypeVar("_Decoded", bound=msgspec.Struct)
_HEXADECIMAL = re.compile(r"[0-9a-f]{64}")


class Endpoint(msgspec.Struct, frozen=True):
    """Where the server of a federation is reached."""

    host: str
    fed_learn_port: int
    admin_port: int


class Request(msgspec.Struct, frozen=True):
    """Who asks to take part, and with which key; NVFlare checks it all when it is signed."""

    request_id: str
    project: str
    name: str
    org: str
    kind: Literal["site", "server", "user"]
    public_key_sha256: str


class Root(msgspec.Struct, frozen=True):
    """Which root certificate signed something."""

    rootCA_fingerprint: str


class Signed(msgspec.Struct, frozen=True):
    """What a signed request promises; nothing of it is believed before NVFlare has checked it."""

    request_id: str
    project: str
    name: str
    kind: Literal["site", "server", "user"]
    server: Endpoint
    ca_info: Root


def normal_fingerprint(text: str) -> str:
    """A fingerprint as 64 hexadecimal digits, however it was written down.

    >>> normal_fingerprint("SHA256:" + ":".join(["AB"] * 32)) == "ab" * 32
    True

    Raises:
        UsageError: if it is something else.
    """
    digits = digits_of(text)
    if not _HEXADECIMAL.fullmatch(digits):
        raise UsageError(
            f"{text[:100]!r} is no fingerprint: it has 64 digits 0-9 and letters a-f, in groups or "
            "not; ask for it again"
        )
    return digits


def certificate_fingerprint(path: Path) -> str:
    """The fingerprint of a certificate in a file.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it holds no certificate.
    """
    text = read_whole(path, MOST_ZIP_BYTES).decode("ascii")
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(text)).hexdigest()


def make_root(name: str, host: str, port: int, folder: Path) -> str:
    """Make the root key and certificate of a federation; the fingerprint comes back."""
    profile = {
        "name": name,
        "scheme": "http",
        "connection_security": "mtls",
        "server": {"host": host, "fed_learn_port": port, "admin_port": port},
    }
    folder.mkdir(mode=0o700)
    _write_yaml(_profile(folder), profile)
    command = ("cert", "init", "--profile", _profile(folder), "-o", folder)
    made = _nvflare(*command, doing="make the root certificate")
    return normal_fingerprint(str(made.get("rootca_fingerprint_sha256")))


def make_request(federation: str, participant: dict[str, str], folder: Path) -> Path:
    """Make a private key in a new folder and a request for its certificate; where that is."""
    with tempfile.TemporaryDirectory() as scratch:
        definition = Path(scratch) / "participant.yml"
        _write_yaml(definition, {"name": federation, "participants": [participant]})
        command = ("cert", "request", "-p", definition, "--out", folder)
        made = _nvflare(*command, doing="make a request")
    return Path(str(made.get("request_zip")))


def read_request(data: bytes) -> Request:
    """Who asks, as the bytes of a request say.

    Raises:
        UsageError: if they are no request.
    """
    request = _member(data, "request.json", Request, "no request: `site join` makes one")
    if not _HEXADECIMAL.fullmatch(request.public_key_sha256):
        raise UsageError("this request names no key; ask for another")
    return request


def sign_request(data: bytes, root: Path, out: Path, *, days: int) -> None:
    """Sign a request with the root key in a folder; the answer is written to a new file.

    Raises:
        UsageError: if NVFlare finds the request at fault.
    """
    with tempfile.TemporaryDirectory() as scratch:
        request = Path(scratch) / "request.zip"
        request.write_bytes(data)
        _nvflare(
            *("cert", "approve", request, "-c", root, "--out", out),
            *("--profile", _profile(root), "--valid-days", str(days)),
            doing="sign the request",
        )


def read_signed(data: bytes) -> Signed:
    """What the bytes of a signed request promise.

    Raises:
        UsageError: if they are none.
    """
    return _member(
        data, "signed.json", Signed, "no signed request: `federation admit` makes one of a request"
    )


def read_own_request(folder: Path) -> Request:
    """The request whose key lies in a folder.

    Raises:
        OSError: if there is none.
        UsageError: if it is damaged.
    """
    return _decode(
        read_whole(folder / "request.json", MOST_ZIP_BYTES), Request, "a damaged request"
    )


def build_kit(data: bytes, request: Path, fingerprint: str, folder: Path) -> Path:
    """Make the startup kit of a signed request below a folder; where it is.

    NVFlare checks the root certificate against the fingerprint, the signature, and that the answer
    belongs to the key in the folder of the request. The kit is not hardened yet.

    Raises:
        UsageError: if NVFlare finds something at fault.
    """
    pairs = ":".join(fingerprint[i : i + 2] for i in range(0, 64, 2)).upper()
    signed = folder / "kit.signed.zip"
    signed.write_bytes(data)
    made = _nvflare(
        *("package", signed, "--request-dir", request, "-w", folder / "kits"),
        *("--fingerprint", f"SHA256:{pairs}"),
        doing="make the kit",
    )
    return Path(str(made.get("output_dir")))


def nvflare_version() -> str:
    """The version of NVFlare that is installed.

    Raises:
        UsageError: if there is none.
    """
    _check_installed()
    from importlib.metadata import version

    return version("nvflare")


def _nvflare(*arguments: str | Path, doing: str) -> dict[str, Any]:
    """Run a command of NVFlare's and return what it made; nobody sees what it prints."""
    _check_installed()
    given = [str(word.absolute()) if isinstance(word, Path) else word for word in arguments]
    try:
        said = json.loads(_commands().run([*given, "--format", "json"]))
        status, made = said["status"], said.get("data", {})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise EngineError(
            f"NVFlare cannot {doing}, and does not say why; is it the version that this package "
            "asks for?"
        ) from None
    if status != "ok" or not isinstance(made, dict):
        words = " ".join(str(said.get("message", "")).split()).rstrip(".")
        raise UsageError(f"NVFlare cannot {doing}: {words}; nothing was made")
    return made


def rest() -> None:
    """End the process that runs NVFlare's commands; another starts when one is needed."""
    _commands().close()


@cache
def _commands() -> Commands:
    """The one process that runs NVFlare's commands."""
    return Commands()


def _check_installed() -> None:
    if importlib.util.find_spec("nvflare") is None:
        raise UsageError("this needs the extra `nvflare`: pip install 'heterofedsyn[nvflare]'")


def _member(data: bytes, name: str, kind: type[_Decoded], otherwise: str) -> _Decoded:
    """One small file of a zip, decoded."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive, archive.open(name) as member:
            text = member.read(MOST_ZIP_BYTES + 1)
    except (zipfile.BadZipFile, KeyError, ValueError, RuntimeError, OSError, NotImplementedError):
        raise UsageError(f"this is {otherwise}") from None
    return _decode(text, kind, otherwise)


def _decode(text: bytes, kind: type[_Decoded], otherwise: str) -> _Decoded:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise UsageError(f"this is {otherwise}") from None


def read_zip(path: Path) -> bytes:
    """The bytes of a request or of an answer to one.

    Raises:
        UsageError: if the file cannot be read or is far too large.
    """
    try:
        return read_whole(path, MOST_ZIP_BYTES)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {reason(error)}; is it the file you mean?") from None


def _profile(root: Path) -> Path:
    return root / "profile.yml"


def _write_yaml(path: Path, value: dict[str, Any]) -> None:
    # JSON is YAML in which no word is ever taken for something else.
    path.write_text(json.dumps(value, indent=1) + "\n", "utf-8")
