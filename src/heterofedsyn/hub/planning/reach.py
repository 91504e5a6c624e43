"""The most that a study can ask about each column of a site, from public facts alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from heterofedsyn._words import count
from heterofedsyn.hub.methods.base import Later
from heterofedsyn.privacy.budget import Budget, sigma_for
from heterofedsyn.privacy.terms import Terms
from heterofedsyn.protocol.plan import Plan
from heterofedsyn.schema import Column, Schema
from heterofedsyn.schema.binned import BinnedColumn
from heterofedsyn.schema.columns import BooleanColumn, CategoricalColumn, KeyColumn

MOST_LISTED = 3
"""Values that are named; more are counted."""

MOST_LETTERS = 24
"""Of a value that is named."""


@dataclass(frozen=True)
class Noise:
    """How exactly something may be asked.

    Attributes:
        records: standard deviation of the noise on one count, in records.
        least: whether that is the least there can be, since answers decide what is asked.
    """

    records: float
    least: bool

    @property
    def words(self) -> str:
        """For people; what is a least is rounded down.

        >>> Noise(75.28, False).words, Noise(5.89, True).words
        ('75.3', 'at least 5.8')
        """
        if not self.least:
            return f"{self.records:,.1f}"
        return f"at least {int(10 * self.records) / 10:,.1f}"


@dataclass(frozen=True)
class ColumnReach:
    """The most that the method of a study asks about one column.

    Attributes:
        told_as: how finely: what its values become before they are counted.
        values: how many counts that makes; 0 if it is not counted itself.
        alone: noise on its counts by itself; None if these are not asked for.
        partners: columns with which it may be counted together, one of them at once or two.
        together: noise on such counts.
    """

    name: str
    told_as: str
    values: int
    alone: Noise | None = None
    partners: tuple[str, ...] = ()
    together: Noise | None = None


def reach_of(
    schema: Schema, plan: Plan, fixed: Sequence[Terms], later: Sequence[Later]
) -> tuple[ColumnReach, ...]:
    """What is asked about each column, in the order of the schema by which sites encode.

    Args:
        fixed: every release that is known in advance, with the noise that protects for sure.
    """
    names = schema.domain.names
    singles = [rest for rest in later if rest.columns in (None, 1)]
    joint = [rest for rest in later if rest.columns != 1] if len(names) > 1 else []

    def reach(column: Column) -> ColumnReach:
        name = column.name
        if name not in names:
            return ColumnReach(name, _never(column, schema), 0)
        own = [part for part in fixed if name in part.attributes]
        alone = [part for part in own if len(part.attributes) == 1]
        several = [part for part in own if len(part.attributes) > 1]
        met = {*names} if joint else {other for part in several for other in part.attributes}
        return ColumnReach(
            name=name,
            told_as=told_as(column),
            values=column.size,
            alone=_least(alone, singles, plan),
            partners=tuple(other for other in names if other in met and other != name),
            together=_least(several, joint, plan),
        )

    return tuple(reach(column) for column in schema.columns)


def least_noise(plan: Plan) -> float:
    """The noise that every count has at least, whatever is asked within the budget, in records."""
    return sigma_for(1.0, plan.budget) * plan.rows_per_unit


def told_as(column: Column) -> str:
    """What the values of a column become before they are counted."""
    known = column.size - column.nullable
    match column:
        case BinnedColumn():
            ranges, atoms = known - len(column.atoms), len(column.atoms)
            words = f"{count(ranges, 'range')} from {_end(column.min)} to {_end(column.max)}"
            words += f" and {count(atoms, 'single value')}" if atoms else ""
        case BooleanColumn():
            words = "true or false"
        case CategoricalColumn():
            few = known <= MOST_LISTED and all(
                len(value) <= MOST_LETTERS for value in column.values
            )
            words = " or ".join(column.values) if few else count(known, "value")
        case _:
            words = count(known, "value")
    return words + (", or missing" if column.nullable else "")


def _never(column: Column, schema: Schema) -> str:
    if isinstance(column, KeyColumn):
        return "an identifier: never counted"
    return f"follows from {schema.rulebook.source_of(column.name)}: counted as groups of that"


def _least(parts: Iterable[Terms], later: Iterable[Later], plan: Plan) -> Noise | None:
    """The most exact of these, in units of what one record moves."""
    known = [part.sigma / part.sensitivity * plan.rows_per_unit for part in parts]
    chosen = [_noise(rest.cost, plan) for rest in later if rest.cost.rho > 0]
    found = [*((noise, False) for noise in known), *((noise, True) for noise in chosen)]
    return Noise(*min(found)) if found else None


def _noise(cost: Budget, plan: Plan) -> float:
    return sigma_for(1.0, cost) * plan.rows_per_unit


def _end(value: object) -> str:
    return f"{value:%Y-%m-%d}" if isinstance(value, date) else str(value)
