"""What a question in SQL asks: taken apart by DuckDB's own parser, refused if it is none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from heterofedsyn._sql import is_one_select, nodes, tree_of, worded
from heterofedsyn.errors import UsageError, did_you_mean
from heterofedsyn.schema import Schema
from heterofedsyn.schema.binned import IntegerColumn, NumberColumn
from heterofedsyn.schema.columns import KeyColumn

TABLE = "release"
"""What a question calls the table."""

ADDITIVE = frozenset({"count", "count_star", "count_if", "countif", "sum", "fsum", "sumkahan"})
"""Of a group without rows these are 0; other aggregates are unknown."""

COUNTS = frozenset({"count", "count_star", "count_if", "countif"})
MIDDLES = frozenset(
    {"avg", "mean", "favg", "median", "quantile", "quantile_cont", "quantile_disc", "min", "max"}
)
"""Aggregates that lie between the least and the greatest value of their first argument."""

EXTREMES = frozenset({"min", "max", "mode", "arg_min", "arg_max", "argmin", "argmax"})
"""Aggregates that hang on single rows."""

_FUNCTIONS = "SELECT function_name, function_type, stability FROM duckdb_functions()"
_ONE_SELECT = "a question is one SELECT"
_INFINITE = float("inf")
_ANY = (-_INFINITE, _INFINITE)
_NUMBERS = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER"}
    | {"UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL"}
)


@dataclass(frozen=True)
class Output:
    """One column of the result.

    Attributes:
        columns: of the release, that decide its values: its own, and those of all conditions.
        expression: as DuckDB's parser tells it.
    """

    name: str
    is_key: bool
    columns: tuple[str, ...]
    expression: Any

    @property
    def functions(self) -> frozenset[str]:
        """The functions in it."""
        return frozenset(_functions(self.expression))

    @property
    def additive(self) -> bool:
        """Whether it is a count or a sum as it stands."""
        return bool(_function(self.expression) in ADDITIVE)


@dataclass(frozen=True)
class Question:
    """A query of aggregates, fit to be asked of a release and its replicates.

    Attributes:
        sql: as it was asked.
        of_replicates: the same for every group, in any order: without HAVING, ORDER BY and LIMIT.
        touched: every column of the release that it names.
    """

    sql: str
    of_replicates: str
    outputs: tuple[Output, ...]
    touched: tuple[str, ...]

    @classmethod
    def of(cls, sql: str, schema: Schema, connection: Any) -> Question:
        """The question that a text asks.

        Args:
            connection: a closed database that has the table, perhaps without rows.

        Raises:
            UsageError: it is none, with what to write instead.
        """
        node = _one_select(sql, connection)
        known = {column.name.casefold(): column.name for column in schema.columns}
        kinds, unstable = _known_functions(connection)
        _check_tables(node)
        _check_parts(node, unstable)
        _check_columns(node, schema, known)
        described = _described(sql, connection)
        listed = node["select_list"]
        aggregated = [_aggregates(item, kinds) for item in listed]
        if not any(aggregated):
            raise UsageError(
                "the question has no aggregate such as count(*) or avg(age) in its outermost "
                "SELECT; `heterofedsyn sample` gives rows"
            )
        shared = {
            name
            for part in (
                *(item for item, own in zip(listed, aggregated, strict=True) if not own),
                *(node[place] for place in ("where_clause", "group_expressions", "from_table")),
                node["cte_map"],
            )
            for name in _columns(part, known)
        }
        outputs = []
        for (name, kind), item, own in zip(described, listed, aggregated, strict=True):
            if own:
                _check_number(name, kind)
            columns = shared | ({*_columns(item, known)} if own else set())
            outputs.append(Output(name, not own, _in_order(columns, schema), item))
        touched = _in_order({*_columns(node, known)}, schema)
        return cls(sql, _for_replicates(node, connection), tuple(outputs), touched)

    def bounds(self, output: Output, schema: Schema, connection: Any) -> tuple[float, float]:
        """Between which numbers an output lies, whatever the rows are, as far as that shows."""
        return _bounds(output.expression, schema, connection)


def _one_select(sql: str, connection: Any) -> Any:
    with worded("DuckDB does not read the question"):
        single = is_one_select(connection, sql)
    if not single:
        raise UsageError(f"{_ONE_SELECT}; this is another statement, or several")
    tree = tree_of(connection, sql)
    if tree is None:
        raise UsageError("the question cannot be taken apart; write it as a plain SELECT")
    node = tree[0]["node"]
    if node["type"] != "SELECT_NODE":
        raise UsageError(f"{_ONE_SELECT}; ask those of UNION, EXCEPT or a list of values singly")
    if len(node["group_sets"]) > 1:
        raise UsageError("ROLLUP, CUBE and GROUPING SETS are several questions; ask them singly")
    return node


def _described(sql: str, connection: Any) -> list[tuple[str, str]]:
    """Names and types of the result's columns; the query is bound, and so checked, on the way."""
    with worded("DuckDB refuses the question"):
        relation = connection.sql(sql)
        return [*zip(relation.columns, map(str, relation.types), strict=True)]


