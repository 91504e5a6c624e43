"""What looks inside bins, where nobody measured: decided from their edges, not from words.

An expression is put to values within every bin. What is constant there is as well known as the
bin, and what only rises or only falls there changes as the bins of replicates lean. All else (the
hour of a moment in bins of weeks, the last digit of an amount) hangs on how values lie within bins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from heterofedsyn._arrays import Floats, Integers, arrow_of, stream
from heterofedsyn._sql import nodes, sql_of, tree_of, worded
from heterofedsyn.errors import SchemaError, UsageError
from heterofedsyn.hub.questions.plain_select import aggregates, arguments
from heterofedsyn.hub.release.sql_reading import literal
from heterofedsyn.schema import Schema
from heterofedsyn.schema.binned import (
    BinnedColumn,
    DateColumn,
    DatetimeColumn,
    IntegerColumn,
    NumberColumn,
)

if TYPE_CHECKING:
    import pyarrow as pa

POINTS = 20_000
"""Values to which an expression is put, about as many in every bin."""

LEAST_POINTS, FEW_POINTS, MOST_POINTS = 32, 100, 1_000
"""Of one bin; few where other columns are drawn besides."""

ROOM = 0.25
"""How far an expression may move to and fro within bins in all, as a share of its whole range; and
how much of the records with one of its values may be cut out of the middle of bins."""

DRAWS = 4
"""Values of other columns with which an expression of several is tried."""

MOST_WORDS = 100
"""Constants of a question at which it may change."""

_WITHIN = "within_bins"
_COMPARING = ("COMPARISON", "BETWEEN")
_OF_BOTH = ("abs", "@", "greatest", "least", "sign")
_DAY = 86_400
_MONTH = 30


@dataclass(frozen=True, eq=False)
class Looking:
    """Tells which columns expressions look into.

    Attributes:
        connection: a closed database.
        words: the constants of the question.
    """

    schema: Schema
    connection: Any
    words: tuple[str, ...]

    @classmethod
    def of(cls, schema: Schema, connection: Any, node: Any) -> Looking:
        """For one question, as its parser has it."""
        found = (str(literal(part)) for part in nodes(node) if part.get("class") == "CONSTANT")
        return cls(schema, connection, tuple([*dict.fromkeys(found)][:MOST_WORDS]))

    def values(self, tree: Any) -> set[str]:
        """Columns into whose bins the expressions of a tree look."""
        return {
            name
            for expression in _scalars(tree)
            for part in _apart(expression, self._columns)
            for name in self._looked_into(part, lambda along: along.moves_astray)
        }

    def keys(self, tree: Any) -> set[str]:
        """Columns into whose bins one looks who tells the values of a tree's expressions apart."""
        split = {
            name
            for own in _scalars(tree, plain=True)
            for name in self._looked_into(own, lambda along: along.cuts_out)
        }
        return split | self.values(tree)

    def compared(self, tree: Any) -> set[str]:
        """Ordered columns that are put beside each other row by row.

        As by which of two is greater, how far they are apart, or whether they are alike.
        """
        found: set[str] = set()
        for part in nodes(tree):
            name = str(part.get("function_name", "")).lower()
            if part.get("class") in _COMPARING or name in _OF_BOTH:
                sides = [{*self._columns(side)} for side in _children(part)]
                beside = [side for side in sides if side]
                if len(set().union(*beside)) > 1 and (name in _OF_BOTH or len(beside) > 1):
                    found |= set().union(*beside)
        return {name for name in found if self.schema.column(name).ordered}

    def _columns(self, expression: Any) -> list[str]:
        return [
            *dict.fromkeys(
                part["column_names"][-1]
                for part in nodes(expression)
                if part.get("class") == "COLUMN_REF"
            )
        ]

    def _looked_into(self, expression: Any, test: Callable[[Along], bool]) -> Iterator[str]:
        names = self._columns(expression)
        for name in names:
            column = self.schema.column(name)
            if not isinstance(column, BinnedColumn) or not is_coarse(column):
                continue
            probe = _Probe(self.schema, column, names, self.words)
            found = (
                Along.of(own, probe.parts, probe.weights) for own in self._put(expression, probe)
            )
            if any(map(test, found)):
                yield name

    def _put(self, expression: Any, probe: _Probe) -> Iterator[list[Any]]:
        """The values of an expression along a column, for each draw of the others."""
        (statement,) = tree_of(self.connection, f"SELECT TRY(1) FROM {_WITHIN}")
        node = statement["node"]
        (tried,) = node["select_list"]
        node["select_list"] = [{**tried, "children": [expression]}]
        text = sql_of(self.connection, node)
        for table in probe.tables:
            self.connection.register(_WITHIN, table)
            try:
                with worded("this is no expression of one row"):
                    yield [own for (own,) in self.connection.execute(text).fetchall()]
            except UsageError:
                return
            finally:
                self.connection.unregister(_WITHIN)


