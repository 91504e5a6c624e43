"""Spark: the same counts as from memory, made where the rows are; errors hide the rows."""

from __future__ import annotations

import dataclasses
import gc
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from itertools import combinations
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import Column, DataFrame, SparkSession, functions

from agent_support import approved_study, ask, books_of, make_site
from heterofedsyn import FederatedSynthesizer
from heterofedsyn.errors import DataError, UsageError
from heterofedsyn.marginals import Counts, Flat
from heterofedsyn.marginals.counts import PairCounts, View, whole
from heterofedsyn.schema import Fit, Schema, draft
from heterofedsyn.simulate.hospitals import hospital_schema, hospitals
from heterofedsyn.site import _spark_tasks as work
from heterofedsyn.site.agent import Agent
from heterofedsyn.site.counting import Counted, check, count
from heterofedsyn.site.spark_counting import SparkCounts
from heterofedsyn.sources import open_source
from heterofedsyn.sources.spark_table import session
from spark_support import cached, cluster, local_files, needs_java
from support import NoNoise

__all__ = ["cluster", "local_files"]

pytestmark = [
    needs_java,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # pyspark leaves its sockets to chance
]


def counted_of(fit: Fit) -> dict[str, Any]:
    """All that is counted: rows of a partition have no numbers."""
    known = (field.name for field in dataclasses.fields(Fit) if field.name != "places")
    return {name: getattr(fit, name) for name in known}


def every_view(schema: Schema) -> list[View]:
    cliques = [(name,) for name in schema.domain.names]
    return [whole(clique) for clique in (*cliques, *schema.domain.pairs())]


def assert_same(found: Counted, expected: Counted, schema: Schema) -> None:
    assert counted_of(found.fit) == counted_of(expected.fit)
    assert found.counts.rows == expected.counts.rows
    assert_same_counts(found.counts, expected.counts, every_view(schema))


def assert_same_counts(found: Counts, expected: Counts, views: list[View]) -> None:
    found.prepare(views)
    for view in views:
        np.testing.assert_array_equal(found.of(view), expected.of(view))


KINDS = Schema.of(
    {
        "columns": [
            {"name": "text", "type": "categorical", "values": ["a", "b", "7"], "other": "a"},
            {"name": "digits", "type": "integer", "min": 0, "max": 9, "nullable": True},
            {"name": "price", "type": "number", "min": 0, "max": 100, "nullable": True},
            {"name": "cents", "type": "integer", "min": 0, "max": 100},
            {"name": "born", "type": "datetime", "min": "2000-01-01", "max": "2030-01-01"},
            {"name": "seen", "type": "datetime", "min": "2025-01-01", "max": "2025-01-31"},
            {"name": "told", "type": "datetime", "min": "2025-01-01", "max": "2025-01-31"},
            {"name": "real", "type": "number", "min": 0, "max": 1, "nullable": True},
            {"name": "Real", "type": "number", "min": 0, "max": 1, "nullable": True},
            {"name": "yes", "type": "boolean", "nullable": True},
            {"name": "a.b", "type": "integer", "min": 0, "max": 300, "bins": 300},
            {"name": "as word", "type": "categorical", "values": ["0", "1", "2"]},
            {"name": "number`s", "type": "categorical", "values": ["1.5", "2"], "nullable": True},
        ]
    }
)


