"""Names and sizes of the attributes, and the order in which they appear everywhere."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from heterofedsyn.errors import SchemaError, UsageError, did_you_mean

Clique: TypeAlias = tuple[str, ...]
"""Names of attributes in domain order; made by `Domain.clique`."""


@dataclass(frozen=True)
class Domain:
    """The attributes of a table and how many values each has.

    >>> domain = Domain(("age", "ward"), (10, 4))
    >>> domain.clique("ward", "age"), domain.cells(("age", "ward"))
    (('age', 'ward'), 40)
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.names) != len(self.sizes):
            raise SchemaError(f"{len(self.names)} attributes but {len(self.sizes)} sizes")
        if len(self._position) != len(self.names):
            raise SchemaError("two attributes have the same name")

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def _position(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def index(self, name: str) -> int:
        """Where an attribute stands in the domain."""
        try:
            return self._position[name]
        except KeyError:
            raise UsageError(
                f"there is no attribute {name!r}; {did_you_mean(name, self.names)}"
            ) from None

    def size(self, name: str) -> int:
        """How many values an attribute has."""
        return self.sizes[self.index(name)]

    def clique(self, *names: str) -> Clique:
        """The named attributes in domain order, each once."""
        positions = sorted({self.index(name) for name in names})
        return tuple(self.names[i] for i in positions)

    def shape(self, clique: Iterable[str]) -> tuple[int, ...]:
        """Sizes of the attributes of a clique."""
        return tuple(self.size(name) for name in clique)

    def cells(self, clique: Iterable[str]) -> int:
        """How many cells the marginal of a clique has."""
        return math.prod(self.shape(clique))

    def singles(self) -> tuple[Clique, ...]:
        """Every attribute as a clique of its own."""
        return tuple((name,) for name in self.names)

    def pairs(self) -> tuple[Clique, ...]:
        """Every pair of attributes."""
        return tuple(itertools.combinations(self.names, 2))
