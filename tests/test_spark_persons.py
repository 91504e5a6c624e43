"""People at two sites are found where Spark holds the rows, too."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from heterofedsyn import FederatedSynthesizer, Schema
from heterofedsyn.errors import PrivacyRefusal, UsageError
from invented import SCHEMA, patients
from spark_support import cluster, local_files, needs_java

__all__ = ["cluster", "local_files"]

pytestmark = [
    pytest.mark.slow,
    needs_java,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # pyspark leaves its sockets to chance
]


def test_nobody_is_at_two_sites_if_spark_holds_one_of_them(cluster: SparkSession) -> None:
    terms: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-9, "method": "independent"}
    people: dict[str, Any] = {**terms, "unit": "person", "max_rows_per_unit": 4}
    schema = Schema.from_toml(SCHEMA)
    frame = cluster.createDataFrame(patients(60, seed=1).to_pandas())
    for other in (patients(20, seed=1), cluster.createDataFrame(patients(20, seed=1).to_pandas())):
        with pytest.raises(PrivacyRefusal, match="10 people have rows at more than one site"):
            FederatedSynthesizer(schema, **people).fit([frame, other])
    FederatedSynthesizer(schema, **people).fit([frame, patients(20, seed=2)])
    with pytest.raises(UsageError, match="count twice"):
        FederatedSynthesizer(schema, **terms).fit([frame, frame])
