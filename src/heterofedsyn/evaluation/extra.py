"""Libraries that only scoring needs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from heterofedsyn.errors import UsageError


def need(module: str, purpose: str) -> Any:
    """A module of the extra `eval`.

    Raises:
        UsageError: naming the extra, if it is not installed.
    """
    try:
        return import_module(module)
    except ImportError:
        raise UsageError(
            f"{purpose} need the extra `eval`: pip install 'heterofedsyn[eval]'"
        ) from None
