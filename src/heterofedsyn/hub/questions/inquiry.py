"""A question put to the synthetic table and to its replicates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from heterofedsyn._arrays import Floats
from heterofedsyn._sql import database_of, in_time, worded
from heterofedsyn._words import count
from heterofedsyn.errors import UsageError
from heterofedsyn.hub.methods.base import Model
from heterofedsyn.hub.questions.combining import t_quantile
from heterofedsyn.hub.questions.dealing import dealt
from heterofedsyn.hub.questions.intervals import Basis, Interval, Intervals
from heterofedsyn.hub.questions.plain_select import DRAWN
from heterofedsyn.hub.questions.question import EXTREMES, Output, Question
from heterofedsyn.hub.questions.replicates import Replicate
from heterofedsyn.hub.questions.within_bins import standing_out
from heterofedsyn.hub.release.sql_reading import TABLE
from heterofedsyn.schema import Clique, Column, Schema
from heterofedsyn.schema.binned import BinnedColumn

if TYPE_CHECKING:
    import pyarrow as pa

MOST_CELLS = 10_000
"""Rows of an answer; more are no answer to anybody."""

FEW_ROWS = 30
"""Synthetic rows of a group below which it is said that they are few."""

MOST_NAMED = 3
"""Groups that are named when something is said of them."""

FAVOURED = 0.1
"""Share of records in bins that stand out, from which it is said."""

Rows = dict[tuple[Any, ...], tuple[Any, ...]]
Tables = Callable[[Sequence[str]], Iterator[Replicate]]
"""Gives the synthetic table and then its replicates, with at least these columns."""


def put(sql: str, schema: Schema, model: Model, tables: Tables, empty: pa.Table) -> Intervals:
    """The answer to a question.

    Args:
        empty: the synthetic table without rows.
    """
    results: list[Rows] = []
    favoured: list[str] = []
    small: list[str] = []
    with _asked(empty) as connection:
        question = Question.of(sql, schema, connection)
        clique = _canonical(question.touched, schema)
        known = tables(question.touched)
        if len(clique) == 1 or clique in model.pairs:
            known = (dealt(each, schema, model, clique, n) for n, each in enumerate(known))
        for number, replicate in enumerate(known):
            _give(connection, replicate)
            text = question.of_replicates if number else question.sql
            results.append(_rows(connection, text, question))
            if not number:
                small = _small(connection, question, results[0], replicate.weight)
                favoured = [*_favourites(question, schema, replicate.table)]
    ours, others = results[0], results[1:]
    bases = [_basis(output, schema, model) for output in question.figures]
    cells = []
    for keys, row in ours.items():
        for place, output in enumerate(question.figures):
            drawn = [
                _number(rows[keys][place] if keys in rows else None, output) for rows in others
            ]
            estimate, low, high = _interval(row[place], drawn, output.ends)
            cells.append(Interval(keys, output.name, estimate, low, high, bases[place]))
    pairs = _pairs(question.touched, schema, model)
    return Intervals(
        sql,
        tuple(output.name for output in question.outputs if output.is_key),
        tuple(cells),
        pairs,
        (
            *_notes(question, schema, pairs, model),
            *favoured,
            *_without_interval(cells),
            *_of_few(ours, others),
            *small,
            *_of_none(cells),
            *_of_nothing(cells),
        ),
        len(others),
    )


@contextmanager
def _asked(empty: pa.Table) -> Iterator[Any]:
    with database_of("asking questions", {}) as connection:
        _give(connection, Replicate(empty, 1))
        with worded("DuckDB cannot answer the question"):
            yield connection


def _give(connection: Any, replicate: Replicate) -> None:
    """Have the database show these rows, each as often as it counts."""
    if replicate.weight == 1:
        connection.register(TABLE, replicate.table)
        return
    connection.register(DRAWN, replicate.table)
    rows = f"SELECT {DRAWN}.* FROM {DRAWN} CROSS JOIN range({replicate.weight})"
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {TABLE} AS {rows}")


def _rows(connection: Any, sql: str, question: Question) -> Rows:
    """The result, the figures of each row by its keys."""
    found = in_time(connection, lambda: connection.execute(sql).fetchmany(MOST_CELLS + 1))
    if len(found) > MOST_CELLS:
        raise UsageError(
            f"the question has more than {MOST_CELLS:,} groups; group by fewer values or by ranges"
        )
    is_key = [output.is_key for output in question.outputs]
    rows: Rows = {}
    for row in found:
        keys = tuple(value for value, key in zip(row, is_key, strict=True) if key)
        if any(isinstance(value, float) and not math.isfinite(value) for value in keys):
            raise UsageError("a group is infinite or no number; leave such rows out with WHERE")
        if keys in rows:
            raise UsageError("two rows of the answer look alike; select all that GROUP BY names")
        rows[keys] = tuple(value for value, key in zip(row, is_key, strict=True) if not key)
    return rows


def _number(value: Any, output: Output) -> float | None:
    return output.of_nobody if value is None else float(value)


def _interval(
    value: Any, drawn: list[float | None], bounds: tuple[float, float]
) -> tuple[float | None, float | None, float | None]:
    """An estimate with its interval; nothing where too few replicates know the cell."""
    known = np.array([d for d in drawn if d is not None and math.isfinite(d)])
    if value is None or not math.isfinite(float(value)):
        return None, None, None
    estimate = float(value)
    if known.size < max(2, len(drawn) // 2):
        return estimate, None, None
    half = half_width(estimate, known)
    low, high = max(estimate - half, bounds[0]), min(estimate + half, bounds[1])
    return estimate, min(low, estimate), max(high, estimate)


def half_width(estimate: float, drawn: Floats) -> float:
    """Half of an interval: noise, and how far the estimate is from what replicates say."""
    away = float(drawn.mean()) - estimate
    return t_quantile(drawn.size - 1) * math.sqrt(float(drawn.var(ddof=1)) + away**2)


def _canonical(names: Sequence[str], schema: Schema) -> tuple[str, ...]:
    """The measured columns behind columns: what is determined is known by what determines it."""
    found = dict.fromkeys(map(schema.rulebook.source_of, names))
    return schema.domain.clique(*found) if found else ()


def _pairs(names: Sequence[str], schema: Schema, model: Model) -> dict[Clique, bool]:
    columns = _canonical(names, schema)
    measured = {*model.pairs}
    return {pair: pair in measured for pair in combinations(columns, 2)}


def _basis(output: Output, schema: Schema, model: Model) -> Basis:
    columns = _canonical(output.columns, schema)
    if len(columns) > 2 or not all(_pairs(columns, schema, model).values()):
        return "follows"
    return "measured"


def _notes(
    question: Question, schema: Schema, pairs: Mapping[Clique, bool], model: Model
) -> tuple[str, ...]:
    notes = [
        f"{a} and {b} were not measured together: read this as a guess"
        for (a, b), measured in pairs.items()
        if not measured
    ]
    if any(len(_canonical(o.columns, schema)) > 2 for o in question.figures):
        notes.append(
            "more than two columns: each pair may be measured, but how three go together was not"
        )
    if notes:
        notes.append(
            "where the basis is 'follows', an interval covers noise but not missing dependence"
        )
    notes += _merged(pairs, schema, model)
    if any(output.functions & EXTREMES for output in question.figures):
        notes.append("least, greatest and most frequent values hang on single rows: do not use")
    return tuple(notes)


def _favourites(question: Question, schema: Schema, drawn: pa.Table) -> Iterator[str]:
    """What to say of columns with bins that hold far more than those beside them."""
    for name in question.touched:
        column = schema.column(name)
        if not isinstance(column, BinnedColumn):
            continue
        codes, _ = column.encode(drawn.column(name).combine_chunks())
        masses = np.bincount(codes, minlength=column.size).astype(np.float64)
        peaks = column.grid.layout.code_of_bin[standing_out(column, masses)]
        if masses[peaks].sum() > FAVOURED * codes.size:
            yield (
                f"{name} has bins that hold far more than those beside them: where in them values "
                "lie is not known, and intervals of ranges that end there are too narrow"
            )


def _without_interval(cells: Sequence[Interval]) -> list[str]:
    if not any(cell.low is None and cell.estimate is not None for cell in cells):
        return []
    return ["a number without an interval is of too few rows to tell: do not use it"]


def _of_few(ours: Rows, others: Sequence[Rows]) -> list[str]:
    """What to say of groups that most replicates do not have."""
    there = sum(keys in rows for rows in others for keys in ours)
    if 2 * there >= len(ours) * len(others):
        return []
    return [
        "most groups hold so few rows that most replicates have none of them: group by ranges, as "
        "in age // 10 or date_trunc('year', day)"
    ]


def _small(connection: Any, question: Question, ours: Rows, weight: int) -> list[str]:
    """What to say of groups of few synthetic rows."""
    if question.of_sizes is None:
        return []
    is_key = [output.is_key for output in question.outputs]
    found = in_time(connection, connection.execute(question.of_sizes).fetchall)
    sizes = {
        tuple(value for value, key in zip(row, is_key, strict=False) if key): row[-1] // weight
        for row in found
    }
    few = [keys for keys in ours if 0 < sizes.get(keys, 0) < FEW_ROWS]
    if not few:
        return []
    named = "; ".join(", ".join(map(str, keys)) for keys in few[:MOST_NAMED] if keys)
    which = f" ({named}{'; ...' if len(few) > MOST_NAMED else ''})" if named else ""
    return [
        f"{len(few)} of {count(len(ours), 'group')}{which} "
        f"{'has' if len(few) == 1 else 'have'} fewer than {FEW_ROWS} synthetic rows: most of what "
        "they say is chance; make groups larger"
    ]


def _of_nothing(cells: Sequence[Interval]) -> list[str]:
    if not cells:
        return ["the answer is empty: no group of the synthetic table meets the conditions"]
    if all(cell.estimate is None for cell in cells):
        return ["there is no number: no synthetic row meets the conditions, or all lack a value"]
    return []


def _of_none(cells: Sequence[Interval]) -> list[str]:
    if not any(cell.estimate == cell.low == cell.high == 0 for cell in cells):
        return []
    return [
        "0 from 0 to 0 means that no synthetic row is of this kind, not that there are none: check "
        "how values are spelt and what range the column has"
    ]


def _values_of(column: Column) -> str:
    """How many values or bins a column is counted by."""
    kind = "bin" if isinstance(column, BinnedColumn) else "value"
    many = count(column.size - column.nullable, kind)
    return f"{many} and missing ones" if column.nullable else many


def _merged(pairs: Mapping[Clique, bool], schema: Schema, model: Model) -> list[str]:
    """What to say of columns that were measured with others in groups of their values."""
    groups: dict[str, int] = {}
    for grid in (grid for targets in model.targets for grid in targets.grids):
        for name, own in zip(grid.attributes, grid.groups, strict=True):
            groups[name] = max(groups.get(name, 0), max(own) + 1)
    domain = model.targets[0].domain
    asked = dict.fromkeys(name for pair, measured in pairs.items() if measured for name in pair)
    return [
        f"{name} was measured with other columns in {groups[name]} groups of its "
        f"{_values_of(schema.column(name))}: what differs within a group is a guess that the "
        "interval allows for"
        for name in asked
        if groups.get(name, domain.size(name)) < domain.size(name)
    ]
