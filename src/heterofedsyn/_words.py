"""Words that commands and reports share."""

from __future__ import annotations

PRIVATE_ROWS = "computed from private rows: do not publish"
"""Stands on everything that compares with rows and has no guarantee."""


def count(many: int, noun: str) -> str:
    """A number of things.

    >>> count(1, "row"), count(2_000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{many:,} {noun}{'' if many == 1 else 's'}"


def plain(text: str) -> str:
    """Text without letters that a terminal would obey."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
