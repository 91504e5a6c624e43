"""What a synthesizer works with: non-negative tables of one total, on groups of values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from heterofedsyn._arrays import Codes, Floats, Integers, frozen
from heterofedsyn.schema import Clique, Domain, EncodedTable, Schema
from heterofedsyn.synthesis.refine import SMALLEST_SHARE, refine


def missing_apart(schema: Schema, groups: dict[str, Integers]) -> dict[str, bool]:
    """For every ordered attribute, whether its last group stands for missing values alone."""
    apart = {}
    for column in schema.measured:
        own = groups[column.name]
        if column.ordered:
            apart[column.name] = column.nullable and own.size > 1 and bool(own[-1] != own[-2])
    return apart


@dataclass(frozen=True, eq=False)
class Estimates:
    """The best guess of a population after noise was dealt with.

    Attributes:
        total: the number of records that all tables add up to.
        values: every attribute's 1-way over its values.
        groups: for every attribute the group number of each value.
        singles: every attribute's 1-way over its groups.
        pairs: the measured pairs over groups, fitted to the singles.
    """

    schema: Schema
    total: float
    values: dict[str, Floats]
    groups: dict[str, Integers]
    singles: dict[str, Floats]
    pairs: dict[Clique, Floats]

    @property
    def domain(self) -> Domain:
        """The attributes with all their values."""
        return self.schema.domain

    @property
    def label(self) -> str | None:
        """The attribute that a downstream model predicts."""
        return self.schema.label

    @cached_property
    def grid(self) -> Domain:
        """The attributes with groups for values."""
        return Domain(self.domain.names, tuple(self.singles[n].size for n in self.domain.names))

    @cached_property
    def residuals(self) -> dict[Clique, float]:
        """How far each pair is from independence; pairs whose dependence is left only."""
        weights = {}
        for pair, table in self.pairs.items():
            apart = table - np.outer(self.singles[pair[0]], self.singles[pair[1]]) / self.total
            weight = float(np.linalg.norm(apart)) / self.total
            if weight > 1e-6:
                weights[pair] = weight
        return weights

    def fitted(self, name: str) -> Floats:
        """An attribute's 1-way over its values as rows have it: its groups hold their singles."""
        values, groups = self.values[name] + SMALLEST_SHARE, self.groups[name]
        return values * (self.singles[name] / np.bincount(groups, values))[groups]

    def table(self, first: str, second: str) -> Floats:
        """A pair's table with the rows of the first attribute, whichever way it is stored."""
        pair = self.domain.clique(first, second)
        return self.pairs[pair] if pair[0] == first else self.pairs[pair].T

    def refine(self, codes: Codes, rng: np.random.Generator) -> EncodedTable:
        """Rows of groups become rows of values, in proportion to the 1-ways over values."""
        names = self.domain.names
        columns = refine(
            codes,
            [self.groups[name] for name in names],
            [self.values[name] for name in names],
            {
                names.index(name): apart
                for name, apart in missing_apart(self.schema, self.groups).items()
            },
            rng,
        )
        return EncodedTable.from_codes(self.domain, frozen(np.stack(columns)))
