"""What a synthesizer works with: non-negative tables of one total, on groups of values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from heterofedsyn._arrays import Codes, Floats, Integers, frozen
from heterofedsyn.schema import Clique, Domain, EncodedTable, Schema
from heterofedsyn.synthesis.refine import SMALLEST_SHARE, refine
from heterofedsyn.synthesis.triples import Triple, fitted, joint_of


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
        triples: what is known of pairs and the label beyond what each two of the three tell.
    """

    schema: Schema
    total: float
    values: dict[str, Floats]
    groups: dict[str, Integers]
    singles: dict[str, Floats]
    pairs: dict[Clique, Floats]
    triples: Mapping[Clique, Triple] = field(default_factory=dict)

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

    def believed(self, first: str, second: str) -> Floats:
        """The same, or independence where the pair was not measured."""
        if self.domain.clique(first, second) in self.pairs:
            return self.table(first, second)
        independent: Floats = np.outer(self.singles[first], self.singles[second]) / self.total
        return independent

    def joint(self, first: str, second: str) -> Floats:
        """What pairs tell of the label and two others, in this order."""
        return joint_of(*self._three(first, second))

    def told(self, first: str, second: str) -> Floats | None:
        """The same with what was measured beyond pairs; None if nothing was."""
        pair = self.domain.clique(first, second)
        if pair not in self.triples:
            return None
        triple = self.triples[pair] if pair[0] == first else self.triples[pair].turned
        three = self._three(first, second)
        return fitted(triple.lifted(joint_of(*three)), *three)

    def _three(self, first: str, second: str) -> tuple[Floats, Floats, Floats]:
        assert self.label is not None
        others = self.believed(self.label, first), self.believed(self.label, second)
        return *others, self.believed(first, second)

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
