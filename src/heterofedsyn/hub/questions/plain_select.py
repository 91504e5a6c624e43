"""The form of a question: SELECTs of the one table and of each other, whose names are resolved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from heterofedsyn._sql import nodes
from heterofedsyn.errors import UsageError, plain
from heterofedsyn.hub.release.sql_reading import (
    AGGREGATES,
    EXPRESSIONS,
    SCALARS,
    TABLE,
    check_functions,
    check_no_star,
    check_values,
    column_called,
    functions,
    no_column,
)
from heterofedsyn.schema import Schema

_REFUSED_TABLES = {
    "EMPTY": f"every SELECT of a question is FROM {TABLE}",
    "JOIN": "a question is of one table; leave out the join",
    "SHOW_REF": "SHOW, DESCRIBE and SUMMARIZE are no questions; name the figures that you want",
}
_NO_TABLE = f"a question reads no files and functions, only the table {TABLE!r}"
_BUILT_IN = ("current_", "local", "session_", "rowid", "user")
"""How names begin that DuckDB fills in itself."""


@dataclass(frozen=True)
class Names:
    """What the words of a question mean.

    Attributes:
        aliases: what expressions each name stands for, by its small letters.
        tables: what tables are called, in small letters.
    """

    schema: Schema
    aliases: dict[str, list[Any]]
    tables: frozenset[str]

    @classmethod
    def of(cls, node: Any, schema: Schema) -> Names:
        """The names of a question."""
        aliases: dict[str, list[Any]] = {}
        for own in _selects(node):
            for item in own["select_list"]:
                if item.get("alias"):
                    aliases.setdefault(item["alias"].casefold(), []).append(item)
        tables = {TABLE, *(key.casefold() for key in _with_names(node))}
        tables |= {
            own["from_table"]["alias"].casefold()
            for own in _selects(node)
            if own["from_table"].get("alias")
        }
        return cls(schema, aliases, frozenset(tables))

    def columns(self, tree: Any) -> set[str]:
        """The columns of the release behind a tree, through all aliases."""
        words: set[str] = set()
        waiting = [tree]
        while waiting:
            fresh = _words(waiting.pop()) - words
            words |= fresh
            waiting += [self.aliases[word] for word in sorted(fresh) if word in self.aliases]
        found = (column_called(self.schema, word) for word in sorted(words))
        return {name for name in found if name is not None}

    def check(self, node: Any) -> None:
        """Refuse words that are neither a column nor the name of an expression."""
        for word in self.aliases:
            if word.startswith(_BUILT_IN) and column_called(self.schema, word) is None:
                raise UsageError(f"{plain(word)} means something else in SQL; give another name")
        for part in nodes(node):
            if part.get("class") != "COLUMN_REF":
                continue
            path = part["column_names"]
            word = path[-1]
            if len(path) > 2 or (len(path) == 2 and path[0].casefold() not in self.tables):
                raise no_column(self.schema, ".".join(path))
            if column_called(self.schema, word) is not None:
                continue
            if word.casefold() in self.tables:
                raise UsageError(f"{word!r} is a table; name a column of it")
            if word.casefold() not in self.aliases:
                raise no_column(self.schema, word)


def check_form(node: Any, schema: Schema) -> Names:
    """What the words of a question mean, if it has the form of one.

    Raises:
        UsageError: it has not, with what to write instead.
    """
    for part in nodes(node):
        _check_part(part)
    for own in _selects(node):
        _check_table(own["from_table"])
        _check_modifiers(own, outermost=own is node)
    check_no_star(node)
    _check_with(node)
    check_functions(node, SCALARS | AGGREGATES)
    names = Names.of(node, schema)
    names.check(node)
    check_values(schema, node)
    return names


def scalar_queries(tree: Any) -> Iterator[Any]:
    """The queries within expressions, each of which must give one number.

    Raises:
        UsageError: one gives rows.
    """
    for part in nodes(tree):
        if part.get("class") != "SUBQUERY":
            continue
        node = part["subquery"]["node"]
        single = len(node["select_list"]) == 1 and not node["group_expressions"]
        if part["subquery_type"] != "SCALAR" or not (single and aggregates(node["select_list"])):
            raise UsageError(
                "a query within an expression must give one number, as (SELECT avg(age) FROM "
                f"{TABLE}) does; use aggregates instead of IN and EXISTS"
            )
        yield node


def aggregates(tree: Any) -> bool:
    """Whether there is an aggregate in an expression."""
    return any(name in AGGREGATES for name in functions(tree))


def is_plain(node: Any) -> bool:
    """Whether a SELECT is of the table itself, so that its columns are what the schema says."""
    table = node["from_table"]
    return bool(table["type"] == "BASE_TABLE" and table["table_name"].casefold() == TABLE)


def _words(tree: Any) -> set[str]:
    """What names of columns a tree has, in small letters."""
    return {
        part["column_names"][-1].casefold()
        for part in nodes(tree)
        if part.get("class") == "COLUMN_REF"
    }


def _selects(tree: Any) -> Iterator[Any]:
    return (part for part in nodes(tree) if "select_list" in part)


def _with_names(tree: Any) -> Iterator[str]:
    for part in nodes(tree):
        if isinstance(part.get("cte_map"), dict):
            yield from (entry["key"] for entry in part["cte_map"]["map"])


def _check_part(part: Any) -> None:
    kind, shape = str(part.get("class")), str(part.get("type"))
    if shape.startswith("RECURSIVE"):
        raise UsageError("WITH RECURSIVE may never end; write the question without it")
    if shape.endswith("_NODE") and shape not in ("SELECT_NODE", "CTE_NODE"):
        raise UsageError("a question is one SELECT; ask those of UNION or EXCEPT singly")
    if kind == "WINDOW":
        raise UsageError("window functions are not answered; aggregate with GROUP BY instead")
    if "class" in part and kind not in EXPRESSIONS | {"SUBQUERY", "STAR"}:
        raise UsageError("name columns by their names, and write values out")
    if part.get("sample"):
        raise UsageError("a sample of rows differs each time; leave out SAMPLE")
    if part.get("qualify"):
        raise UsageError("QUALIFY is not answered; use HAVING")
    if part.get("column_name_alias") or ("query_node" in part and part.get("aliases")):
        raise UsageError("name columns with AS in the SELECT, not behind the table's name")


def _check_table(table: Any) -> None:
    kind = table["type"]
    if kind in _REFUSED_TABLES:
        raise UsageError(_REFUSED_TABLES[kind])
    if kind not in ("BASE_TABLE", "SUBQUERY"):
        raise UsageError(_NO_TABLE)


def _check_modifiers(node: Any, *, outermost: bool) -> None:
    for modifier in node["modifiers"]:
        if modifier.get("distinct_on_targets"):
            raise UsageError("DISTINCT ON takes single rows, which are invented; leave it out")
        if modifier["type"].startswith("LIMIT") and not outermost:
            raise UsageError("LIMIT within a question takes single rows; leave it out")


def _check_with(node: Any) -> None:
    """Every table is the release or a query of WITH, and none of these hides another table."""
    own = {name.casefold() for name in _with_names(node)}
    for name in own:
        if name == TABLE or name.startswith(("pg_", "duckdb_", "sqlite_")) or name in _INTERNAL:
            raise UsageError(f"{plain(name)} is a table already; give the query another name")
    for part in nodes(node):
        if part.get("type") != "BASE_TABLE":
            continue
        name = part["table_name"]
        elsewhere = part.get("schema_name") or part.get("catalog_name")
        if elsewhere or name.casefold() not in own | {TABLE}:
            raise UsageError(f"there is no table {name!r}; the table is called {TABLE!r}")


DRAWN = "drawn"
"""What holds the rows that the table shows."""

_INTERNAL = frozenset({DRAWN, "tables", "columns", "schemata", "pragma_database_list"})


def arguments(expression: Any) -> list[Any]:
    """What a function is given; versions of DuckDB tell it differently."""
    if "arguments" in expression:
        return [own["expression"] for own in expression["arguments"]]
    return list(expression.get("children", ()))
