"""One HTML page about a release: a public form from the release alone, and an internal one."""

from __future__ import annotations

from heterofedsyn.report.board import Agreed
from heterofedsyn.report.build import board_report, internal_report, public_report, write_page
from heterofedsyn.report.manifest import REPORT, strangers

__all__ = [
    "REPORT",
    "Agreed",
    "board_report",
    "internal_report",
    "public_report",
    "strangers",
    "write_page",
]
