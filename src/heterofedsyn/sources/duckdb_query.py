"""Rows of a query in a DuckDB file, or of a DuckDB relation."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from heterofedsyn._sql import CLOSED, SETTINGS, duckdb_for, nodes, tree_of
from heterofedsyn.errors import DataError
from heterofedsyn.sources._query_tables import Catalogue, Reading
from heterofedsyn.sources._read_ahead import read_ahead
from heterofedsyn.sources._rowwise import check_tree
from heterofedsyn.sources.location import Location
from heterofedsyn.sources.memory import FrameSource
from heterofedsyn.sources.source import BATCH_ROWS, Source, check_names

_VIEW = re.compile(
    r'CREATE\s(?:\w+\s)*?VIEW\s(?:"(?:[^"]|"")*"|[^\s"(])+\s*(?:\((?:"(?:[^"]|"")*"|[^")])*\))?\s*AS\s',
    re.IGNORECASE,
)
"""How the text of a view begins; the rest is its query."""

_ONE_SELECT = "the query is not one SELECT; mend the query"
_UNCHECKED = "the query cannot be taken apart (PIVOT is such a one); write it as a plain SELECT"

_TABLES = "SELECT table_name FROM duckdb_tables() UNION ALL SELECT view_name FROM duckdb_views()"
_VIEWS = "SELECT schema_name, view_name, sql FROM duckdb_views() WHERE NOT internal"
_MACROS = (
    "SELECT function_name, function_type, macro_definition FROM duckdb_functions() "
    "WHERE NOT internal AND macro_definition IS NOT NULL"
)

_PLAIN = re.compile(
    r"(U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|BOOLEAN|FLOAT|DOUBLE|DECIMAL.*|VARCHAR|ENUM.*|DATE|"
    r"TIMESTAMP(_S|_MS|_NS| WITH TIME ZONE)?|\"NULL\")(?<!\])"
)
"""Types whose Arrow form the schema reads; others are turned into text."""

_SAYINGS = {
    "CatalogException": "the query names a table or function that is not there; mend the query",
    "BinderException": "the query names a column or table that is not there; mend the query",
    "ParserException": "the query is not SQL that DuckDB reads; mend the query",
    "SyntaxException": "the query is not SQL that DuckDB reads; mend the query",
    "ConversionException": "the query casts a value that does not fit the type; use TRY_CAST",
    "OutOfRangeException": "the query computes a number that is too large; mend the query",
    "OutOfMemoryException": "the query needs more memory than DuckDB may use; read fewer rows",
    "PermissionException": (
        "the query, or a view in it, reads or writes a file; only select rows, or say which folder "
        "it may read: FILE?files=FOLDER#QUERY"
    ),
}
"""What is said instead of DuckDB's own words, which may quote a row."""


@dataclass(frozen=True, eq=False)
class DuckdbSource(Source):
    """A query in a file that is opened for reading only, anew for every reading."""

    location: Location
    header: tuple[str, ...]

    @classmethod
    def open(cls, location: Location) -> DuckdbSource:
        """The query, after asking which columns it gives."""
        if not Path(location.place).is_file():
            raise DataError(f"{location.name}: there is no such file; check the path")
        with _connected(location) as connection:
            _check_query(connection, location)
            _relation(connection, location.query)
            # A relation would give the second of two equal names, in any case, another one.
            described = connection.sql(f"SELECT column_name FROM (DESCRIBE (\n{location.query}\n))")
            names = [name for (name,) in described.fetchall()]
        check_names(location.name, [name.casefold() for name in names])
        return cls(location, tuple(names))

    @property
    def name(self) -> str:
        """The path."""
        return self.location.name

    @property
    def columns(self) -> tuple[str, ...]:
        """The names that the query gives."""
        return self.header

    def _batches(self, columns: Collection[str]) -> Iterator[pa.RecordBatch]:
        with _connected(self.location) as connection:
            _check_query(connection, self.location)  # a view may be another one by now
            yield from read_ahead(
                lambda: _reader(_relation(connection, self.location.query), columns),
                connection.interrupt,
            )


def readings(location: Location) -> list[Reading]:
    """The tables and files that a query reads, found without looking at their rows.

    Raises:
        HeterofedsynError: it would be refused when it is opened, too.
    """
    with _connected(location) as connection:
        _check_query(connection, location)
        tables = connection.execute("SELECT schema_name, table_name FROM duckdb_tables()")
        own = frozenset((schema.lower(), name.lower()) for schema, name in tables.fetchall())
        views = {
            (schema.lower(), name.lower()): _view_query(text)
            for schema, name, text in connection.execute(_VIEWS).fetchall()
        }
        parse = partial(tree_of, connection)
        return Catalogue(own, views, _definitions(connection), parse).readings(location.query)


def open_relation(relation: Any, kind: str) -> FrameSource:
    """A relation of somebody's own connection; it runs anew for every reading."""

    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        with _one_line(kind):
            yield from _reader(relation, columns)

    _check_relation(relation, kind)
    with _one_line(kind):
        return FrameSource(kind, check_names(kind, relation.columns), read)


def _check_query(connection: Any, location: Location) -> None:
    """Refuses what is not one SELECT whose rows are read one by one, views and macros included."""
    import duckdb

    statements = connection.extract_statements(location.query)
    if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
        raise DataError(f"{location.name}: {_ONE_SELECT}")
    if not _check_all(location.name, location.query, partial(tree_of, connection), connection):
        raise DataError(f"{location.name}: {_UNCHECKED}")


