"""What a site can be asked for: each statistic knows its size, its sensitivity and its counts.

A site derives all three from the query and its own schema, so that nothing a hub says about them
matters. To add a kind of release, add a class here and name it in `Statistic`.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
import numpy as np

from heterofedsyn._arrays import Integers
from heterofedsyn.errors import ProtocolError
from heterofedsyn.marginals.counting import Counts
from heterofedsyn.marginals.sketch import Sketch, SketchKind
from heterofedsyn.schema import Clique, Domain

MOST_CELLS = 2**24
MOST_WIDTH = 4096
MOST_ENTRIES = 2**27
"""Limits of one statistic, so that no query can exhaust a site's memory."""


class Flat(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="flat"):
    """Every count of one attribute or of a pair, zeros included."""

    attributes: Clique

    def check(self, domain: Domain) -> None:
        """Refuse what is no clique of the domain or too large to answer."""
        _check_clique(self.attributes, domain, most=2)

    def cliques(self) -> tuple[Clique, ...]:
        """The exact marginals it is made from."""
        return (self.attributes,)

    def integers(self, domain: Domain) -> int:
        """How many integers are released."""
        return domain.cells(self.attributes)

    def sensitivity(self, domain: Domain) -> float:
        """How far one record can move the release (L2)."""
        return 1.0

    def exact(self, counts: Counts) -> Integers:
        """The un-noised integers."""
        return counts.of(self.attributes)


class Sketched(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="sketch"):
    """A random projection of a pair's counts."""

    attributes: Clique
    width: int
    seed: int
    kind: SketchKind = SketchKind.SIGNS

    def check(self, domain: Domain) -> None:
        _check_clique(self.attributes, domain, most=2)
        if not 1 <= self.width <= MOST_WIDTH:
            raise ProtocolError(f"sketch width {self.width} must be in 1..{MOST_WIDTH}")
        if self.width * domain.cells(self.attributes) > MOST_ENTRIES:
            raise ProtocolError(
                f"a sketch of width {self.width} is too large for pair {self.attributes}; "
                "take fewer bins or a smaller width"
            )

    def cliques(self) -> tuple[Clique, ...]:
        return (self.attributes,)

    def integers(self, domain: Domain) -> int:
        return self.width

    def sensitivity(self, domain: Domain) -> float:
        return self.sketch(domain).sensitivity

    def exact(self, counts: Counts) -> Integers:
        return self.sketch(counts.domain).count(counts.of(self.attributes))

    def sketch(self, domain: Domain) -> Sketch:
        """The projection itself."""
        return Sketch.draw(domain, self.attributes, self.width, self.seed, self.kind)


class Dependence(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="dependence"):
    """PrivSyn's n InDif of a pair, sum |C - A B / n|, in units of 1 / 1024; MATH section 4."""

    attributes: Clique

    def check(self, domain: Domain) -> None:
        _check_clique(self.attributes, domain, most=2)
        if len(self.attributes) != 2:
            raise ProtocolError("a dependence score belongs to a pair of attributes")

    def cliques(self) -> tuple[Clique, ...]:
        return (self.attributes,)

    def integers(self, domain: Domain) -> int:
        return 1

    def sensitivity(self, domain: Domain) -> float:
        # The sum moves by at most 4 when a record comes or goes; rounding adds at most 1.
        return 4 * UNITS_PER_COUNT + 1.0

    def exact(self, counts: Counts) -> Integers:
        joint = counts.of(self.attributes).reshape(counts.domain.shape(self.attributes))
        rows, columns, total = joint.sum(axis=1), joint.sum(axis=0), int(joint.sum())
        apart = np.abs(joint - np.outer(rows, columns) / max(1, total)).sum()
        return np.array([round(UNITS_PER_COUNT * float(apart))], dtype=np.int64)


UNITS_PER_COUNT = 1024
"""A dependence score is released in this many units per count."""

Statistic: TypeAlias = Flat | Sketched | Dependence


def _check_clique(clique: Clique, domain: Domain, most: int) -> None:
    if not 1 <= len(clique) <= most:
        raise ProtocolError(f"a statistic is of 1 to {most} attributes, not {len(clique)}")
    unknown = [name for name in clique if name not in domain.names]
    if unknown:
        raise ProtocolError(f"there is no attribute {unknown[0]!r} in this schema")
    if domain.clique(*clique) != clique:
        raise ProtocolError(f"attributes {clique} must be distinct and in schema order")
    if domain.cells(clique) > MOST_CELLS:
        raise ProtocolError(
            f"the table of {clique} has {domain.cells(clique):,} cells, more than {MOST_CELLS:,}; "
            "take fewer bins"
        )
