"""One session of real Spark for the tests of a module, on this machine alone or of a cluster."""

from __future__ import annotations

import gc
import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from heterofedsyn.sources import spark_table

needs_java = pytest.mark.skipif(
    not (os.environ.get("JAVA_HOME") or shutil.which("java")),
    reason="Spark needs Java: install Java 17 or newer",
)


@pytest.fixture(scope="module")
def local_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spark keeps what it keeps on disk."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def cluster(local_files: Path) -> Iterator[SparkSession]:
    """The session that the package itself starts where no cluster is configured."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS"):
            patch.delenv(name, raising=False)
        patch.setenv("SPARK_LOCAL_DIRS", str(local_files))
        started = spark_table.session()
        started.conf.set("spark.sql.shuffle.partitions", "4")
    yield started
    end(started)


def end(session: SparkSession) -> None:
    """Ends a session and its Java, whose settings the next one would have otherwise."""
    session.stop()
    if gateway := SparkContext._gateway:
        gateway.shutdown()
        process = gateway.proc
        process.stdin.close()
        process.wait(60)
        SparkContext._gateway = SparkContext._jvm = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # pyspark leaves its sockets to chance
        gc.collect()


def cached(session: SparkSession) -> int:
    """How many tables the session keeps on its workers."""
    return int(session.sparkContext._jsc.getPersistentRDDs().size())