def kinds(rows: int = 500) -> pa.Table:
    """Every type that a Parquet file and Spark both know, with values that do not fit."""
    rng = np.random.default_rng(0)

    def pick(*values: Any) -> list[Any]:
        return [values[place] for place in rng.integers(0, len(values), rows)]

    moments = [datetime(2025, 1, day, hour, 59, 59, 999_999) for day in (1, 9) for hour in (0, 23)]
    return pa.table(
        {
            "unread": pick("x", "y"),
            "text": pa.array(pick("a", "b", "7", "ü", "")),
            "digits": pa.array(pick("1", "2.0", " 3", None, "", "9", "1", "2")),
            "price": pa.array(pick(Decimal("1.50"), Decimal("99.99"), None), pa.decimal128(7, 2)),
            "cents": pa.array(pick(Decimal("3.00"), Decimal("4.00")), pa.decimal128(20, 2)),
            "born": pa.array(pick(date(2001, 2, 3), date(2025, 1, 1)), pa.date32()),
            "seen": pa.array(pick(*moments), pa.timestamp("us")),
            "told": pa.array(
                pick(*(moment.replace(tzinfo=UTC) for moment in moments)),
                pa.timestamp("us", "Europe/Berlin"),
            ),
            "real": pa.array(pick(0.1, float("nan"), None, 2.0, float("inf"))),
            "Real": pa.array(pick(0.2, float("nan"), None), pa.float32()),
            "yes": pa.array(pick(True, False, None)),
            "a.b": pa.array(pick(1, 255, 300), pa.int16()),
            "as word": pa.array(pick(0, 1, 1, 2, 2, 2, 5), pa.int8()),
            "number`s": pa.array(pick(1.5, 2.0, None)),
        }
    )


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata"])
def test_every_type_counts_the_same_through_spark_and_from_its_file(
    cluster: SparkSession, tmp_path: Path, zone: str
) -> None:
    pq.write_table(kinds(), tmp_path / "t.parquet")
    expected = count([open_source(tmp_path / "t.parquet")], KINDS)
    assert 0 < expected.fit.rows_dropped < 200
    cluster.conf.set("spark.sql.session.timeZone", zone)
    cluster.conf.set("spark.sql.caseSensitive", "true")  # to read a file that has both spellings
    try:
        frame = cluster.read.parquet(str(tmp_path / "t.parquet")).repartition(3)
        assert_same(count([open_source(frame)], KINDS), expected, KINDS)
        assert counted_of(check([open_source(frame)], KINDS)) == counted_of(expected.fit)
    finally:
        cluster.conf.unset("spark.sql.caseSensitive")
        cluster.conf.unset("spark.sql.session.timeZone")


def test_names_that_spark_does_not_tell_apart_are_told_apart(cluster: SparkSession) -> None:
    columns = [{"name": name, "type": "integer", "min": 0, "max": 9} for name in ("n", "N")]
    schema = Schema.of({"columns": columns})
    table = pa.table({"n": [1, 2, 3], "N": [4, 5, 5]})
    frame = cluster.createDataFrame(table)
    assert_same(count([open_source(frame)], schema), count([open_source(table)], schema), schema)


def test_batches_bring_the_same_rows_and_only_the_named_columns(
    cluster: SparkSession, tmp_path: Path
) -> None:
    table = kinds().drop_columns(["Real"])
    pq.write_table(table, tmp_path / "t.parquet")
    cluster.read.parquet(str(tmp_path / "t.parquet")).createOrReplaceTempView("t")
    source = open_source("spark:t")
    assert source.name == "spark:t"
    assert source.columns == tuple(table.column_names)
    found = pa.Table.from_batches(source.batches(["yes", "a.b"]))
    assert found.column_names == ["yes", "a.b"]
    assert found.to_pylist() == table.select(["yes", "a.b"]).to_pylist()
    assert draft(source.batches(["text", "yes"])) == draft(
        table.select(["text", "yes"]).to_batches()
    )


def numbers(rows: int, columns: int = 4, size: int = 5) -> tuple[Schema, pa.Table]:
    names = [f"c{place}" for place in range(columns)]
    span = {"type": "integer", "min": 0, "max": size - 1, "bins": size}
    schema = Schema.of({"columns": [{"name": name, **span} for name in names]})
    rng = np.random.default_rng(1)
    return schema, pa.table({name: rng.integers(0, size, rows) for name in names})


def test_a_large_table_leaves_counts_and_no_copy(cluster: SparkSession) -> None:
    schema, table = numbers(20_000)
    before = cached(cluster)
    found = count([open_source(cluster.createDataFrame(table))], schema)
    assert isinstance(found.counts, PairCounts)
    assert cached(cluster) == before
    assert_same(found, count([open_source(table)], schema), schema)


