"""What a question in SQL asks: taken apart by DuckDB's own parser, refused if it is none."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from heterofedsyn._sql import is_one_select, nodes, sql_of, tree_of, worded
from heterofedsyn.errors import UsageError
from heterofedsyn.hub.questions.ends import COUNTS, SUMS, Ends, ends, function
from heterofedsyn.hub.questions.looking_inside import Looking, ranges_of
from heterofedsyn.hub.questions.plain_select import (
    Names,
    aggregates,
    check_form,
    is_plain,
    scalar_queries,
)
from heterofedsyn.hub.questions.tails import Tail, tail_of
from heterofedsyn.hub.questions.written_out import Sort, Written, told_apart, written_out
from heterofedsyn.hub.release.sql_reading import column_called, read
from heterofedsyn.schema import Schema

TAKEN = frozenset({"what", "estimate", "low", "high", "basis"})
"""Columns that an answer has besides its keys."""

_ONE_SELECT = "a question is one SELECT"
_OF_TRUTH = re.compile(r"No function matches .* '(\w+)\(BOOLEAN\b")
_NUMBERS = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER"}
    | {"UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL"}
)
_KEYS = _NUMBERS | {
    *("VARCHAR", "ENUM", "BOOLEAN", "DATE", "TIME", '"NULL"'),
    *("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"),
}


@dataclass(frozen=True)
class Output:
    """One column of the result.

    Attributes:
        columns: of the release, that decide its values: its own, and those of all conditions.
        rows_by: the same without HAVING, which only chooses among values.
        inside: of these, the ones within whose bins it looks, where nothing was measured.
        compared: the ordered ones that it puts beside each other row by row.
        tail: whether it hangs on few rows at an end.
        ends: between which numbers it lies, whatever the rows are.
        of_nobody: its value for a group without rows, if it has one.
        is_count: whether it is how many rows there are, and nothing else.
        of_column: what column it is itself, if it is a key and no more than that.
    """

    name: str
    is_key: bool
    columns: tuple[str, ...]
    rows_by: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    compared: tuple[str, ...] = ()
    tail: Tail | None = None
    ends: Ends = (-math.inf, math.inf)
    of_nobody: float | None = None
    is_count: bool = False
    of_column: str | None = None


@dataclass(frozen=True)
class Question:
    """A query of aggregates, fit to be asked of a release and its replicates.

    Attributes:
        sql: as it was asked.
        of_replicates: the same for every group, in any order: without HAVING, ORDER BY and LIMIT.
        of_sizes: how many rows each group has, last in the result; none if that is not of rows of
            the release.
        touched: every column of the release that it names.
        chosen_by: the columns that decide which groups there are and in which order.
        order: the outputs that groups are in order of; none if that is by something else.
        lists_all: whether it asks for every group there is, and of rows of the release.
        where: the columns of WHERE; none if there is no WHERE.
    """

    sql: str
    of_replicates: str
    of_sizes: str | None
    outputs: tuple[Output, ...]
    touched: tuple[str, ...]
    chosen_by: tuple[str, ...]
    order: tuple[Sort, ...] | None
    lists_all: bool
    where: tuple[str, ...] | None

    @classmethod
    def of(cls, sql: str, schema: Schema, connection: Any) -> Question:
        """The question that a text asks.

        Args:
            connection: a closed database that has the table, without rows.

        Raises:
            UsageError: it is none, with what to write instead.
        """
        with read("the question", sql):
            node = _one_select(sql, connection)
            return _taken_apart(sql, node, schema, connection)

    @property
    def figures(self) -> list[Output]:
        """The outputs that get intervals."""
        return [output for output in self.outputs if not output.is_key]

    @property
    def keys(self) -> list[Output]:
        """The outputs that groups are told apart by."""
        return [output for output in self.outputs if output.is_key]


def _one_select(sql: str, connection: Any) -> Any:
    with worded("DuckDB does not read the question"):
        single = is_one_select(connection, sql)
        tree = tree_of(connection, sql) if single else None
    if not single:
        raise UsageError(f"{_ONE_SELECT}; this is another statement, or several")
    if tree is None:
        raise UsageError("the question cannot be taken apart; write it as a plain SELECT")
    node = tree[0]["node"]
    if node["type"] != "SELECT_NODE":
        raise UsageError(f"{_ONE_SELECT}; ask those of UNION, EXCEPT or a list of values singly")
    if len(node["group_sets"]) > 1:
        raise UsageError("ROLLUP, CUBE and GROUPING SETS are several questions; ask them singly")
    return node


def _taken_apart(sql: str, node: Any, schema: Schema, connection: Any) -> Question:
    names = check_form(node, schema)
    written = written_out(node, schema)  # too large a question must not come to DuckDB
    _check_alone(node, connection)
    is_figure = _figures(node, names)
    if not any(is_figure):
        raise UsageError(
            "the question has no aggregate such as count(*) or avg(age) in its outermost "
            "SELECT; `heterofedsyn sample` gives rows"
        )
    described = _described(sql, connection)
    _check_outputs(described, is_figure)
    looking = Looking.of(schema, connection, node)
    _check_distinct(written, looking)
    parts = _Parts(node, schema, connection, names, written, looking, is_figure)
    outputs = tuple(
        parts.output(place, name.replace("count_star()", "count(*)") if own else name)
        for place, ((name, _), own) in enumerate(zip(described, is_figure, strict=True))
    )
    sized = {**node, "select_list": [*node["select_list"], _count_of_rows(connection)]}
    where = node["where_clause"]
    picks = node["having"] or any(own["type"].startswith("LIMIT") for own in node["modifiers"])
    return Question(
        sql,
        _for_replicates(node, connection),
        _for_replicates(sized, connection) if is_plain(node) else None,
        outputs,
        _in_order(names.columns(node), schema),
        _in_order(parts.shared | names.columns(node["having"]) | parts.order, schema),
        written.sorts,
        is_plain(node) and not picks,
        _in_order(names.columns(where), schema) if where else None,
    )


@dataclass(frozen=True, eq=False)
class _Parts:
    """What a question is taken apart with."""

    node: Any
    schema: Schema
    connection: Any
    names: Names
    written: Written
    looking: Looking
    is_figure: Sequence[bool]

    @cached_property
    def shared(self) -> set[str]:
        """The columns of keys and conditions, but for HAVING."""
        parts = ("where_clause", "group_expressions", "from_table", "cte_map")
        pairs = zip(self.node["select_list"], self.is_figure, strict=True)
        keys = [item for item, own in pairs if not own]
        return self.names.columns([keys, *(self.node[part] for part in parts)])

    @cached_property
    def order(self) -> set[str]:
        """The columns of ORDER BY."""
        return self.names.columns([*self.written.order])

    @cached_property
    def _keys(self) -> list[Any]:
        pairs = zip(self.written.items, self.is_figure, strict=True)
        return [[item for item, own in pairs if not own], *self.written.groups]

    @cached_property
    def _conditions(self) -> list[Any]:
        levels = (self.written, *self.written.beneath)
        return [condition for level in levels for condition in level.conditions]

    @cached_property
    def _inside(self) -> set[str]:
        """The columns within whose bins keys and conditions look."""
        return self.looking.keys(self._keys) | self.looking.values(self._conditions)

    @cached_property
    def _compared(self) -> set[str]:
        """The columns that keys and conditions put beside each other."""
        return self.looking.compared([self._keys, self._conditions])

    def output(self, place: int, name: str) -> Output:
        """One output."""
        item, meant = self.node["select_list"][place], self.written.items[place]
        having = self.names.columns(self.node["having"])
        if not self.is_figure[place]:
            columns = _in_order(self.shared | having, self.schema)
            itself = is_plain(self.node) and meant.get("class") == "COLUMN_REF"
            of_column = meant["column_names"][-1] if itself else None
            return Output(name, True, columns, of_column=of_column)
        own = self.shared | self.names.columns(item)
        return Output(
            name,
            False,
            _in_order(own | having, self.schema),
            _in_order(own, self.schema),
            _in_order(self._inside | self.looking.values(meant), self.schema),
            _in_order(self._compared | self.looking.compared(meant), self.schema),
            tail_of(meant),
            ends(item, self.schema if is_plain(self.node) else None, self.connection),
            _of_nobody(self.node, item, self.connection),
            function(item) == "count_star" and item.get("filter") is None,
        )


def _check_distinct(written: Written, looking: Looking) -> None:
    """Refuse to count values that are invented within their bins."""
    for name in sorted(looking.keys([*told_apart(written)])):
        raise UsageError(
            f"values of {name!r} are invented within its bins, so how many differ means nothing; "
            f"count ranges of it that are wider, as in {ranges_of(looking.schema, name)}"
        )


def _figures(node: Any, names: Names) -> list[bool]:
    """Which outputs are no keys: they have an aggregate, a query, or the name of such a one."""
    listed = node["select_list"]
    figures = [aggregates(item) or any(True for _ in scalar_queries(item)) for item in listed]
    plain = is_plain(node)
    for place, item in enumerate(listed):
        named = {
            listed[before]["alias"].casefold()
            for before in range(place)
            if figures[before] and listed[before].get("alias")
        }
        for part in nodes(item):
            if part.get("class") == "COLUMN_REF" and len(part["column_names"]) == 1:
                word = part["column_names"][0].casefold()
                own = plain and column_called(names.schema, word) is not None
                figures[place] |= word in named and not own
    return figures


def _check_alone(node: Any, connection: Any) -> None:
    """Refuse queries within expressions that hang on the row around them."""
    for own in scalar_queries(node):
        with worded("a query within an expression must be one that could be asked alone"):
            connection.sql(sql_of(connection, {**own, "cte_map": node["cte_map"]}))


def _described(sql: str, connection: Any) -> list[tuple[str, str]]:
    """Names and types of the result's columns; the query is bound, and so checked, on the way."""
    try:
        with worded("DuckDB refuses the question"):
            relation = connection.sql(sql)
            return [*zip(relation.columns, map(str, relation.types), strict=True)]
    except UsageError as error:
        truth = _OF_TRUTH.search(str(error))
        if truth is None:
            raise
        name = truth[1]
        raise UsageError(
            f"{name}() is of numbers, and this is true or false; for the share that is true write "
            f"{name}(CAST(... AS INTEGER)), for how many count(*) FILTER (WHERE ...)"
        ) from None


