"""What a site can be asked for: each statistic knows its size, its sensitivity and its counts.

A site derives all three from the query and its own schema, so that nothing a hub says about them
matters. To add a kind of release, add a class here and name it in `Statistic`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, TypeAlias

import msgspec
import numpy as np

from heterofedsyn._arrays import Exact, Floats, Integers
from heterofedsyn.errors import ProtocolError
from heterofedsyn.marginals.counts import MOST_MAPS, TRIPLES, Counts, View, whole
from heterofedsyn.marginals.sketch import Sketch, SketchKind, largest_norm
from heterofedsyn.schema import Clique, Domain

MOST_CELLS = 2**24
MOST_WIDTH = 4096
MOST_ENTRIES = 2**27
"""Limits of one statistic, so that no query can exhaust a site's memory."""

_GAUSSIAN_COST = 4
"""What a Gaussian entry weighs in work. Drawing one takes 26 to 60 times as long as a sign, and
of these a query may ask for a fraction of a second; so, the heaviest takes seconds, and all
pairs of a usual table have room."""


class _Kind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What most kinds of statistic have in common: one record moves one of the integers."""

    partitions: ClassVar[bool] = False
    """Whether every row adds one to exactly one of the integers: none is negative then, and they
    add up to the number of rows."""

    attributes: Clique

    @property
    def tells_total(self) -> bool:
        """Whether the number of rows is told by it: by the total and 1-ways, not by pairs."""
        return self.partitions and len(self.attributes) < 2

    @property
    def level(self) -> int | None:
        """Which level of halving it is of, if it is of one."""
        return None

    def views(self) -> tuple[View, ...]:
        """The exact marginals it is made from."""
        return (whole(self.attributes),)

    def work(self, domain: Domain) -> int:
        """How many cells it takes to answer."""
        return domain.cells(self.attributes)

    def sensitivity(self, domain: Domain) -> float:
        """How far one record can move the release (L2); each kind says it."""
        raise NotImplementedError

    def moved(self, domain: Domain) -> int:
        """How many of the integers one record can move."""
        return 1

    def l1(self, domain: Domain) -> float:
        """How far one record can move them in all (L1)."""
        return self.sensitivity(domain)

    def most_sensitivity(self, domain: Domain) -> float:
        """No less than the sensitivity, known without any work."""
        return self.sensitivity(domain)


class Flat(_Kind, frozen=True, forbid_unknown_fields=True, tag="flat"):
    """Every count of one attribute or of a pair, zeros included."""

    partitions: ClassVar[bool] = True

    def check(self, domain: Domain) -> None:
        """Refuse what is no clique of the domain or too large to answer."""
        _check_clique(self.attributes, domain, most=2)

    def integers(self, domain: Domain) -> int:
        """How many integers are released."""
        return domain.cells(self.attributes)

    def sensitivity(self, domain: Domain) -> float:
        """How far one record can move the release (L2)."""
        return 1.0

    def exact(self, counts: Counts) -> Exact:
        """The un-noised integers."""
        return Exact(counts.of(whole(self.attributes)))

    def scale(self, domain: Domain) -> float:
        """What turns its integers into a projection that keeps squared length."""
        return 1.0

    def project(self, table: Floats, domain: Domain) -> Floats:
        """What it would tell of any table, in that scale."""
        return table.ravel()


class Sketched(_Kind, frozen=True, forbid_unknown_fields=True, tag="sketch"):
    """A random projection of a pair's counts."""

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

    def integers(self, domain: Domain) -> int:
        return self.width

    def work(self, domain: Domain) -> int:
        cost = _GAUSSIAN_COST if self.kind is SketchKind.GAUSSIAN else 1
        return cost * domain.cells(self.attributes) * self.width

    def sensitivity(self, domain: Domain) -> float:
        return self._lengths(domain)[0]

    def moved(self, domain: Domain) -> int:
        return self.width

    def l1(self, domain: Domain) -> float:
        return float(self._lengths(domain)[1])

    def most_sensitivity(self, domain: Domain) -> float:
        return largest_norm(self.width, self.kind)

    def exact(self, counts: Counts) -> Exact:
        return Exact(self.sketch(counts.domain).count(counts.of(whole(self.attributes))))

    def scale(self, domain: Domain) -> float:
        return self.sketch(domain).scale

    def project(self, table: Floats, domain: Domain) -> Floats:
        return self.sketch(domain).project(table)

    def sketch(self, domain: Domain) -> Sketch:
        """The projection itself."""
        return Sketch.draw(domain, self.attributes, self.width, self.seed, self.kind)

    def _lengths(self, domain: Domain) -> tuple[float, int]:
        return Sketch.lengths(domain, self.attributes, self.width, self.seed, self.kind)


