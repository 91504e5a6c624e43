"""Which pairs of a schema could be measured, which must be, and which need a score first."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from heterofedsyn.hub.methods.forced import asked_pairs, ruled_pairs
from heterofedsyn.hub.methods.grouping import most_groups
from heterofedsyn.schema import Clique, Schema


@dataclass(frozen=True)
class OpenPairs:
    """The pairs of a schema, by what is known of them before any answer.

    Attributes:
        measure: those that somebody asks for, as `forced.read_pairs` reads them.
    """

    schema: Schema
    measure: str = ""

    @cached_property
    def asked(self) -> tuple[Clique, ...]:
        """Those that somebody asks for.

        Raises:
            UsageError: if one of them cannot be measured.
        """
        return asked_pairs(self.schema, self.measure)

    @cached_property
    def forced(self) -> tuple[Clique, ...]:
        """Pairs that are measured where any are, those with the label included."""
        ruled = (pair for pair in ruled_pairs(self.schema) if pair not in self.asked)
        return *self.asked, *ruled

    @cached_property
    def every(self) -> tuple[Clique, ...]:
        """Pairs that could be measured: a column with one value can depend on nothing."""
        names = [column.name for column in self.schema.measured if column.size > 1]
        return tuple(itertools.combinations(names, 2))

    @cached_property
    def scored(self) -> tuple[Clique, ...]:
        """Those that are measured only if a score says so."""
        return tuple(
            pair for pair in self.every if self.schema.label not in pair and pair not in self.forced
        )

    @cached_property
    def beside_label(self) -> tuple[Clique, ...]:
        """Pairs that could be measured with the label: none without one, or if it has one value."""
        label = self.schema.label
        if label is None or self.schema.column(label).size < 2:
            return ()
        return tuple(pair for pair in self.every if label not in pair)

    def most_cells(self, pairs: Sequence[Clique], groups: float) -> list[int]:
        """The most cells that each of these pairs has with so many groups per attribute."""
        schema = self.schema
        most = {column.name: most_groups(schema, column, groups) for column in schema.measured}
        return [most[first] * most[second] for first, second in pairs]
