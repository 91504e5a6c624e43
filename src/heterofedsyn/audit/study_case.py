"""A study of somebody's own, as it is audited: on rows that are invented by its schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from heterofedsyn._arrays import Integers, stream
from heterofedsyn.audit.cases import Case
from heterofedsyn.hub import make_method
from heterofedsyn.protocol import Plan, Study
from heterofedsyn.schema import (
    CategoricalColumn,
    EncodedTable,
    IntegerColumn,
    NumberColumn,
    Schema,
    decode,
    encode,
)

if TYPE_CHECKING:
    import pyarrow as pa

_TRIED = 200
"""Invented rows that are tried for a corner that breaks a rule."""

_ROWS = 30_000
_FAR = 10**6
"""How far beyond a range a value may be."""


@dataclass(frozen=True, kw_only=True)
class StudyCase(Case):
    """The study in a file, with rows that are made up by its schema."""

    study: Study = field(repr=False)

    @classmethod
    def of(cls, study: Study) -> StudyCase:
        """The case of a study.

        Raises:
            UsageError: if nobody here knows its method.
        """
        plan = study.plan
        make_method(plan.method, plan.settings)
        return cls(
            plan.method,
            dict(plan.settings),
            label=study.public.label,
            trust=plan.trust,
            rows_per_unit=plan.rows_per_unit,
            epsilon=plan.epsilon,
            delta=plan.delta,
            study=study,
        )

    @property
    def name(self) -> str:
        """The study in words."""
        return f"your study: {self.method}, {self.trust}"

    @property
    def unit(self) -> str | None:
        """The column that tells people apart."""
        return self.study.plan.unit

    @property
    def public(self) -> Schema:
        """The public schema."""
        return self.study.public

    @property
    def encoding(self) -> Schema:
        """The schema by which sites encode."""
        return self.study.encoding

    def plan(self, seed: int) -> Plan:
        """The plan of the study, whatever the seed: it is the one that was agreed on."""
        return self.study.plan

    @property
    def rows(self) -> int:
        """So many that a usual budget is enough to measure pairs."""
        return _ROWS

    @cached_property
    def corners(self) -> tuple[dict[str, object], dict[str, object]]:
        """The record of all first codes, and of all last ones; other ones where rules forbid it."""
        sizes = np.array(self.encoding.domain.sizes)
        rows = self._rows(np.stack([0 * sizes, sizes - 1], axis=1), 0)
        others = self.people(_TRIED, 0)
        first, last = (
            next((row for row in (corner, *others.to_pylist()) if self._fits(row, rows)), corner)
            for corner in rows.to_pylist()
        )
        return first, last

    @property
    def canaries(self) -> dict[str, dict[str, object]]:
        """Records that stand out, as far as the schema has columns for them."""
        first, last = self.corners
        missing = {column.name: None for column in self.public.columns if column.nullable}
        beyond: dict[str, object] = {
            column.name: column.max + _FAR
            for column in self.public.columns
            if isinstance(column, IntegerColumn | NumberColumn)
        }
        unknown: dict[str, object] = {
            column.name: "unknown to the schema"
            for column in self.public.columns
            if isinstance(column, CategoricalColumn)
        }
        made = {"the first cell": first, "all rare": last}
        if missing:
            made["nulls"] = {**first, **missing}
        if beyond:
            made["beyond the range"] = {**last, **beyond}
        if unknown:
            made["a row that does not fit"] = {**last, **unknown}
        return made

    def people(self, rows: int, seed: int) -> pa.Table:
        """Invented rows that lean the same way in all columns, two of each person."""
        import pyarrow as pa

        rng = stream(seed, "people of a study")
        lean = rng.random(rows)
        codes = [
            np.clip(size * (lean + 0.3 * rng.standard_normal(rows)), 0, size - 1)
            for size in self.encoding.domain.sizes
        ]
        made = self._rows(np.stack(codes).astype(np.int64), seed)
        if self.unit is None:
            return made
        return made.append_column(self.unit, pa.array([f"p{i // 2}" for i in range(rows)]))

    def person(self, rows: Sequence[dict[str, object]], like: pa.Table) -> pa.Table:
        """One more person with these rows."""
        import pyarrow as pa

        own = {} if self.unit is None else {self.unit: "the canary"}
        return pa.Table.from_pylist([{**row, **own} for row in rows], like.schema)

    def _fits(self, row: dict[str, object], like: pa.Table) -> bool:
        """Whether a site counts this row."""
        import pyarrow as pa

        alone = pa.Table.from_pylist([row], like.schema)
        return encode(self.encoding, alone.to_batches()).table.rows == 1

    def _rows(self, codes: Integers, seed: int) -> pa.Table:
        """Rows with these codes, one column of them for each row."""
        table = EncodedTable.from_codes(self.encoding.domain, codes)
        return decode(self.encoding, table, stream(seed, "values of a study"))
