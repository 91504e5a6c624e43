"""Equal bins over a public range, with codes of their own for single values (atoms)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from heterofedsyn._arrays import Floats, Integers

Values = TypeVar("Values", Integers, Floats)


def bin_of(offset: Integers | Floats, span: int | float, bins: int) -> Integers:
    """The bin of each distance from the start of the range; the last bin includes its end."""
    if span == 0:
        return np.zeros(len(offset), np.int64)
    codes: Integers = (offset / span * bins + 1e-9).astype(np.int64)
    return np.minimum(codes, bins - 1, out=codes)


@dataclass(frozen=True, eq=False)
class Layout:
    """The order of codes: bins in order, each atom directly before the bin that contains it."""

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
    """Codes for the integers of a range; atoms are sorted and lie inside it."""

    low: int
    high: int
    bins: int
    atoms: Integers

    @cached_property
    def layout(self) -> Layout:
        """The order of codes."""
        return Layout(self.bins, bin_of(self.atoms - self.low, self.high - self.low, self.bins))

    @cached_property
    def _first(self) -> Integers:
        """The first offset of every bin, and one past the last; found by bisection."""
        span, every = self.high - self.low, np.arange(self.bins)
        below, reached = np.zeros(self.bins, np.int64), np.full(self.bins, span)
        while np.any(below < reached):
            middle = below + (reached - below) // 2
            there = bin_of(middle, span, self.bins) >= every
            reached = np.where(there, middle, reached)
            below = np.where(there, below, middle + 1)
        return np.append(below, span + 1)

    @cached_property
    def free(self) -> Integers:
        """How many integers of every bin are not atoms."""
        atoms = np.bincount(self.layout.atom_bins, minlength=self.bins)
        return np.diff(self._first) - atoms

    def encode(self, values: Integers) -> Integers:
        """The code of each integer; one outside the range counts as its nearer end."""
        clamped = np.clip(values, self.low, self.high)
        bins = bin_of(clamped - self.low, self.high - self.low, self.bins)
        return _with_atoms(clamped, bins, self.atoms, self.layout)

    def decode(self, codes: Integers, rng: np.random.Generator) -> Integers:
        """For each code one of its integers, all equally likely."""
        bins = self.layout.bin_of_code[codes]
        offsets = self.atoms - self.low
        # The r-th integer that is no atom lies as many places further as atoms come before it.
        ranks = self._first[bins] - np.searchsorted(offsets, self._first[bins])
        ranks += rng.integers(0, self.free[bins])
        values = ranks + np.searchsorted(offsets - np.arange(len(offsets)), ranks, side="right")
        return _restore_atoms(values + self.low, codes, self.atoms, self.layout)


@dataclass(frozen=True, eq=False)
class RealBins:
    """Codes for the real numbers of a range; atoms are sorted and lie inside it."""

    low: float
    high: float
    bins: int
    atoms: Floats

    @cached_property
    def layout(self) -> Layout:
        """The order of codes."""
        return Layout(self.bins, bin_of(self.atoms - self.low, self.high - self.low, self.bins))

    @cached_property
    def inside(self) -> Floats:
        """A number of every bin that is no atom, or NaN where floating point knows none."""
        numbers = np.full(self.bins, np.nan)
        for part in (0.5, *(np.arange(1, 64) / 64)):
            left = np.flatnonzero(np.isnan(numbers))
            values = self._place(left, part)
            good = self.encode(values) == self.layout.code_of_bin[left]
            numbers[left[good]] = values[good]
            if good.all():
                break
        return numbers

    def _place(self, bins: Integers, part: float | Floats) -> Floats:
        """The number that lies a part of the way through each bin."""
        values = self.low + (bins + part) / self.bins * (self.high - self.low)
        return np.clip(values, self.low, self.high)

    def encode(self, values: Floats) -> Integers:
        """The code of each number; one outside the range counts as its nearer end."""
        clamped = np.clip(values, self.low, self.high)
        bins = bin_of(clamped - self.low, self.high - self.low, self.bins)
        return _with_atoms(clamped, bins, self.atoms, self.layout)

    def decode(self, codes: Integers, rng: np.random.Generator) -> Floats:
        """For each code a number drawn uniformly from its bin."""
        bins = self.layout.bin_of_code[codes]
        values = self._place(bins, rng.random(len(codes)))
        # Rounding can carry a number at the very edge into the next bin, or onto an atom.
        astray = np.flatnonzero(self.encode(values) != self.layout.code_of_bin[bins])
        values[astray] = self.inside[bins[astray]]
        return _restore_atoms(values, codes, self.atoms, self.layout)


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
