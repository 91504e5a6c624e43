"""Synthetic tables with differential privacy from organisations that may not pool their records."""

from typing import TYPE_CHECKING

from heterofedsyn._version import __version__
from heterofedsyn.errors import HeterofedsynError

if TYPE_CHECKING:
    from heterofedsyn.hub.questions import combine
    from heterofedsyn.hub.release import Release, load
    from heterofedsyn.privacy.budget import Budget
    from heterofedsyn.schema import Schema
    from heterofedsyn.simulate import FederatedSynthesizer

__all__ = [
    "Budget",
    "FederatedSynthesizer",
    "HeterofedsynError",
    "Release",
    "Schema",
    "__version__",
    "combine",
    "load",
]

_HOMES = {
    "Budget": "heterofedsyn.privacy.budget",
    "FederatedSynthesizer": "heterofedsyn.simulate",
    "Release": "heterofedsyn.hub.release",
    "Schema": "heterofedsyn.schema",
    "combine": "heterofedsyn.hub.questions",
    "load": "heterofedsyn.hub.release",
}
"""Where a public name lives; it is imported when first used, so that importing us costs little."""


def __dir__() -> list[str]:
    return sorted(__all__)


if not TYPE_CHECKING:  # a checker reads the imports above, and so refuses a misspelt name

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module 'heterofedsyn' has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
