"""One setting of a study, and the kinds of work on it."""

from __future__ import annotations

from dataclasses import dataclass

from heterofedsyn.hub import make_method
from heterofedsyn.hub.methods.base import Value, settings_of

SITES = 5
"""Of studies that do not vary them."""

REAL = "real"
"""In the place of a method: real rows, drawn again with replacement and without any noise."""

SCORES, TRANSPORT, ML, COST = "scores", "transport", "ml", "cost"
"""Kinds of work on a cell, each kept on its own: closeness in seconds, exact transport in up to a
minute, machine learning, and bytes and seconds."""


@dataclass(frozen=True, order=True)
class Cell:
    """One setting of one study; settings that are a method's defaults are left out."""

    table: str
    method: str
    epsilon: float
    sites: int = SITES
    split: str = "uniform"
    trust: str = "local"
    settings: tuple[tuple[str, Value], ...] = ()

    @classmethod
    def of(cls, table: str, method: str, epsilon: float, **terms: object) -> Cell:
        """A cell from plain terms; those that are no term of a study are settings of the method.

        >>> Cell.of("adult", "fedprivsyn", 1.0, sites=10, k=10, q=0.3).settings
        (('q', 0.3),)
        """
        own = {name: terms.pop(name) for name in ("sites", "split", "trust") if name in terms}
        usual = settings_of(make_method(method))
        settings = tuple(sorted((n, v) for n, v in terms.items() if usual.get(n) != v))
        return cls(table, method, epsilon, settings=settings, **own)  # type: ignore[arg-type]

    @property
    def key(self) -> tuple[str, ...]:
        """The cell as it stands in a file of results."""
        settings = " ".join(f"{name}={value}" for name, value in self.settings)
        return (
            self.table,
            self.method,
            f"{self.epsilon:g}",
            str(self.sites),
            self.split,
            self.trust,
            settings,
        )

    def __str__(self) -> str:
        return " ".join(word for word in self.key if word)
