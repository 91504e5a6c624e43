"""Rows of a query in a PostgreSQL database, streamed over ADBC."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from heterofedsyn.errors import DataError, UsageError
from heterofedsyn.sources._read_ahead import read_ahead
from heterofedsyn.sources._rowwise import check_text
from heterofedsyn.sources.location import Location
from heterofedsyn.sources.source import Source, check_names

_BATCH_BYTES = 8 << 20
_PATIENCE = "30"
"""Seconds to wait for a connection, unless the location or PGCONNECT_TIMEOUT says otherwise."""

_PLAIN = {"bool", "int2", "int4", "int8", "float4", "float8", "text", "varchar", "name", "numeric"}
"""Types that arrive as the schema reads them; others are cast by the server."""

_CASTS = {"money": "numeric", "oid": "int8"}
_FINITE = {"date", "timestamp", "timestamptz"}

_STATES = {
    "0A": "the query does what can only be done by itself, such as writing; only select rows",
    "22": "the query computes a value that does not fit its type (a cast, or a division by zero); "
    "leave such rows out or mend the expression",
    "25006": "the query does what a read-only transaction may not; only select rows",
    "28": "the server refuses this user; check user and password",
    "3D000": "there is no such database; check the name",
    "40": "the server gave up the query for the sake of another one; run it again",
    "42501": "this user may not read what the query names; ask for access",
    "42601": "the query is not one SQL SELECT; mend the query",
    "42703": "the query names a column that is not there; mend the query",
    "42P01": "the query names a table that is not there, or not on the search path; mend the query",
    "42": "the query is not right; run it in psql to see why",
    "53": "the server is out of memory, disk or connections; ask who runs it",
    "57014": "the query was cancelled: it took longer than statement_timeout, or somebody did it; "
    "ask for fewer rows or a longer timeout",
    "57P": "the server is shutting down or starting; try again later",
    "08": "the connection was lost; nothing was kept of what was read: try again",
    "58": "the server cannot read its own files; ask who runs it",
    "XX": "the server found its data damaged; ask who runs it",
}
"""What is said for an SQLSTATE, or for its class; never the server's words, which quote rows."""

_SIGNS = (
    (r"Connection refused|No such file or directory", "no server answers there; check the port"),
    (r"timeout expired|timed out", "no answer in time; check host, port and firewall"),
    (r"could not translate host name|Name or service", "there is no such host; check its name"),
    (
        r"password authentication failed|no password supplied|authentication failed",
        "user or password is not right; set PGUSER and PGPASSWORD, or mend ~/.pgpass",
    ),
    (r"no pg_hba\.conf entry", "the server lets nobody in from here; ask who runs it"),
    (r"database .* does not exist", "there is no such database; check the name"),
    (r"role .* does not exist", "the server does not know this user; set PGUSER"),
    (r"permission denied for database", "this user may not connect; ask for access"),
    (r"SSL|certificate", "the encryption that was asked for is not to be had; check sslmode"),
    (r"definition of service|service file", "the service is not in the service file; check it"),
    (
        r"URI|invalid (port|connection option|integer)",
        "a parameter of the URL is not known or not right; write %20 for a blank and %3D for =",
    ),
    (r"too many (clients|connections)|remaining connection slots", "the server is full; try later"),
    (r"statement timeout|canceling statement", _STATES["57014"]),
    (r"read-only transaction", _STATES["25006"]),
    (r"invalid input syntax|out of range|division by zero|invalid byte sequence", _STATES["22"]),
    (
        r"terminating connection|closed the connection|connection not open|SSL SYSCALL|reset by",
        _STATES["08"],
    ),
    (r"Failed to connect", "the connection failed; try psql with the same address to see why"),
)
"""What is said without an SQLSTATE, as while connecting or streaming, by signs in the words."""


