"""What the study behind a release says of itself: its title, its purpose and whom to ask."""

from __future__ import annotations

from msgspec import UnsetType

from heterofedsyn import drawing
from heterofedsyn.hub.release import Release


def title_of(release: Release, usual: str) -> str:
    """What the study is called, after the usual words."""
    about = release.run.about
    if isinstance(about, UnsetType) or not about.title:
        return usual
    return f"{usual}: {drawing.short(about.title, 120)}"


def purpose_of(release: Release) -> list[tuple[str, str]]:
    """Purpose and contact, as far as the study says them."""
    about = release.run.about
    if isinstance(about, UnsetType):
        return []
    return [(name.capitalize(), text) for name, text in about.said if name != "title" and text]
