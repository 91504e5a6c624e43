"""A site's signing key is retired when nobody knows any more what was signed with it."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import count
from pathlib import Path

from heterofedsyn.site.ledger.durable import write
from heterofedsyn.site.signing import KEY, PUBLIC, make_key


def retire_key(folder: Path, number: int) -> str:
    """Replace the signing key of a site by a new one; the old one is kept beside it.

    One that is away may come back, so that there must be another then too.

    Killed at any moment, there is a key in place and none is lost: done again, one more is retired.

    Args:
        number: of the repair that is the reason.

    Returns:
        The new public key in base64; empty where nothing is installed that could make or use one.
    """
    pair = folder / KEY, folder / PUBLIC
    if find_spec("cryptography") is None and not any(path.exists() for path in pair):
        return ""
    stem = _free(folder, f"key.before-{number}")
    for path in pair:
        if path.exists():
            write(folder / f"{stem}{path.suffix}", path.read_bytes())
    made = folder / f".{KEY}.made"
    made.unlink(missing_ok=True)  # left by a machine that failed
    public = make_key(made)
    write(folder / KEY, made.read_bytes())
    made.unlink()
    write(folder / PUBLIC, f"{public}\n".encode())
    return public


def _free(folder: Path, stem: str) -> str:
    """A name that no key has which was retired before."""
    names = (stem if again == 1 else f"{stem}-{again}" for again in count(1))
    return next(name for name in names if not any(folder.glob(f"{name}.p*")))
