"""A real PostgreSQL server gives the same codes as files, and errors hide rows and secrets."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from agent_support import approved_study, ask, books_of, make_site
from docs_support import blocks
from heterofedsyn.bench.fresh_process import in_fresh_process
from heterofedsyn.bench.scale import read_only
from heterofedsyn.errors import DataError
from heterofedsyn.marginals import Flat
from heterofedsyn.protocol.refusal import Reason, Refused
from heterofedsyn.schema import encode
from heterofedsyn.site.agent import Agent
from heterofedsyn.sources import open_source
from postgres_support import PASSWORD, Server, server
from sources_support import interrupted
from support import NoNoise
from test_docs import ROOT
from typed_table import CODES, PERSON, SCHEMA, WARD, typed_table

pytestmark = pytest.mark.slow

TYPES = {
    "whole": ["int2", "int4", "int8", "numeric(10,2)", "numeric", "float8", "text", "money"],
    "real": ["float8", "float4", "numeric(10,2)", "numeric", "varchar(20)", "money"],
    "ward": ["text", "varchar(20)", "char(20)", "wards", "name", "ward_name", "citizen"],
    "code": ["int8", "int2", "numeric(5,0)", "text", "char(4)", "float4", "oid"],
    "alive": ["bool", "int4", "text", "numeric"],
    "day": ["date", "timestamp", "text", "timestamptz"],
    "seen": ["timestamp", "timestamptz", "timestamp(0)", "timestamptz(3)"],
    "person": ["uuid", "text", "char(36)", "varchar"],
}
"""Types of SQL that each column of the one table may have."""


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with server() as found:
        found.run(
            "CREATE TYPE wards AS ENUM ('b', 'größer, als', 'a', '3')",
            "CREATE DOMAIN ward_name AS varchar(30) CHECK (length(VALUE) > 0)",
            "CREATE DOMAIN citizen AS char(12)",
            "CREATE ROLE guest LOGIN PASSWORD 'guest'",
            "CREATE TABLE people AS SELECT i AS age, 'secret' || i AS name "
            "FROM generate_series(1, 300000) AS i",
        )
        yield found


@pytest.fixture
def database(running: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server, with its owner's password where libpq looks for it."""
    for name, value in running.environment.items():
        monkeypatch.setenv(name, value)
    return running


def failure(location: str) -> str:
    with pytest.raises(DataError) as refusal:
        list(open_source(location).batches())
    message = str(refusal.value)
    assert "\n" not in message
    for hidden in ("secret", PASSWORD, "owner", "guest", "FROM", "options", "libpq"):
        assert hidden not in message
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None
    return message


def literal(value: object, kind: str) -> str:
    """A value as SQL; what a type stores with a zone is a moment of UTC."""
    if value is None:
        return f"NULL::{kind}"
    if isinstance(value, bool) and kind in ("int4", "numeric"):
        value = int(value)
    zone = "+00" if kind.startswith("timestamptz") else ""
    return f"'{value}{zone}'::text::{kind}"


@pytest.mark.parametrize("number", range(max(map(len, TYPES.values()))))
def test_every_type_of_sql_gives_the_same_codes(database: Server, number: int) -> None:
    kinds = {name: known[number % len(known)] for name, known in TYPES.items()}
    rows = [
        ", ".join(literal(row[name], kind) for name, kind in kinds.items())
        for row in typed_table(0).to_pylist()
    ]
    columns = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    database.run(
        "DROP TABLE IF EXISTS stays",
        f"CREATE TABLE stays ({columns})",
        f"INSERT INTO stays VALUES {', '.join(f'({row})' for row in rows)}",
    )
    source = open_source(database.url("stays"))
    assert source.columns == tuple(kinds)
    encoded = encode(SCHEMA, source.batches(SCHEMA.domain.names))
    assert encoded.describe() is None
    assert encoded.table.codes.tolist() == CODES
    assert list(source.batches()) == list(source.batches())


