"""A question put to the synthetic table and to its replicates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from heterofedsyn._arrays import Floats
from heterofedsyn._sql import Clock, database_of, worded
from heterofedsyn.errors import UsageError
from heterofedsyn.hub.methods.base import Model
from heterofedsyn.hub.questions import cautions
from heterofedsyn.hub.questions.combining import t_quantile
from heterofedsyn.hub.questions.dealing import dealt
from heterofedsyn.hub.questions.intervals import Basis, Interval, Intervals
from heterofedsyn.hub.questions.listing import Keys, Listing, in_order
from heterofedsyn.hub.questions.plain_select import DRAWN
from heterofedsyn.hub.questions.question import Output, Question
from heterofedsyn.hub.questions.replicates import Replicate
from heterofedsyn.hub.release.sql_reading import TABLE
from heterofedsyn.schema import Clique, Schema

if TYPE_CHECKING:
    import pyarrow as pa

MOST_CELLS = 10_000
"""Rows of an answer; more are no answer to anybody."""

Rows = dict[Keys, tuple[Any, ...]]
Tables = Callable[[Sequence[str]], Iterator[Replicate]]
"""Gives the synthetic table and then its replicates, with at least these columns."""


def put(sql: str, schema: Schema, model: Model, tables: Tables, empty: pa.Table) -> Intervals:
    """The answer to a question.

    Args:
        empty: the synthetic table without rows.
    """
    with _asked(empty) as connection:
        clock = Clock(connection)
        question = clock.run(lambda: Question.of(sql, schema, connection))
        asking = _Asking(question, schema, model, connection, clock)
        ours, *others = asking.put_to(tables)
    listing = Listing.of(question, schema)
    absent = [keys for keys in listing.groups if keys not in ours.chosen]
    listed = any(output.of_nobody is not None for output in question.figures)
    groups = [*ours.chosen, *(absent if listed else ())]
    cells = {keys: asking.cells(keys, ours, others) for keys in groups}
    if listed and absent and question.where is None:
        most = listing.most(model)
        for keys in absent:
            cells[keys] = _at_least(cells[keys], question.figures, most.get(keys, 0.0))
    if question.order is not None:
        groups = _ordered(groups, cells, question)
    return asking.answer(
        [cell for keys in groups for cell in cells[keys]],
        [
            *ours.notes,
            *cautions.of_groups(ours.chosen, [{*own.chosen} for own in others]),
            *cautions.of_absent(absent, listed=listed, too_many=listing.too_many),
        ],
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


@dataclass(frozen=True, eq=False)
class _Result:
    """What one table says.

    Attributes:
        chosen: the groups that it has; of the synthetic table those that are asked for, in order.
        figures: for every figure its value by group.
        notes: on the table itself.
    """

    chosen: Sequence[Keys]
    figures: Sequence[dict[Keys, Any]]
    notes: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class _Asking:
    """A question, and whom it is put to."""

    question: Question
    schema: Schema
    model: Model
    connection: Any
    clock: Clock

    def put_to(self, tables: Tables) -> Iterator[_Result]:
        """What the synthetic table and then each replicate says.

        Every figure is of rows dealt by its own columns, so that it is the same whatever else is
        asked beside it.
        """
        question = self.question
        cliques = [self._canonical(output.rows_by) for output in question.figures]
        chosen_by = self._canonical(question.chosen_by)
        needed = {*question.touched, *chosen_by}.union(*cliques)
        columns = [column.name for column in self.schema.columns if column.name in needed]
        for number, replicate in enumerate(tables(columns)):
            figures: list[dict[Keys, Any]] = [{} for _ in cliques]
            groups: dict[Keys, None] = {}
            for clique in dict.fromkeys(cliques):
                self._give_dealt(replicate, clique, number)
                rows = self._rows(question.of_replicates)
                groups |= dict.fromkeys(rows)
                for place, own in enumerate(cliques):
                    if own == clique:
                        figures[place] = {keys: row[place] for keys, row in rows.items()}
            if number:
                yield _Result([*groups], figures)
                continue
            self._give_dealt(replicate, chosen_by, number)
            chosen = [*self._rows(question.sql)]
            notes = [
                *cautions.of_favourites(question, self.schema, replicate.table),
                *cautions.of_sizes(chosen, self._sizes(replicate.weight)),
            ]
            yield _Result(chosen, figures, notes)

    def _give_dealt(self, replicate: Replicate, clique: Clique, number: int) -> None:
        if len(clique) == 1 or clique in self.model.pairs:
            replicate = dealt(replicate, self.schema, self.model, clique, number)
        _give(self.connection, replicate)

    def _rows(self, sql: str) -> Rows:
        """The result, the figures of each row by its keys."""
        found = self.clock.run(lambda: self.connection.execute(sql).fetchmany(MOST_CELLS + 1))
        if len(found) > MOST_CELLS:
            raise UsageError(
                f"the question has more than {MOST_CELLS:,} groups; group by fewer values or by "
                "ranges"
            )
        is_key = [output.is_key for output in self.question.outputs]
        rows: Rows = {}
        for row in found:
            keys = tuple(value for value, key in zip(row, is_key, strict=True) if key)
            if any(isinstance(value, float) and not math.isfinite(value) for value in keys):
                raise UsageError("a group is infinite or no number; leave such rows out with WHERE")
            if keys in rows:
                raise UsageError(
                    "two rows of the answer look alike; select all that GROUP BY names"
                )
            rows[keys] = tuple(value for value, key in zip(row, is_key, strict=True) if not key)
        return rows

    def _sizes(self, weight: int) -> dict[Keys, int]:
        """How many synthetic rows each group has, if that is told."""
        sql = self.question.of_sizes
        if sql is None:
            return {}
        is_key = [output.is_key for output in self.question.outputs]
        found = self.clock.run(lambda: self.connection.execute(sql).fetchall())
        return {
            tuple(value for value, key in zip(row, is_key, strict=False) if key): row[-1] // weight
            for row in found
        }

    def cells(self, keys: Keys, ours: _Result, others: Sequence[_Result]) -> list[Interval]:
        """The numbers of one group."""
        found = []
        for place, output in enumerate(self.question.figures):
            value = ours.figures[place].get(keys, output.of_nobody)
            drawn = [_number(each.figures[place].get(keys), output) for each in others]
            estimate, low, high = _interval(value, drawn, output.ends)
            basis = "follows" if estimate is None else self._basis(output)
            found.append(Interval(keys, output.name, estimate, low, high, basis))
        return found

    def _basis(self, output: Output) -> Basis:
        columns = self._canonical(output.columns)
        measured = len(columns) <= 2 and all(self._pairs(columns).values())
        guessed = output.inside or output.tail or cautions.merged(output.compared, self.model)
        return "measured" if measured and not guessed else "follows"

    def answer(self, cells: Sequence[Interval], notes: Sequence[str], replicates: int) -> Intervals:
        """The answer in these cells."""
        question = self.question
        of_figures = [self._canonical(output.columns) for output in question.figures]
        pairs = {pair: own for each in of_figures for pair, own in self._pairs(each).items()}
        ordered = self._pairs(self._canonical(question.chosen_by))
        order = [pair for pair, measured in ordered.items() if not measured and pair not in pairs]
        three = any(len(columns) > 2 for columns in of_figures)
        return Intervals(
            question.sql,
            tuple(output.name for output in question.keys),
            tuple(cells),
            pairs,
            (
                *cautions.of_columns(question, self.schema, pairs, order, three=three),
                *cautions.of_merged(pairs, self.schema, self.model),
                *cautions.of_compared(question, self.model),
                *cautions.of_tails(question),
                *notes,
                *cautions.of_cells(cells),
            ),
            replicates,
        )

    def _canonical(self, names: Sequence[str]) -> Clique:
        """The measured columns behind columns: what is determined is known by its source."""
        found = dict.fromkeys(map(self.schema.rulebook.source_of, names))
        return self.schema.domain.clique(*found) if found else ()

    def _pairs(self, columns: Clique) -> dict[Clique, bool]:
        measured = {*self.model.pairs}
        return {pair: pair in measured for pair in combinations(columns, 2)}


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


def _at_least(cells: list[Interval], figures: Sequence[Output], most: float) -> list[Interval]:
    """Cells of a group without synthetic rows: as many records as its measured table allows."""
    return [
        replace(cell, high=max(cell.high or 0.0, most)) if output.is_count else cell
        for cell, output in zip(cells, figures, strict=True)
    ]


def _ordered(
    groups: list[Keys], cells: dict[Keys, list[Interval]], question: Question
) -> list[Keys]:
    """The groups as ORDER BY has them, by what is shown."""
    rows = []
    for keys in groups:
        own, estimates = iter(keys), iter(cell.estimate for cell in cells[keys])
        shown = [next(own if output.is_key else estimates) for output in question.outputs]
        rows.append((*shown, keys))
    return [row[-1] for row in in_order(rows, question.order or ())]