def _check_outputs(described: Sequence[tuple[str, str]], is_figure: Sequence[bool]) -> None:
    seen: set[str] = set()
    for (name, kind), figure in zip(described, is_figure, strict=True):
        if name.casefold() in seen:
            raise UsageError(f"two outputs are called {name!r}; name them apart with AS")
        seen.add(name.casefold())
        plain = kind.partition("(")[0]
        if figure and plain not in _NUMBERS | {'"NULL"'}:
            raise UsageError(
                f"{name} is of type {kind.lower()}, and intervals are of numbers; count rows, or "
                "turn it into a number: CAST(... AS INTEGER), epoch(...)"
            )
        if not figure and (plain not in _KEYS or kind.endswith("]")):
            raise UsageError(
                f"{name} is of type {kind.lower()}; group by numbers, texts, truth values, dates "
                "or timestamps without a time zone"
            )
        if not figure and name.casefold() in TAKEN:
            raise UsageError(
                f"an answer has a column {name!r} of its own; give yours another name with AS"
            )


def _count_of_rows(connection: Any) -> Any:
    """What the parser makes of count(*)."""
    return tree_of(connection, "SELECT count(*)")[0]["node"]["select_list"][0]


def _for_replicates(node: Any, connection: Any) -> str:
    kept = [own for own in node["modifiers"] if own["type"] == "DISTINCT_MODIFIER"]
    return sql_of(connection, {**node, "modifiers": kept, "having": None})


def _of_nobody(node: Any, item: Any, connection: Any) -> float | None:
    """A figure of no rows: 0 for counts and sums, unknown for most others."""
    if function(item) in COUNTS | SUMS:
        return 0.0
    alone = {
        **node,
        "select_list": [item],
        "group_expressions": [],
        "group_sets": [],
        "modifiers": [],
        "having": None,
        "aggregate_handling": "STANDARD_HANDLING",
    }
    try:
        with worded("this figure hangs on its group"):
            rows = connection.execute(sql_of(connection, alone)).fetchall()
    except UsageError:
        return None
    value = float(rows[0][0]) if len(rows) == 1 and rows[0][0] is not None else math.nan
    return value if math.isfinite(value) else None


def _in_order(names: set[str], schema: Schema) -> tuple[str, ...]:
    return tuple(column.name for column in schema.columns if column.name in names)
