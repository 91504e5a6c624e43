"""A condition on rows in DuckDB's own SQL, read by its parser: one expression, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from heterofedsyn._sql import database_of, duckdb_for, nodes, tree_of
from heterofedsyn.errors import UsageError, did_you_mean
from heterofedsyn.schema import EncodedTable, KeyColumn, Schema, decode

if TYPE_CHECKING:
    import pyarrow as pa

TABLE = "release"
"""What rows are called in SQL."""

MOST_LETTERS = 10_000
"""Of a condition."""

_WHO = "a condition on rows"
_EXPRESSIONS = {
    *("COMPARISON", "CONJUNCTION", "OPERATOR", "BETWEEN", "CASE", "CAST", "COLLATE"),
    *("CONSTANT", "TYPE", "COLUMN_REF", "FUNCTION"),
}
"""What a condition is made of; not of subqueries, windows, lambdas, stars or parameters."""

_EXAMPLE = (
    "write one comparison, or several with AND, OR and NOT, as in sex = 'female' AND age > 60"
)
_FUNCTIONS = (
    "SELECT function_type, stability, macro_definition FROM duckdb_functions() "
    "WHERE function_name = ?"
)


@dataclass(frozen=True)
class Where:
    """A condition whose words and columns are known to a release.

    Attributes:
        columns: those that it speaks of, as the schema spells them.
    """

    text: str
    columns: tuple[str, ...]

    @classmethod
    def of(cls, schema: Schema, text: str) -> Where:
        """The condition, if it is one and has the same value for the same row whenever asked.

        Raises:
            UsageError: saying what it is instead, or that DuckDB is not installed.
        """
        if not text.strip() or len(text) > MOST_LETTERS:
            raise UsageError(f"a condition has 1 to {MOST_LETTERS:,} letters; {_EXAMPLE}")
        with database_of(_WHO, {}) as connection:
            try:
                expression = _expression(connection, text)
                columns = _columns(schema, expression)
                _check_functions(connection, expression, ())
            except RecursionError:
                raise UsageError("the condition is nested too deeply; write it flatter") from None
        where = cls(text, columns)
        where._check_truth(schema)
        return where

    def keep(self, rows: pa.Table) -> pa.Table:
        """The rows for which it is true, in their order.

        Raises:
            UsageError: DuckDB cannot compute it, say since a text is no number.
        """
        with self._asked(rows.select(self.columns or rows.column_names[:1])) as relation:
            return rows.filter(relation.to_arrow_table().column(0))

    def _check_truth(self, schema: Schema) -> None:
        """Refuse what gives no truth value for rows of these types."""
        with self._asked(_any_row(schema, self.columns)) as relation:
            kind = str(relation.types[0])
            relation.fetchall()  # what DuckDB cannot compute is said now
        if kind != "BOOLEAN":
            raise UsageError(f"the condition is no truth value but {kind}; {_EXAMPLE}")

    @contextmanager
    def _asked(self, rows: pa.Table) -> Iterator[Any]:
        """The condition's value for every row; DuckDB's own complaint in one line."""
        duckdb = duckdb_for(_WHO)
        try:
            with database_of(_WHO, {TABLE: rows}) as connection:
                yield connection.sql(_query(self.text))
        except duckdb.Error as error:
            raise UsageError(
                f"the condition cannot be computed: {_first_line(error)}; mend it"
            ) from None


def _query(text: str) -> str:
    # On lines of its own, so that a comment at its end hides nothing.
    return f"SELECT (\n{text}\n) FROM {TABLE}"


def _expression(connection: Any, text: str) -> Any:
    """What the parser makes of the condition, which must be all that the query has besides."""
    duckdb = duckdb_for(_WHO)
    try:
        statements = connection.extract_statements(_query(text))
    except duckdb.Error as error:
        raise UsageError(
            f"the condition is not SQL that DuckDB reads ({_first_line(error)}); {_EXAMPLE}"
        ) from None
    tree = tree_of(connection, _query(text)) if len(statements) == 1 else None
    plain = tree_of(connection, _query("true"))
    if tree is None or _around(tree) != _around(plain):
        raise UsageError(f"the condition is more than one expression; {_EXAMPLE}")
    return tree[0]["node"]["select_list"]


def _around(tree: Any) -> Any:
    """A query without its one expression and without places in its text."""
    (statement,) = tree
    node = statement["node"]
    if len(node.get("select_list", ())) != 1:
        return None
    return _placeless({**statement, "node": {**node, "select_list": None}})


def _placeless(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {
            key: _placeless(value)
            for key, value in tree.items()
            if not key.startswith("query_location")
        }
    return [_placeless(part) for part in tree] if isinstance(tree, list) else tree


def _columns(schema: Schema, expression: Any) -> tuple[str, ...]:
    """The columns that an expression speaks of, in the order of the schema."""
    known = [column.name for column in schema.columns]
    spoken: set[str] = set()
    for node in nodes(expression):
        kind = node.get("class")
        if kind is not None and kind not in _EXPRESSIONS:
            raise UsageError(
                f"a condition looks at one row alone, without any {str(kind).lower()}; {_EXAMPLE}"
            )
        if kind == "COLUMN_REF":
            spoken.add(_column(schema, known, node["column_names"]))
    return tuple(name for name in known if name in spoken)


def _column(schema: Schema, known: Sequence[str], path: Sequence[str]) -> str:
    own = path[1:] if len(path) == 2 and path[0].casefold() == TABLE else path
    word = ".".join(own)
    alike = [name for name in known if name.casefold() == word.casefold()]
    if len(alike) > 1:
        raise UsageError(
            f"columns {', '.join(map(repr, alike))} differ in the size of letters alone, which SQL "
            "does not tell apart; leave them out of the condition"
        )
    if len(own) != 1 or not alike:
        raise UsageError(f"there is no column {word!r}; {did_you_mean(word, known)}")
    if isinstance(schema.column(alike[0]), KeyColumn):
        raise UsageError(
            f"column {alike[0]!r} is a key, invented for every row; leave it out of the condition"
        )
    return alike[0]


def _check_functions(connection: Any, expression: Any, within: tuple[str, ...]) -> None:
    """Refuse functions that see more than a row, or tell something else when asked again."""
    for node in nodes(expression):
        if node.get("class") != "FUNCTION":
            continue
        name = str(node["function_name"]).lower()
        forms = connection.execute(_FUNCTIONS, [name]).fetchall()
        if not forms:
            raise UsageError(f"DuckDB has no function {name!r}; {_EXAMPLE}")
        for kind, stability, definition in forms:
            lasting = kind == "scalar" and stability == "CONSISTENT"
            if kind == "macro" and name not in within and definition:
                _check_functions(
                    connection, tree_of(connection, f"SELECT {definition}"), (*within, name)
                )
            elif not lasting:
                raise UsageError(
                    f"function {name!r} sees more than one row, or tells something else each time; "
                    "leave it out of the condition"
                )


def _any_row(schema: Schema, columns: Sequence[str]) -> pa.Table:
    """A row of the release's types, whether or not it keeps the rules."""
    plain = schema.without_rules()
    codes = EncodedTable.from_codes(plain.domain, np.zeros((len(plain.domain), 1), np.int64))
    row = decode(plain, codes, np.random.default_rng(0))
    return row.select(columns or row.column_names[:1])


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
