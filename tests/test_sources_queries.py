"""Queries: they only read, only what the location names, and no row has a say in another's fate."""

from __future__ import annotations

import gzip
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from heterofedsyn.errors import DataError, UsageError
from heterofedsyn.sources import anchored, duckdb_query, open_source, split_name
from heterofedsyn.sources._rowwise import check_text
from heterofedsyn.sources.location import parse

pytestmark = pytest.mark.sweep

SECRET = "a,b\nsecret,1\n"


def lake(folder: Path, *statements: str) -> str:
    """A DuckDB file with three stays, and whatever else is put into it."""
    place = folder / "lake.duckdb"
    with duckdb.connect(str(place)) as connection:
        connection.execute(
            "CREATE TABLE stays AS SELECT i AS age, i % 2 AS ward FROM range(3) t(i)"
        )
        for statement in statements:
            connection.execute(statement)
    return str(place)


def refusal(location: object) -> str:
    with pytest.raises(DataError) as refused:
        list(open_source(location).batches())
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def rows(location: object) -> int:
    return sum(batch.num_rows for batch in open_source(location).batches())


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1 AS x) AS t; COPY stays TO '{out}'; SELECT * FROM (SELECT 1 AS x",
        "SELECT 1 AS x; COPY stays TO '{out}'",
        "COPY stays TO '{out}'",
        "COPY (SELECT 1 AS x) TO '{out}'",
        "EXPORT DATABASE '{out}'",
        "ATTACH '{out}' AS other",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "PRAGMA enable_profiling; SELECT 1 AS x",
        "SELECT * FROM query('COPY stays TO ''{out}''')",
        "EXPLAIN ANALYZE COPY stays TO '{out}'",
    ],
)
@pytest.mark.parametrize("files", [False, True])
def test_no_query_of_a_duckdb_file_writes(tmp_path: Path, query: str, files: bool) -> None:
    place = lake(tmp_path)
    before = sorted(tmp_path.iterdir())
    folder = f"?files={tmp_path}" if files else ""
    refusal(f"{place}{folder}#{query.format(out=tmp_path / 'out')}")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM read_blob('{file}')",
        "SELECT * FROM glob('{folder}/*')",
        "SELECT * FROM sniff_csv('{file}')",
        "SELECT * FROM '{folder}/x.parquet'",
        "SELECT * FROM read_parquet('{folder}/x.parquet')",
        "SELECT * FROM parquet_metadata('{folder}/x.parquet')",
        "SELECT age, (SELECT max(content) FROM read_text('{file}')) AS x FROM stays",
        "SELECT * FROM outside",
        "SELECT * FROM inside_macro()",
    ],
)
def test_no_query_reads_a_file_that_the_location_does_not_name(tmp_path: Path, query: str) -> None:
    elsewhere, inside = tmp_path / "elsewhere", tmp_path / "inside"
    elsewhere.mkdir()
    inside.mkdir()
    (elsewhere / "x.csv").write_text(SECRET)
    place = lake(
        tmp_path,
        f"COPY stays TO '{elsewhere}/x.parquet'",
        f"CREATE VIEW outside AS SELECT * FROM '{elsewhere}/x.parquet'",
        f"CREATE MACRO inside_macro() AS TABLE SELECT * FROM '{elsewhere}/x.parquet'",
    )
    said = query.format(folder=elsewhere, file=elsewhere / "x.csv")
    refusal(f"{place}#{said}")
    refusal(f"{place}?files={inside}#{said}")
    refusal(f"{place}?files={inside}#{said.replace(str(elsewhere), f'{inside}/../elsewhere')}")


@pytest.mark.thorough
def test_a_location_names_the_folder_that_its_query_may_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "inside").mkdir()
    place = lake(
        tmp_path,
        f"COPY stays TO '{tmp_path}/inside/x.parquet'",
        f"CREATE VIEW there AS SELECT * FROM '{tmp_path}/inside/x.parquet'",
    )
    for query in ("there", f"SELECT age FROM '{tmp_path}/inside/x.parquet'"):
        assert rows(f"{place}?files={tmp_path}/inside#{query}") == 3
        assert rows(f"duckdb:{place}?files={tmp_path}/inside/#{query}") == 3
        assert "?files=FOLDER" in refusal(f"{place}#{query}")
    assert "the folder of its files is not there" in refusal(f"{place}?files=/nowhere#there")
    monkeypatch.chdir(tmp_path)
    assert rows("lake.duckdb?files=inside#there") == 3
    whole = anchored("lake.duckdb?files=inside#there")
    assert whole == f"{tmp_path}/lake.duckdb?files={tmp_path}/inside#there"
    assert anchored(whole) == whole
    assert parse(whole).name == place
    assert split_name(whole) == (None, whole)
    assert split_name(f"north={whole}") == ("north", whole)
    with pytest.raises(UsageError, match="names no folder"):
        parse("lake.duckdb?files=#there")


