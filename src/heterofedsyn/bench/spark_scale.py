"""A cluster of Spark beside one process: the same rows, from where they are to all pair tables."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

from heterofedsyn.bench.fresh_process import in_fresh_process, peak_of
from heterofedsyn.bench.mixed_table import SET, mixed_schema
from heterofedsyn.bench.scale import count_all
from heterofedsyn.bench.spark_cluster import cpu_seconds, descendants, standalone
from heterofedsyn.bench.speed import Figure
from heterofedsyn.schema import (
    BooleanColumn,
    CategoricalColumn,
    Column,
    IntegerColumn,
    NumberColumn,
)
from heterofedsyn.sources.spark_table import session

_PARTITION = 500_000
_WARM = 100_000


def measure(progress: Callable[[str], None], rows: int) -> list[Figure]:
    """Figures of a master and two workers on this machine, which are started and ended here."""
    progress("starting a master and two workers")
    with standalone() as cluster, tempfile.TemporaryDirectory() as made:
        few = rows // 10
        place = (cluster.master, cluster.variables)
        progress(f"{few:,} rows, made by the workers")
        small: dict[str, float] = in_fresh_process(count_made, *place, few, made).result
        progress(f"{few:,} rows, from Parquet by one process")
        alone = in_fresh_process(count_all, [made])
        progress(f"{rows:,} rows, made by the workers")
        large: dict[str, float] = in_fresh_process(count_made, *place, rows, None).result
    name = f"Spark, two workers, {SET} mixed columns"
    return [
        Figure(
            f"{name}, {rows:,} rows made there, to all pair tables",
            large["cpu"] / rows * 1e6,
            "CPU us a row",
            f"{few:,} rows {small['cpu'] / few * 1e6:.2f}, making them alone "
            f"{small['made'] / few * 1e6:.2f}",
            large["cpu"] / rows / (small["cpu"] / few),
        ),
        Figure(f"{name}, {rows:,} rows: time", large["wall"], "s", f"{large['cpu']:.0f} CPU s"),
        Figure(
            f"{name}, {few:,} rows in Parquet, to all pair tables",
            small["parquet"] / few * 1e6,
            "CPU us a row",
            f"one process without Spark {alone.cpu / few * 1e6:.2f}",
            small["parquet"] / alone.cpu,
        ),
        *(
            Figure(
                f"{name}, {rows:,} rows: peak of the asking {what}",
                large[what],
                "MiB",
                f"{few:,} rows {small[what]:.0f} MiB",
                large[what] / small[what],
            )
            for what in ("Python", "Java")
        ),
    ]


def count_made(
    master: str, variables: Mapping[str, str], rows: int, folder: str | None
) -> dict[str, float]:
    """What it costs a cluster to make rows and count them by all pairs.

    Args:
        variables: what lets this process into the cluster.
        folder: where the rows are written to as well, and counted from; nowhere if None.
    """
    os.environ.update(variables)
    count_all([f"{master}#{_query(_WARM)}"])  # workers load and compile
    whole = f"{master}#{_query(rows)}"
    costs = _cost(lambda: count_all([whole]))
    java, *_ = descendants(os.getpid())[1:]
    costs |= {"Python": peak_of(os.getpid()) / 2**10, "Java": peak_of(java) / 2**10}
    if folder is not None:
        made = session(master).sql(_query(rows))
        costs["made"] = _cost(made.write.format("noop").mode("overwrite").save)["cpu"]
        made.write.mode("append").parquet(folder)
        files = f"{master}#SELECT * FROM parquet.`{folder}`"
        costs["parquet"] = _cost(lambda: count_all([files]))["cpu"]
    return costs


def _cost(work: Callable[[], Any]) -> dict[str, float]:
    """Seconds of work, those of the cluster's processes included: they are the parent's, too."""
    cpu, wall = cpu_seconds(os.getppid()), time.perf_counter()
    work()
    return {
        "cpu": cpu_seconds(os.getppid()) - cpu,
        "wall": time.perf_counter() - wall,
    }


def _query(rows: int) -> str:
    """Rows that follow from their numbers, so that any worker makes the same."""
    parts = max(4, rows // _PARTITION)
    columns = ", ".join(
        f"{_value(column, f'hash(id, {place})')} AS `{column.name}`"
        for place, column in enumerate(mixed_schema().columns)
    )
    return f"SELECT {columns} FROM range(0, {rows}, 1, {parts})"


def _value(column: Column, number: str) -> str:
    """A value of a column, by a number that is any integer."""
    match column:
        case CategoricalColumn(values=values):
            return f"concat('value ', lpad(pmod({number}, {len(values)}), 2, '0'))"
        case IntegerColumn():
            return f"pmod({number}, 100)"
        case NumberColumn():
            return f"pmod({number}, 10000) / 1000.0 - 5"
        case BooleanColumn():
            return f"{number} > 0"
        case _:
            return (
                f"CAST(timestamp_seconds(1577836800 + pmod({number}, 126000000)) AS TIMESTAMP_NTZ)"
            )
