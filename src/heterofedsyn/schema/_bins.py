"""Equal bins over a public range, cut where rules need it; single values (atoms) have own codes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from heterofedsyn._arrays import Floats, Integers

Mask = NDArray[np.bool_]
Values = TypeVar("Values", Integers, Floats)


_AT_AN_EDGE = 1e-8
"""Of a bin: so near to where it begins, a cut moves its beginning and cuts off no sliver."""


def bin_of(offset: Integers | Floats, span: int | float, bins: int) -> Integers:
    """The bin of each distance from the start of the range; the last bin includes its end."""
    if span == 0:
        return np.zeros(len(offset), np.int64)
    codes: Integers = (offset / span * bins + 1e-9).astype(np.int64)
    return np.minimum(codes, bins - 1, out=codes)


@dataclass(frozen=True, eq=False)
class Layout:
    """The order of codes: bins in order, each atom directly before the bin that contains it.

    Where rules cut bins, their parts are bins here.
    """

    bins: int
    atom_bins: Integers

    @property
    def size(self) -> int:
        """How many codes there are."""
        return self.bins + len(self.atom_bins)

    @cached_property
    def code_of_bin(self) -> Integers:
        """The code of each bin."""
        every = np.arange(self.bins)
        return every + np.searchsorted(self.atom_bins, every, side="right")

    @cached_property
    def code_of_atom(self) -> Integers:
        """The code of each atom."""
        return self.atom_bins + np.arange(len(self.atom_bins))

    @cached_property
    def bin_of_code(self) -> Integers:
        """The bin that each code belongs to."""
        bins = np.zeros(self.size, np.int64)
        bins[self.code_of_bin] = np.arange(self.bins)
        bins[self.code_of_atom] = self.atom_bins
        return bins

    @cached_property
    def atom_of_code(self) -> Integers:
        """The position among the atoms of each code that is one, and -1 for the bins."""
        atoms = np.full(self.size, -1)
        atoms[self.code_of_atom] = np.arange(len(self.atom_bins))
        return atoms


@dataclass(frozen=True, eq=False)
class IntegerBins:
    """Codes for the integers of a range; atoms and cuts are sorted and lie inside it.

    Attributes:
        cuts: integers at which a bin ends and the next begins, besides the equal bins.
    """

    low: int
    high: int
    bins: int
    atoms: Integers
    cuts: Integers = field(default_factory=lambda: np.zeros(0, np.int64))

    @cached_property
    def layout(self) -> Layout:
        """The order of codes."""
        return Layout(self.bins + len(self._inner), self.part_of(self.atoms))

    @cached_property
    def _inner(self) -> Integers:
        """The cuts that fall inside an equal bin."""
        inside = self.cuts[(self.cuts > self.low) & (self.cuts <= self.high)]
        bins, before = (
            bin_of(values - self.low, self.high - self.low, self.bins)
            for values in (inside, inside - 1)
        )
        return np.unique(inside[bins == before])

    def part_of(self, values: Integers) -> Integers:
        """The bin of each integer of the range."""
        bins = bin_of(values - self.low, self.high - self.low, self.bins)
        return bins + np.searchsorted(self._inner, values, side="right")

    @cached_property
    def _first(self) -> Integers:
        """The first offset of every bin, and one past the last; found by bisection."""
        span, every = self.high - self.low, np.arange(self.layout.bins)
        below, reached = np.zeros(self.layout.bins, np.int64), np.full(self.layout.bins, span)
        while np.any(below < reached):
            middle = below + (reached - below) // 2
            there = self.part_of(middle + self.low) >= every
            reached = np.where(there, middle, reached)
            below = np.where(there, below, middle + 1)
        return np.append(below, span + 1)

    @property
    def edges(self) -> Integers:
        """The first integer of every bin, and one past the last."""
        return self._first + self.low

    @cached_property
    def free(self) -> Integers:
        """How many integers of every bin are not atoms."""
        atoms = np.bincount(self.layout.atom_bins, minlength=self.layout.bins)
        return np.diff(self._first) - atoms

    @cached_property
    def spans(self) -> tuple[Integers, Integers]:
        """The first and the last integer of every code; those of a bin may be atoms."""
        bins = self.layout.bin_of_code
        first, last = self._first[bins] + self.low, self._first[bins + 1] - 1 + self.low
        return _restored(first, self.atoms, self.layout), _restored(last, self.atoms, self.layout)

    def after(self, value: float) -> float:
        """The next integer, for one of any size."""
        return value + 1

    def codes_in(self, first: float, stop: float) -> Mask:
        """Which codes lie in an interval that begins and ends where bins do."""
        return _codes_in(self, first, stop)

    def encode(self, values: Integers) -> Integers:
        """The code of each integer; one outside the range counts as its nearer end."""
        clamped = np.clip(values, self.low, self.high)
        return _with_atoms(clamped, self.part_of(clamped), self.atoms, self.layout)

    def decode(self, codes: Integers, rng: np.random.Generator) -> Integers:
        """For each code one of its integers, all equally likely."""
        bins = self.layout.bin_of_code[codes]
        offsets = self.atoms - self.low
        # The r-th integer that is no atom lies as many places further as atoms come before it.
        ranks = self._first[bins] - np.searchsorted(offsets, self._first[bins])
        ranks += rng.integers(0, self.free[bins])
        values = ranks + np.searchsorted(offsets - np.arange(len(offsets)), ranks, side="right")
        return _restore_atoms(values + self.low, codes, self.atoms, self.layout)

    def between(self, first: Integers, last: Integers, rng: np.random.Generator) -> Integers:
        """An integer from each interval, all equally likely; both ends count."""
        return rng.integers(first, last, endpoint=True)


@dataclass(frozen=True, eq=False)
class RealBins:
    """Codes for the real numbers of a range; atoms and cuts are sorted and lie inside it.

    Attributes:
        cuts: numbers at which a bin ends and the next begins, besides the equal bins.
    """

    low: float
    high: float
    bins: int
    atoms: Floats
    cuts: Floats = field(default_factory=lambda: np.zeros(0))

    @cached_property
    def layout(self) -> Layout:
        """The order of codes."""
        return Layout(self.bins + len(self._inner), self.part_of(self.atoms))

    @cached_property
    def _starts(self) -> Floats:
        """Where equal bins begin, if a cut says so to the last bit."""
        starts = np.full(self.bins, -np.inf)
        inside = self.cuts[(self.cuts > self.low) & (self.cuts <= self.high)]
        places = (inside - self.low) / (self.high - self.low) * self.bins if inside.size else inside
        bins = bin_of(inside - self.low, self.high - self.low, self.bins)
        there = np.abs(places - bins) <= _AT_AN_EDGE
        starts[bins[there & (bins > 0)]] = inside[there & (bins > 0)]
        return starts

    @cached_property
    def _inner(self) -> Floats:
        """The cuts that fall inside an equal bin."""
        inside = self.cuts[(self.cuts > self.low) & (self.cuts <= self.high)]
        bins, before = (
            self._equal_bin(values) for values in (inside, np.nextafter(inside, -np.inf))
        )
        return np.unique(inside[bins == before])

    def _equal_bin(self, values: Floats) -> Integers:
        bins = bin_of(values - self.low, self.high - self.low, self.bins)
        return bins - (values < self._starts[bins])

    def part_of(self, values: Floats) -> Integers:
        """The bin of each number of the range."""
        return self._equal_bin(values) + np.searchsorted(self._inner, values, side="right")

    @cached_property
    def edges(self) -> Floats:
        """Where bins begin, and the end of the last; exact for cuts, else up to rounding."""
        equal = self.low + np.arange(self.bins + 1) / self.bins * (self.high - self.low)
        moved = np.flatnonzero(np.isfinite(self._starts))
        equal[moved] = self._starts[moved]
        return np.sort(np.concatenate([equal, self._inner]))

    @cached_property
    def inside(self) -> Floats:
        """A number of every bin that is no atom, or NaN where floating point knows none."""
        numbers = np.full(self.layout.bins, np.nan)
        for part in (0.5, *(np.arange(1, 64) / 64)):
            left = np.flatnonzero(np.isnan(numbers))
            values = self._place(left, part)
            good = self.encode(values) == self.layout.code_of_bin[left]
            numbers[left[good]] = values[good]
            if good.all():
                break
        return numbers

    @cached_property
    def spans(self) -> tuple[Floats, Floats]:
        """The first and the last number of every code, to the last bit; found by bisection."""
        every = np.arange(self.layout.bins)
        below = np.full(every.size, _rank(np.array([self.low]))[0])
        reached = np.full(every.size, _rank(np.array([self.high]))[0])
        while np.any(below < reached):
            middle = (below & reached) + ((below ^ reached) >> 1)  # their mean, without overflow
            there = self.part_of(_of_rank(middle)) >= every
            reached = np.where(there, middle, reached)
            below = np.where(there, below, middle + 1)
        starts = _of_rank(below)
        first = starts[self.layout.bin_of_code]
        ends = np.append(np.nextafter(starts[1:], -np.inf), self.high)
        last = ends[self.layout.bin_of_code]
        return _restored(first, self.atoms, self.layout), _restored(last, self.atoms, self.layout)

    def after(self, value: float) -> float:
        """The next number that floating point knows."""
        return math.nextafter(value, math.inf)

    def codes_in(self, first: float, stop: float) -> Mask:
        """Which codes lie in an interval that begins and ends where bins do."""
        return _codes_in(self, first, stop)

    def _place(self, bins: Integers, part: float | Floats) -> Floats:
        """The number that lies a part of the way through each bin."""
        if not len(self._inner):
            values = self.low + (bins + part) / self.bins * (self.high - self.low)
        else:
            values = self.edges[bins] + part * (self.edges[bins + 1] - self.edges[bins])
        return np.clip(values, self.low, self.high)

    def encode(self, values: Floats) -> Integers:
        """The code of each number; one outside the range counts as its nearer end."""
        clamped = np.clip(values, self.low, self.high)
        return _with_atoms(clamped, self.part_of(clamped), self.atoms, self.layout)

    def decode(self, codes: Integers, rng: np.random.Generator) -> Floats:
        """For each code a number drawn uniformly from its bin."""
        bins = self.layout.bin_of_code[codes]
        values = self._place(bins, rng.random(len(codes)))
        # Rounding can carry a number at the very edge into the next bin, or onto an atom.
        astray = np.flatnonzero(self.encode(values) != self.layout.code_of_bin[bins])
        values[astray] = self.inside[bins[astray]]
        return _restore_atoms(values, codes, self.atoms, self.layout)

    def between(self, first: Floats, last: Floats, rng: np.random.Generator) -> Floats:
        """A number from each interval, drawn uniformly; both ends count."""
        return np.clip(first + rng.random(len(first)) * (last - first), first, last)


def _codes_in(grid: IntegerBins | RealBins, first: float, stop: float) -> Mask:
    layout = grid.layout

    def begins(end: float) -> int:
        """The first bin that is not before an end."""
        if end <= grid.low:
            return 0
        kind = np.int64 if isinstance(grid, IntegerBins) else np.float64
        return layout.bins if end > grid.high else int(grid.part_of(np.array([end], kind))[0])

    bins = np.arange(layout.bins)
    inside = np.zeros(layout.size, np.bool_)
    inside[layout.code_of_bin] = (bins >= begins(first)) & (bins < begins(stop))
    inside[layout.code_of_atom] = (grid.atoms >= first) & (grid.atoms < stop)
    return inside


def _rank(numbers: Floats) -> Integers:
    """Integers in the order of the numbers, so that floating point can be bisected."""
    bits = (numbers + 0.0).view(np.int64)  # no negative zero
    return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)


def _of_rank(ranks: Integers) -> Floats:
    bits = np.where(ranks < 0, np.iinfo(np.int64).min - ranks, ranks)
    numbers: Floats = bits.view(np.float64)
    return numbers


def _with_atoms(values: Values, bins: Integers, atoms: Values, layout: Layout) -> Integers:
    if not len(atoms):
        return bins
    nearest = np.minimum(np.searchsorted(atoms, values), len(atoms) - 1)
    exact = atoms[nearest] == values
    return np.where(exact, layout.code_of_atom[nearest], layout.code_of_bin[bins])


def _restore_atoms(values: Values, codes: Integers, atoms: Values, layout: Layout) -> Values:
    atom = layout.atom_of_code[codes]
    values[atom >= 0] = atoms[atom[atom >= 0]]
    return values


def _restored(values: Values, atoms: Values, layout: Layout) -> Values:
    return _restore_atoms(values, np.arange(layout.size), atoms, layout)