def test_a_small_table_is_kept_as_codes_until_its_counts_are_dropped(cluster: SparkSession) -> None:
    schema, table = numbers(3_000, size=500)
    before = cached(cluster)
    found = count([open_source(cluster.createDataFrame(table).repartition(5))], schema)
    assert isinstance(found.counts, SparkCounts)
    expected = count([open_source(table)], schema)
    assert_same(found, expected, schema)
    thirds = tuple(value * 3 // 500 for value in range(500))
    views: list[View] = [(("c1", thirds),), (("c0", None), ("c3", thirds))]
    assert_same_counts(found.counts, expected.counts, views)
    assert cached(cluster) == before + 1
    del found
    gc.collect()
    assert cached(cluster) == before


@pytest.mark.parametrize(("rows", "size"), [(20_000, 5), (1_000, 40), (0, 5)])
def test_three_columns_are_counted_where_spark_holds_them(
    cluster: SparkSession, rows: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema, table = numbers(rows, size=size)
    monkeypatch.setattr("heterofedsyn.site.spark_counting._MOST_JOB_COLUMNS", 6)
    frame = cluster.createDataFrame(table.to_pylist(), "c0 int, c1 int, c2 int, c3 int")
    found = count([open_source(frame.repartition(3))], schema, together=3)
    assert isinstance(found.counts, SparkCounts)
    halves = tuple(value // 2 for value in range(size))
    views: list[View] = [whole(three) for three in combinations(schema.domain.names, 3)]
    views += [(("c0", halves), ("c1", None), ("c3", (0,) * size))]
    expected = count([open_source(table)], schema, together=3)
    assert_same_counts(found.counts, expected.counts, [*every_view(schema), *views])


def test_a_source_is_read_once(cluster: SparkSession, tmp_path: Path) -> None:
    schema, table = numbers(1_000, size=300)
    pq.write_table(table, tmp_path / "t.parquet")
    counts = count([open_source(cluster.read.parquet(str(tmp_path / "t.parquet")))], schema).counts
    (tmp_path / "t.parquet").unlink()
    assert_same_counts(counts, count([open_source(table)], schema).counts, every_view(schema))


def test_two_counts_of_one_table_have_a_copy_each(cluster: SparkSession, tmp_path: Path) -> None:
    schema, table = numbers(1_000, size=300)
    pq.write_table(table, tmp_path / "t.parquet")
    frame = cluster.read.parquet(str(tmp_path / "t.parquet"))
    one, other = (count([open_source(frame)], schema).counts for _ in range(2))
    assert isinstance(one, SparkCounts)
    one.close()
    (tmp_path / "t.parquet").unlink()
    assert_same_counts(other, count([open_source(table)], schema).counts, every_view(schema))


def test_counts_wider_than_one_job_and_one_slot_are_put_together(
    cluster: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema, table = numbers(1_000, size=400)  # 160,000 cells a pair: more than a slot
    monkeypatch.setattr("heterofedsyn.site.spark_counting._MOST_JOB_CELLS", 400_000)
    found = count([open_source(cluster.createDataFrame(table).repartition(3))], schema)
    assert_same(found, count([open_source(table)], schema), schema)


def test_an_empty_table_has_counts_of_zero(cluster: SparkSession) -> None:
    schema, table = numbers(0)
    frame = cluster.createDataFrame(table.to_pylist(), "c0 int, c1 int, c2 int, c3 int")
    assert_same(count([open_source(frame)], schema), count([open_source(table)], schema), schema)


def people(rows: list[tuple[Any, ...]]) -> pa.Table:
    person, *values = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {
            "person": pa.array(person, pa.string()),
            "c0": pa.array(values[0], pa.int64()),
            "c1": pa.array(values[1], pa.int64()),
        }
    )


def test_people_are_told_apart_over_all_partitions_and_tables(cluster: SparkSession) -> None:
    schema, _ = numbers(0, columns=2)
    spellings = ["1", "1.0", "2", None, "", "x", "3", "3.00"]
    rows = [(name, place % 5, place % 3) for place, name in enumerate(spellings * 2)]
    table = people(rows)
    frame = cluster.createDataFrame(table).repartition(4)
    halves = [frame.where("c0 < 2"), frame.where("c0 >= 2")]
    for most in (1, 2, 4, 100):
        expected = count([open_source(table)], schema, unit="person", max_rows_per_unit=most)
        found = count(
            [open_source(half) for half in halves],
            schema,
            unit="person",
            max_rows_per_unit=most,
        )
        assert counted_of(found.fit) == counted_of(expected.fit)
        assert_same(found, expected, schema)


def flat(frame: DataFrame, schema: Schema, most: int) -> np.ndarray[Any, Any]:
    found = count([open_source(frame)], schema, unit="person", max_rows_per_unit=most).counts
    return found.of(whole(("c0", "c1")))


RECORDS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=12
)


@settings(max_examples=6)
@given(rows=RECORDS, extra=RECORDS, most=st.integers(1, 3), parts=st.integers(1, 3))
def test_one_person_changes_counts_by_at_most_what_is_allowed(
    cluster: SparkSession,
    rows: list[tuple[str, int, int]],
    extra: list[tuple[str, int, int]],
    most: int,
    parts: int,
) -> None:
    schema, _ = numbers(0, columns=2)
    added = [("new", *values) for _, *values in extra]
    without = cluster.createDataFrame(people(rows)).repartition(parts)
    with_one = cluster.createDataFrame(people([*added, *rows])).repartition(4 - parts)
    change = flat(with_one, schema, most) - flat(without, schema, most)
    assert (change >= 0).all()
    assert change.sum() == min(most, len(extra))


def test_which_rows_of_a_person_stay_does_not_depend_on_their_places(cluster: SparkSession) -> None:
    schema, table = numbers(300, columns=2)
    table = table.append_column("person", pa.array([str(n % 20) for n in range(300)]))
    shuffled = table.take(np.random.default_rng(2).permutation(300))
    one, other = (
        flat(cluster.createDataFrame(rows).repartition(parts), schema, 3)
        for rows, parts in ((table, 2), (shuffled, 5))
    )
    np.testing.assert_array_equal(one, other)
    assert one.sum() == 60


def test_fit_takes_data_frames_of_spark(cluster: SparkSession) -> None:
    tables = hospitals(patients=600)
    frames = {name: cluster.createDataFrame(table) for name, table in list(tables.items())[:2]}
    releases = [
        FederatedSynthesizer(hospital_schema(), epsilon=5, delta=1e-6, noise_seed=1)
        .fit(sites)
        .sample(200, seed=0)
        for sites in (frames, {name: tables[name] for name in frames})
    ]
    assert releases[0].equals(releases[1])


def test_an_agent_answers_from_spark_as_from_a_file(cluster: SparkSession, tmp_path: Path) -> None:
    heard: list[bytes] = []
    for name in ("file", "spark"):
        site = make_site(tmp_path / name, rows=200)
        study = approved_study(site)
        if name == "spark":
            rows = cluster.read.csv(site.source, header=True)
            rows.createOrReplaceTempView("rows_of_a_site")
            site = replace(site, source="spark:rows_of_a_site")
        with books_of(site) as books:
            agent = Agent(site, books, noise=NoNoise(), log=lambda line: None)
            heard.append(agent.answer(ask(study, Flat(("a0",)), Flat(("a0", "a1")))))
    assert heard[0] == heard[1]


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("spark:nowhere", "spark:nowhere: there is no such table"),
        ("spark:nowhere.at.all", "spark:nowhere.at.all: there is no such table"),
        ("spark:SELEC 'secret'", "the Spark query: not a table or a query"),
        ("spark:SELECT 'secret', nothing FROM range(3)", "names a column that is not there"),
        ("spark:SELECT id, id FROM range(3)", "columns 1 and 2 have the same name"),
    ],
)
def test_a_wrong_location_is_refused_in_one_line(
    cluster: SparkSession, location: str, words: str
) -> None:
    with pytest.raises(DataError) as caught:
        open_source(location)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_errors_of_workers_hide_the_rows(cluster: SparkSession) -> None:
    schema, _ = numbers(0, columns=1)
    query = "spark:SELECT CAST(concat('secret', id) AS INT) AS c0 FROM range(9)"
    for reading in (
        lambda: count([open_source(query)], schema),
        lambda: check([open_source(query)], schema),
        lambda: list(open_source(query).batches()),
    ):
        with pytest.raises(DataError) as caught:
            reading()
        message = str(caught.value)
        assert message == (
            "the Spark query: Spark could not read it to its end (CAST_INVALID_INPUT); "
            "run the query in Spark to see why"
        )
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__


