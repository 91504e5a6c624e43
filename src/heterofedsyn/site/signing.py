"""A site's signing key, and what others check its word with; Ed25519, keys in base64."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

from heterofedsyn._files import read_whole
from heterofedsyn.errors import HeterofedsynError, UsageError

MOST_KEY_BYTES = 2**12


def make_key(path: Path) -> str:
    """A new signing key in a file that only its owner can read; its public key in base64."""
    key = _ed25519().Ed25519PrivateKey.generate()
    from cryptography.hazmat.primitives import serialization

    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(text)
    return _public(key)


def sign(path: Path, data: bytes) -> tuple[str, str]:
    """The public key and the signature of the signing key in a file.

    Raises:
        HeterofedsynError: if the key cannot be read.
    """
    key = _read_key(path)
    return _public(key), base64.b64encode(key.sign(data)).decode()


def is_signed(data: bytes, key: str, signature: str) -> bool:
    """Whether the holder of a public key signed these bytes.

    Raises:
        UsageError: if it is no public key.
    """
    ed25519 = _ed25519()
    from cryptography.exceptions import InvalidSignature

    try:
        public = ed25519.Ed25519PublicKey.from_public_bytes(raw_key(key))
        public.verify(_from_base64(signature), data)
    except (ValueError, InvalidSignature):
        return False
    return True


def read_public_key(text: str) -> str:
    """A public key given in base64, or as the path of a file that holds it.

    Raises:
        UsageError: if it is neither.
    """
    path = Path(text)
    try:
        if path.is_file():
            text = read_whole(path, MOST_KEY_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"{path}: this is no public key") from None
    raw_key(text)
    return text


def raw_key(key: str) -> bytes:
    """The 32 bytes of a public key.

    Raises:
        UsageError: if it is none.
    """
    try:
        raw = _from_base64(key)
    except ValueError:
        raw = b""
    if len(raw) != 32:
        raise UsageError(f"{key[:60]!r} is no public key: 32 bytes in base64, or a file of them")
    return raw


def _from_base64(text: str) -> bytes:
    """The bytes of a text, if it is the one text for them: decoders pass over the last bits.

    Raises:
        ValueError: if it is another.
    """
    data = base64.b64decode(text, validate=True)
    if base64.b64encode(data).decode() != text:
        raise ValueError("bits are left over")
    return data


def _public(key: Any) -> str:
    return base64.b64encode(key.public_key().public_bytes_raw()).decode()


def _read_key(path: Path) -> Any:
    ed25519 = _ed25519()
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise HeterofedsynError(f"cannot read the signing key {path}: {reason}") from None
    except (ValueError, TypeError):
        raise HeterofedsynError(f"{path} is no signing key; restore it") from None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise HeterofedsynError(f"{path} is another kind of key, not Ed25519; restore it")
    return key


def _ed25519() -> Any:
    """The library's Ed25519."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise UsageError(
            "signing receipts needs the extra `site`: pip install 'heterofedsyn[site]'"
        ) from None
    return ed25519
