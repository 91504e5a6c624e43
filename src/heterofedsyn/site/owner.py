"""Whose site it is, and which of its studies is meant."""

from __future__ import annotations

from pathlib import Path

from heterofedsyn._files import check_owner
from heterofedsyn._words import short
from heterofedsyn.errors import UsageError
from heterofedsyn.protocol.study import Study
from heterofedsyn.site.settings import SiteSettings

FINAL_DIGITS = 8
"""Of a fingerprint, where what is done cannot be undone."""


def own_settings(folder: Path) -> SiteSettings:
    """The settings of a site of this very user: what another writes the agent could not read."""
    settings = SiteSettings.load(folder)
    check_owner(settings.folder)
    return settings


def find_study(settings: SiteSettings, text: str, least: int = 4) -> str:
    """The fingerprint of a study given by its file or by at least so many digits of it."""
    path = Path(text)
    if path.is_file():
        return Study.load(path).fingerprint
    known = sorted(path.name for path in settings.studies.iterdir() if path.name[0] != ".")
    fitting = [name for name in known if name.startswith(text)]
    if len(text) < least or len(fitting) != 1:
        shown = ", ".join(map(short, known)) or "none"
        raise UsageError(
            f"there is no file {text!r}, and no one study starts so (at least {least} digits are "
            f"needed); known: {shown}"
        )
    return fitting[0]
