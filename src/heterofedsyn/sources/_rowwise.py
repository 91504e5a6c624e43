"""Queries in which one row can push out or retype another, refused where that can be seen.

What a row counts as may depend on that row and its own person alone. `LIMIT` and its like give a
row's place to another one, and readers that look for types read all rows by the sight of some.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from heterofedsyn.errors import DataError

_RANKS = ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile")
_PUSHES = (
    r"\bLIMIT\b(?!\s+ALL\b)",
    r"\bOFFSET\b",
    r"\bFETCH\s+(?:FIRST|NEXT)\b",
    r"\bTABLESAMPLE\b",
    r"\bQUALIFY\b",
    r"\bDISTINCT\s+ON\s*\(",
    rf"\b(?:{'|'.join(_RANKS)})\s*\(",
)
_PUSHING = re.compile("|".join(_PUSHES), re.IGNORECASE)
_SPARK_READERS = re.compile(
    r"(?i)(?:\b(?:json|csv|xml)|`(?:json|csv|xml)`)\s*\.\s*`|\bread_files\s*\("
)

_FILE = re.compile(r"(?i)\.(?:csv|tsv|txt|json|jsonl|ndjson)(?:\.(?:gz|zst|bz2|xz))?$")
_SNIFFER = re.compile(r"(?i)(?:read_|sniff_)?(?:csv|json|ndjson|xlsx)(?:_\w+)?|query|query_table")
_TOLD = {
    "csv": {"auto_detect": "false", "quote": ""},
    "json": {"auto_detect": "false", "format": "newline_delimited"},
}
"""With columns of text these settings leave a reader of DuckDB nothing to find out by itself."""

_TABLE_FUNCTIONS = {"range", "generate_series", "unnest", "read_parquet", "parquet_scan"}

PUSHES = (
    "LIMIT, OFFSET, FETCH, a sample, DISTINCT ON, QUALIFY or a rank such as row_number lets one "
    "row push out another; use WHERE, and a unit with its number of rows"
)
SNIFFS = (
    "a reader of CSV or JSON that finds out types by itself lets one row change how all others are "
    "read; name the file as a location of its own, or read it into a table as text"
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
    if spark and _SPARK_READERS.search(_bare(query, spark=True, escapes=True, names=True)):
        raise DataError(f"{name}: {SNIFFS}")


def _bare(query: str, *, spark: bool, escapes: bool, names: bool = False) -> str:
    """A query without what is in its strings and comments, and in quoted names unless wanted."""
    quote = "`" if spark else '"'
    inside = r"(?:[^{0}\\]|\\.|{0}{0})*(?:{0}|$)" if escapes else r"(?:[^{0}]|{0}{0})*(?:{0}|$)"
    parts = [
        r"(?P<comment>--[^\n]*|/\*)",
        r"\b[rR](?:'[^']*'|\"[^\"]*\")" if spark else r"\$(?P<tag>\w*)\$.*?\$(?P=tag)\$",
        "'" + inside.format("'"),
        rf"(?P<name>{quote}(?:[^{quote}]|{quote}{quote})*(?:{quote}|$))",
        *(['"' + inside.format('"')] if spark else []),
    ]
    pattern = re.compile("|".join(parts), re.DOTALL)
    kept, place = [], 0
    while found := pattern.search(query, place):
        kept.append(query[place : found.start()])
        kept.append(found[0] if names and found["name"] else " ? ")
        place = found.end()
        if found["comment"] == "/*":
            place = _end_of_comment(query, place)
    return "".join([*kept, query[place:]])


def _end_of_comment(query: str, place: int) -> int:
    """Where a comment ends that may hold others."""
    depth = 1
    for found in re.compile(r"/\*|\*/").finditer(query, place):
        depth += 1 if found[0] == "/*" else -1
        if not depth:
            return found.end()
    return len(query)


def check_tree(name: str, tree: object, macros: set[str] | None = None) -> None:
    """Refuses a query of DuckDB by what its own parser made of it.

    Args:
        macros: functions of the file itself, which are looked at too; None where any may be called.

    Raises:
        DataError: one row could push out another, or change how it is read.
    """
    for node in nodes(tree):
        kind = str(node.get("type", ""))
        ranks = kind.startswith("WINDOW") and str(node.get("function_name")).lower() in _RANKS
        if (
            ranks
            or kind.startswith("LIMIT")
            or node.get("sample")
            or node.get("qualify")
            or node.get("distinct_on_targets")
        ):
            raise DataError(f"{name}: {PUSHES}")
        if kind == "BASE_TABLE" and _FILE.search(str(node.get("table_name", ""))):
            raise DataError(f"{name}: {SNIFFS}")
        if kind == "TABLE_FUNCTION":
            _check_function(name, node["function"], macros)


def _check_function(name: str, call: dict[str, Any], macros: set[str] | None) -> None:
    function = str(call["function_name"]).lower()
    if _SNIFFER.fullmatch(function):
        if not _is_told(function, call):
            raise DataError(f"{name}: {SNIFFS}")
    elif macros is not None and function not in _TABLE_FUNCTIONS | macros:
        raise DataError(
            f"{name}: the query calls {function}, which reads what is no table; only select rows"
        )


def _is_told(function: str, call: dict[str, Any]) -> bool:
    """Whether a reader of files is told all that it would find out from rows."""
    told: dict[str, Any] = {}
    for argument in call["arguments"]:
        said = argument["expression"]
        if said.get("type") == "COMPARE_EQUAL":
            told[".".join(said["left"].get("column_names", ())).lower()] = said["right"]
        elif argument.get("name"):
            told[argument["name"].lower()] = said
    wanted = _TOLD["csv"] if "csv" in function else _TOLD["json"]
    kinds = [_text(node["literal"]) for node in nodes(told.get("columns")) if "literal" in node]
    all_text = bool(kinds) and all(kind.upper() in ("VARCHAR", "TEXT") for kind in kinds)
    return all_text and all(
        key in told and _text(told[key].get("literal")) == value for key, value in wanted.items()
    )


def _text(literal: Any) -> str:
    return str(literal.get("text", "")).lower() if isinstance(literal, dict) else "\0"


def nodes(tree: object) -> Iterator[dict[str, Any]]:
    """Every object of a tree of JSON."""
    if isinstance(tree, dict):
        yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for part in tree:
            yield from nodes(part)
