"""The list of planted bugs: each has a name, who must notice it, and how it is planted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module

VARIABLE = "HETEROFEDSYN_PLANTED"
"""Names the bug to every process of an audit."""

_THEMES = ("noise", "prices", "messages", "persons", "rows", "agents", "ledgers", "sums", "shelves")

Planting = Callable[[], None]


@dataclass(frozen=True)
class Bug:
    """A bug, and who must notice it.

    Attributes:
        layer: meant to catch it.
        words: of a failed finding, so that it is caught for what it is.
        first: words of the checks that run before the others of the layer.
    """

    name: str
    layer: str
    words: str
    first: str
    plant: Planting


_BUGS: dict[str, Bug] = {}


def _bug(layer: str, name: str, words: str, first: str = "") -> Callable[[Planting], Planting]:
    """Enters what is decorated into the list; it is run when the package has been imported."""

    def enter(plant: Planting) -> Planting:
        if name in _BUGS:
            raise ValueError(f"two bugs are called {name!r}")
        _BUGS[name] = Bug(name, layer, words, first, plant)
        return plant

    return enter


# Which layer must notice a bug: `@noise("noise seeded by time", r"the same numbers", "restarts")`.
coupling, noise, game, ledger, sums = (
    partial(_bug, layer) for layer in ("coupling", "noise", "game", "ledger", "sums")
)


def bugs() -> dict[str, Bug]:
    """Every bug by its name."""
    for theme in _THEMES:
        import_module(f"planted.{theme}")
    return _BUGS