LOUD = """
import pyarrow as pa
from pyspark.sql import functions
from heterofedsyn.errors import DataError
from heterofedsyn.schema import Schema
from heterofedsyn.site.counting import check
from heterofedsyn.sources import open_source
from heterofedsyn.sources.spark_table import session
schema = Schema.of({"columns": [{"name": "c0", "type": "integer", "min": 0, "max": 9}]})
words = session().createDataFrame(pa.table({"s": ["sec" "ret"]}))
words.createOrReplaceTempView("words")
frame = words.select(functions.col("s").cast("int").alias("c0"))
for table in ("spark:SELECT CAST(s AS INT) AS c0 FROM words", frame):
    for reading in (lambda: check([open_source(table)], schema), open_source(table).batches):
        try: list(reading())
        except DataError as error: print("CAST_INVALID_INPUT" in str(error))
"""


def test_a_process_prints_no_row_and_nothing_of_spark_and_leaves_no_file(tmp_path: Path) -> None:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    run = subprocess.run(
        [sys.executable, "-c", LOUD],
        cwd=tmp_path,
        env=kept | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    assert run.stdout.split() == ["True"] * 4
    assert run.stderr == ""
    assert not list(tmp_path.iterdir())


def test_a_table_that_the_session_keeps_is_read_by_its_name(cluster: SparkSession) -> None:
    table = pa.table({"c0": [1, 2]})
    cluster.createDataFrame(table).coalesce(1).write.saveAsTable("kept")
    try:
        assert pa.Table.from_batches(open_source("spark:default.kept").batches()) == table
    finally:
        cluster.sql("DROP TABLE kept")
    assert not Path("spark-warehouse").exists()


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT OVERWRITE DIRECTORY '{place}' USING parquet SELECT 1 AS c0",
        "FROM range(3) INSERT OVERWRITE DIRECTORY '{place}' USING parquet SELECT id",
        "SELECT 1 AS c0) ; INSERT OVERWRITE DIRECTORY '{place}' USING parquet (SELECT 1 AS c0",
        "CREATE TABLE made USING parquet LOCATION '{place}' AS SELECT 1 AS c0",
    ],
)
def test_a_statement_that_writes_is_refused(
    cluster: SparkSession, tmp_path: Path, statement: str
) -> None:
    place = tmp_path / "out"
    with pytest.raises(DataError, match="not a table or a query"):
        open_source("spark:" + statement.format(place=place))
    assert not place.exists()


