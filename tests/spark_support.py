"""One session of real Spark for all tests, on this machine alone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from heterofedsyn.sources import spark


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session that the package itself starts where no cluster is configured."""
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        pytest.skip("Spark needs Java: install Java 17 or newer")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_REMOTE"):
            patch.delenv(name, raising=False)
        folder = tmp_path_factory.mktemp("spark")
        patch.setenv("SPARK_LOCAL_DIRS", str(folder))
        patch.chdir(folder)  # Spark makes its folder of tables where it is started
        started = spark.session()
        started.conf.set("spark.sql.shuffle.partitions", "4")
    yield started
    started.stop()


def cached(session: SparkSession) -> int:
    """How many tables the session keeps on its workers."""
    return int(session.sparkContext._jsc.getPersistentRDDs().size())

