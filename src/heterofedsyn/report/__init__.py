"""One HTML page about a release: a public form from the release alone, and an internal one."""

from __future__ import annotations

from heterofedsyn.report.build import (
    REPORT,
    Agreed,
    board_report,
    internal_report,
    public_report,
    strangers,
    write_page,
)

__all__ = [
    "REPORT",
    "Agreed",
    "board_report",
    "internal_report",
    "public_report",
    "strangers",
    "write_page",
]
