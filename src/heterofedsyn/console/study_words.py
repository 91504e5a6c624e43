"""What a study says of itself, on the pages of stewards and of coordinators."""

from __future__ import annotations

from heterofedsyn.protocol.about import About
from heterofedsyn.report.blocks import Facts, Section, Warn


def words_of(about: About, *facts: tuple[str, str]) -> Section:
    """What a study is for, and these facts of it."""
    silent = () if about.said else (Warn("the study does not say what it is for or who asks"),)
    return Section("asks", "Who asks, and what for", (*silent, Facts((*about.rest, *facts))))
