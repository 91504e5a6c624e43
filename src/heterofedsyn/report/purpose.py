"""What the study behind a release says of itself."""

from __future__ import annotations

from heterofedsyn import drawing
from heterofedsyn.hub.release import Release


def title_of(release: Release, usual: str) -> str:
    """What the study is called, after the usual words."""
    title = release.run.said_about.title
    return f"{usual}: {drawing.short(title, 120)}" if title else usual


def purpose_of(release: Release) -> list[tuple[str, str]]:
    """All but the title, as far as the study says it."""
    return [*release.run.said_about.rest]
