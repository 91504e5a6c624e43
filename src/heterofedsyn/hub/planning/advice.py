"""What to do about a forecast, in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from heterofedsyn.hub.methods.base import Method
from heterofedsyn.hub.planning.columns import ColumnForecast
from heterofedsyn.hub.planning.modes import ATTEMPTED, Threshold
from heterofedsyn.protocol import Plan
from heterofedsyn.schema import CategoricalColumn, Schema

if TYPE_CHECKING:
    from heterofedsyn.hub.planning.forecast import Outlook

MOST_COLUMNS = 8
"""Columns that are told one by one that they are too wide."""


def advice(
    schema: Schema,
    plan: Plan,
    method: Method,
    rows: int,
    outlook: Outlook,
    columns: Sequence[ColumnForecast],
    thresholds: Sequence[Threshold],
    total_sigma: float,
) -> Iterable[str]:
    """Sentences, the most important first.

    Args:
        total_sigma: noise on the number of rows by which a mode is chosen.
    """
    if plan.delta >= 1 / rows:
        yield (
            f"delta ({plan.delta:g}) should be far below 1 / rows ({1 / rows:.2g}): as it is, "
            "publishing somebody's record outright would be allowed"
        )
    yield from _on_modes(method, rows, outlook, thresholds, total_sigma)
    wide = [column for column in columns if column.enough is not None]
    for column in sorted(wide, key=lambda c: c.noise / c.typical, reverse=True)[:MOST_COLUMNS]:
        yield _on_column(schema, column)
    if len(wide) > MOST_COLUMNS:
        many = len(wide) - MOST_COLUMNS
        yield f"{many} more columns are too wide for this budget; see the columns above"
    if outlook.one_way is not None and outlook.one_way > 0.25:
        yield (
            f"a 1-way is expected to miss {outlook.one_way:.0%} of the rows' values: the table "
            "would show little more than the schema; raise epsilon, find more rows or take "
            "fewer bins"
        )


def _on_modes(
    method: Method,
    rows: int,
    outlook: Outlook,
    thresholds: Sequence[Threshold],
    total_sigma: float,
) -> Iterable[str]:
    if outlook.mode is None:
        return
    names = method.mode_names
    for threshold in thresholds:
        if names.index(outlook.mode) <= names.index(threshold.mode):
            continue
        where = [
            *([f"epsilon {_up(threshold.epsilon)}"] if threshold.epsilon is not None else []),
            *([f"{_up_rows(threshold.rows):,} rows"] if threshold.rows is not None else []),
        ]
        if where:
            what = ATTEMPTED[threshold.mode]
            yield f"{what} are worth measuring from {' or '.join(where)}"
    first = thresholds[0] if thresholds else None
    if first and first.epsilon is not None and outlook.mode != names[-1]:
        yield f"below epsilon {_up(first.epsilon)} nothing but 1-ways would be worth measuring"
    likely = outlook.chances.get(outlook.mode, 1.0)
    if likely < 0.9:
        others = ", ".join(
            f"{name} {chance:.0%}"
            for name, chance in outlook.chances.items()
            if name != outlook.mode and chance >= 0.01
        )
        yield (
            f"mode {outlook.mode} is not certain ({likely:.0%}; {others}): the rule sees a noisy "
            f"number of rows, {rows:,} give or take {total_sigma:,.0f}"
        )


def _on_column(schema: Schema, column: ColumnForecast) -> str:
    public = schema.column(column.name)
    what = "values" if isinstance(public, CategoricalColumn) else "bins"
    why = f"noise on a value is {column.noise:,.0f}, its share of the rows {column.typical:,.0f}"
    if column.enough == 1:
        return f"column {column.name!r}: this budget tells nothing about it; {why}"
    return (
        f"column {column.name!r}: {column.enough} {what} instead of {public.size:,} would do; {why}"
    )


def _up(epsilon: float) -> str:
    """Two digits, rounded up."""
    if not epsilon:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - 1)
    return f"{math.ceil(epsilon / unit - 1e-9) * unit:.3g}"


def _up_rows(rows: int) -> int:
    """Three digits, rounded up."""
    unit = int(10 ** max(0, len(str(rows)) - 3))
    return -(-rows // unit) * unit