def test_nan_is_missing_and_infinity_is_beyond_the_range(database: Server) -> None:
    query = """
        SELECT 'NaN'::float8 AS whole, 'NaN'::numeric AS real, 'NaN'::numeric AS code,
               NULL::text AS ward, NULL::bool AS alive, 'infinity'::date AS day,
               'infinity'::timestamptz AS seen, $person$PERSON$person$ AS person
        UNION ALL
        SELECT '-infinity', '-infinity', NULL, NULL, NULL, '-infinity', '-infinity', 'PERSON'
        -- a comment at the end""".replace("PERSON", PERSON[0])
    encoded = encode(SCHEMA, open_source(database.url(query)).batches(SCHEMA.domain.names))
    first, second = encoded.table.codes.T.tolist()
    last = [size - 1 for size in SCHEMA.domain.sizes]
    assert encoded.describe() is None
    assert first == [*last[:6], last[6] - 1, 0]
    assert second == [0, 0, *last[2:5], 0, 0, 0]


def test_text_is_the_same_from_a_database_in_another_encoding(
    database: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.connection() as connection:
        connection.adbc_connection.set_autocommit(True)
        with connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    for encoding in ("", "LATIN1"):
        monkeypatch.setenv("PGCLIENTENCODING", encoding)
        for query in (r"SELECT U&'gr\00F6\00DFer, als' AS ward", "SELECT 'größer, als' AS ward"):
            source = open_source(database.url(query, database="latin"))
            assert [batch.to_pydict() for batch in source.batches()] == [{"ward": ["größer, als"]}]


def test_only_the_wanted_columns_are_computed(database: Server) -> None:
    location = database.url("SELECT age, 1 / (age - age) AS broken FROM people")
    (batch,) = list(open_source(location).batches(["age"]))[:1]
    assert batch.schema.names == ["age"]
    assert "does not fit its type" in failure(location)


def test_names_are_quoted(database: Server) -> None:
    database.run('CREATE TABLE "Odd ""one" ("select" int, "b""x" int, "Größe" int)')
    source = open_source(database.url('public."Odd ""one"'))
    assert source.columns == ("select", 'b"x', "Größe")
    assert sum(batch.num_rows for batch in source.batches(["Größe", 'b"x'])) == 0


def test_a_query_may_not_write(database: Server) -> None:
    database.run(
        "CREATE TABLE log (what text)",
        "CREATE FUNCTION note() RETURNS int LANGUAGE sql AS "
        "$$ INSERT INTO log VALUES ('read') RETURNING 1 $$",
    )
    assert "read-only" in failure(database.url("SELECT note() AS x"))
    assert "one SQL SELECT" in failure(database.url("SELECT 1 AS x; DROP TABLE log"))
    assert "one SQL SELECT" in failure(database.url("DELETE FROM log"))
    assert sum(b.num_rows for b in open_source(database.url("log")).batches()) == 0


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("nothing", "a table that is not there"),
        ("SELECT secret_column FROM people", "a column that is not there"),
        ("SELEC age FROM people", "not one SQL SELECT"),
        ("SELECT name::int AS x FROM people", "does not fit its type"),
        (
            "SELECT CASE WHEN age < 290000 THEN 1 ELSE name::int END AS x FROM people",
            "does not fit",
        ),
        ("SELECT age + name AS x FROM people", "not right"),
        ("SELECT age, age FROM people", "columns 1 and 2 have the same name"),
        ("SELECT pg_sleep(5), 1 AS x", "statement_timeout"),
        (
            "SELECT age, CASE WHEN age > 200000 THEN pg_sleep(5) END AS x FROM people",
            "statement_timeout",
        ),
    ],
)
def test_a_query_that_fails_is_explained(database: Server, query: str, problem: str) -> None:
    limit = "options=-c%20statement_timeout%3D2000" if "sleep" in query else ""
    message = failure(database.url(query, parameters=limit))
    assert problem in message
    assert message.startswith(f"postgresql://127.0.0.1:{database.port}/postgres: ")


def test_a_query_that_lacks_a_column_names_it(database: Server) -> None:
    with pytest.raises(DataError, match="no column 'agee' among its 2; did you mean 'age'"):
        open_source(database.url("people")).batches(["agee"])


