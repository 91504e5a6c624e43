"""What is said below an answer: how far to trust it, in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from heterofedsyn._words import count
from heterofedsyn.hub.methods.base import Model
from heterofedsyn.hub.questions.intervals import Interval
from heterofedsyn.hub.questions.looking_inside import ranges_of
from heterofedsyn.hub.questions.question import Question
from heterofedsyn.hub.questions.within_bins import standing_out
from heterofedsyn.schema import Clique, Column, Schema
from heterofedsyn.schema.binned import BinnedColumn

if TYPE_CHECKING:
    import pyarrow as pa

FEW_ROWS = 30
"""Synthetic rows of a group below which it is said that they are few."""

MOST_NAMED = 3
"""Groups that are named when something is said of them."""

FAVOURED = 0.1
"""Share of records in bins that stand out, from which it is said."""

Keys = tuple[Any, ...]


def of_columns(
    question: Question,
    schema: Schema,
    pairs: Mapping[Clique, bool],
    order: Sequence[Clique],
    *,
    three: bool,
) -> Iterator[str]:
    """What was not measured.

    Args:
        pairs: of the columns of each number, and whether each was measured.
        order: the pairs that only the order of groups hangs on and that were not.
        three: whether a number is of more than two columns.
    """
    missing = [pair for pair, measured in pairs.items() if not measured]
    for a, b in missing:
        yield f"{a} and {b} were not measured together: read this as a guess"
    if three:
        yield (
            "more than two columns: pairs may be measured, "
            "how three go together is not told by them"
        )
    if missing or three:
        yield "where the basis is 'follows', an interval covers noise but not missing dependence"
    for a, b in order:
        yield f"{a} and {b} were not measured together: read the order of groups as a guess"
    inside = dict.fromkeys(name for output in question.figures for name in output.inside)
    for name in inside:
        yield (
            f"{name} was measured in bins and this looks inside bins: read it as a guess, or ask "
            f"for wider ranges, as in {ranges_of(schema, name)}"
        )


def of_tails(question: Question) -> Iterator[str]:
    """What hangs on few rows."""
    tails = {output.tail for output in question.figures}
    if "single" in tails:
        yield (
            "least, greatest and most frequent values, and what all or any rows are, hang on "
            "single rows: do not use"
        )
    if "few" in tails:
        yield (
            "quantiles below 5 or above 95 %, skewness and kurtosis hang on few rows at the ends: "
            "intervals hold the truth less often than they say"
        )


def of_favourites(question: Question, schema: Schema, drawn: pa.Table) -> Iterator[str]:
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


def merged(names: Iterable[str], model: Model) -> dict[str, int]:
    """Those of the columns that were measured with others in groups of values, and how many."""
    groups: dict[str, int] = {}
    for grid in (grid for targets in model.targets for grid in targets.grids):
        for name, own in zip(grid.attributes, grid.groups, strict=True):
            groups[name] = max(groups.get(name, 0), max(own) + 1)
    size = model.targets[0].domain.size
    return {name: groups[name] for name in names if groups.get(name, size(name)) < size(name)}


def of_compared(question: Question, model: Model) -> Iterator[str]:
    """What to say where values within groups decide which of two columns is greater."""
    compared = dict.fromkeys(name for output in question.figures for name in output.compared)
    if merged(compared, model):
        yield (
            f"{' and '.join(compared)} are put beside each other row by row, and were measured in "
            "groups of values: how they go together within these is a guess"
        )


def of_merged(pairs: Mapping[Clique, bool], schema: Schema, model: Model) -> Iterator[str]:
    """What to say of columns that were measured with others in groups of their values."""
    asked = dict.fromkeys(name for pair, measured in pairs.items() if measured for name in pair)
    for name, groups in merged(asked, model).items():
        yield (
            f"{name} was measured with other columns in {groups} groups of its "
            f"{_values_of(schema.column(name))}: what differs within a group is a guess that "
            "the interval allows for"
        )


def _values_of(column: Column) -> str:
    """How many values or bins a column is counted by."""
    kind = "bin" if isinstance(column, BinnedColumn) else "value"
    many = count(column.size - column.nullable, kind)
    return f"{many} and missing ones" if column.nullable else many


def of_cells(cells: Sequence[Interval]) -> Iterator[str]:
    """What to say of numbers that are missing or look certain."""
    if any(cell.low is None and cell.estimate is not None for cell in cells):
        yield "a number without an interval is of too few rows to tell: do not use it"
    if any(cell.estimate == cell.low == cell.high == 0 for cell in cells):
        yield (
            "0 from 0 to 0 means that no synthetic row is of this kind, not that there are none: "
            "check how values are spelt and what range the column has"
        )
    if any(cell.estimate and cell.estimate == cell.low == cell.high for cell in cells):
        yield (
            "an interval without width means that all replicates say the same, not that it is "
            "certain"
        )
    if not cells:
        yield "the answer is empty: no group of the synthetic table meets the conditions"
    elif all(cell.estimate is None for cell in cells):
        yield "there is no number: no synthetic row meets the conditions, or all lack a value"
    elif any(cell.estimate is None for cell in cells):
        yield "where there is no number, no synthetic row of the group has a value"


def of_groups(ours: Sequence[Keys], others: Sequence[set[Keys]]) -> Iterator[str]:
    """What to say of groups that most replicates do not have."""
    there = sum(keys in own for own in others for keys in ours)
    if 2 * there < len(ours) * len(others):
        yield (
            "most groups hold so few rows that most replicates have none of them: group by "
            "ranges, as in age // 10 or date_trunc('year', day)"
        )


def of_sizes(ours: Sequence[Keys], sizes: Mapping[Keys, int]) -> Iterator[str]:
    """What to say of groups of few synthetic rows."""
    few = [keys for keys in ours if 0 < sizes.get(keys, 0) < FEW_ROWS]
    if few:
        yield (
            f"{len(few)} of {count(len(ours), 'group')}{_named(few)} "
            f"{'has' if len(few) == 1 else 'have'} fewer than {FEW_ROWS} synthetic rows: most of "
            "what they say is chance; make groups larger"
        )


def of_absent(absent: Sequence[Keys], *, listed: bool, too_many: bool) -> Iterator[str]:
    """What to say of groups that the schema knows and no synthetic row is in."""
    if too_many:
        yield "groups without synthetic rows are not listed: there would be too many"
    elif absent and not listed:
        yield (
            f"{count(len(absent), 'group')} of the schema{_named(absent)} "
            f"{'has' if len(absent) == 1 else 'have'} no synthetic row and no number"
        )


def _named(groups: Sequence[Keys]) -> str:
    named = "; ".join(", ".join(map(str, keys)) for keys in groups[:MOST_NAMED] if keys)
    return f" ({named}{'; ...' if len(groups) > MOST_NAMED else ''})" if named else ""
