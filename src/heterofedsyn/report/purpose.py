"""What the study behind a release says of itself: its title, its purpose and whom to ask."""

from __future__ import annotations

from heterofedsyn import drawing
from heterofedsyn.hub.release import Release


def title_of(release: Release, usual: str) -> str:
    """What the study is called, after the usual words."""
    title = release.run.said_about.title
    return f"{usual}: {drawing.short(title, 120)}" if title else usual


def purpose_of(release: Release) -> list[tuple[str, str]]:
    """Purpose and contact, as far as the study says them."""
    said = release.run.said_about.said
    return [(name.capitalize(), text) for name, text in said if name != "title"]