def test_a_connection_that_fails_is_explained(
    database: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "no server answers" in failure("postgresql://127.0.0.1:1/postgres#people")
    assert "no such host" in failure("postgresql://nowhere.invalid/postgres#people")
    assert "no such database" in failure(database.url("people", database="nothing"))
    assert "sslmode" in failure(database.url("people", parameters="sslmode=require"))
    assert "not known" in failure(database.url("people", parameters="secret=1"))
    assert "%3D" in failure(database.url("people", parameters="options=-c%20a=secret"))
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    assert "service" in failure(database.url("people", parameters="service=north"))
    monkeypatch.setenv("PGPASSWORD", "wrong-secret")
    assert "user or password is not right" in failure(database.url("people"))
    monkeypatch.setenv("PGUSER", "nobody-known")
    assert "user or password is not right" in failure(database.url("people"))
    monkeypatch.setenv("PGUSER", "guest")
    monkeypatch.setenv("PGPASSWORD", "guest")
    assert "may not read" in failure(database.url("people"))
    monkeypatch.delenv("PGPASSWORD")
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    assert "user or password is not right" in failure(database.url("people"))


def test_passwords_come_from_the_usual_files(
    running: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("PGPASSWORD", "PGUSER"):
        monkeypatch.delenv(name, raising=False)
    secrets = tmp_path / "pgpass"
    secrets.write_text(f"127.0.0.1:*:postgres:owner:{PASSWORD}\n")
    secrets.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(secrets))
    place = f"127.0.0.1:{running.port}/postgres"
    for location in (f"postgresql://owner@{place}#people", f"postgres://{place}?user=owner#people"):
        source = open_source(location)
        assert source.name == f"postgresql://{place}"
        assert sum(batch.num_rows for batch in source.batches(["age"])) == 300_000
    services = tmp_path / "services"
    services.write_text(
        f"[north]\nhost=127.0.0.1\nport={running.port}\ndbname=postgres\nuser=owner\n"
        f"password={PASSWORD}\n"
    )
    monkeypatch.delenv("PGPASSFILE")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    source = open_source("postgresql://?service=north#SELECT age FROM people WHERE age <= 10")
    assert sum(batch.num_rows for batch in source.batches()) == 10


def test_a_connection_lost_in_the_middle_is_named(database: Server) -> None:
    query = "SELECT i AS age, repeat('x', 200) AS name FROM generate_series(1, 1000000) AS i"
    batches = open_source(database.url(query)).batches()
    next(batches)
    database.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )
    with pytest.raises(DataError, match="the connection was lost"):
        list(batches)