PUSHING = [
    "SELECT age FROM stays LIMIT 2",
    "SELECT age FROM stays limit\n2",
    "SELECT age FROM stays OFFSET 1",
    "SELECT age FROM stays FETCH FIRST 2 ROWS ONLY",
    "SELECT age FROM stays FETCH/**/FIRST 2 ROWS ONLY",
    "SELECT age, count(*) OVER /* by age */ (ORDER BY age) FROM stays",
    "SELECT age FROM stays --all\rLIMIT 5",
    "SELECT age FROM stays /* x */ LIMIT /* y */ 2",
    "SELECT age FROM (SELECT * FROM stays LIMIT 1) AS t",
    "WITH t AS (SELECT * FROM stays LIMIT 1) SELECT age FROM t",
    "SELECT age FROM stays WHERE ward IN (SELECT ward FROM stays LIMIT 1)",
    "SELECT age FROM stays TABLESAMPLE SYSTEM (10)",
    "SELECT age FROM (SELECT age, row_number() OVER (ORDER BY age) AS n FROM stays) AS t",
    "SELECT age, ntile(4) OVER (ORDER BY age) AS n FROM stays",
    "SELECT age FROM stays WHERE 'it''s' <> '--' LIMIT 2",
    "SELECT age, count(*) OVER(ORDER BY age) AS n FROM stays",
    "SELECT age, lag(age) over\n(ORDER BY age) AS n FROM stays",
    "SELECT age, sum(age) OVER w AS n FROM stays WINDOW w AS (ORDER BY age)",
]
DUCKDB_PUSHING = [
    *PUSHING,
    "FROM stays LIMIT 1",
    "SELECT age FROM stays LIMIT 40%",
    "SELECT DISTINCT ON (ward) age FROM stays",
    "SELECT age FROM stays USING SAMPLE 2",
    "SELECT age FROM stays QUALIFY row_number() OVER (PARTITION BY ward) = 1",
    "SELECT * FROM few",
    "SELECT * FROM of_few",
    "SELECT * FROM some_of(1)",
    "SELECT age FROM stays WHERE age = one()",
    "SELECT * FROM query('SELECT * FROM stays LIMIT 1')",
    "SELECT age FROM stays WHERE rowid < 2",
    'SELECT age FROM stays AS s WHERE s."RowId" < 2',
    "SELECT * FROM placed",
    "SELECT s.age FROM stays AS s POSITIONAL JOIN stays AS o",
    "SELECT s.age FROM stays AS s ASOF JOIN stays AS o ON s.age >= o.age",
    "SELECT s.age FROM stays AS s JOIN (SELECT range AS rowid FROM range(5)) AS r USING (rowid)",
    "SELECT age FROM read_parquet('x.parquet', file_row_number = true) AS t(age, ward, n)",
    "SELECT age FROM 'x.parquet' WHERE file_row_number < 2",
]
ROWWISE = [
    "SELECT age FROM stays WHERE age < 9",
    """SELECT age AS "limit" FROM stays -- LIMIT 2""",
    "SELECT age, 'LIMIT 3' AS x FROM stays /* OFFSET 1 */",
    "SELECT max(age) AS age FROM stays GROUP BY ward",
    "SELECT s.age FROM stays AS s JOIN stays AS o ON s.age = o.age ORDER BY 1",
    "SELECT DISTINCT age FROM stays",
]


@pytest.mark.parametrize("query", DUCKDB_PUSHING)
def test_a_duckdb_query_in_which_a_row_pushes_out_another_is_refused(
    tmp_path: Path, query: str
) -> None:
    place = lake(
        tmp_path,
        "CREATE VIEW few AS SELECT * FROM stays ORDER BY age LIMIT 1",
        'CREATE VIEW "of_few" (x) AS SELECT age FROM few',
        "CREATE VIEW placed AS SELECT age FROM stays WHERE rowid < 2",
        "CREATE MACRO some_of(k) AS TABLE SELECT * FROM stays LIMIT 1",
        "CREATE MACRO one() AS (SELECT age FROM stays LIMIT 1)",
    )
    assert "push out another" in refusal(f"{place}#{query}") or "query(" in query


