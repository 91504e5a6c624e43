"""Between which numbers a figure lies, whatever the rows are."""

from __future__ import annotations

import math
from typing import Any

from heterofedsyn._sql import sql_of, tree_of, worded
from heterofedsyn.errors import UsageError
from heterofedsyn.hub.questions.plain_select import arguments
from heterofedsyn.hub.release.sql_reading import TABLE, literal, uncast
from heterofedsyn.schema import Schema
from heterofedsyn.schema.binned import IntegerColumn, NumberColumn

COUNTS = frozenset({"count", "count_star", "count_if", "countif", "regr_count"})
SUMS = frozenset({"sum", "fsum", "sumkahan", "kahan_sum"})
MIDDLES = frozenset(
    {"avg", "mean", "favg", "median", "quantile", "quantile_cont", "quantile_disc", "min", "max"}
    | {"wavg", "weighted_avg", "regr_avgy", "mode"}
)
"""Aggregates that lie between the least and the greatest value of their first argument."""

OF_ANY_ROWS = {
    **dict.fromkeys(("corr",), (-1.0, 1.0)),
    **dict.fromkeys(("regr_r2", "bool_and", "bool_or"), (0.0, 1.0)),
    **dict.fromkeys(
        ("stddev", "stddev_pop", "stddev_samp", "var_pop", "var_samp", "variance", "sem", "mad"),
        (0.0, math.inf),
    ),
    **dict.fromkeys(
        ("entropy", "regr_sxx", "regr_syy", "geomean", "geometric_mean"), (0.0, math.inf)
    ),
}
"""Aggregates that lie between these numbers whatever they are of."""

Ends = tuple[float, float]
ANY: Ends = (-math.inf, math.inf)


def ends(expression: Any, schema: Schema | None, connection: Any) -> Ends:
    """The ends of an expression of aggregates, as far as they show.

    Args:
        schema: of the columns in it; none if they are not those of the release itself.
    """
    expression = uncast(expression)
    if expression.get("class") == "CONSTANT":
        return _constant(expression)
    if expression.get("type") == "OPERATOR_COALESCE":
        own = [ends(part, schema, connection) for part in expression["children"]]
        return min(low for low, _ in own), max(high for _, high in own)
    name, given = function(expression), arguments(expression)
    if name in COUNTS:
        return 0.0, math.inf
    if name in OF_ANY_ROWS:
        return OF_ANY_ROWS[name]
    if name in SUMS and given:
        low, high = _range(given[0], schema, connection)
        return 0.0 if low >= 0 else -math.inf, 0.0 if high <= 0 else math.inf
    if name in MIDDLES and given:
        return _range(given[0], schema, connection)
    if name not in ("+", "*", "/") or len(given) != 2:
        return ANY
    first, second = (ends(own, schema, connection) for own in given)
    if min(first[0], second[0]) < 0:
        return ANY
    if name == "+":
        return first[0] + second[0], first[1] + second[1]
    if name == "*":
        most = 0.0 if 0.0 in (first[1], second[1]) else first[1] * second[1]
        return first[0] * second[0], most
    if second[0] > 0:
        return 0.0, first[1] / second[0]
    return 0.0, _most_share(given[0], given[1], schema, connection)


def function(expression: Any) -> str | None:
    """The function that an expression is, under casts."""
    own = uncast(expression)
    return str(own["function_name"]).lower() if own.get("class") == "FUNCTION" else None


def _most_share(part: Any, whole: Any, schema: Schema | None, connection: Any) -> float:
    """The most that a count or sum of some rows can be for each of all rows."""
    factor = 1.0
    while function(part) == "*":
        sides = sorted(arguments(uncast(part)), key=lambda own: own.get("class") != "CONSTANT")
        factor *= _constant(sides[0])[1]
        part = sides[1]
    if function(whole) != "count_star" or uncast(whole)["filter"] is not None:
        return math.inf
    if function(part) in SUMS:
        return factor * max(_range(arguments(uncast(part))[0], schema, connection)[1], 0.0)
    return factor if function(part) in COUNTS else math.inf


def _constant(expression: Any) -> Ends:
    try:
        number = float(literal(expression))
    except (TypeError, ValueError):
        return ANY
    return number, number


def _range(expression: Any, schema: Schema | None, connection: Any) -> Ends:
    """The least and the greatest value of a column by the schema, or of what is true or false."""
    if expression.get("class") == "CONSTANT":
        return _constant(expression)
    if uncast(expression).get("class") == "CASE":
        own = _of_case(uncast(expression), schema, connection)
        return own if uncast(expression) is expression else (_down(own[0]), _up(own[1]))
    if schema is None:
        return ANY
    if expression.get("class") == "COLUMN_REF":
        name = expression["column_names"][-1].casefold()
        for column in schema.columns:
            if column.name.casefold() == name and isinstance(column, IntegerColumn | NumberColumn):
                return float(column.min), float(column.max)
    tree = tree_of(connection, "SELECT 1")
    tree[0]["node"]["select_list"] = [uncast(expression)]
    text = sql_of(connection, tree[0]["node"])
    try:
        with worded("this is of a query within the question"):
            kinds = [str(kind) for kind in connection.sql(f"{text} FROM {TABLE}").types]
    except UsageError:
        return ANY
    return (0.0, 1.0) if kinds == ["BOOLEAN"] else ANY


def _of_case(case: Any, schema: Schema | None, connection: Any) -> Ends:
    """The least and the greatest value of all branches; one that gives nothing does not count."""
    branches = [*(check["then_expr"] for check in case["case_checks"]), case["else_expr"]]
    own = [
        _range(branch, schema, connection)
        for branch in branches
        if branch.get("class") != "CONSTANT" or literal(branch) not in (None, "")
    ]
    return (min(low for low, _ in own), max(high for _, high in own)) if own else ANY


def _down(number: float) -> float:
    """A cast may round."""
    return math.floor(number) if math.isfinite(number) else number


def _up(number: float) -> float:
    return math.ceil(number) if math.isfinite(number) else number