def test_a_reading_that_is_given_up_leaves_no_connection(database: Server) -> None:
    batches = open_source(database.url("people")).batches()
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    query = (
        "SELECT count(*) AS many FROM pg_stat_activity "
        "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    counting = open_source(database.url(query))
    end = time.monotonic() + 20
    while [batch.to_pydict() for batch in counting.batches()] != [{"many": [0]}]:
        assert time.monotonic() < end, "a connection is still there"
        time.sleep(0.05)


@pytest.mark.parametrize("rows_before", [0, 500_000])
def test_ctrl_c_and_sigterm_are_heard_while_the_server_works(
    database: Server, rows_before: int
) -> None:
    location = database.url(
        f"SELECT i, CASE WHEN i > {rows_before} THEN pg_sleep(600) END AS x "
        "FROM generate_series(1, 1000000) AS i"
    )
    query = "SELECT 1 AS x FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%' AND pid <> "
    left = open_source(database.url(query + "pg_backend_pid() AND state = 'active'"))
    for number in (signal.SIGINT, signal.SIGTERM):
        assert interrupted(location, number)
        assert sum(batch.num_rows for batch in left.batches()) == 0


def test_memory_does_not_grow_with_rows(database: Server) -> None:
    peaks = []
    for many in (500_000, 4_000_000):
        location = database.url(
            f"SELECT i, repeat('x', 20) AS a, i * 0.5 AS b FROM generate_series(1, {many}) AS i"
        )
        cost = in_fresh_process(read_only, [location], ("i", "a", "b"))
        assert cost.result == many
        peaks.append(cost.peak)
    assert peaks[1] < peaks[0] + 39, peaks  # MiB


def test_the_command_line_reads_a_database(database: Server, tmp_path: Path) -> None:
    SCHEMA.save(tmp_path / "s.toml")
    rows = typed_table(0)
    assert rows["ward"].to_pylist() == WARD
    database.run("DROP TABLE IF EXISTS filled")
    database.fill("filled", rows.set_column(2, "ward", rows["ward"].cast(pa.string())))
    command = [str(Path(sys.executable).parent / "heterofedsyn")]
    check = ["schema", "check", "--schema", "s.toml", "--most-clamped", "0.5", "--data"]
    for query, code, said in (
        ("filled", 0, "all 6 rows fit"),
        ("SELECT * FROM filled WHERE alive = true", 0, "all 3 rows fit"),
        ("SELECT whole FROM filled", 1, "no column 'real'"),
    ):
        done = subprocess.run(
            [*command, *check, database.url(query)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert said in done.stdout + done.stderr
        assert PASSWORD not in done.stdout + done.stderr
    terms = ["--schema", "s.toml", "--epsilon", "1", "--delta", "1e-9", "--out", "release"]
    place = database.url("SELECT * FROM filled WHERE alive = true")
    other = database.url("SELECT * FROM filled WHERE alive = false")
    done = subprocess.run(
        [
            *command,
            "simulate",
            "--allow-misfits",
            *terms,
            "--site",
            f"north={place}",
            "--site",
            other,
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    written = b"".join(file.read_bytes() for file in (tmp_path / "release").iterdir())
    assert b"postgres" not in written


def test_the_commands_of_the_guide_run(database: Server, tmp_path: Path) -> None:
    found = {block.words[0]: block for block in blocks(ROOT / "docs" / "sources.md") if block.words}
    (tmp_path / "schema.toml").write_text(found["schema.toml"].text)
    database.run("DROP TABLE IF EXISTS stays")
    database.run(
        "CREATE TABLE stays AS SELECT i % 100 AS age, 'surgery' AS ward, "
        "'2025-01-01'::date + i AS admitted_at FROM generate_series(1, 300) AS i"
    )
    # The database of the guide is this one, and its host is here.
    command = found["postgres.sh"].text.replace("/clinic", "/postgres")
    place = {"PGHOSTADDR": "127.0.0.1", "PGPORT": str(database.port)}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euc", command],
        cwd=tmp_path,
        env={**os.environ, **place, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("all 300 rows fit") == 2
    assert done.stdout.count("all 60 rows fit") == 1


def test_an_agent_answers_from_a_database_as_from_a_file(database: Server, tmp_path: Path) -> None:
    database.run(
        "CREATE TABLE site_rows (a0 text, a1 varchar(9), a2 char(9), name text)",
        "INSERT INTO site_rows VALUES ('v0', 'v1', 'v1', 'secret'), ('v2', 'v0', NULL, 'secret')",
        "INSERT INTO site_rows SELECT 'v1', 'v' || i % 2, 'v0', 'secret' "
        "FROM generate_series(1, 50) AS i",
    )
    file = "a0,a1,a2\nv0,v1,v1\nv2,v0,\n" + "".join(f"v1,v{i % 2},v0\n" for i in range(1, 51))
    location = database.url("site_rows")
    heard: list[bytes] = []
    for name, source in (("file", None), ("database", location)):
        settings = make_site(tmp_path / name)
        Path(settings.source).write_text(file)
        study = approved_study(settings)
        lines: list[str] = []
        with books_of(settings) as books:
            own = replace(settings, source=source or settings.source)
            agent = Agent(own, books, noise=NoNoise(), log=lines.append)
            heard.append(agent.answer(ask(study, Flat(("a0",)), Flat(("a0", "a1")))))
            lost = replace(own, source="postgresql://127.0.0.1:9/clinic#stays")
            before = books.account
            with pytest.raises(Refused) as refused:
                Agent(lost, books, noise=NoNoise(), log=lines.append).answer(
                    ask(study, Flat(("a1",)))
                )
            assert (refused.value.reason, books.account) == (Reason.UNAVAILABLE, before)
        assert any("read 52 rows" in line for line in lines)
        assert any("1 row does not fit" in line for line in lines)
        assert not any(word in line for line in lines for word in ("secret", PASSWORD, "SELECT"))
        assert "secret" not in (settings.folder / "site.toml").read_text()
    assert heard[0] == heard[1]
