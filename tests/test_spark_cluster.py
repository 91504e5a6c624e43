"""A standalone cluster and Spark Connect: the same counts, whatever happens to workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from heterofedsyn.bench.spark_cluster import StandaloneCluster, standalone
from heterofedsyn.errors import DataError
from heterofedsyn.marginals.counts import PairCounts, whole
from heterofedsyn.schema import Schema
from heterofedsyn.site.counting import Counted, count
from heterofedsyn.site.spark_counting import SparkCounts
from heterofedsyn.sources import open_source
from heterofedsyn.sources.spark_table import session
from spark_support import end, needs_java

pytestmark = [
    needs_java,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(sys.platform != "linux", reason="a cluster on one machine needs Linux"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # pyspark leaves its sockets to chance
]

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "2",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "6s",  # not for a worker whose Python is just starting
    "spark.sql.shuffle.partitions": "4",
}
ROWS = 6_000


@pytest.fixture(scope="module")
def processes() -> Iterator[StandaloneCluster]:
    """A master and two workers."""
    with standalone(settings=SPECULATION) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(processes: StandaloneCluster) -> Iterator[SparkSession]:
    """The session that the package itself starts for a location of that cluster."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("SPARK_HOME", "SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS"):
            patch.delenv(name, raising=False)
        for name, value in processes.variables.items():
            patch.setenv(name, value)
        started = session(processes.master)
        yield started
        end(started)


def schema_of(size: int) -> Schema:
    span = {"type": "integer", "min": 0, "max": size - 1, "bins": size}
    return Schema.of({"columns": [{"name": name, **span} for name in ("c0", "c1", "c2")]})


SMALL, LARGE = schema_of(5), schema_of(300)
"""Schemas whose pair tables are smaller than the codes of the rows, and larger."""


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Rows of 300 people, of whom one has half of them."""
    rng = np.random.default_rng(0)
    columns = {name: rng.integers(0, 6, ROWS) for name in ("c0", "c1", "c2")}
    person = np.where(rng.random(ROWS) < 0.5, 0, rng.integers(0, 300, ROWS))
    return pa.table({**columns, "person": [str(number) for number in person]})


@pytest.fixture(scope="module")
def parquet(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rows in files that all processes can read."""
    folder = tmp_path_factory.mktemp("lake")
    for place in range(6):
        pq.write_table(table.slice(place * 1_000, 1_000), folder / f"{place}.parquet")
    return folder


def tables_of(counted: Counted) -> list[list[int]]:
    pairs = counted.counts.domain.pairs()
    return [[counted.counts.rows], *(counted.counts.of(whole(pair)).tolist() for pair in pairs)]


