"""Queries in which one row can push out or retype another, refused where that can be seen.

What a row counts as may depend on that row and its own person alone. `LIMIT` and its like give a
row's place to another one, and readers that look for types read all rows by the sight of some.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from heterofedsyn._sql import nodes
from heterofedsyn.errors import DataError

_PUSHES = (
    r"\bLIMIT\b(?!\s+ALL\b)",
    r"\bOFFSET\b",
    r"\bFETCH\s+(?:FIRST|NEXT)\b",
    r"\bTABLESAMPLE\b",
    r"\bQUALIFY\b",
    r"\bDISTINCT\s+ON\s*\(",
    r"\bOVER\s*\(",
    r"\bWINDOW\s+\S+\s+AS\s*\(",
)
_PUSHING = re.compile("|".join(_PUSHES), re.IGNORECASE)
_PLACE = re.compile(r"(?i)\b(?:ctid|monotonically_increasing_id|row_index)\b")
"""What tells where a row lies among others, also as a name in quotes."""

_SPARK_READERS = re.compile(
    r"(?i)(?:\b(?:json|csv|xml)|`(?:json|csv|xml)`)\s*\.\s*`|\bread_files\s*\("
)

_PARQUET = re.compile(r"(?is)(?!.*\.\w+\?).*\.parquet")
"""A file that DuckDB reads by its own types; it takes `x.csv?y.parquet` for CSV."""

_SNIFFER = re.compile(r"(?i)(?:read_|sniff_)?(?:csv|json|ndjson|xlsx)(?:_\w+)?|query|query_table")
_JOINS = {"REGULAR", "NATURAL", "CROSS", "DEPENDENT"}
_PLACES = {"rowid", "file_row_number"}
_TABLE_FUNCTIONS = {"range", "generate_series", "unnest", "read_parquet", "parquet_scan"}

PUSHES = (
    "LIMIT, OFFSET, FETCH, a sample, DISTINCT ON, QUALIFY, a window (OVER), a join by place or a "
    "row's number lets one row push out another; use WHERE, and a unit with its number of rows"
)
SNIFFS = (
    "a reader of CSV or JSON in a query finds out types by itself or ends at an odd line, so one "
    "row changes how others are read; name a CSV file as a location of its own, or write Parquet"
)


def check_text(name: str, query: str, *, spark: bool = False) -> None:
    """Refuses a query of a server by its words, outside of strings, quoted names and comments.

    Raises:
        DataError: one row could push out another, or change how it is read.
    """
    # Whether a backslash hides a quote is a setting of the server.
    for words in {_bare(query, spark=spark, escapes=escapes) for escapes in (spark, True)}:
        if _PUSHING.search(words):
            raise DataError(f"{name}: {PUSHES}")
    if _PLACE.search(_bare(query, spark=spark, escapes=spark, names=True)):
        raise DataError(f"{name}: {PUSHES}")
    if spark and _SPARK_READERS.search(_bare(query, spark=True, escapes=True, names=True)):
        raise DataError(f"{name}: {SNIFFS}")


def _bare(query: str, *, spark: bool, escapes: bool, names: bool = False) -> str:
    """A query without what is in its strings and comments, and in quoted names unless wanted."""
    quote = "`" if spark else '"'
    inside = r"(?:[^{0}\\]|\\.|{0}{0})*(?:{0}|$)" if escapes else r"(?:[^{0}]|{0}{0})*(?:{0}|$)"
    parts = [
        r"(?P<comment>--[^\r\n]*|/\*)",
        r"\b[rR](?:'[^']*'|\"[^\"]*\")"
        if spark
        else r"(?<![\w$])\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$",
        "'" + inside.format("'"),
        rf"(?P<name>{quote}(?:[^{quote}]|{quote}{quote})*(?:{quote}|$))",
        *(['"' + inside.format('"')] if spark else []),
    ]
    pattern = re.compile("|".join(parts), re.DOTALL)
    kept, place = [], 0
    while match := pattern.search(query, place):
        kept.append(query[place : match.start()])
        shown = match[0] if names and match["name"] else " ? "
        kept.append(" " if match["comment"] else shown)  # words around a comment belong together
        place = match.end()
        if match["comment"] == "/*":
            place = _end_of_comment(query, place)
    return "".join([*kept, query[place:]])


def _end_of_comment(query: str, place: int) -> int:
    """Where a comment ends that may hold others."""
    depth = 1
    for match in re.compile(r"/\*|\*/").finditer(query, place):
        depth += 1 if match[0] == "/*" else -1
        if not depth:
            return match.end()
    return len(query)


def check_tree(
    name: str, tree: object, tables: Collection[str], macros: Collection[str] | None
) -> None:
    """Refuses a query of DuckDB by what its own parser made of it.

    Args:
        tables: tables and views of the database, in small letters.
        macros: functions of the file itself, which are looked at too; None where any may be called.

    Raises:
        DataError: one row could push out another, or change how it is read.
    """
    for node in nodes(tree):
        kind = str(node.get("type", ""))
        if _pushes(kind, node):
            raise DataError(f"{name}: {PUSHES}")
        if kind == "BASE_TABLE" and not _is_table(str(node["table_name"]), tables):
            raise DataError(f"{name}: {SNIFFS}")
        if kind == "TABLE_FUNCTION":
            _check_function(name, node["function"], macros)


def _pushes(kind: str, node: dict[str, Any]) -> bool:
    """Whether a part of a query lets a row take the place of another."""
    named = [*node.get("column_names", ()), *node.get("using_columns", ()), node.get("name")]
    return bool(
        kind.startswith(("LIMIT", "WINDOW"))
        or (kind == "JOIN" and node["ref_type"] not in _JOINS)
        or any(str(word).lower() in _PLACES for word in named)
        or node.get("sample")
        or node.get("qualify")
        or node.get("distinct_on_targets")
        or node.get("key_targets")
    )


def _is_table(table: str, tables: Collection[str]) -> bool:
    """Whether a name cannot be that of a file whose types DuckDB would look for."""
    return "." not in table or table.lower() in tables or bool(_PARQUET.fullmatch(table))


def _check_function(name: str, call: dict[str, Any], macros: Collection[str] | None) -> None:
    function = str(call["function_name"]).lower()
    if _SNIFFER.fullmatch(function):
        raise DataError(f"{name}: {SNIFFS}")
    if macros is not None and function not in {*_TABLE_FUNCTIONS, *macros}:
        raise DataError(
            f"{name}: the query calls {function}, which reads what is no table; only select rows"
        )