@pytest.mark.parametrize("query", ROWWISE)
def test_a_duckdb_query_that_takes_rows_one_by_one_is_read(tmp_path: Path, query: str) -> None:
    assert rows(f"{lake(tmp_path)}#{query}") > 0


def test_columns_that_rows_decide_are_refused(tmp_path: Path) -> None:
    assert "not one SELECT" in refusal(
        f"{lake(tmp_path)}#SELECT * FROM (PIVOT stays ON ward USING sum(age))"
    )


@pytest.mark.parametrize("query", PUSHING)
@pytest.mark.parametrize("spark", [False, True])
def test_a_servers_query_in_which_a_row_pushes_out_another_is_refused(
    query: str, spark: bool
) -> None:
    with pytest.raises(DataError, match="push out another"):
        check_text("x", query, spark=spark)


@pytest.mark.parametrize("spark", [False, True])
def test_a_servers_query_that_takes_rows_one_by_one_passes(spark: bool) -> None:
    for query in ROWWISE:
        check_text("x", query.replace('"', "`") if spark else query, spark=spark)


@pytest.mark.parametrize(
    ("query", "spark"),
    [
        ("SELECT $$it's$$ AS x FROM t LIMIT 1", False),
        (r"SELECT E'it\'s' AS x FROM t LIMIT 1 --'", False),
        (r"SELECT 'back\' AS x FROM t LIMIT 1 --'", False),
        ("SELECT /* /* */ ' */ x FROM t LIMIT 1 --'", False),
        ("SELECT $a$ $$ ' $a$ AS x FROM t LIMIT 1 --'", False),
        ("SELECT \"it's\" FROM t LIMIT 1 --'", False),
        (r"SELECT 'it\'s' AS x FROM t LIMIT 1", True),
        (r"SELECT r'back\' AS x FROM t LIMIT 1 --'", True),
        ("SELECT \"it's\" AS x FROM t LIMIT 1 --'", True),
        ("SELECT `it's` FROM t TABLESAMPLE (5 ROWS) --'", True),
        ("SELECT DISTINCT ON (a) a FROM t", False),
        ("SELECT a FROM t WHERE ctid < '(0,5)'", False),
        ("""SELECT a FROM t WHERE t."ctid" < '(0,5)'""", False),
        ("SELECT a FROM t WHERE monotonically_increasing_id() < 5", True),
        ("SELECT a FROM t WHERE _metadata.`row_index` < 5", True),
    ],
)
def test_no_string_name_or_comment_hides_a_limit(query: str, spark: bool) -> None:
    with pytest.raises(DataError, match="push out another"):
        check_text("x", query, spark=spark)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM json.`/data/x`",
        "SELECT * FROM JSON . `/data/x`",
        "SELECT * FROM `csv`.`/data/x`",
        "SELECT * FROM (SELECT * FROM xml.`/data/x`)",
        "SELECT * FROM read_files('/data/x')",
    ],
)
def test_readers_of_spark_that_look_for_types_are_refused(query: str) -> None:
    with pytest.raises(DataError, match="finds out types by itself"):
        check_text("x", query, spark=True)
    check_text("x", "SELECT json.a, csv.b FROM parquet.`/data/json.x` AS json, csv", spark=True)


SNIFFING = [
    "SELECT * FROM read_csv('{0}.csv')",
    "SELECT * FROM read_csv_auto('{0}.csv')",
    "SELECT * FROM read_csv('{0}.csv', all_varchar = true)",  # still looks for quotes and commas
    "SELECT * FROM read_csv('{0}.csv', auto_detect = false, quote = '', columns = {{'a': 'BOOL'}})",
    "SELECT * FROM '{0}.csv'",
    'SELECT * FROM "{0}.csv.gz"',
    "SELECT * FROM read_json('{0}.json')",
    "SELECT * FROM read_json_auto('{0}.json')",
    "SELECT * FROM read_ndjson('{0}.json')",
    "SELECT * FROM '{0}.json'",
    "SELECT * FROM '{0}.csv?'",
    "SELECT * FROM '{0}.cs[v]'",
    "SELECT * FROM '{0}.csv?y.parquet'",
    "SELECT * FROM '{0}.tsv'",
    "SELECT * FROM '{0}.json*'",
    "SELECT a FROM read_csv('{0}.csv', auto_detect = false, quote = '', header = true, "
    "columns = {{'a': 'VARCHAR', 'b': 'VARCHAR'}})",
    "SELECT a FROM read_json('{0}.json', auto_detect = false, format = 'newline_delimited', "
    "columns = {{'a': 'VARCHAR'}})",
    "SELECT * FROM sniffed",
    "SELECT age FROM stays WHERE age IN (SELECT a FROM '{0}.csv')",
]


