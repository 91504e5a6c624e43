"""The command line: progress on stderr, results on stdout, one line and an exit code on failure."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line, and stop quietly even if stopped while it is still being loaded."""
    try:
        from heterofedsyn.cli import app

        app.main()
    except KeyboardInterrupt:
        sys.exit(130)
