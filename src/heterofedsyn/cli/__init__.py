"""The command line: progress on stderr, results on stdout, one line and an exit code on failure."""

from heterofedsyn.cli.app import main

__all__ = ["main"]
