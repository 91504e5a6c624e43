"""A steward's address book: keys of other sites, each confirmed by somebody who knows its holder.

Names alone vouch for nothing, and neither do keys: what is confirmed, and what a study's roster is
held against, are pairs of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import msgspec

from heterofedsyn._files import file_written_whole, read_whole
from heterofedsyn._toml import NotToml, from_toml, to_toml
from heterofedsyn.errors import HeterofedsynError, UsageError
from heterofedsyn.masking.identity import raw_key
from heterofedsyn.protocol.plan import check_site_name

PEERS = "peers.toml"
MOST_PEERS_BYTES = 2**20


@dataclass(frozen=True)
class Peers:
    """Sites whose keys were confirmed.

    Attributes:
        keys: by name, in base64.
    """

    keys: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path) -> Peers:
        """The address book in a site's folder; an empty one if there is none.

        Raises:
            UsageError: if it is anything else.
        """
        path = folder / PEERS
        try:
            return _read(read_whole(path, MOST_PEERS_BYTES).decode("utf-8"))
        except FileNotFoundError:
            return cls()
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise UsageError(f"cannot read {path}: {reason}; run this as the site's user") from None
        except (NotToml, UnicodeDecodeError, msgspec.ValidationError):
            raise UsageError(f"{path}: this is no address book: lines of NAME = KEY") from None
        except HeterofedsynError as error:
            raise UsageError(f"{path}: {error}") from None

    def save(self, folder: Path) -> None:
        """Write the address book into a site's folder."""
        with file_written_whole(folder / PEERS) as partial:
            partial.write_text(to_toml(dict(sorted(self.keys.items()))), "utf-8")

    def add(self, name: str, key: str) -> Peers:
        """The book with one more pair.

        Raises:
            UsageError: if it has the name with another key, or the key under another name.
        """
        check_site_name(name)
        raw_key(key)
        for known, other in self.keys.items():
            if known.lower() == name.lower() and (known, other) != (name, key):
                raise UsageError(
                    f"{known!r} is in the address book already, under another spelling or with "
                    "another key; if it has a new one, remove the old one first"
                )
            if other == key and known != name:
                raise UsageError(
                    f"this key is in the address book already, as {known!r}'s: two sites never "
                    "share one"
                )
        return Peers({**self.keys, name: key})

    def remove(self, name: str) -> Peers:
        """The book without a site.

        Raises:
            UsageError: if it is not in it.
        """
        if name not in self.keys:
            known = ", ".join(sorted(self.keys)) or "nobody"
            raise UsageError(f"{name!r} is not in the address book; known: {known}")
        return Peers({known: key for known, key in self.keys.items() if known != name})

    def confirms(self, name: str, key: str) -> bool:
        """Whether this very pair was confirmed."""
        return self.keys.get(name) == key


def check_other(name: str, key: str, *, own_name: str, own_key: str) -> None:
    """Refuse to take the site itself for another one.

    Raises:
        UsageError: saying which of the two is its own.
    """
    if name.lower() == own_name.lower():
        raise UsageError(f"{own_name!r} is this site itself; it needs no confirmation")
    if key == own_key:
        raise UsageError(f"this is the key of this very site, {own_name!r}, and nobody else's")


@lru_cache(maxsize=4)
def _read(text: str) -> Peers:
    """The address book in a text; an agent reads its file at every request, mostly the same one."""
    book = Peers()
    for name, key in msgspec.convert(from_toml(text), dict[str, str]).items():
        book = book.add(name, key)
    return book
