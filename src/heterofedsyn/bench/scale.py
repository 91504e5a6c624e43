"""How time and memory grow, beside peers and limits measured in the same run."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from heterofedsyn.bench.benchmark_tables import random_table
from heterofedsyn.bench.fresh_process import in_fresh_process
from heterofedsyn.bench.mixed_table import SET, mixed_schema, write_mixed
from heterofedsyn.bench.speed import Figure
from heterofedsyn.hub import load
from heterofedsyn.hub.release.sampling import write
from heterofedsyn.marginals.counting import count_pairs, count_single
from heterofedsyn.marginals.counts import whole
from heterofedsyn.schema import EncodedTable
from heterofedsyn.simulate import FederatedSynthesizer
from heterofedsyn.simulate.synthesizer import name_sites
from heterofedsyn.site.counting import count
from heterofedsyn.sources import open_source, read
from heterofedsyn.sources.location import parse

ROWS = 10_000_000
VALUES = 32
_PEER_PAIRS = 6
"""Pairs that DuckDB counts; it takes them one by one, so more would say the same."""


def measure(
    progress: Callable[[str], None], rows: int = ROWS, database: str | None = None
) -> list[Figure]:
    """All figures; about five minutes with ten million rows, and four gigabytes of disk.

    Args:
        database: a `postgresql://` location of the mixed table, read beside its driver.
    """
    progress("counting pairs of encoded rows")
    figures = _counting(rows)
    progress("growth with rows and columns")
    figures += _growth(rows)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for ending in ("parquet", "csv"):
            progress(f"{ending.upper()} to all pair tables")
            figures += _reading(write_mixed(folder / f"mixed.{ending}", rows), rows)
        if database is not None:
            progress("PostgreSQL to all pair tables")
            figures.append(_database(database))
        progress("a whole study, and many synthetic rows")
        figures += _study(write_mixed(folder / "wide.parquet", rows // 10, sets=2), rows // 10)
    return figures


def _counting(rows: int) -> list[Figure]:
    name = f"{SET * (SET - 1) // 2} pair tables, {rows:,} rows x {SET} columns x {VALUES} values"
    seconds = in_fresh_process(count_random, rows, SET).result
    row_pairs = rows * SET * (SET - 1) / 2
    figures = [
        Figure(f"{name}, all cores", seconds["wall"], "s"),
        Figure(
            "one row of one pair, one core",
            seconds["one"] / row_pairs * 1e9,
            "ns",
            f"one increment a row {seconds['limit'] / rows * 1e9:.2f} ns",
            seconds["limit"] / rows / (seconds["one"] / row_pairs),
        ),
    ]
    if seconds["duckdb"] is not None:
        figures.append(
            Figure(
                "one pair of it, one core",
                seconds["one"] * 2 / SET / (SET - 1) * 1e3,
                "CPU ms",
                f"DuckDB's GROUP BY {seconds['duckdb'] * 1e3:.0f} CPU ms",
                seconds["duckdb"] / (seconds["one"] * 2 / SET / (SET - 1)),
            )
        )
    wide = in_fresh_process(count_random, rows // 10, 60).result["one"]
    figures.append(Figure(f"1,770 pair tables, {rows // 10:,} rows, one core", wide, "s"))
    return figures


def _growth(rows: int) -> list[Figure]:
    def per_row_pair(many: int, columns: int) -> float:
        one: float = in_fresh_process(count_random, many, columns).result["one"]
        return one / many / (columns * (columns - 1) / 2) * 1e9

    many = {n: per_row_pair(n, SET) for n in (rows // 100, rows // 10, rows)}
    wide = {d: per_row_pair(rows // 10, d) for d in (10, 30, 100)}

    def shown(by: dict[int, float]) -> str:
        return ", ".join(f"{key:,}: {value:.2f}" for key, value in by.items())

    return [
        Figure(
            "a row of a pair, slowest over fastest by rows",
            max(many.values()) / min(many.values()),
            "times",
            f"ns at {shown(many)}",
        ),
        Figure(
            "a row of a pair, slowest over fastest by columns",
            max(wide.values()) / min(wide.values()),
            "times",
            f"ns at {shown(wide)}",
        ),
    ]


def _reading(path: Path, rows: int) -> list[Figure]:
    kind = path.suffix[1:].upper()
    alone = in_fresh_process(read_only, [str(path)], mixed_schema().domain.names)
    ours = in_fresh_process(count_all, [str(path)])
    longer = in_fresh_process(count_all, [str(path)] * 4)
    name = f"{kind}, {rows:,} rows x {SET} mixed columns"
    return [
        Figure(
            f"{name}, to all pair tables",
            ours.cpu,
            "CPU s",
            f"reading alone {alone.cpu:.1f} CPU s",
            ours.cpu / alone.cpu,
        ),
        Figure(
            f"{name}: peak",
            ours.peak,
            "MiB",
            f"four times the rows {longer.peak:.0f} MiB",
            longer.peak / ours.peak,
        ),
    ]


def _database(location: str) -> Figure:
    alone = in_fresh_process(read_driver, location)
    ours = in_fresh_process(count_all, [location])
    return Figure(
        f"PostgreSQL, {alone.result:,} rows, to all pair tables",
        ours.cpu,
        "CPU s",
        f"its driver alone {alone.cpu:.1f} CPU s",
        ours.cpu / alone.cpu,
    )


def _study(path: Path, rows: int) -> list[Figure]:
    release = path.with_name("release")
    cost = in_fresh_process(whole_study, str(path), str(release))
    name = f"study, {rows:,} rows x {2 * SET} columns, 5 sites"
    figures = [
        Figure(f"{name}, files to release", cost.wall, "s", f"{cost.cpu:.0f} CPU s"),
        Figure(f"{name}: peak", cost.peak, "MiB"),
    ]
    few, many = (in_fresh_process(draw, str(release), n) for n in (2 * rows, 8 * rows))
    figures.append(
        Figure(
            f"{8 * rows:,} synthetic rows x {2 * SET} columns into Parquet",
            many.wall,
            "s",
            f"{8 * rows / many.wall:,.0f} rows a second",
        )
    )
    peer = f"{2 * rows:,} rows {few.peak:.0f} MiB"
    figures.append(Figure("the same: peak", many.peak, "MiB", peer, many.peak / few.peak))
    return figures


def count_random(rows: int, columns: int) -> dict[str, float | None]:
    """Seconds for all pairs of a random table: on one core, on all, and by others."""
    table = random_table(rows, (VALUES,) * columns)
    count_pairs(table)
    one = min(_cpu(lambda: count_pairs(table, threads=1)) for _ in range(3))
    start = time.perf_counter()
    count_pairs(table)
    wall = time.perf_counter() - start
    name = table.domain.names[0]
    limit = min(_cpu(lambda: count_single(table, name)) for _ in range(3))
    peer = _duckdb(table) if columns == SET else None
    return {"one": one, "wall": wall, "limit": limit, "duckdb": peer}


def _duckdb(table: EncodedTable) -> float | None:
    """CPU seconds that DuckDB needs for one pair, or None without DuckDB."""
    try:
        import duckdb
    except ImportError:
        return None
    import pyarrow as pa

    names = table.domain.names
    rows = pa.table({name: pa.array(table.codes[i]) for i, name in enumerate(names)})
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.register("rows", rows)
        pairs = table.domain.pairs()[:: len(table.domain.pairs()) // _PEER_PAIRS][:_PEER_PAIRS]

        def group() -> None:
            for one, other in pairs:
                by = f'"{one}", "{other}"'
                connection.sql(f"SELECT {by}, count(*) FROM rows GROUP BY {by}").fetchall()

        group()
        return _cpu(group) / len(pairs)


def read_only(locations: list[str], names: Sequence[str]) -> int:
    """Rows of sources whose named columns are read and thrown away."""
    return sum(batch.num_rows for batch in read(map(open_source, locations), names))


def count_all(locations: list[str]) -> int:
    """Rows of files that are counted by all pairs."""
    counted = count([open_source(location) for location in locations], mixed_schema())
    counted.counts.prepare(map(whole, counted.counts.domain.pairs()))
    return counted.counts.rows


def read_driver(location: str) -> int:
    """Rows of a query as PostgreSQL's own driver reads them."""
    import adbc_driver_postgresql.dbapi as driver

    parsed = parse(location)
    names = ", ".join(f'"{name}"' for name in mixed_schema().domain.names)
    with driver.connect(parsed.place) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT {names} FROM ({parsed.query}) AS t")
        return sum(batch.num_rows for batch in cursor.fetch_record_batch())


def whole_study(path: str, out: str) -> None:
    """From a file to a release, as `simulate` does it."""
    synthesizer = FederatedSynthesizer(mixed_schema(2), epsilon=1, delta=1e-9)
    tables = synthesizer.split(synthesizer.encode([path]), 5, "uniform")
    synthesizer.fit_encoded(name_sites(tables)).save(out)


def draw(release: str, rows: int) -> None:
    """Synthetic rows into a file."""
    with tempfile.TemporaryDirectory() as folder:
        write(load(release).batches(rows, seed=0), parquet=Path(folder) / "rows.parquet")


def _cpu(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start