def workers_of(rows: DataFrame, processes: StandaloneCluster) -> set[str]:
    """The workers in whose folders Python sees a table's rows."""

    def where(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            time.sleep(0.5)  # so that each has its share
            yield pa.record_batch({"place": [os.getcwd()]})  # noqa: PTH109

    places = [Path(row.place) for row in rows.mapInArrow(where, "place string").collect()]
    return {place.relative_to(processes.folder).parts[0] for place in places}


def wait_for(workers: set[str], cluster: SparkSession, processes: StandaloneCluster) -> None:
    """Until these workers have Python at work, and no others do."""
    end_of_patience = time.monotonic() + 120
    while workers_of(cluster.range(8, numPartitions=8), processes) != workers:
        assert time.monotonic() < end_of_patience


def test_rows_are_read_and_counted_by_workers_alone(
    cluster: SparkSession, processes: StandaloneCluster, parquet: Path, table: pa.Table
) -> None:
    wait_for({"worker-1", "worker-2"}, cluster, processes)
    source = open_source(f"{processes.master}#SELECT * FROM parquet.`{parquet}`")
    assert source.name == processes.master
    for schema, kept in ((SMALL, PairCounts), (LARGE, SparkCounts)):
        found = count([source], schema)
        assert isinstance(found.counts, kept)
        assert tables_of(found) == tables_of(count([open_source(table)], schema))


def test_the_command_line_reads_a_cluster_and_says_nothing_else(
    processes: StandaloneCluster, parquet: Path, tmp_path: Path
) -> None:
    SMALL.save(tmp_path / "s.toml")
    place = f"{processes.master}#SELECT * FROM parquet.`{parquet}`"
    words = ["schema", "check", "--schema", "s.toml", "--data", place]
    little = "--conf spark.executor.memory=512m pyspark-shell"  # beside the session of the tests
    run = subprocess.run(
        [sys.executable, "-m", "heterofedsyn", *words],
        cwd=tmp_path,
        env=processes.environment | {"PYSPARK_SUBMIT_ARGS": little},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    said = run.stdout + run.stderr
    assert "6,000" in said
    assert all(word not in said for word in ("WARN", "Spark log", "Stage"))
    assert [path.name for path in tmp_path.iterdir()] == ["s.toml"]


@pytest.mark.parametrize("most", [1, 3])
def test_people_are_limited_over_all_workers_however_their_rows_lie(
    cluster: SparkSession, parquet: Path, table: pa.Table, most: int
) -> None:
    limits = {"unit": "person", "max_rows_per_unit": most}
    expected = count([open_source(table)], SMALL, **limits)  # type: ignore[arg-type]
    rows = cluster.read.parquet(str(parquet))
    skewed = rows.repartitionByRange(4, "person")
    scattered = rows.repartition(7)
    for frame in (skewed, scattered) if most == 3 else (skewed,):
        found = count([open_source(frame)], SMALL, **limits)  # type: ignore[arg-type]
        assert found.fit.rows_over == expected.fit.rows_over
        assert tables_of(found) == tables_of(expected)


def test_a_task_that_runs_twice_counts_once(cluster: SparkSession, tmp_path: Path) -> None:
    def slow_at_first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if 0 in batch.column(0).to_pylist():
                attempts = len(list(tmp_path.iterdir()))
                (tmp_path / str(attempts)).touch()
                time.sleep(0 if attempts else 60)
            yield pa.record_batch(
                [pa.array([value % 5 for value in batch.column(0).to_pylist()])] * 3, names
            )

    names = ["c0", "c1", "c2"]
    rows = cluster.range(800, numPartitions=6).mapInArrow(
        slow_at_first, "c0 long, c1 long, c2 long"
    )
    found = count([open_source(rows)], SMALL)
    assert len(list(tmp_path.iterdir())) == 2
    assert found.fit.rows_read == found.counts.rows == 800
    assert found.counts.of(whole(("c0",))).tolist() == [160] * 5


def paced(rows: DataFrame, seconds: float, value: Path | None = None) -> DataFrame:
    """The rows, slowly, so that something can happen meanwhile; their values may be in a file."""

    def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(seconds)
            first = batch.column(0)
            if value is not None:
                first = pa.array(np.full(batch.num_rows, int(value.read_text())))
            yield pa.record_batch([first, *batch.columns[1:]], batch.schema.names)

    return rows.mapInArrow(slow, "c0 long, c1 long, c2 long")


def three(cluster: SparkSession, rows: int) -> DataFrame:
    columns = [f"id % {base} AS c{place}" for place, base in enumerate((5, 4, 3))]
    return cluster.range(rows, numPartitions=8).selectExpr(*columns)


def test_a_worker_that_is_lost_changes_no_count(
    cluster: SparkSession, processes: StandaloneCluster, tmp_path: Path
) -> None:
    rows = three(cluster, 8_000)
    expected = tables_of(count([open_source(rows)], LARGE))
    status = cluster.sparkContext.statusTracker()

    def lose(worker: str) -> None:
        while not any(
            info.numCompletedTasks
            for stage in status.getActiveStageIds()
            if (info := status.getStageInfo(stage))
        ):
            time.sleep(0.05)
        processes.kill(worker)

    # In the middle of reading.
    thread = Thread(target=lose, args=("worker-2",))
    thread.start()
    found = count([open_source(paced(rows, 1))], LARGE)
    thread.join()
    assert processes.processes["worker-2"].poll() is not None
    assert tables_of(found) == expected
    # Between reading and counting, with its part of the copy.
    processes.start_worker()
    value = tmp_path / "value"
    value.write_text("1")
    wait_for({"worker-1", "worker-3"}, cluster, processes)
    kept, changing = (count([open_source(paced(rows, 0.4, path))], LARGE) for path in (None, value))
    value.write_text("2")
    processes.kill("worker-3")
    assert tables_of(kept) == expected
    # As above, but what is read again is not what was read.
    with pytest.raises(
        DataError, match=r"was read again, .* and its rows were others; let nothing"
    ):
        tables_of(changing)
    processes.start_worker()


CLIENT = """
import json, sys
from heterofedsyn.errors import DataError
from heterofedsyn.marginals.counts import whole
from heterofedsyn.schema import Schema
from heterofedsyn.site.counting import check, count
from heterofedsyn.sources import open_source
from heterofedsyn.sources.spark_table import session
place, lake, *schemas = sys.argv[1:]
found = []
source = open_source(f"{place}#SELECT * FROM parquet.`{lake}`")
for schema in map(Schema.from_toml, schemas):
    for terms in ({}, {"unit": "person", "max_rows_per_unit": 3}):
        counts = count([source], schema, **terms).counts
        tables = [counts.of(whole(pair)).tolist() for pair in counts.domain.pairs()]
        found.append([[counts.rows], *tables])
rows = session(place).read.parquet(lake)
found.append(sum(batch.num_rows for batch in open_source(rows).batches(["c0"])))
rows.limit(3).createOrReplaceTempView("few")
wide = [f"c0 AS c{n}" for n in range(40)]
for table in (
    rows.limit(3), rows.sample(0.5), f"{place}#few", rows.selectExpr(*wide, "rand() AS u"),
    rows.selectExpr("CAST(concat('Zan', 'zibar') AS INT) AS c0", "c1", "c2"),
):
    try:
        found.append(check([open_source(table)], Schema.from_toml(schemas[0])).rows_read)
    except DataError as error:
        found.append(str(error))
print(json.dumps(found))
"""


def test_a_client_of_spark_connect_counts_the_same_without_java(
    processes: StandaloneCluster, parquet: Path, table: pa.Table, tmp_path: Path
) -> None:
    place = processes.start_connect()
    try:
        nothing = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK", "PYSPARK"))}
        client = nothing | {"JAVA_HOME": str(tmp_path / "none")}
        schemas = [SMALL.to_toml(), LARGE.to_toml()]
        run = subprocess.run(
            [sys.executable, "-c", CLIENT, place, str(parquet), *schemas],
            env=client,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert run.stderr == ""
        *counted, brought, limit, sample, view, chance, cast = json.loads(run.stdout)
        assert counted == [
            tables_of(count([open_source(table)], schema, unit=unit, max_rows_per_unit=3))
            for schema in (SMALL, LARGE)
            for unit in (None, "person")
        ]
        assert brought == ROWS
        assert all("push out another" in said for said in (limit, sample, view))
        assert "chance" in chance
        assert "CAST_INVALID_INPUT" in cast
        SMALL.save(tmp_path / "s.toml")
        arguments = ["schema", "check", "--schema", str(tmp_path / "s.toml"), "--data"]
        checked = subprocess.run(
            [
                sys.executable,
                "-m",
                "heterofedsyn",
                *arguments,
                f"spark:SELECT * FROM parquet.`{parquet}`",
            ],
            env=client | {"SPARK_REMOTE": place},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert "6,000" in checked.stdout + checked.stderr
    finally:
        processes.kill("connect")


def test_the_benchmark_of_a_cluster_prints_every_figure(tmp_path: Path) -> None:
    words = "bench scale --spark --rows 10000 --json"
    run = subprocess.run(
        [sys.executable, "-m", "heterofedsyn", *words.split()],
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))},
        capture_output=True,
        text=True,
        check=True,
    )
    figures = json.loads(run.stdout)
    assert len(figures) == 5
    assert all(figure["value"] >= 0 for figure in figures.values())
    assert list(tmp_path.iterdir()) == []