def _known_functions(connection: Any) -> tuple[frozenset[str], frozenset[str]]:
    """The names of aggregates, and of functions that give another result each time."""
    if not _FOUND:
        _FOUND.append(_find_functions(connection))
    return _FOUND[0]


_FOUND: list[tuple[frozenset[str], frozenset[str]]] = []


def _find_functions(connection: Any) -> tuple[frozenset[str], frozenset[str]]:
    rows = connection.execute(_FUNCTIONS).fetchall()
    aggregates = frozenset(name for name, kind, _ in rows if kind == "aggregate")
    unstable = {name for name, _, stability in rows if stability not in (None, "CONSISTENT")}
    return aggregates, frozenset(unstable | {"reservoir_quantile", "getvariable", "getenv"})


def _check_tables(node: Any) -> None:
    with_names = {entry["key"] for own in _all_with(node, "cte_map") for entry in own["map"]}
    for part in nodes(node):
        kind = part.get("type")
        if kind == "TABLE_FUNCTION" or "function" in part:
            raise UsageError(f"a question reads no files and functions, only the table {TABLE!r}")
        if kind == "JOIN":
            raise UsageError("a question is of one table; leave out the join")
        if kind == "BASE_TABLE":
            name = part["table_name"]
            if name.casefold() != TABLE and name not in with_names:
                raise UsageError(f"there is no table {name!r}; the table is called {TABLE!r}")


def _check_parts(node: Any, unstable: frozenset[str]) -> None:
    for part in nodes(node):
        if part.get("class") == "STAR" and part in node["select_list"]:
            raise UsageError("name the columns instead of *; `heterofedsyn sample` gives rows")
        if part.get("class") == "WINDOW":
            raise UsageError("window functions are not answered; aggregate with GROUP BY instead")
        if part.get("class") in ("POSITIONAL_REFERENCE", "PARAMETER", "LAMBDA"):
            raise UsageError("name columns by their names, and write values out")
        if part.get("sample"):
            raise UsageError("a sample of rows differs each time; leave out SAMPLE")
    for name in _functions(node):
        if name in unstable:
            raise UsageError(f"{name}() gives another result each time; leave it out")


def _check_columns(node: Any, schema: Schema, known: dict[str, str]) -> None:
    aliases = {
        str(part["alias"]).casefold()
        for part in nodes(node)
        if part.get("alias") and part.get("class")
    }
    for part in nodes(node):
        if part.get("class") != "COLUMN_REF":
            continue
        name = part["column_names"][-1]
        column = known.get(name.casefold())
        if column is None and name.casefold() not in aliases:
            hint = did_you_mean(name, known.values())
            raise UsageError(f"the release has no column {name!r}; {hint}")
        if column is not None and isinstance(schema.column(column), KeyColumn):
            raise UsageError(f"column {column!r} holds invented identifiers; leave it out")


def _check_number(name: str, kind: str) -> None:
    if kind.partition("(")[0] not in _NUMBERS:
        raise UsageError(
            f"{name} is a {kind.lower()}, and intervals are of numbers; count rows, or turn it "
            "into a number: CAST(... AS INTEGER), epoch(...)"
        )


def _for_replicates(node: Any, connection: Any) -> str:
    kept = [m for m in node["modifiers"] if m["type"] not in ("ORDER_MODIFIER", "LIMIT_MODIFIER")]
    changed = {**node, "modifiers": kept, "having": None}
    tree = {"error": False, "statements": [{"node": changed, "named_param_map": []}]}
    return _text(tree, connection)


def _text(tree: Any, connection: Any) -> str:
    ((text,),) = connection.execute(
        "SELECT json_deserialize_sql(?::JSON)", [json.dumps(tree)]
    ).fetchall()
    return str(text)


