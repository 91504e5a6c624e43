"""Random questions to a release: shares, means, medians, group means, two-way tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from heterofedsyn.hub import Release
from heterofedsyn.schema.binned import IntegerColumn, NumberColumn
from heterofedsyn.schema.columns import BooleanColumn, CategoricalColumn, Column

if TYPE_CHECKING:
    import pyarrow as pa

MOST_GROUPS = 12
"""Values of a column that questions group by."""

MEASURED = 0.6
"""Share of questions on two columns that are of a measured pair."""


@dataclass(frozen=True)
class RandomQuestion:
    """A question of one aggregate, or of two beside each other.

    Attributes:
        of_nobody: what is true of a group without rows, if that is known.
    """

    kind: str
    sql: str
    of_nobody: float | None = None


def questions_of(release: Release, many: int, rng: np.random.Generator) -> list[RandomQuestion]:
    """So many questions of one aggregate, each kind as often as the others, then some of two."""
    maker = _Maker(release, release.sample(2_000, seed=0), rng)
    kinds: list[Callable[[], RandomQuestion | None]] = [
        maker.share,
        maker.share_of_two,
        maker.mean,
        maker.median,
        maker.group_mean,
        maker.two_way,
    ]
    asked: list[RandomQuestion] = []
    tries = 0
    while len(asked) < many and tries < 20 * many:
        question = kinds[tries % len(kinds)]()
        tries += 1
        if question is not None:
            asked.append(question)
    beside = (maker.two_means() for _ in range(-(-many // len(kinds))))
    return [*asked, *(question for question in beside if question is not None)]


class _Maker:
    """Draws questions; ends of ranges are values of synthetic rows."""

    def __init__(self, release: Release, some: pa.Table, rng: np.random.Generator) -> None:
        self._some, self._rng = some, rng
        self._columns = {column.name: column for column in release.schema.measured}
        self._pairs = [*release.model.pairs]

    def share(self) -> RandomQuestion | None:
        """The share of rows under a condition on one column."""
        condition = self._condition(self._any().name)
        return RandomQuestion("share", f"SELECT avg(({condition})::INTEGER) FROM release")

    def share_of_two(self) -> RandomQuestion | None:
        """The share of rows under conditions on two columns."""
        first, second = (self._condition(name) for name in self._two())
        where = f"coalesce({first} AND {second}, false)"
        return RandomQuestion("share of two", f"SELECT avg(({where})::INTEGER) FROM release")

    def mean(self) -> RandomQuestion | None:
        """The mean of a number, sometimes under a condition on another column."""
        return self._middle("mean", "avg")

    def median(self) -> RandomQuestion | None:
        """The median of a number, sometimes under a condition on another column."""
        return self._middle("median", "median")

    def group_mean(self) -> RandomQuestion | None:
        """The mean of a number for every value of another column."""
        drawn = self._groups_and_number()
        if drawn is None:
            return None
        by, of = drawn
        return RandomQuestion("group mean", f"SELECT {by}, avg({of}) FROM release GROUP BY {by}")

    def two_means(self) -> RandomQuestion | None:
        """The same beside the mean of another number, in order of that."""
        drawn = self._groups_and_number()
        numbers = [name for name in self._columns if self._number(name)]
        if drawn is None or len(numbers) < 2:
            return None
        by, of = drawn
        others = [_quoted(name) for name in numbers if _quoted(name) != of]
        other = others[self._rng.integers(len(others))]
        sql = f"SELECT {by}, avg({of}), avg({other}) FROM release GROUP BY {by}"
        return RandomQuestion("two means", f"{sql} ORDER BY avg({other})")

    def two_way(self) -> RandomQuestion | None:
        """Counts of every value of two columns together."""
        first, second = self._two()
        if not self._few(first) or not self._few(second):
            return None
        by = f"{_quoted(first)}, {_quoted(second)}"
        return RandomQuestion("two-way", f"SELECT {by}, count(*) FROM release GROUP BY {by}", 0.0)

    def _middle(self, kind: str, function: str) -> RandomQuestion | None:
        number, other = self._two()
        if not self._number(number):
            number, other = other, number
        if not self._number(number):
            return None
        sql = f"SELECT {function}({_quoted(number)}) FROM release"
        if self._rng.random() < 0.5:
            sql += f" WHERE {self._condition(other)}"
        return RandomQuestion(kind, sql)

    def _groups_and_number(self) -> tuple[str, str] | None:
        groups, number = self._two()
        if not self._few(groups) or not self._number(number):
            groups, number = number, groups
        if not self._few(groups) or not self._number(number):
            return None
        return _quoted(groups), _quoted(number)

    def _any(self) -> Column:
        return list(self._columns.values())[self._rng.integers(len(self._columns))]

    def _two(self) -> tuple[str, str]:
        if self._pairs and self._rng.random() < MEASURED:
            pair = self._pairs[self._rng.integers(len(self._pairs))]
            return (pair[0], pair[1]) if self._rng.random() < 0.5 else (pair[1], pair[0])
        names = list(self._columns)
        first, second = self._rng.choice(len(names), 2, replace=False)
        return names[first], names[second]

    def _number(self, name: str) -> bool:
        return isinstance(self._columns[name], IntegerColumn | NumberColumn)

    def _few(self, name: str) -> bool:
        column = self._columns[name]
        return isinstance(column, CategoricalColumn | BooleanColumn) and column.size <= MOST_GROUPS

    def _condition(self, name: str) -> str:
        """A range, or a choice of values, that holds of some rows."""
        values: list[Any] = [v for v in self._some.column(name).to_pylist() if v is not None]
        column = self._columns[name]
        if isinstance(column, CategoricalColumn | BooleanColumn) or not values:
            known = sorted({str(v).lower() if isinstance(v, bool) else v for v in values})
            many = int(self._rng.integers(1, max(2, len(known) // 2 + 1)))
            chosen = [known[place] for place in self._rng.permutation(len(known))[:many]]
            listed = ", ".join("'" + str(v).replace("'", "''") + "'" for v in chosen)
            return f"{_quoted(name)}::VARCHAR IN ({listed})"
        low, high = sorted(values[place] for place in self._rng.integers(len(values), size=2))
        text = "{!r}" if isinstance(column, IntegerColumn | NumberColumn) else "'{}'"
        return f"{_quoted(name)} BETWEEN {text.format(low)} AND {text.format(high)}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