@pytest.mark.parametrize("query", SNIFFING)
def test_readers_of_duckdb_that_look_for_types_are_refused(tmp_path: Path, query: str) -> None:
    stem = tmp_path / "x"
    (tmp_path / "x.csv").write_text("a,b\ntrue,1\nfalse,2\n")
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n"))
    (tmp_path / "x.json").write_text('{"a": true}\n')
    place = lake(tmp_path, f"CREATE VIEW sniffed AS SELECT * FROM '{stem}.csv'")
    said = query.format(stem)
    assert "finds out types by itself" in refusal(f"{place}?files={tmp_path}#{said}")
    if not any(part in said for part in ("sniffed", "stays", "?", "[v]", "*'", ".tsv")):
        assert "finds out types by itself" in refusal(duckdb.connect().sql(said))


@pytest.mark.thorough
def test_a_name_with_a_point_is_a_table_or_parquet(tmp_path: Path) -> None:
    place = lake(
        tmp_path,
        f"COPY stays TO '{tmp_path}/x.parquet'",
        'CREATE TABLE "old.csv" AS FROM stays',
        'CREATE VIEW "Newer.csv" AS FROM stays',
    )
    for query in ('"OLD.csv"', '"newer.csv"', f"'{tmp_path}/?.parquet'", f"'{tmp_path}/X.PARQUET'"):
        said = query.replace("X.PARQUET", "x.parquet")
        assert rows(f"{place}?files={tmp_path}#SELECT age FROM {said}") == 3


def test_a_relation_in_which_a_row_pushes_out_another_is_refused() -> None:
    connection = duckdb.connect()
    table = pa.table({"a": [1, 2, 3]})
    assert "push out another" in refusal(connection.from_arrow(table).limit(2))
    assert "push out another" in refusal(connection.sql("SELECT * FROM range(9) USING SAMPLE 2"))
    assert "push out another" in refusal(
        connection.sql("SELECT a, lag(a) OVER () FROM range(9) AS t(a)")
    )
    assert rows(connection.from_arrow(table).filter("a > 1")) == 2
    assert rows(connection.sql("SELECT * FROM range(9) AS t(a)")) == 9


@pytest.mark.thorough
def test_a_relation_is_looked_through_to_the_views_of_its_connection(tmp_path: Path) -> None:
    with duckdb.connect(lake(tmp_path)) as connection:
        connection.execute("CREATE VIEW whole AS SELECT age FROM stays WHERE age < 9")
        connection.execute("CREATE VIEW few AS SELECT * FROM stays ORDER BY age LIMIT 1")
        connection.execute("CREATE TEMP VIEW of_few AS SELECT age FROM few")
        connection.execute("CREATE MACRO some_of(k) AS TABLE SELECT * FROM stays LIMIT 1")
        for name in ("few", "of_few", "Few", "some_of(1)"):
            assert "push out another" in refusal(connection.sql(f"SELECT * FROM {name}"))
            wider = connection.sql(f"SELECT * FROM {name}").filter("age > 0").project("age")
            assert "push out another" in refusal(wider)
        assert "push out another" in refusal(connection.view("few"))
        assert rows(connection.view("whole")) == rows(connection.table("stays")) == 3
        assert rows(connection.view("whole").filter("age > 9")) == 0


def test_a_relation_is_not_read_where_looking_at_its_query_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*arguments: object) -> None:
        raise AttributeError("a kind of query that nobody thought of")

    monkeypatch.setattr(duckdb_query, "check_tree", fails)
    with pytest.raises(AttributeError):
        open_source(duckdb.connect().sql("SELECT * FROM range(9)"))


@pytest.mark.parametrize("place", ["spark:", "postgresql://127.0.0.1:9/clinic#"])
def test_a_server_is_not_asked_for_what_is_refused(place: str) -> None:
    assert "push out another" in refusal(f"{place}SELECT age FROM stays LIMIT 2")
