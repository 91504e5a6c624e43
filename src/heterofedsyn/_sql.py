"""SQL in DuckDB, which here reads no file and no network, and what its own parser makes of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

from heterofedsyn.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

SETTINGS = {"autoinstall_known_extensions": False, "allow_community_extensions": False}
"""An extension would be fetched from the internet."""

CLOSED = ("SET enable_external_access = false", "SET lock_configuration = true")
"""No file but the database's own is read, none is written, and a query cannot change that."""

LIMITS = (
    "SET memory_limit = '2GB'",
    "SET temp_directory = ''",
    "SET python_enable_replacements = false",
    "SET threads = 1",
)
"""Of queries that somebody wrote: memory, no disk, no variable of a program as a table, and groups
in the same order each time."""

MOST_SECONDS = 60.0
"""That such a query may take, however often it is put."""

_PULSE = 0.2
"""Seconds between two looks for a signal and at the clock."""

_GRACE = 5.0
"""Seconds in which DuckDB has to hear that a query is to end."""

_T = TypeVar("_T")


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
    duckdb = duckdb_for(what)
    connection = duckdb.connect(config=dict(SETTINGS))
    try:
        for statement in (*LIMITS, *CLOSED):
            connection.execute(statement)
        for name, table in tables.items():
            connection.register(name, table)
        yield connection
    finally:
        with suppress(duckdb.Error):  # a query that does not hear is still at work
            connection.close()


class Clock:
    """The seconds that DuckDB may take for all that one query asks of it, piece by piece."""

    def __init__(self, connection: Any, seconds: float | None = None) -> None:
        self._connection = connection
        self._allowed = self._left = MOST_SECONDS if seconds is None else seconds

    def run(self, work: Callable[[], _T]) -> _T:
        """What a piece of work gives, which Ctrl-C, SIGTERM and the clock can end.

        Raises:
            UsageError: with what was done before, it took too long.
        """
        coming: Future[_T] = Future()
        started = time.monotonic()
        Thread(target=_settle, args=(coming, work), daemon=True).start()
        try:
            while not wait([coming], _PULSE).done:
                if time.monotonic() - started > self._left:
                    raise UsageError(
                        f"DuckDB had no result after {self._allowed:g} seconds; write a simpler "
                        "query"
                    )
        except BaseException:
            self._interrupt(coming)
            raise
        self._left -= time.monotonic() - started
        return coming.result()

    def _interrupt(self, coming: Future[_T]) -> None:
        """End the work if it can be ended; what does not hear is left behind."""
        end = time.monotonic() + _GRACE
        while not coming.done() and time.monotonic() < end:
            self._connection.interrupt()  # one before the query began is not heard
            time.sleep(_PULSE / 10)


def _settle(coming: Future[_T], work: Callable[[], _T]) -> None:
    try:
        coming.set_result(work())
    except BaseException as error:
        coming.set_exception(error)


def in_time(connection: Any, work: Callable[[], _T], seconds: float | None = None) -> _T:
    """Has a connection do one piece of work against a clock of its own.

    Raises:
        UsageError: it took too long.
    """
    return Clock(connection, seconds).run(work)


@contextmanager
def worded(what: str) -> Iterator[None]:
    """Turns an error of DuckDB into one line; only where tables hold nobody's rows.

    That it was interrupted is no error of a query, and stays what it is.

    Raises:
        UsageError: what was said, after `what`.
    """
    import duckdb

    try:
        yield
    except duckdb.InterruptException:
        raise
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


def sql_of(connection: Any, node: Any) -> str:
    """The text of a SELECT that was taken apart."""
    tree = {"error": False, "statements": [{"node": node, "named_param_map": []}]}
    ((text,),) = connection.execute(
        "SELECT json_deserialize_sql(?::JSON)", [json.dumps(tree)]
    ).fetchall()
    return str(text)


def nodes(tree: object) -> Iterator[dict[str, Any]]:
    """Every object of a tree of JSON."""
    if isinstance(tree, dict):
        yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for part in tree:
            yield from nodes(part)