def test_queries_may_end_in_a_semicolon_or_a_comment(cluster: SparkSession) -> None:
    for query in ("SELECT 3 AS c0 ; ", "WITH t AS (SELECT 3 AS c0) FROM t -- all of it"):
        (batch,) = open_source(f"spark:{query}").batches()
        assert batch.to_pydict() == {"c0": [3]}


def test_a_file_that_is_cut_short_is_told_apart(cluster: SparkSession, tmp_path: Path) -> None:
    schema, table = numbers(20_000, columns=1)
    path = tmp_path / "who=secret" / "the rows.parquet"
    path.parent.mkdir()
    pq.write_table(table, path, compression="none")
    whole_file = path.read_bytes()
    for cut, what in (
        (whole_file[:-50], "a file"),
        (whole_file[:500] + whole_file[900:], "'the rows.parquet'"),
    ):
        path.write_bytes(cut)
        with pytest.raises(DataError) as caught:
            count([open_source(f"spark:SELECT * FROM parquet.`{path}`")], schema)
        assert str(caught.value) == (
            f"the Spark query: {what} is damaged or cut short; make it again"
        )


def test_a_missing_column_or_an_unsuitable_one_is_named(cluster: SparkSession) -> None:
    schema, _ = numbers(0, columns=2)
    with pytest.raises(DataError, match="the Spark query: no column 'c1' among its 1; "):
        count([open_source("spark:SELECT 1 AS c0")], schema)
    query = "spark:SELECT 1 AS c0, 2 AS c1, array(3) AS who"
    with pytest.raises(DataError, match=r"the Spark query: column 'who' of type .* or numbers"):
        count([open_source(query)], schema, unit="who")