@dataclass(frozen=True, eq=False)
class _Probe:
    """Values of one column in the order of its bins, beside fixed values of others."""

    schema: Schema
    column: BinnedColumn
    names: Sequence[str]
    words: Sequence[str]

    @cached_property
    def numbers(self) -> Any:
        """The values, in the unit of the column."""
        grid = self.column.grid
        bins = grid.layout.bins
        most = MOST_POINTS if len(self.names) == 1 else FEW_POINTS
        many = min(max(POINTS // bins, LEAST_POINTS), most)
        rng = stream(0, f"within bins of {self.column.name}")
        first, last = (own[grid.layout.code_of_bin] for own in grid.spans)
        drawn = [
            grid.between(np.repeat(first, many), np.repeat(last, many), rng)
            if grid.edges.dtype.kind == "f" or int((last - first).max()) >= many
            else np.concatenate([np.arange(a, b + 1) for a, b in zip(first, last, strict=True)])
        ]
        numbers = np.unique(np.concatenate([*drawn, first, last, self._near_words]))
        return numbers[~np.isin(numbers, grid.atoms)]

    @property
    def _near_words(self) -> Any:
        """The constants of the question that are values of the column, and those beside them."""
        grid = self.column.grid
        kind = grid.edges.dtype
        found: list[float] = []
        for word in self.words:
            number = _number(self.column, word)
            if number is None or not grid.low <= number <= grid.high:
                continue
            if kind.kind == "f":
                found += [number, math.nextafter(number, -math.inf), grid.after(number)]
            else:
                found += [math.floor(number) + step for step in (-1, 0, 1, 2)]
        return np.clip(np.array(found, kind), grid.low, grid.high)

    @property
    def parts(self) -> Integers:
        """The bin of each value."""
        return self.column.grid.part_of(self.numbers)

    @property
    def weights(self) -> Floats:
        """How far it is from each value to those beside it, in its bin."""
        middles = (self.numbers[1:] + self.numbers[:-1]) / 2
        whole = self.column.grid.edges.dtype.kind != "f"
        ends = np.concatenate([self.numbers[:1] - 0.5 * whole, middles, self.numbers[-1:]])
        ends[-1] += 0.5 * whole
        return np.maximum(np.diff(ends), 1e-300)

    @property
    def tables(self) -> Iterator[pa.Table]:
        """The values, once for each draw of the other columns."""
        import pyarrow as pa

        many = self.numbers.size
        own = self.column.written(self.numbers, np.zeros(many, np.bool_))
        others = [self.schema.column(name) for name in self.names if name != self.column.name]
        rng = stream(0, f"beside {self.column.name}")
        for _ in range(DRAWS if others else 1):
            beside = {
                other.name: other.decode(np.full(1, rng.integers(other.size)), rng).take(
                    arrow_of(np.zeros(many, np.int64))
                )
                for other in others
            }
            yield pa.table({self.column.name: own, **beside})


def is_coarse(column: BinnedColumn) -> bool:
    """Whether bins of a column hold several values."""
    edges = column.grid.edges
    return edges.dtype.kind == "f" or bool(np.any(np.diff(edges) > 1))


def ranges_of(schema: Schema, name: str) -> str:
    """Ranges of a column that are wider than its bins, as one writes them."""
    column = schema.column(name)
    assert isinstance(column, BinnedColumn)
    width = float(np.diff(column.grid.edges).max())
    if isinstance(column, DateColumn | DatetimeColumn):
        days = width / (1 if isinstance(column, DateColumn) else _DAY)
        word = "year" if days > _MONTH / 2 else "month" if days > 0.5 else "day"
        return f"date_trunc('{word}', {column.name})"
    whole = isinstance(column, IntegerColumn)
    size = 10.0 ** math.ceil(math.log10(width / (1 if whole else _scale(column))))
    return f"{column.name} // {size:.0f}" if whole else f"floor({column.name} / {size:g})"


@dataclass(frozen=True, eq=False)
class Along:
    """What an expression gives along a column, from bin to bin.

    Attributes:
        numbers: its values in the order of the column's.
        parts: the bin of each, rising.
        weights: how much of its bin each stands for.
    """

    numbers: Floats
    parts: Integers
    weights: Floats

    @classmethod
    def of(cls, values: Sequence[Any], parts: Integers, weights: Floats | None = None) -> Along:
        return cls(_ranked(values), parts, np.ones(parts.size) if weights is None else weights)

    @property
    def moves_astray(self) -> bool:
        """Whether it moves to and fro within bins, or the same way anew in each.

        >>> Along.of([0, 1, 2, 3], np.array([0, 0, 1, 1])).moves_astray
        False
        >>> Along.of([0, 1, 0, 1], np.array([0, 0, 1, 1])).moves_astray
        True
        """
        numbers, parts = self.numbers, self.parts
        whole = float(np.ptp(numbers))
        first, last = self._ends
        moved = numbers[last] - numbers[first]
        back = numbers[first[1:]] - numbers[last[:-1]]
        again = (np.sign(back) == -np.sign(moved[:-1])) & (np.sign(back) == -np.sign(moved[1:]))
        least = np.minimum(np.abs(back), np.minimum(np.abs(moved[:-1]), np.abs(moved[1:])))
        astray = float(least[again].sum())
        if np.unique(numbers).size <= 2:
            return astray > ROOM * whole or self.cuts_out
        inside = np.abs(np.where(np.diff(parts) == 0, np.diff(numbers), 0.0)).sum()
        return astray + float(inside - np.abs(moved).sum()) > ROOM * whole

    @property
    def cuts_out(self) -> bool:
        """Whether one of its values lies in the middle of bins more than at their ends or beyond.

        >>> Along.of([1, 2, 3], np.array([0, 0, 0])).cuts_out
        True
        >>> Along.of([1, 1, 2], np.array([0, 0, 0])).cuts_out
        False
        """
        first, last = self._ends
        shares = self.weights / np.bincount(self.parts, self.weights)[self.parts]
        kinds, kind = np.unique(self.numbers, return_inverse=True)
        begins = np.diff(kind, prepend=-1) != 0
        begins[first] = True
        starts = np.flatnonzero(begins)
        stops = np.append(starts[1:], kind.size) - 1
        share = np.bincount(np.cumsum(begins) - 1, shares)
        between = ~np.isin(starts, first) & ~np.isin(stops, last)
        unknown = np.where(between, np.minimum(share, 1 - share), 0.0)
        own = kind[starts]
        cut = np.bincount(own, unknown, kinds.size) / np.bincount(own, share, kinds.size)
        return bool(cut.max() > ROOM)

    @property
    def _ends(self) -> tuple[Integers, Integers]:
        """The first and the last place of every bin."""
        first = np.flatnonzero(np.diff(self.parts, prepend=-1))
        return first, np.append(first[1:], self.parts.size) - 1


def _ranked(values: Sequence[Any]) -> Floats:
    """Values as numbers; what has no size as its place in order, and nothing below all others."""
    known = [own for own in values if own is not None]
    if all(isinstance(own, bool | int | float) or _is_decimal(own) for own in known):
        numbers = np.array([math.nan if own is None else float(own) for own in values])
        finite = numbers[np.isfinite(numbers)]
        if not finite.size:
            return np.zeros(numbers.size)
        below = finite.min() - max(float(np.ptp(finite)), 1.0)
        return np.where(np.isfinite(numbers), numbers, below)
    order = {own: place for place, own in enumerate(sorted(set(known)))}
    return np.array([-1.0 if own is None else order[own] for own in values], np.float64)


def _scale(column: BinnedColumn) -> int:
    return column.scale if isinstance(column, NumberColumn) else 1


def _is_decimal(value: Any) -> bool:
    return type(value).__name__ == "Decimal"


def _number(column: BinnedColumn, word: str) -> float | None:
    """A constant in the unit of a column."""
    try:
        if isinstance(column, IntegerColumn):
            return float(word)
        if isinstance(column, NumberColumn):
            return float(word) * column.scale
        moment = datetime.fromisoformat(word)
        known: date = moment if isinstance(column.min, datetime) else moment.date()
        return float(column.number(known, "a constant"))
    except (ValueError, TypeError, SchemaError):
        return None


def _scalars(tree: Any, *, plain: bool = False) -> Iterator[Any]:
    """The largest expressions of single rows; columns themselves only if `plain`."""
    if isinstance(tree, list | tuple):
        for part in tree:
            yield from _scalars(part, plain=plain)
    elif isinstance(tree, dict):
        kind = tree.get("class")
        alone = kind not in (None, "SUBQUERY", "TYPE") and not aggregates(tree)
        if alone and not any(part.get("class") == "SUBQUERY" for part in nodes(tree)):
            if kind != "CONSTANT" and (plain or kind != "COLUMN_REF"):
                yield tree
            return
        for part in tree.values():
            yield from _scalars(part, plain=plain)


def _apart(expression: Any, columns: Any) -> Iterator[Any]:
    """An expression, and of one of several columns also its parts: each may look inside."""
    names = columns(expression)
    if not names:
        return
    if len(names) == 1:
        yield expression
        return
    inner = [part for part in _children(expression) if columns(part)]
    if expression.get("class") == "CONJUNCTION":
        for name in names:
            own = [part for part in inner if columns(part) == [name]]
            if own:
                yield {**expression, "children": own} if len(own) > 1 else own[0]
        inner = [part for part in inner if len(columns(part)) > 1]
    elif expression.get("class") != "CASE":
        yield expression
    for part in inner:
        yield from _apart(part, columns)


def _children(expression: Any) -> list[Any]:
    """The expressions right within one."""
    if expression.get("class") == "FUNCTION":
        return arguments(expression)
    found: list[Any] = []
    for part in expression.values():
        listed = part if isinstance(part, list) else [part]
        for own in listed:
            if isinstance(own, dict):
                found += [own] if "class" in own else _children(own)
    return found