@dataclass(frozen=True, eq=False)
class PostgresqlSource(Source):
    """A query, run anew for every reading in a transaction that may not write."""

    location: Location
    types: dict[str, str]

    @classmethod
    def open(cls, location: Location) -> PostgresqlSource:
        """The query, after asking the server which columns it gives."""
        check_text(location.name, location.query)
        with _cursor(location) as cursor:
            schema = cursor.adbc_execute_schema(_select("*", location.query))
        names = check_names(location.name, schema.names)
        kinds = [(field.metadata or {}).get(b"POSTGRESQL:type", b"") for field in schema]
        return cls(location, {name: kind.decode() for name, kind in zip(names, kinds, strict=True)})

    @property
    def name(self) -> str:
        """The host and the database, without user, parameters and query."""
        return self.location.name

    @property
    def columns(self) -> tuple[str, ...]:
        """The names that the query gives."""
        return tuple(self.types)

    def _batches(self, columns: Collection[str]) -> Iterator[pa.RecordBatch]:
        wanted = ", ".join(_expression(column, self.types[column]) for column in columns)
        with _cursor(self.location) as cursor:

            def start() -> pa.RecordBatchReader:
                return cursor.execute(_select(wanted, self.location.query)).fetch_record_batch()

            for batch in read_ahead(start, cursor.adbc_cancel):
                yield pa.record_batch([_plain(array) for array in batch], list(columns))


def _select(wanted: str, query: str) -> str:
    """Some columns of a query; line breaks keep a comment at its end from hiding the bracket."""
    return f"SELECT {wanted} FROM (\n{query}\n) AS rows_of_the_query"


def _expression(column: str, kind: str) -> str:
    quoted = '"' + column.replace('"', '""') + '"'
    if kind in _PLAIN:
        return quoted
    if kind in _FINITE:
        # The driver overflows on infinity; these ends are beyond any range of a schema.
        low, high = f"'0001-01-01'::{kind}", f"'9999-12-31'::{kind}"
        ends = f"WHEN {quoted} > {high} THEN {high} WHEN {quoted} < {low} THEN {low}"
        return f"CASE {ends} ELSE {quoted} END"
    # Text of char(n) is without its padding, that of a uuid as people write it.
    return f"{quoted}::{_CASTS.get(kind, 'text')}"


def _plain(array: pa.Array) -> pa.Array:
    """An array as the schema reads it: numeric is text for ADBC, and its "nan" is no value."""
    if not isinstance(array.type, pa.BaseExtensionType):
        return array
    text = array.storage
    return pc.if_else(pc.equal(text, "nan"), pa.scalar(None, text.type), text)


@contextmanager
def _cursor(location: Location) -> Iterator[Any]:
    """A cursor in a transaction that may only read and is never committed."""
    try:
        import adbc_driver_manager
        from adbc_driver_postgresql import StatementOptions, dbapi
    except ImportError:
        raise UsageError(
            "reading PostgreSQL needs the extra `postgres`: pip install 'heterofedsyn[postgres]'"
        ) from None
    try:
        with dbapi.connect(_patient(location.place)) as connection, connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION READ ONLY")
            cursor.execute("SET LOCAL client_encoding TO 'UTF8'")  # which Arrow takes for granted
            cursor.adbc_statement.set_options(
                **{StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(_BATCH_BYTES)}
            )
            yield cursor
    except (adbc_driver_manager.Error, pa.ArrowException, OSError) as error:
        raise DataError(f"{location.name}: {_explain(error)}") from None


def _patient(url: str) -> str:
    if "connect_timeout=" in url or "PGCONNECT_TIMEOUT" in os.environ:
        return url
    return f"{url}{'&' if '?' in url else '?'}connect_timeout={_PATIENCE}"


def _explain(error: Exception) -> str:
    """Our own words for an error: those of the server and of libpq may quote rows and users."""
    said = str(error)
    state: str = getattr(error, "sqlstate", None) or ""
    for length in (5, 3, 2) if state else ():
        if saying := _STATES.get(state[:length]):
            return saying
    for sign, saying in _SIGNS:
        if re.search(sign, said):
            return saying
    if state:
        return f"the server could not run the query (SQLSTATE {state}); run it in psql to see why"
    return "the query broke off while its rows were read; run it in psql to see why"
