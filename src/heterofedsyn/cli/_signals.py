"""Signals that end a command."""

from __future__ import annotations

import signal


def endings() -> list[signal.Signals]:
    """Those that end one early beside Ctrl-C: that of a closed terminal too, unless ignored."""
    closed = [signal.SIGHUP] if hasattr(signal, "SIGHUP") else []  # not on Windows
    return [signal.SIGTERM, *(n for n in closed if signal.getsignal(n) is not signal.SIG_IGN)]