class Dependence(_Kind, frozen=True, forbid_unknown_fields=True, tag="dependence"):
    """PrivSyn's n InDif of a pair, sum |C - A B / n|, in units of 1 / 1024; MATH section 4."""

    def check(self, domain: Domain) -> None:
        _check_clique(self.attributes, domain, most=2)
        if len(self.attributes) != 2:
            raise ProtocolError("a dependence score belongs to a pair of attributes")

    def integers(self, domain: Domain) -> int:
        return 1

    def sensitivity(self, domain: Domain) -> float:
        # The sum moves by at most 4 when a record comes or goes; rounding adds at most 1.
        return 4 * UNITS_PER_COUNT + 1.0

    def exact(self, counts: Counts) -> Exact:
        from heterofedsyn.marginals._exact_kernel import distance

        joint = counts.of(whole(self.attributes)).reshape(counts.domain.shape(self.attributes))
        total = int(joint.sum())
        # 2 n^2 need not fit 64 bits; whether it does must not show in the time it takes.
        high, low = distance(joint, joint.sum(axis=1), joint.sum(axis=0))
        apart = (int(high) << 64) + int(low)
        rounded = (2 * UNITS_PER_COUNT * apart + total) // max(1, 2 * total)
        return Exact(np.array([rounded], dtype=np.int64))


class Total(_Kind, frozen=True, forbid_unknown_fields=True, tag="total"):
    """The number of rows."""

    partitions: ClassVar[bool] = True

    attributes: tuple[()] = ()

    def check(self, domain: Domain) -> None:
        """There is nothing to refuse."""

    def views(self) -> tuple[View, ...]:
        return ()

    def integers(self, domain: Domain) -> int:
        return 1

    def work(self, domain: Domain) -> int:
        return 1

    def sensitivity(self, domain: Domain) -> float:
        return 1.0

    def exact(self, counts: Counts) -> Exact:
        return Exact(np.array([counts.rows], dtype=np.int64))


class Haar(_Kind, frozen=True, forbid_unknown_fields=True, tag="haar"):
    """Left-minus-right differences of one attribute at one level of halving; level 0 is the root.

    Values are padded to a power of two; a record lies in one node of a level, so it moves one
    difference by 1.
    """

    attributes: tuple[str]
    level: int

    def check(self, domain: Domain) -> None:
        _check_clique(self.attributes, domain, most=1)
        if not 0 <= self.level < haar_levels(domain.size(self.attributes[0])):
            raise ProtocolError(f"attribute {self.attributes[0]!r} has no level {self.level}")

    def integers(self, domain: Domain) -> int:
        return 1 << self.level

    def work(self, domain: Domain) -> int:
        return 2 * domain.cells(self.attributes)

    def sensitivity(self, domain: Domain) -> float:
        return 1.0

    def exact(self, counts: Counts) -> Exact:
        return Exact(haar_differences(counts.of(whole(self.attributes)), self.level))


