"""SQL about a release: what questions and conditions refuse alike, and what a question asks."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pytest

from heterofedsyn import Schema, _sql
from heterofedsyn._sql import database_of, in_time
from heterofedsyn.errors import UsageError
from heterofedsyn.hub.questions.question import Question
from heterofedsyn.hub.release.sql_reading import AGGREGATES, SCALARS, TWICE
from heterofedsyn.hub.release.where import Where
from heterofedsyn.schema import EncodedTable, decode

pytestmark = pytest.mark.thorough

SCHEMA = Schema.of(
    {
        "columns": [
            {"name": "id", "type": "key", "prefix": "P"},
            {"name": "age", "type": "integer", "min": 18, "max": 97, "bins": 10},
            {"name": "stays", "type": "integer", "min": 1, "max": 10},
            {"name": "ward", "type": "categorical", "values": ["icu", "general"]},
            {"name": "sick", "type": "boolean"},
            {"name": "cost", "type": "number", "min": 0, "max": 500, "bins": 10},
            {"name": "day", "type": "date", "min": "2020-01-01", "max": "2022-12-31"},
            {"name": "Twin", "type": "boolean"},
            {"name": "twin", "type": "boolean"},
        ],
    }
)


def asked(sql: str, schema: Schema = SCHEMA) -> Question:
    """A question that is only read."""
    none = EncodedTable(schema.domain, np.zeros((len(schema.domain), 0), np.uint16))
    table = decode(schema, none, np.random.default_rng(0))
    kept = [name for name in table.column_names if name != "twin"]  # DuckDB has no twins
    with database_of("a test", {"release": table.select(kept)}) as connection:
        return Question.of(sql, schema, connection)


ASKING: dict[str, Callable[[str], object]] = {
    "a question": lambda condition: asked(f"SELECT count(*) FROM release WHERE {condition}"),
    "a condition": lambda condition: Where.of(SCHEMA, condition),
}


@pytest.mark.parametrize("asking", ASKING)
@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("agee > 3", "no column 'agee'; did you mean 'age'"),
        ("release.agee > 3", "no column"),
        ("age.x > 3", "no column"),
        ("release > 3", "no column|is a table"),
        ("rowid > 3", "no column"),
        ("current_timestamp > day", "no column"),
        ("id = 'P1'", "'id' is a key"),
        ("TWIN", "differ in the size of letters"),
        ("COLUMNS('a.*') > 3", "name the columns"),
        ("ward = 'ICU'", "'ward' has no value 'ICU'; did you mean 'icu'"),
        ("ward NOT IN ('icu', 'genral')", "has no value 'genral'"),
        ("'x' IS DISTINCT FROM ward::VARCHAR", "has no value 'x'"),
        ("random() < 0.5", r"random\(\) is not known"),
        ("day < ago(INTERVAL 7 YEAR)", r"ago\(\) is not known"),
        ("day < today()", r"today\(\) is not known"),
        ("pg_conf_load_time() > day", "is not known"),
        ("pg_sleep(3) IS NULL", "is not known"),
        ("current_setting('threads') = 1", "is not known"),
        ("getvariable('x') = 1", "is not known"),
        ("lpad(ward, 1000000000, 'x') <> ''", r"lpad\(\) is not known"),
        ("repeat(ward, 100000000) <> ''", r"repeat\(\) is not known"),
        ("ward || ward <> ''", r"\|\|\(\) is not known"),
        ("unnest(range(100000000)) > 1", r"(unnest|range)\(\) is not known"),
        ("len(range(100000000)) > 1", r"range\(\) is not known"),
        ("main.abs(age) > 1", "is not known"),
        ("sum(age) OVER () > 1", "window"),
        ("age > ?", "write values out|more than one expression"),
        ("ward = 'a\ud800'", "no letter"),
        ("ward = 'a\0'", "no letter"),
        (" " * 11_000 + "sick", "letters; write 1 to 10,000"),
        (f"{'NOT ' * 2_000}sick", "nested too deeply|not SQL|does not read"),
    ],
)
def test_questions_and_conditions_refuse_alike(condition: str, said: str, asking: str) -> None:
    with pytest.raises(UsageError, match=said) as refusal:
        ASKING[asking](condition)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT count(*) FROM (SELECT DISTINCT * FROM release)", "name the columns"),
        ("SELECT count(DISTINCT r) AS r FROM release r", "is a table"),
        ("SELECT count(DISTINCT release) FROM release", "is a table"),
        ("SELECT DISTINCT COLUMNS('ward|sick'), count(*) FROM release", "name the columns"),
        ("SELECT count(COLUMNS(*)) FROM release", "name the columns"),
        ("SELECT count(DISTINCT COLUMNS('id')) FROM release", "name the columns"),
        ("SELECT count(*) FROM (SUMMARIZE release)", "SUMMARIZE"),
        ("SELECT count(*) FROM (DESCRIBE release)", "DESCRIBE"),
        ("SELECT count(*) FROM (SHOW TABLES)", "SHOW"),
        ("SELECT count(*)", "FROM release"),
        ("SELECT count(*) FROM (VALUES (1))", "only the table"),
        ("SELECT count(*) + (SELECT 1) FROM release", "FROM release"),
        ("WITH release AS (SELECT age FROM release) SELECT count(*) FROM release", "another name"),
        ("WITH drawn AS (SELECT age FROM release) SELECT count(*) FROM drawn", "another name"),
        ("WITH pg_tables AS (SELECT age FROM release) SELECT count(*) FROM release", "another"),
        ("SELECT count(*) FROM pg_catalog.pg_tables", "no table"),
        ("SELECT count(*) FROM main.release", "the table is called"),
        ("SELECT count(*) FROM release AS r(ward, age)", "name columns with AS"),
        ("WITH t(ward) AS (SELECT age FROM release) SELECT count(*) FROM t", "name columns with"),
        (
            "WITH RECURSIVE t AS (SELECT 1 AS n FROM release UNION ALL SELECT n + 1 FROM t) "
            "SELECT count(*) FROM t",
            "never end",
        ),
        ("SELECT count(*) FROM (SELECT age FROM release UNION SELECT 1)", "singly"),
        *(
            (f"SELECT {name}(age) FROM release", "is not known here")
            for name in (
                "first",
                "last",
                "any_value",
                "arbitrary",
                "list",
                "array_agg",
                "histogram",
            )
        ),
        ("SELECT max_by(age, cost) FROM release", "is not known"),
        ("SELECT string_agg(ward, ',') FROM release", "is not known"),
        ("SELECT avg(age) FROM (SELECT age FROM release LIMIT 10)", "LIMIT within"),
        ("SELECT avg(age) FROM (SELECT age FROM release LIMIT 10 PERCENT)", "LIMIT within"),
        ("SELECT count(*) + (SELECT age FROM release) FROM release", "must give one number"),
        ("SELECT count(*) FROM release WHERE age IN (SELECT age FROM release)", "one number"),
        ("SELECT count(*) FROM release WHERE EXISTS (SELECT age FROM release)", "one number"),
        (
            "SELECT avg((SELECT count(*) FROM release s WHERE s.age = r.age)) FROM release r",
            "could be asked alone",
        ),
        ("SELECT DISTINCT ON (ward) ward, count(*) FROM release GROUP BY ward", "DISTINCT ON"),
        ("SELECT ward, count(*) FROM release GROUP BY ward QUALIFY true", "QUALIFY"),
        ("SELECT count(DISTINCT age) FROM release", "invented within its bins"),
        ("SELECT count(DISTINCT cost + 0) FROM release", "invented within its bins"),
        ("SELECT count(DISTINCT a) FROM (SELECT day AS a FROM release)", "invented within"),
        ("SELECT count(*) FROM (SELECT DISTINCT age FROM release)", "invented within"),
        ("SELECT count(*) FROM (SELECT age FROM release GROUP BY age)", "invented within"),
        ("SELECT avg(n) FROM (SELECT age, count(*) n FROM release GROUP BY ALL)", "invented"),
        ("SELECT [age], count(*) FROM release GROUP BY ALL", "is not known"),
        ("SELECT '[1]'::INTEGER[] AS x, count(*) FROM release GROUP BY ALL", "group by numbers"),
        ("SELECT day::TIMESTAMPTZ AS x, count(*) FROM release GROUP BY ALL", "without a time zone"),
        ("SELECT ward AS estimate, count(*) FROM release GROUP BY ALL", "another name with AS"),
        ("SELECT ward AS What, count(*) FROM release GROUP BY ALL", "another name with AS"),
        ("SELECT ward AS x, sick AS X, count(*) FROM release GROUP BY ALL", "name them apart"),
        ("SELECT count(*), count(*) FROM release", "name them apart"),
        ("SELECT count(*) AS current_date FROM release", "means something else"),
        ("SELECT count(*) AS rowid FROM release WHERE rowid < 10", "means something else"),
    ],
)
def test_what_is_no_question_of_the_release_is_refused(sql: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as refusal:
        asked(sql)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("sql", "figures"),
    [
        ("SELECT sum(cost) AS s, count(*) AS n, s / n AS mean FROM release", [True] * 3),
        ("SELECT ward, geomean(cost) FROM release GROUP BY ward", [False, True]),
        ("SELECT wavg(cost, age), upper(ward) AS w FROM release GROUP BY w", [True, False]),
        ("SELECT age AS a, sum(cost) AS age FROM release GROUP BY a", [False, True]),
        ("SELECT n, count(*) FROM (SELECT ward, count(*) AS n FROM release GROUP BY ward) "
         "GROUP BY n", [False, True]),
        ("SELECT count(*) * 1.0 / (SELECT count(*) FROM release) AS x FROM release", [True]),
        ("SELECT count(DISTINCT ward), count(DISTINCT stays), count(DISTINCT age // 10) "
         "FROM release", [True] * 3),
        ("SELECT avg(n) FROM (SELECT age // 10 AS d, count(*) AS n FROM release GROUP BY d)",
         [True]),
    ],
)  # fmt: skip
def test_outputs_of_aggregates_are_figures_and_others_keys(sql: str, figures: list[bool]) -> None:
    assert [not output.is_key for output in asked(sql).outputs] == figures


@pytest.mark.parametrize(
    ("figure", "low", "high"),
    [
        ("avg(age) FROM release", 18, 97),
        ("avg(age) FROM (SELECT age * 10 AS age FROM release)", -np.inf, np.inf),
        ("avg(sick::INTEGER) FROM (SELECT age AS sick FROM release)", -np.inf, np.inf),
        ("sum(cost) FROM release", 0, np.inf),
        ("coalesce(sum(cost), 0) FROM release", 0, np.inf),
        ("sum(-cost) FROM release", -np.inf, np.inf),
        ("count(*) FROM (SELECT age FROM release)", 0, np.inf),
    ],
)
def test_ends_are_those_of_the_schema_where_columns_are(
    figure: str, low: float, high: float
) -> None:
    assert asked(f"SELECT {figure}").outputs[0].ends == (low, high)


@pytest.mark.parametrize(
    ("figure", "value"),
    [
        ("count(*)", 0),
        ("1.0 * count(*)", 0),
        ("coalesce(sum(cost), 0)", 0),
        ("count(*) + 5", 5),
        ("sum(cost)", 0),
        ("avg(cost)", None),
        ("sum(cost) / count(*)", None),
    ],
)
def test_a_group_without_rows_has_the_value_that_sql_gives_it(
    figure: str, value: float | None
) -> None:
    (output,) = asked(f"SELECT ward, {figure} AS x FROM release GROUP BY ward").figures
    assert output.of_nobody == value


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT ward, count(*) FROM release GROUP BY ward HAVING avg(cost) > 3", {"ward", "cost"}),
        ("SELECT avg(c) FROM (SELECT cost AS c, sick FROM release) WHERE sick", {"cost", "sick"}),
        ("SELECT sum(cost) AS s, s / 2 AS half FROM release", {"cost"}),
    ],
)
def test_columns_are_found_behind_names_and_conditions(sql: str, columns: set[str]) -> None:
    assert {*asked(sql).figures[-1].columns} == columns


def test_names_of_names_are_followed_once_each() -> None:
    inner = "SELECT cost AS a0 FROM release"
    for level in range(1, 40):
        inner = f"SELECT a{level - 1} + 1 AS a{level} FROM ({inner})"
    assert asked(f"SELECT avg(a39) FROM ({inner})").touched == ("cost",)


def doubling(levels: int) -> Iterator[str]:
    """Questions and conditions whose parts double with every level once they are written out."""
    beside = ", ".join(f"a{n} + a{n} AS a{n + 1}" for n in range(levels))
    yield f"SELECT avg(a{levels}) FROM (SELECT age AS a0, {beside} FROM release)"
    beneath = "SELECT age AS a FROM release"
    for _ in range(levels):
        beneath = f"SELECT a + a AS a FROM ({beneath})"
    yield f"SELECT avg(a) FROM ({beneath}) WHERE a > 3"
    chain = "".join(
        f", t{n + 1} AS (SELECT (SELECT sum(a) FROM t{n}) + (SELECT sum(a) FROM t{n}) AS a "
        "FROM release)"
        for n in range(levels)
    )
    yield f"WITH t0 AS (SELECT age AS a FROM release){chain} SELECT avg(a) FROM t{levels}"
    case = modulo = nothing = "age"
    for _ in range(levels):
        case = f"CASE {case} WHEN 1 THEN 2 WHEN 3 THEN 4 END"
        modulo, nothing = f"fmod({modulo}, 7)", f"nullif({nothing}, 7)"
    yield from (f"SELECT avg({own}) FROM release" for own in (case, modulo, nothing))
    yield f"SELECT /* ééééééé */ avg({case}) FROM release"


@pytest.mark.parametrize("sql", doubling(40))
def test_what_grows_beyond_bounds_never_comes_to_duckdb(sql: str) -> None:
    with pytest.raises(UsageError, match="more than 3,000 parts"):
        asked(sql)


@pytest.mark.parametrize("expression", ["CASE {} WHEN 1 THEN 2 WHEN 3 THEN 4 END", "fmod({}, 7)"])
def test_conditions_do_not_grow_either(expression: str) -> None:
    grown = "age"
    for _ in range(40):
        grown = expression.format(grown)
    with pytest.raises(UsageError, match="the condition has more than 3,000 parts"):
        Where.of(SCHEMA, f"{grown} > 3")


@pytest.mark.parametrize("sql", doubling(4))
def test_what_stays_small_is_asked(sql: str) -> None:
    assert asked(sql).touched == ("age",)


def test_functions_that_double_their_arguments_are_known() -> None:
    with database_of("a test", {}) as connection:
        macros = connection.execute(
            "SELECT function_name, macro_definition, parameters FROM duckdb_functions() "
            "WHERE function_type = 'macro'"
        ).fetchall()
    for name, definition, parameters in macros:
        if name in SCALARS | AGGREGATES:
            often = [len(re.findall(rf"\b{own}\b", definition)) for own in parameters]
            assert max(often, default=0) <= (2 if name in TWICE else 1), name


def test_known_functions_are_those_of_duckdb_and_lasting() -> None:
    with database_of("a test", {}) as connection:
        forms = connection.execute(
            "SELECT function_name, function_type, stability FROM duckdb_functions()"
        ).fetchall()
    assert {name for name, _, _ in forms} >= SCALARS | AGGREGATES
    for name, kind, stability in forms:
        if name in SCALARS:
            assert (kind, stability) in {("scalar", "CONSISTENT"), ("macro", None)}
        if name in AGGREGATES:
            assert kind in {"aggregate", "macro"}


LONG = "SELECT count(*) FROM range(10000000000) a WHERE a.range % 7 = 3"


def test_a_query_that_takes_too_long_ends() -> None:
    with database_of("a test", {}) as connection:
        started = time.monotonic()
        with pytest.raises(UsageError, match=r"no result after 0\.3 seconds"):
            in_time(connection, lambda: connection.execute(LONG).fetchall(), 0.3)
        assert time.monotonic() - started < 20
        assert in_time(connection, lambda: connection.execute("SELECT 1").fetchall()) == [(1,)]


def test_a_query_hears_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    def pressed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_sql, "wait", pressed)
    with database_of("a test", {}) as connection, pytest.raises(KeyboardInterrupt):
        in_time(connection, lambda: connection.execute(LONG).fetchall())


def test_no_variable_of_a_program_is_a_table() -> None:
    import duckdb

    variable = pa.table({"x": [1]})
    with database_of("a test", {}) as connection, pytest.raises(duckdb.Error):
        connection.execute("SELECT x FROM variable")
    assert variable.num_rows == 1
