"""A site's signing key, and how it is made and used; what others check is in masking.identity."""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heterofedsyn._files import read_whole
from heterofedsyn._words import NOT_PRIVATE, PRIVATE_KEY
from heterofedsyn.errors import HeterofedsynError, UsageError
from heterofedsyn.masking.identity import ed25519, raw_key

KEY, PUBLIC = "key.pem", "key.pub"
MOST_KEY_BYTES = 2**12


@dataclass(frozen=True, eq=False)
class Identity:
    """The key by which others know a site.

    Attributes:
        public: in base64.
    """

    public: str
    _key: Any

    @classmethod
    def load(cls, path: Path) -> Identity:
        """The signing key in a file.

        Raises:
            HeterofedsynError: if it cannot be read.
        """
        key = _read_key(path)
        return cls(_public(key), key)

    @classmethod
    def fresh(cls) -> Identity:
        """A new key that no file holds."""
        key = ed25519().Ed25519PrivateKey.generate()
        return cls(_public(key), key)

    def sign(self, data: bytes) -> bytes:
        """The signature under these bytes, always the same."""
        signature: bytes = self._key.sign(data)
        return signature


def make_key(path: Path) -> str:
    """A new signing key in a file that only its owner can read; its public key in base64."""
    key = ed25519().Ed25519PrivateKey.generate()
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


def read_public_key(text: str) -> str:
    """A public key given in base64, or as the path of a file that holds it.

    Raises:
        UsageError: if it is neither. Nothing that could be a private key is repeated.
    """
    held = _held(text)
    if PRIVATE_KEY in (text if held is None else held):
        raise UsageError(NOT_PRIVATE)
    if held is None:
        # No key has a dot, so what has one is a path that may be repeated.
        file = f"file {text!r}" if "." in text and text.isprintable() else "file of that name"
        try:
            raw_key(text)
        except UsageError as error:
            raise UsageError(f"there is no {file}, and {error}") from None
        return text
    try:
        raw_key(held)
    except UsageError:
        raise UsageError(
            f"{text} holds no public key: 32 bytes in base64, as in a site's {PUBLIC}"
        ) from None
    return held


def _held(text: str) -> str | None:
    """What the file of this name holds, if there is one; letters beyond ASCII are replaced."""
    try:
        path = Path(text)
        if not path.is_file():
            return None
    except (OSError, ValueError):  # too long for a name, or with letters that none has
        return None
    try:
        return read_whole(path, MOST_KEY_BYTES).decode("ascii", "replace").strip()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UsageError(f"{path} holds no public key that can be read: {reason}") from None


def _public(key: Any) -> str:
    return base64.b64encode(key.public_key().public_bytes_raw()).decode()


def _read_key(path: Path) -> Any:
    kind = ed25519().Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise HeterofedsynError(f"cannot read the signing key {path}: {reason}") from None
    except (ValueError, TypeError):
        raise HeterofedsynError(f"{path} is no signing key; restore it") from None
    if not isinstance(key, kind):
        raise HeterofedsynError(f"{path} is another kind of key, not Ed25519; restore it")
    return key