class Grouped(_Kind, frozen=True, forbid_unknown_fields=True, tag="grouped"):
    """Counts of one to three attributes after merging values by public maps: a group per value.

    Of three only where the plan of the study says so.
    """

    partitions: ClassVar[bool] = True

    groups: tuple[tuple[int, ...], ...]

    def check(self, domain: Domain) -> None:
        _check_clique(self.attributes, domain, most=TRIPLES, cells=False)
        if len(self.groups) != len(self.attributes):
            raise ProtocolError(f"{self.attributes} cannot have {len(self.groups)} maps")
        for name, groups in zip(self.attributes, self.groups, strict=True):
            size = domain.size(name)
            if len(groups) != size:
                raise ProtocolError(f"the map of {name!r} has {len(groups)} values, not {size}")
            if min(groups) < 0 or max(groups) >= size:
                raise ProtocolError(f"the map of {name!r} names a group outside 0..{size - 1}")
        if self.integers(domain) > MOST_CELLS:
            raise ProtocolError(f"the grouped table of {self.attributes} has too many cells")

    def views(self) -> tuple[View, ...]:
        return (tuple(zip(self.attributes, self.groups, strict=True)),)

    def integers(self, domain: Domain) -> int:
        return math.prod(self.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many groups each attribute has."""
        return tuple(max(groups) + 1 for groups in self.groups)

    def work(self, domain: Domain) -> int:
        return self.integers(domain) + sum(len(groups) for groups in self.groups)

    def sensitivity(self, domain: Domain) -> float:
        return 1.0

    def exact(self, counts: Counts) -> Exact:
        return Exact(counts.of(self.views()[0]))


def haar_levels(size: int) -> int:
    """How often so many values can be halved."""
    return (size - 1).bit_length()


def haar_differences(counts: Integers, level: int) -> Integers:
    """Left minus right in every node of a level of halving, the values padded to a power of two."""
    padded = np.zeros(1 << haar_levels(counts.size), dtype=np.int64)
    padded[: counts.size] = counts
    halves = padded.reshape(1 << level, 2, -1).sum(axis=2)
    differences: Integers = halves[:, 0] - halves[:, 1]
    return differences


UNITS_PER_COUNT = 1024
"""A dependence score is released in this many units per count."""

Statistic: TypeAlias = Flat | Sketched | Dependence | Total | Haar | Grouped


def _check_clique(clique: Clique, domain: Domain, most: int, *, cells: bool = True) -> None:
    if not 1 <= len(clique) <= most:
        raise ProtocolError(f"a statistic is of 1 to {most} attributes, not {len(clique)}")
    unknown = [name for name in clique if name not in domain.names]
    if unknown:
        raise ProtocolError(f"there is no attribute {unknown[0]!r} in this schema")
    if domain.clique(*clique) != clique:
        raise ProtocolError(f"attributes {clique} must be distinct and in schema order")
    if cells and domain.cells(clique) > MOST_CELLS:
        raise ProtocolError(
            f"the table of {clique} has {domain.cells(clique):,} cells, more than {MOST_CELLS:,}; "
            "take fewer bins"
        )


def works(statistics: Sequence[Statistic], domain: Domain) -> list[int]:
    """How many cells each takes to answer; many maps of a clique are added up from its table."""
    times = Counter(statistic.attributes for statistic in statistics)

    def added_up(statistic: Statistic) -> bool:
        merged = any(groups is not None for view in statistic.views() for _, groups in view)
        return merged and times[statistic.attributes] > MOST_MAPS

    return [
        statistic.work(domain) + added_up(statistic) * domain.cells(statistic.attributes)
        for statistic in statistics
    ]


def moves(statistic: Statistic, domain: Domain, rows: int) -> tuple[int, float]:
    """How many integers one person with so many rows can move, and how far in all (L1).

    >>> moves(Flat(("a",)), Domain(("a",), (3,)), 2), moves(Flat(("a",)), Domain(("a",), (3,)), 9)
    ((2, 2.0), (3, 9.0))
    """
    many = min(rows * statistic.moved(domain), statistic.integers(domain))
    return many, rows * statistic.l1(domain)


def kind_of(statistic: Statistic) -> str:
    """What messages and statements call a kind of statistic.

    >>> kind_of(Total())
    'total'
    """
    return str(statistic.__struct_config__.tag)