def test_a_session_keeps_its_settings(cluster: SparkSession) -> None:
    schema, table = numbers(10)
    frame = cluster.createDataFrame(table)
    before = cluster.conf.getAll
    count([open_source(frame)], schema)
    assert cluster.conf.getAll == before


def test_nothing_is_kept_of_a_table_that_cannot_be_read(cluster: SparkSession) -> None:
    schema, _ = numbers(0, columns=1)
    before = cached(cluster)
    with pytest.raises(DataError):
        count([open_source("spark:SELECT raise_error('x') AS c0 FROM range(9)")], schema)
    assert cached(cluster) == before


def test_rows_are_told_of_as_partitions_are_done(cluster: SparkSession) -> None:
    def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(batch.column(0)[0].as_py() / 2)
            yield batch

    schema, _ = numbers(0, columns=1)
    rows = cluster.range(4, numPartitions=4).mapInArrow(slow, "c0 long")
    people = rows.selectExpr("c0", "'x' AS person")
    for reading, unit in ((count, None), (check, "person")):
        heard: list[int] = []
        reading([open_source(people)], schema, unit=unit, watch=heard.append)
        assert heard == sorted(heard)
        assert len(set(heard)) > 1
        assert heard[-1] == 4


def test_the_command_line_says_how_far_spark_is_and_ends_when_it_is_told_to(tmp_path: Path) -> None:
    schema, _ = numbers(0, columns=1)
    schema.save(tmp_path / "s.toml")
    arguments = ["schema", "check", "--schema", "s.toml", "--data"]
    endless = "spark:SELECT id % 5 AS c0 FROM range(0, 20000000000, 1, 100000)"
    with subprocess.Popen(
        [sys.executable, "-m", "heterofedsyn", *arguments, endless],
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            assert re.match(r"reading: [\d,]+00,000 rows so far, ", process.stderr.readline())
            process.terminate()
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 128 + signal.SIGTERM
    *more, last = said.splitlines()
    assert all(line.startswith("reading: ") for line in more)
    assert last == "error: stopped before the end; nothing half-written is left"


@contextmanager
def signalled(cluster: SparkSession, number: signal.Signals) -> Iterator[None]:
    """Sends a signal to this process as soon as Spark works on something, and a moment has gone."""
    status = cluster.sparkContext.statusTracker()

    def send() -> None:
        while not status.getActiveStageIds():
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(os.getpid(), number)

    def terminate(*_: object) -> None:
        raise SystemExit

    # Whoever starts this process in the background has it ignore Ctrl-C.
    handlers: dict[signal.Signals, Callable[..., object]] = {
        signal.SIGTERM: terminate,
        signal.SIGINT: signal.default_int_handler,
    }
    before = {which: signal.signal(which, handler) for which, handler in handlers.items()}
    thread = Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        for which, handler in before.items():
            signal.signal(which, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("reading", ["count", "check", "batches", "a round"])
def test_a_signal_ends_what_spark_works_on(
    cluster: SparkSession,
    capfd: pytest.CaptureFixture[str],
    number: signal.Signals,
    reading: str,
) -> None:
    schema, _ = numbers(0, columns=2)
    endless = "FROM range(100000) AS a, range(20000) AS b"
    rows = open_source(f"spark:SELECT a.id % 5 AS c0, b.id % 5 AS c1 {endless}")
    codes = cluster.sql(
        f"SELECT X'0102' AS codes, 0L AS mark, CAST(NULL AS BINARY) AS fit {endless}"
    )
    work: dict[str, Callable[[], object]] = {
        "count": lambda: count([rows], schema),
        "check": lambda: check([rows], schema),
        "batches": lambda: list(rows.batches()),
        "a round": lambda: SparkCounts("t", schema.domain, 10, codes, 0).of(whole(("c0", "c1"))),
    }
    before = cached(cluster)
    expected = KeyboardInterrupt if number == signal.SIGINT else SystemExit
    with signalled(cluster, number), pytest.raises(expected):
        work[reading]()
    assert not cluster.sparkContext.statusTracker().getActiveJobsIds()
    assert cached(cluster) == before
    assert capfd.readouterr().err == ""


def test_workers_of_another_version_are_refused(
    cluster: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema, table = numbers(10)
    older = partial(work.Task, version="0.0")
    monkeypatch.setattr("heterofedsyn.site.spark_counting.work.Task", older)
    with pytest.raises(DataError, match=r"the workers have heterofedsyn .*, this is 0\.0; install"):
        count([open_source(cluster.createDataFrame(table))], schema)


def test_workers_without_the_package_are_told_apart_from_bad_rows(
    cluster: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema, table = numbers(10)
    (tmp_path / "heterofedsyn.py").write_text(
        """raise ModuleNotFoundError("No module named 'heterofedsyn'")"""
    )
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nexport PYTHONPATH="{tmp_path}:$PYTHONPATH"\nexec {sys.executable} "$@"\n'
    )
    python.chmod(0o700)
    frame = cluster.createDataFrame(table)
    monkeypatch.setattr(cluster.sparkContext, "pythonExec", str(python))
    with pytest.raises(DataError, match="its workers do not have this package; install it"):
        count([open_source(frame)], schema)


def test_without_java_a_line_says_so(tmp_path: Path) -> None:
    script = (
        "from heterofedsyn.sources import open_source\n"
        "from heterofedsyn.errors import DataError\n"
        "try: open_source('spark:t')\n"
        "except DataError as error: print(error)"
    )
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    run = subprocess.run(
        [sys.executable, "-c", script],
        env=kept | {"JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert run.stdout == (
        "spark:t: Java did not start; install Java 17 or newer, or set JAVA_HOME\n"
    )


WIDE = ", ".join(f"id AS c{place}" for place in range(40))


def unsure(column: str) -> Column:
    """A function of Python that says of itself that it is not sure."""
    return functions.udf(lambda value: value, "long").asNondeterministic()(column)


NOT_EXACT: dict[str, tuple[Callable[[DataFrame], DataFrame], str]] = {
    "limit": (lambda rows: rows.limit(3), "LIMIT"),
    "offset": (lambda rows: rows.orderBy("id").offset(1), "push out another"),
    "sample": (lambda rows: rows.sample(fraction=0.5, seed=1), "a sample"),
    "split": (lambda rows: rows.randomSplit([0.5, 0.5], seed=1)[0], "a sample"),
    "window": (lambda rows: rows.selectExpr("row_number() OVER (ORDER BY id) AS c0"), "a window"),
    "subquery": (lambda rows: rows.where("id IN (SELECT id FROM range(9) LIMIT 2)"), "LIMIT"),
    "duplicates": (lambda rows: rows.dropDuplicates(["id"]), "dropDuplicates"),
    "rand": (lambda rows: rows.selectExpr("rand(1) AS c0"), "chance"),
    "wide": (lambda rows: rows.selectExpr(*WIDE.split(", "), "uuid() AS u"), "chance"),
    "place": (lambda rows: rows.selectExpr("spark_partition_id() AS c0"), "a row's place"),
    "first": (lambda rows: rows.groupBy("id").agg(functions.first("id").alias("c0")), "first"),
    "list": (lambda rows: rows.groupBy("id").agg(functions.collect_list("id")), "collect_list"),
    "python": (lambda rows: rows.select(unsure("id").alias("c0")), "chance"),
}


@pytest.mark.parametrize("what", NOT_EXACT)
def test_rows_that_others_or_chance_decide_on_are_refused_in_frames_and_views(
    cluster: SparkSession, what: str
) -> None:
    frame, words = NOT_EXACT[what]
    rows = frame(cluster.range(9))
    rows.createOrReplaceTempView("a_view_of_chance")
    for table in (rows, "spark:a_view_of_chance", "spark:SELECT * FROM a_view_of_chance"):
        with pytest.raises(DataError, match=words) as caught:
            open_source(table)
        assert "\n" not in str(caught.value)


def test_what_takes_rows_one_by_one_passes(cluster: SparkSession) -> None:
    rows = cluster.range(9).withColumn("at", functions.current_timestamp())
    for frame in (
        rows.repartition(3),
        rows.groupBy("id").agg(functions.max("at")),
        rows.where("EXISTS (SELECT 1 FROM range(2))").orderBy("id"),
        rows.join(cluster.range(3), "id"),
        cluster.sql("SELECT DISTINCT id FROM range(9)"),
    ):
        before = cluster.conf.getAll
        assert open_source(frame).columns == tuple(frame.columns)
        assert cluster.conf.getAll == before


def test_a_process_has_one_place_of_spark(cluster: SparkSession) -> None:
    for place in ("spark://127.0.0.1:9", "sc://127.0.0.1:9"):
        with pytest.raises(UsageError, match="in another place"):
            open_source(f"{place}#t")


def test_streams_and_mixtures_are_refused(cluster: SparkSession) -> None:
    schema, table = numbers(10)
    stream = cluster.readStream.format("rate").load()
    with pytest.raises(UsageError, match="a stream has no end"):
        open_source(stream)
    both = [open_source(cluster.createDataFrame(table)), open_source(table)]
    for reading in (count, check):
        with pytest.raises(UsageError, match="cannot be put together"):
            reading(both, schema)


def test_the_session_listens_on_loopback_only(cluster: SparkSession) -> None:
    assert cluster.conf.get("spark.driver.host") == "127.0.0.1"
    assert cluster.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert cluster.sparkContext.uiWebUrl is None


def test_every_thread_counts_in_the_same_session(cluster: SparkSession) -> None:
    schema, _ = numbers(0, columns=1)
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(session).result() is cluster
        source = thread.submit(open_source, "spark:SELECT 3 AS c0").result()
        found = thread.submit(count, [source], schema).result()
    assert found.counts.of(whole(("c0",))).tolist() == [0, 0, 0, 1, 0]


def test_a_context_that_has_no_session_yet_is_taken(
    cluster: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> SparkSession:
        raise PySparkRuntimeError(errorClass="NO_ACTIVE_OR_DEFAULT_SESSION", messageParameters={})

    monkeypatch.setattr(SparkSession, "active", none)
    assert session().sparkContext is cluster.sparkContext


def test_what_spark_keeps_on_disk_cannot_be_read_without_its_session(
    cluster: SparkSession, local_files: Path
) -> None:
    schema, table = numbers(2_000, columns=2, size=500)
    found = count([open_source(cluster.createDataFrame(table).coalesce(1))], schema)
    assert isinstance(found.counts, SparkCounts)
    kept = b"".join(path.read_bytes() for path in local_files.rglob("rdd_*") if path.is_file())
    assert len(kept) > 2_000
    codes = table["c0"].to_numpy().astype(np.uint16).tobytes()
    # Short pieces: Spark compresses what it keeps, but leaves most of such codes as they are.
    assert not any(codes[place : place + 12] in kept for place in range(0, len(codes), 12))
