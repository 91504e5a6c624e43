"""Nulls, ranges, categories and types of the synthetic table, checked against schema and model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from heterofedsyn._words import count, percent
from heterofedsyn.hub.release import Release
from heterofedsyn.hub.release.synthetic import SyntheticRows
from heterofedsyn.report.bars import released_counts
from heterofedsyn.report.blocks import Block, Section, Table, Text, Warn
from heterofedsyn.schema import (
    CategoricalColumn,
    Column,
    DateColumn,
    DatetimeColumn,
    Encoder,
    IntegerColumn,
    NumberColumn,
    Schema,
)

if TYPE_CHECKING:
    import pyarrow as pa

TITLE = "Missing values and constraints"


@dataclass(frozen=True)
class Checked:
    """What became of one column of the synthetic table."""

    name: str
    found_type: str
    right_type: bool
    nulls: int
    unexpected: int
    """Nulls where none are allowed."""
    outside: int
    """Values beyond the range or list of the schema."""

    def and_more(self, other: Checked) -> Checked:
        """The same column with more rows."""
        return replace(
            self,
            right_type=self.right_type and other.right_type,
            nulls=self.nulls + other.nulls,
            unexpected=self.unexpected + other.unexpected,
            outside=self.outside + other.outside,
        )

    @property
    def good(self) -> bool:
        """Whether the column keeps all that the schema says."""
        return self.right_type and not self.unexpected and not self.outside


def check_section(release: Release, rows: SyntheticRows | None) -> Section:
    """The synthetic rows that lie in the release folder, column by column.

    Nothing is said of a file that the model does not vouch for: it could be somebody's real rows.
    """
    if rows is None:
        words = "The folder holds no synthetic.parquet, so there are no rows to check."
        return Section("checks", TITLE, (Text(words),))
    if not rows.vouched:
        words = (
            "The model does not say which synthetic.parquet belongs to it (older versions of the "
            "software did not write it down), so nothing of that file is on this page."
        )
        return Section("checks", TITLE, (Warn(words),))
    names = [column.name for column in release.schema.columns]
    if rows.schema.names != names:
        words = "The columns of synthetic.parquet are not those of the schema, or in another order."
        return Section("checks", TITLE, (Warn(words),))
    checked = _check_all(release.schema.columns, rows)
    many = rows.number
    bad = [each.name for each in checked if not each.good]
    verdict: Block = (
        Warn(f"Columns that break the schema: {', '.join(bad)}.")
        if bad
        else Text(
            f"All {many:,} synthetic rows keep the schema: {count(len(checked), 'column')} with "
            "the right type, no value outside its range or list, no missing value where none is "
            "allowed."
        )
    )
    total = sum(targets.estimates.total for targets in release.model.targets)
    lines = []
    for column, each in zip(release.schema.columns, checked, strict=True):
        told, error = "", ""
        if column.nullable and column.name in release.schema.domain.names:
            apart = (np.arange(column.size) == column.size - 1).astype(np.int64)
            told = percent(float(released_counts(release, column.name)[-1]) / total)
            spread = release.accuracy((column.name,), groups=apart.tolist()).standard_error
            error = f" ± {percent(2 * float(spread[-1]) / total)}"
        lines.append(
            (
                each.name,
                each.found_type,
                "kept" if each.good else "broken",
                percent(each.nulls / max(1, many)) if column.nullable else "none allowed",
                f"{told}{error}",
                f"{each.outside + each.unexpected:,}",
            )
        )
    head = ("column", "type", "schema", "missing", "missing, as released", "do not fit")
    return Section(
        "checks",
        TITLE,
        (
            verdict,
            Table("Every column of the synthetic table", head, tuple(lines), words=3),
            *(() if bad else _rules(release.schema, rows)),
            Text(
                "Missing values are a value like any other: their share is released with noise, "
                "and rows are drawn from a model that holds it; they need not match it exactly. "
                "Of what holds between columns, such as one date before another, only what is a "
                "rule of the schema is sure to be kept."
            ),
        ),
    )


def _rules(schema: Schema, rows: SyntheticRows) -> tuple[Block, ...]:
    """How many of the rows break each rule: none, if nobody has touched them."""
    if not schema.rules:
        return ()
    encoder = Encoder(schema)
    for batch in rows.batches():
        encoder.fitting(batch)
    broken = encoder.fit.rules
    lines = tuple(
        (f"{number}", rule.words, f"{broken.get(number, 0):,}")
        for number, rule in enumerate(schema.rules, start=1)
    )
    table = Table(
        "Every rule of the schema",
        ("rule", "says", "rows that break it"),
        lines,
        words=2,
        longest=1_000,
    )
    if broken:
        return Warn("The table holds rows that a rule of the schema excludes."), table
    return Text(f"No row breaks any of the {count(len(lines), 'rule')} of the schema."), table


def check(column: Column, values: pa.ChunkedArray) -> Checked:
    """One column against the schema."""
    import pyarrow as pa

    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    right = _right_type(column, kind)
    nulls = int(values.null_count)
    outside = 0
    try:
        outside = _outside(column, values) if right else 0
    except pa.ArrowException:  # a type in which the range of the column cannot be written
        right = False
    return Checked(
        name=column.name,
        found_type=str(kind)[:40],
        right_type=right,
        nulls=nulls,
        unexpected=0 if column.nullable else nulls,
        outside=outside,
    )


def _check_all(columns: Sequence[Column], rows: SyntheticRows) -> list[Checked]:
    """Every column against the schema, in memory for one batch of rows."""
    import pyarrow as pa

    checked = [check(c, pa.chunked_array([], rows.schema.field(c.name).type)) for c in columns]
    for batch in rows.batches():
        checked = [
            each.and_more(check(column, pa.chunked_array([batch.column(column.name)])))
            for each, column in zip(checked, columns, strict=True)
        ]
    return checked


def _outside(column: Column, values: pa.ChunkedArray) -> int:
    """How many values are beyond the range or list of the schema."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column, IntegerColumn | NumberColumn | DatetimeColumn | DateColumn):
        low, high = (_scalar(v, values.type) for v in (column.min, column.max))
        beyond = pc.or_(pc.less(values, low), pc.greater(values, high))
        if pa.types.is_floating(values.type):
            beyond = pc.or_(beyond, pc.is_nan(values))
        return int(pc.sum(pc.fill_null(beyond, False)).as_py() or 0)
    if isinstance(column, CategoricalColumn):
        known = sum(_known(column.values, chunk) for chunk in values.chunks)
        return len(values) - int(values.null_count) - known
    return 0


def _known(words: Sequence[str], values: pa.Array) -> int:
    """How many values are among the words; of a dictionary each entry is looked at once."""
    import pyarrow as pa
    import pyarrow.compute as pc

    coded = isinstance(values, pa.DictionaryArray)
    entries = values.dictionary if coded else values
    known = pc.is_in(entries, value_set=pa.array(words, entries.type))
    return int(pc.sum(known.take(values.indices) if coded else known).as_py() or 0)


def _right_type(column: Column, arrow_type: Any) -> bool:
    import pyarrow as pa

    tests = {
        "integer": lambda kind: pa.types.is_integer(kind) and kind != pa.uint64(),
        "number": pa.types.is_floating,
        "datetime": pa.types.is_timestamp,
        "date": pa.types.is_date32,
        "key": lambda kind: pa.types.is_string(kind) or pa.types.is_integer(kind),
        "categorical": pa.types.is_string,
        "boolean": pa.types.is_boolean,
    }
    return bool(tests[column.kind](arrow_type))


def _scalar(value: object, arrow_type: Any) -> Any:
    import pyarrow as pa

    return pa.scalar(value, arrow_type) if pa.types.is_temporal(arrow_type) else pa.scalar(value)
