"""A condition on rows in DuckDB's own SQL, read by its parser: one expression, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from heterofedsyn._arrays import stream
from heterofedsyn._sql import database_of, duckdb_for, in_time, nodes, tree_of
from heterofedsyn.errors import UsageError
from heterofedsyn.hub.release.sql_reading import (
    EXPRESSIONS,
    MOST_PARTS,
    SCALARS,
    TABLE,
    check_functions,
    check_no_star,
    check_values,
    column_called,
    no_column,
    parts_of,
    read,
    too_large,
)
from heterofedsyn.schema import EncodedTable, Schema, decode, encode

if TYPE_CHECKING:
    import pyarrow as pa

TRIED = 100_000
"""Rows without rules that tell whether a rule is against a condition."""

_WHO = "a condition on rows"

_EXAMPLE = (
    "write one comparison, or several with AND, OR and NOT, as in sex = 'female' AND age > 60"
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
        with read("the condition", text), database_of(_WHO, {}) as connection:
            expression = _expression(connection, text)
            columns = _columns(schema, expression)
            check_functions(expression, SCALARS)
            if parts_of(expression, {}) > MOST_PARTS:
                raise too_large("the condition")
            check_values(schema, expression)
        where = cls(text, columns)
        where._check_truth(schema)
        return where

    def keep(self, rows: pa.Table) -> pa.Table:
        """The rows for which it is true, in their order.

        Raises:
            UsageError: DuckDB cannot compute it, say since a text is no number.
        """
        wanted = rows.select(self.columns or rows.column_names[:1])
        return rows.filter(self._asked(wanted, lambda told: told.to_arrow_table().column(0)))

    def forbidding(self, schema: Schema) -> list[str]:
        """The rules of a schema that every row breaks that meets it, among many invented ones."""
        plain = schema.without_rules()
        rng = stream(0, "rows for a condition")
        codes = [rng.integers(0, size, TRIED) for size in plain.domain.sizes]
        table = EncodedTable.from_codes(plain.domain, np.stack(codes))
        met = self.keep(decode(plain, table, rng))
        broken = encode(schema, met.to_batches()).rules if met.num_rows else {}
        return [
            f"rule {number} of its schema ({schema.rules[number - 1].words})"
            for number, many in sorted(broken.items())
            if many == met.num_rows
        ]

    def _check_truth(self, schema: Schema) -> None:
        """Refuse what gives no truth value for rows of these types."""

        def kind_of(relation: Any) -> str:
            relation.fetchall()  # what DuckDB cannot compute is said now
            return str(relation.types[0])

        kind = self._asked(_any_row(schema, self.columns), kind_of)
        if kind != "BOOLEAN":
            raise UsageError(f"the condition is no truth value but {kind}; {_EXAMPLE}")

    def _asked(self, rows: pa.Table, take: Callable[[Any], Any]) -> Any:
        """What is taken of the condition's values for all rows; DuckDB's complaint in one line."""
        duckdb = duckdb_for(_WHO)
        try:
            with database_of(_WHO, {TABLE: rows}) as connection:
                return in_time(connection, lambda: take(connection.sql(_query(self.text))))
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
    check_no_star(expression)
    spoken: set[str] = set()
    for node in nodes(expression):
        kind = node.get("class")
        if kind is not None and kind not in EXPRESSIONS:
            raise UsageError(
                f"a condition looks at one row alone, without any {str(kind).lower()}; {_EXAMPLE}"
            )
        if kind == "COLUMN_REF":
            spoken.add(_column(schema, node["column_names"]))
    return tuple(column.name for column in schema.columns if column.name in spoken)


def _column(schema: Schema, path: Sequence[str]) -> str:
    own = path[1:] if len(path) == 2 and path[0].casefold() == TABLE else path
    name = column_called(schema, own[0]) if len(own) == 1 else None
    if name is None:
        raise no_column(schema, ".".join(own))
    return name


def _any_row(schema: Schema, columns: Sequence[str]) -> pa.Table:
    """A row of the release's types, whether or not it keeps the rules."""
    plain = schema.without_rules()
    codes = EncodedTable.from_codes(plain.domain, np.zeros((len(plain.domain), 1), np.int64))
    row = decode(plain, codes, np.random.default_rng(0))
    return row.select(columns or row.column_names[:1])


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
