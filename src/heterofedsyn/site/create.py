"""How a site comes to be: its folder, its ledger and its key, all of it or nothing."""

from __future__ import annotations

import os
from pathlib import Path

from heterofedsyn._files import written_whole
from heterofedsyn.errors import UsageError
from heterofedsyn.protocol.plan import unit_name
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.settings import SETTINGS, SiteSettings
from heterofedsyn.site.signing import KEY, PUBLIC, make_key


def create_site(settings: SiteSettings) -> str:
    """Make the folder of a new site and its anchor; returns the public key of its receipts.

    Raises:
        UsageError: if there is a folder or an anchor; neither is ever replaced.
    """
    for what, path in (("a site", settings.folder), ("an anchor", settings.anchor)):
        if os.path.lexists(path):
            raise UsageError(f"{path} exists already; {what} is never replaced: name another place")
    if not settings.anchor.parent.is_dir():
        raise UsageError(
            f"there is no folder {settings.anchor.parent} for the anchor; make it first"
        )
    anchored = False
    try:
        with written_whole(settings.folder) as partial:
            partial.chmod(0o700)
            for inner in ("studies", "receipts"):
                (partial / inner).mkdir(mode=0o700)
            _write(partial / SETTINGS, settings.to_toml())
            key = make_key(partial / KEY)
            _write(partial / PUBLIC, f"{key}\n")
            Books.create(partial, settings.anchor, unit=unit_name(settings.unit))
            anchored = True
    except BaseException:
        if anchored:
            settings.anchor.unlink(missing_ok=True)
        raise
    return key


def _write(path: Path, text: str) -> None:
    path.touch(0o600)
    path.write_text(text, "utf-8")
