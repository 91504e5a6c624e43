"""SQL in DuckDB, which here reads no file and no network, and what its own parser makes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from heterofedsyn.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

SETTINGS = {"autoinstall_known_extensions": False, "allow_community_extensions": False}
"""An extension would be fetched from the internet."""

CLOSED = ("SET enable_external_access = false", "SET lock_configuration = true")
"""No file but the database's own is read, none is written, and a query cannot change that."""


def duckdb_for(what: str) -> Any:
    """The library itself.

    Raises:
        UsageError: it is not installed.
    """
    try:
        import duckdb
    except ImportError:
        raise UsageError(
            f"{what} needs the extra `duckdb`: pip install 'heterofedsyn[duckdb]'"
        ) from None
    return duckdb


@contextmanager
def database_of(what: str, tables: Mapping[str, pa.Table]) -> Iterator[Any]:
    """A database of tables in memory, for queries on these alone.

    Args:
        what: who asks, for the case that DuckDB is not installed.
    """
    with duckdb_for(what).connect(config=dict(SETTINGS)) as connection:
        for statement in CLOSED:
            connection.execute(statement)
        for name, table in tables.items():
            connection.register(name, table)
        yield connection


@contextmanager
def worded(what: str) -> Iterator[None]:
    """Turns an error of DuckDB into one line; only where tables hold nobody's rows.

    Raises:
        UsageError: what was said, after `what`.
    """
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise UsageError(f"{what}: {str(error).strip().partition(chr(10))[0]}") from None


def is_one_select(connection: Any, query: str) -> bool:
    """Whether a text is one SELECT and nothing else."""
    kinds = [statement.type.name for statement in connection.extract_statements(query)]
    return kinds == ["SELECT"]


def tree_of(connection: Any, query: str) -> Any:
    """What DuckDB's parser makes of SELECTs, or None if it does not tell."""
    ((serialized,),) = connection.execute(
        "SELECT json_serialize_sql(?::VARCHAR)", [query]
    ).fetchall()
    tree = json.loads(serialized)
    return None if tree["error"] else tree["statements"]


def nodes(tree: object) -> Iterator[dict[str, Any]]:
    """Every object of a tree of JSON."""
    if isinstance(tree, dict):
        yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for part in tree:
            yield from nodes(part)
