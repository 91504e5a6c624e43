"""Locations: what is one is told without opening it, and nothing secret is repeated."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn.errors import DataError, UsageError
from heterofedsyn.sources import (
    anchored,
    check_location,
    file_of,
    name_of,
    open_source,
    split_name,
)
from heterofedsyn.sources.location import Location, parse

QUERY = "SELECT * FROM icu WHERE a = '#1'"


@pytest.mark.parametrize(
    ("text", "kind", "name", "query"),
    [
        ("t.csv", "file", "t.csv", ""),
        ("a#1=2.csv.gz", "file", "a#1=2.csv.gz", ""),
        ("csv-multiline:a#1.csv", "file", "a#1.csv", ""),
        ("lake.duckdb?files=/data#icu", "duckdb", "lake.duckdb", "SELECT * FROM icu"),
        ("/lake/year=*/x.parquet", "file", "/lake/year=*/x.parquet", ""),
        ("folder", "file", "folder", ""),
        ("C:x.csv", "file", "C:x.csv", ""),
        ("lake.duckdb#icu", "duckdb", "lake.duckdb", "SELECT * FROM icu"),
        ("lake.DB#main.icu", "duckdb", "lake.DB", "SELECT * FROM main.icu"),
        ('lake.ddb#"An ""odd"".one"', "duckdb", "lake.ddb", 'SELECT * FROM "An ""odd"".one"'),
        (f"lake.db#{QUERY} ; ", "duckdb", "lake.db", QUERY),
        (f"duckdb:/a b/lake#{QUERY}", "duckdb", "/a b/lake", QUERY),
        (f"postgres://h/d#{QUERY}", "postgresql", "postgresql://h/d", QUERY),
        ("postgresql:///d#icu", "postgresql", "postgresql:///d", "SELECT * FROM icu"),
        (
            "postgresql://me@[::1]:5433,b.example.org:1/d?sslmode=require&options=-c%20x%3D1#s.icu",
            "postgresql",
            "postgresql://[::1]:5433,b.example.org:1/d",
            "SELECT * FROM s.icu",
        ),
    ],
)
def test_a_location_is_read(text: str, kind: str, name: str, query: str) -> None:
    location = parse(text)
    assert (location.kind, location.name, location.query) == (kind, name, query)
    assert check_location(text) == text
    assert name_of(text) == name
    assert file_of(text) == (None if kind == "postgresql" else Path(name))


def test_what_a_driver_gets_is_what_was_written() -> None:
    place = "postgresql://me@h:1/d?options=-c%20statement_timeout%3D5s&service=a+b"
    assert parse(f"{place}#icu").place == place


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me:secret@h/d#icu",
        "postgresql://me:@h/d#icu",
        "postgresql://h/d?password=secret#icu",
        "postgresql://h/d?pass%77ord=secret#icu",
        "postgresql://h/d?sslmode=require&sslpassword=secret#icu",
        "postgres://me:se@cret@h/d#icu",
        "postgresql://me:1/secret@h/d#icu",
        "host=h password=secret",
        "host=h user=me passwd=secret",
        "Server=h;Uid=me;Pwd=secret",
        "jdbc:postgresql://me:secret@h/d#icu",
        "//me:secret@h/d",
        "//me:se/cret@h/d",
        "me:secret@h/d",
        "me:secret@h/d.db#icu",
        "duckdb:me:secret@h/d#icu",
        "postgresql://me:12#secret@h/d",
        "postgresql://me:12#secret@h/d#icu",
        "postgresql://me:12#se/cret@h/d#icu",
        "postgresql://me:secret#x@h/d#icu",
        "postgresql://me:12?secret@h/d#icu",
        "postgresql://h/d#SELECT * FROM dblink('host=x password=secret', 'SELECT 1') AS t(x int)",
        "lake.db#SELECT * FROM postgres_scan('host=x PASSWORD = secret', 'public', 'icu')",
        "lake.db#SELECT * FROM postgres_scan('postgresql://me:secret@h/d', 'public', 'icu')",
        "spark:SELECT * FROM far WHERE password = 'secret'",
    ],
)
def test_a_password_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(UsageError) as refusal:
        check_location(text)
    for told in ("PGPASSWORD", "PGPASSFILE", "~/.pgpass", "PGSERVICEFILE"):
        assert told in str(refusal.value)
    assert "cret" not in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        (" ", "empty"),
        ("mysql://me:secret@h/d#icu", "no reader for mysql://"),
        ("s3://bucket/secret", "no reader for s3://"),
        ("spark:", "needs a table or a query"),
        ("lake.duckdb", "lake.duckdb: say which rows"),
        ("lake.duckdb#", "lake.duckdb: say which rows"),
        ("lake.duckdb#;", "lake.duckdb: say which rows"),
        ("lake.duckdb#DROP", ""),
        ("duckdb:#icu", "path of a file"),
        ("postgresql://h:1/d", "postgresql://h:1/d: say which rows"),
        ("postgresql:/h/d#icu", "postgresql://"),
        ("postgresql://me:secret#icu", "not host:port"),
        ("spark://h:7077", "spark://h:7077: say which rows"),
        ("sc://h:15002#", "sc://h:15002: say which rows"),
        ("spark://#icu", "a cluster of Spark is spark://host:7077"),
        ("spark://me:secret@h:7077#icu", "without user and token"),
        ("spark://h#icu", "a cluster of Spark is spark://host:7077"),
        ("spark://h:7077/#icu", "a cluster of Spark is spark://host:7077"),
        ("spark://h:7077/;use_ssl=true#icu", "a cluster of Spark is spark://host:7077"),
        ("sc://h#icu", "sc://host:15002"),
        ("sc://h:15002/;token=secret#icu", "SPARK_CONNECT_AUTHENTICATE_TOKEN"),
        ("sc://h:15002/;user_id=me;x-token=secret#icu", "without user and token"),
    ],
)
def test_what_is_no_location_is_refused(text: str, problem: str) -> None:
    if not problem:  # a word may be the name of a table
        check_location(text)
        return
    with pytest.raises(UsageError) as refusal:
        check_location(text)
    assert problem in str(refusal.value)
    assert "secret" not in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_cluster_of_spark_is_named_like_a_database() -> None:
    for address, name in (
        ("spark://h:7077", "spark://h:7077"),
        ("spark://h1:7077,h2:7077", "spark://h1:7077,h2:7077"),
        ("sc://h:15002/;use_ssl=true;user_id=me", "sc://h:15002"),
    ):
        table = parse(f"{address}#`a b`.icu")
        assert table == Location("spark", name, address, "SELECT * FROM `a b`.icu")
        assert parse(f"{address}#SELECT 1 AS x").query == "SELECT 1 AS x"
    assert parse("spark:a.icu") == Location("spark", "spark:a.icu", "a.icu")


def test_names_that_only_look_like_secrets_are_read(tmp_path: Path) -> None:
    for name in ("a:b@c.csv", "pass=1.csv", "compass = x.db"):
        (tmp_path / name).touch()
        assert check_location(f"{tmp_path}/{name}#icu"[: None if ".db" in name else -4])
    assert check_location(f"{tmp_path}/pass=*.csv")
    for text in (
        'postgresql://h/d#"t@x"',
        "postgresql://h/d?user=me@corp#icu",
        "postgresql://h/d#SELECT a @> b AS x FROM icu WHERE has_password = 1",
        "x" * 5_000,
    ):
        assert check_location(text) == text
        assert split_name(text) == (None, text)


@given(st.text(st.characters(codec="utf-8"), max_size=40), st.sampled_from(["postgresql", "mysql"]))
def test_no_password_comes_back_whatever_it_is(password: str, scheme: str) -> None:
    secret = f"se{password}cret"
    text = f"{scheme}://me:{secret}@h/d#SELECT 1 AS x"
    with pytest.raises(UsageError) as refusal:
        check_location(text)
    assert "cret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "name", "location"),
    [
        ("t.csv", None, "t.csv"),
        ("north=t.csv", "north", "t.csv"),
        (f"north=lake.db#{QUERY}", "north", f"lake.db#{QUERY}"),
        (f"lake.db#{QUERY}", None, f"lake.db#{QUERY}"),
        ("postgresql://h/d?user=me#icu", None, "postgresql://h/d?user=me#icu"),
        ("north=postgresql://h/d?user=me#icu", "north", "postgresql://h/d?user=me#icu"),
        ("duckdb:a=b#icu", None, "duckdb:a=b#icu"),
        ("a/b=d.csv", "a/b", "d.csv"),
    ],
)
def test_a_name_comes_before_the_location(text: str, name: str | None, location: str) -> None:
    assert split_name(text) == (name, location)


def test_a_path_with_an_equals_sign_is_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lake" / "year=2020").mkdir(parents=True)
    (tmp_path / "lake" / "year=2020" / "x.parquet").touch()
    for text in ("lake/year=2020/x.parquet", "lake/year=*/x.parquet", "lake/year=2020"):
        assert split_name(text) == (None, text)
        assert split_name(f"{tmp_path}/{text}") == (None, f"{tmp_path}/{text}")
    assert split_name("north=lake/year=*/x.parquet") == ("north", "lake/year=*/x.parquet")


def test_a_csv_with_line_breaks_in_cells_says_so_in_its_location(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('a,b\n1,"two\nlines"\n')
    place = anchored(f"csv-multiline:{tmp_path}/x/../a.csv")
    assert place == f"csv-multiline:{path}"
    assert file_of(place) == path
    assert split_name(f"north={place}") == ("north", place)
    (batch,) = open_source(place).batches()
    assert batch.to_pydict() == {"a": ["1"], "b": ["two\nlines"]}
    with pytest.raises(DataError, match="csv-multiline: before the path"):
        list(open_source(path).batches())
    with pytest.raises(UsageError, match="csv-multiline: needs the path"):
        parse("csv-multiline:")
    with pytest.raises(UsageError, match="is for files that end with"):
        open_source(f"csv-multiline:{tmp_path}/a.parquet")