def _aggregates(item: Any, kinds: frozenset[str]) -> bool:
    """Whether an expression is no key: it has an aggregate or a query of its own."""
    return any(part.get("class") == "SUBQUERY" for part in nodes(item)) or any(
        name in kinds for name in _functions(item)
    )


def _functions(tree: Any) -> Iterator[str]:
    for part in nodes(tree):
        if part.get("class") == "FUNCTION":
            yield str(part["function_name"]).lower()


def _function(expression: Any) -> str | None:
    """The function that an expression is, under casts."""
    plain = _uncast(expression)
    return str(plain["function_name"]).lower() if plain.get("class") == "FUNCTION" else None


def _columns(tree: Any, known: dict[str, str]) -> Iterator[str]:
    for part in nodes(tree):
        if part.get("class") == "COLUMN_REF":
            name = known.get(part["column_names"][-1].casefold())
            if name is not None:
                yield name


def _in_order(names: set[str], schema: Schema) -> tuple[str, ...]:
    return tuple(column.name for column in schema.columns if column.name in names)


def _all_with(tree: Any, key: str) -> Iterator[Any]:
    for part in nodes(tree):
        if isinstance(part.get(key), dict):
            yield part[key]


def _bounds(expression: Any, schema: Schema, connection: Any) -> tuple[float, float]:
    if expression.get("class") == "CAST":
        return _bounds(expression["child"], schema, connection)
    if expression.get("class") == "CONSTANT":
        return _constant(expression)
    name, arguments = _function(expression), _arguments(expression)
    if name in COUNTS:
        return 0.0, _INFINITE
    if name in MIDDLES and arguments:
        return _range(arguments[0], schema, connection)
    if name not in ("+", "*", "/") or len(arguments) != 2:
        return _ANY
    first, second = (_bounds(own, schema, connection) for own in arguments)
    if min(first[0], second[0]) < 0:
        return _ANY
    if name == "+":
        return first[0] + second[0], first[1] + second[1]
    if name == "*":
        most = 0.0 if 0.0 in (first[1], second[1]) else first[1] * second[1]
        return first[0] * second[0], most
    return 0.0, first[1] / second[0] if second[0] > 0 else _most_share(*arguments)


def _most_share(part: Any, whole: Any) -> float:
    """The most that a quotient of counts can be, if it is of some rows among all."""
    factor = 1.0
    while _function(part) == "*":
        sides = sorted(_arguments(_uncast(part)), key=lambda own: own.get("class") != "CONSTANT")
        factor *= _constant(sides[0])[1]
        part = sides[1]
    if _function(part) in COUNTS and _function(whole) == "count_star":
        return factor if _uncast(whole)["filter"] is None else _INFINITE
    return _INFINITE


def _constant(expression: Any) -> tuple[float, float]:
    literal = expression.get("literal", {}).get("text", expression.get("value"))
    value: Any = literal.get("value") if isinstance(literal, dict) else literal
    try:
        number = float(value)
    except (TypeError, ValueError):
        return _ANY
    return number, number


def _range(expression: Any, schema: Schema, connection: Any) -> tuple[float, float]:
    """The least and the greatest value of a column by the schema, or of what is true or false."""
    if expression.get("class") == "COLUMN_REF":
        name = expression["column_names"][-1].casefold()
        for column in schema.columns:
            if column.name.casefold() == name and isinstance(column, IntegerColumn | NumberColumn):
                return float(column.min), float(column.max)
    text = _expression_text(_uncast(expression), connection)
    try:
        with worded("this is of a query within the question"):
            kinds = [str(kind) for kind in connection.sql(f"SELECT {text} FROM {TABLE}").types]
    except UsageError:
        return _ANY
    return (0.0, 1.0) if kinds == ["BOOLEAN"] else _ANY


def _expression_text(expression: Any, connection: Any) -> str:
    tree = tree_of(connection, "SELECT 1")
    tree[0]["node"]["select_list"] = [expression]
    text = _text({"error": False, "statements": tree}, connection)
    return text.removeprefix("SELECT ")


def _uncast(expression: Any) -> Any:
    while expression.get("class") == "CAST":
        expression = expression["child"]
    return expression


def _arguments(expression: Any) -> list[Any]:
    """What a function is given; versions of DuckDB tell it differently."""
    if "arguments" in expression:
        return [own["expression"] for own in expression["arguments"]]
    return list(expression.get("children", ()))