def _check_relation(relation: Any, kind: str) -> None:
    """The same for a relation and the views of its connection, as far as it tells its query."""
    import duckdb

    query = None
    with suppress(duckdb.Error, AttributeError):
        query = relation.sql_query()
    if query is None:
        return
    # What is behind a connection that is closed or was changed since cannot be looked at.
    with duckdb.connect() as connection, suppress(duckdb.Error):
        parse = partial(tree_of, connection)
        _check_all(kind, query, parse, _Behind(relation), any_function=True)


def _check_all(
    name: str, query: str, parse: Callable[[str], Any], database: Any, *, any_function: bool = False
) -> bool:
    """Checks a query and the views and macros it uses; whether all of it could be taken apart."""
    own = _definitions(database)
    tables = {table.lower() for (table,) in database.execute(_TABLES).fetchall()}
    checked: set[str] = set()
    waiting, whole = [query], True
    while waiting:
        tree = parse(waiting.pop())
        whole &= tree is not None
        check_tree(name, tree, tables, None if any_function else set(own))
        named = {
            word.lower() for node in nodes(tree) for word in node.values() if isinstance(word, str)
        }
        fresh = (named & set(own)) - checked
        waiting += [text for each in sorted(fresh) for text in own[each]]
        checked |= fresh
    return whole


@dataclass(frozen=True)
class _Behind:
    """The connection of a relation, which does not give it but may be built upon."""

    relation: Any

    def execute(self, query: str) -> Any:
        """The rows of another query on that connection."""
        single = self.relation.limit(0).aggregate("count(*)")
        return single.project(f"unnest((SELECT list(t) FROM ({query}) AS t), recursive := true)")


def _definitions(connection: Any) -> dict[str, list[str]]:
    """The queries behind the views and macros of a file, by their names."""
    definitions: dict[str, list[str]] = {}
    for _, name, text in connection.execute(_VIEWS).fetchall():
        definitions.setdefault(name.lower(), []).append(_view_query(text))
    for name, kind, text in connection.execute(_MACROS).fetchall():
        query = text if kind == "table_macro" else f"SELECT {text}"
        definitions.setdefault(name.lower(), []).append(query)
    return definitions


def _view_query(text: str) -> str:
    """The query in the text that makes a view."""
    return _VIEW.sub("", text, count=1).rstrip().rstrip(";")


def _relation(connection: Any, query: str) -> Any:
    """A query as a relation; line breaks keep a comment at its end from hiding the bracket."""
    return connection.sql(f"SELECT * FROM (\n{query}\n) AS rows_of_the_query")


def _reader(relation: Any, columns: Collection[str]) -> pa.RecordBatchReader:
    kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
    wanted = ", ".join(_expression(column, kinds[column]) for column in columns)
    # `execute` would put all rows into memory before the first is given.
    return relation.project(wanted).to_arrow_reader(BATCH_ROWS)


def _expression(column: str, kind: str) -> str:
    quoted = '"' + column.replace('"', '""') + '"'
    return quoted if _PLAIN.fullmatch(kind) else f"CAST({quoted} AS VARCHAR) AS {quoted}"


@contextmanager
def _connected(location: Location) -> Iterator[Any]:
    duckdb = duckdb_for("reading DuckDB files")
    opening = partial(duckdb.connect, read_only=True, config=dict(SETTINGS))
    with _one_line(location.name), opening(location.place) as connection:
        if location.files:
            connection.execute("SET allowed_directories = [?]", [_folder(location)])
        for statement in CLOSED:
            connection.execute(statement)
        yield connection


def _folder(location: Location) -> str:
    """The folder that a query may read, with a slash at its end."""
    if not Path(location.files).is_dir():
        raise DataError(f"{location.name}: the folder of its files is not there; check files=")
    return os.path.join(os.path.abspath(location.files), "")  # noqa: PTH100, PTH118


@contextmanager
def _one_line(name: str) -> Iterator[None]:
    """Turns DuckDB's errors, which may quote a row, into a line that does not."""
    import duckdb

    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        raise DataError(f"{name}: {_explain(error)}") from None


def _explain(error: Exception) -> str:
    for kind in type(error).__mro__:
        if saying := _SAYINGS.get(kind.__name__):
            return saying
    said = str(error)
    if "Could not set lock" in said:
        return "another process has it open for writing; close it there, or read a copy"
    if "Permission denied" in said:
        return "reading it is not permitted; ask for access"
    for kind_of_error, saying in _SAYINGS.items():  # errors in the middle come as Arrow's
        if said.startswith(_heading(kind_of_error)):
            return saying
    if type(error).__name__ == "IOException" or said.startswith("IO Error"):
        return (
            "not a DuckDB file of a version that is read here, or damaged, or the query names a "
            "file that is not there; open it with DuckDB to see"
        )
    return f"DuckDB could not run the query ({type(error).__name__}); run it there to see why"


def _heading(name: str) -> str:
    """How DuckDB starts the text of an error: "Out of Range Error"."""
    words = re.findall("[A-Z][a-z]*", name.removesuffix("Exception"))
    return " ".join(words) + " Error"
