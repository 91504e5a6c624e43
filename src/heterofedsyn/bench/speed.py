"""How fast the kernels are, beside the obvious ways to do the same."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heterofedsyn.bench.benchmark_tables import (
    ADULT_SIZES,
    data_folder,
    leaning_table,
    random_table,
    real_table,
)
from heterofedsyn.marginals.counting import count_pairs
from heterofedsyn.schema import EncodedTable, Schema
from heterofedsyn.simulate import FederatedSynthesizer
from heterofedsyn.simulate.synthesizer import name_sites
from heterofedsyn.synthesis.gum import Gum, run_pass


@dataclass(frozen=True)
class Figure:
    """One measured figure, and what was measured beside it in the same run."""

    name: str
    value: float
    unit: str
    peer: str = ""
    ratio: float | None = None

    @property
    def shown(self) -> str:
        """The figure for people."""
        return f"{self.value:.3g} {self.unit}"

    def as_dict(self) -> dict[str, Any]:
        """The figure for programs."""
        return asdict(self)


def measure(progress: Callable[[str], None]) -> list[Figure]:
    """All figures; takes about a minute."""
    folder = data_folder()
    schema: Schema | None = None
    if folder is None:
        progress("no benchmark tables at hand: a random table of adult's shape instead")
        table = random_table(26_048, ADULT_SIZES)
    else:
        schema, table = real_table(folder, "adult")
    progress("counting pairs")
    figures = _counting(table)
    progress("GUM")
    figures += _gum("adult" if folder else "a random table", table)
    for columns in (15, 40):
        leaning = leaning_table(26_048, (16,) * columns)
        figures += _gum(f"{columns} columns that lean on one number", leaning)
    if folder is not None and schema is not None:
        progress("a whole study")
        for method in ("wavetree", "adafedprivsyn"):
            figures.append(_study(folder, schema, method))
    progress("start-up")
    figures.append(_start("import heterofedsyn", "-c", "import heterofedsyn"))
    figures.append(_start("heterofedsyn --help", "-m", "heterofedsyn", "--help"))
    return figures


def _best(work: Callable[[], object], repeats: int) -> float:
    """Seconds of the fastest of several runs, after one to warm up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def _counting(table: EncodedTable) -> list[Figure]:
    pairs = table.domain.pairs()
    sizes = dict(zip(table.domain.names, table.domain.sizes, strict=True))
    column = {name: table.codes[i] for i, name in enumerate(table.domain.names)}

    def loop() -> None:
        for a, b in pairs:
            cells = column[a].astype(np.int64) * sizes[b] + column[b]
            np.bincount(cells, minlength=sizes[a] * sizes[b])

    two = _best(lambda: count_pairs(table), 50)
    slow = _best(loop, 5)
    name = f"{len(pairs)} pair tables, {table.rows:,} rows"
    figures = [Figure(name, two * 1e3, "ms", f"bincount loop {slow * 1e3:.1f} ms", slow / two)]
    pivot = _pivot(column, pairs)
    if pivot is not None:
        figures.append(
            Figure(name + " (same)", two * 1e3, "ms", f"pivot_table {pivot:.2f} s", pivot / two)
        )
    large = random_table(1_000_000, (32,) * 15)
    work = large.rows * len(large.domain.pairs())
    one_thread = _best(lambda: count_pairs(large, threads=1), 5)
    two_threads = _best(lambda: count_pairs(large, threads=2), 5)
    figures.append(
        Figure(
            "one row of one pair, 1 million rows, one thread",
            one_thread / work * 1e9,
            "ns",
            f"two threads {two_threads / work * 1e9:.2f} ns",
            one_thread / two_threads,
        )
    )
    return figures


def _pivot(column: dict[str, Any], pairs: tuple[tuple[str, ...], ...]) -> float | None:
    """Seconds pandas needs for the same tables, or None without pandas."""
    try:
        import pandas as pd
    except ImportError:
        return None
    frame = pd.DataFrame({**column, "_one": 1})
    some = pairs[:: max(1, len(pairs) // 21)]
    start = time.perf_counter()
    for a, b in some:
        frame.pivot_table(index=a, columns=b, values="_one", aggfunc="sum", fill_value=0)
    return (time.perf_counter() - start) * len(pairs) / len(some)


def _gum(name: str, table: EncodedTable) -> list[Figure]:
    """CPU time of GUM's passes: of the first, which moves the most records, and of all."""
    rng = np.random.default_rng(0)
    everything = table.domain.pairs()
    pairs = everything[:: len(everything) // 30][:30]
    counts = count_pairs(table, pairs)

    def passes(rows: int) -> list[float]:
        wanted = {
            pair.clique: pair.counts.astype(np.float64).reshape(table.domain.shape(pair.clique))
            * (rows / table.rows)
            for pair in counts
        }
        codes = np.stack([rng.permutation(rng.choice(row, rows)) for row in table.codes])
        run_pass(table.domain, codes.copy(), wanted, 0, rng)
        times = []
        for turn in range(Gum().passes):
            start = time.process_time()
            run_pass(table.domain, codes, wanted, turn, rng)
            times.append(time.process_time() - start)
        return times

    few, many = 32_561, 1_000_000
    small, large = passes(few), passes(many)
    what = f"{len(pairs)} pairs of {name}, {many:,} rows"

    def figure(which: str, small: float, large: float) -> Figure:
        return Figure(
            f"GUM, {what}, {which}",
            large * 1e3,
            "CPU ms",
            f"a row as one of {few:,}, {small * 1e3:.1f} ms",
            (small / few) / (large / many),
        )

    return [
        figure("first pass", small[0], large[0]),
        figure(f"mean of {len(large)} passes", float(np.mean(small)), float(np.mean(large))),
    ]


def _study(folder: Path, schema: Schema, method: str) -> Figure:
    """CPU seconds from adult's files to synthetic rows, in a warm process."""
    files = [folder / "adult" / f"{part}.csv" for part in ("train", "val")]
    best = np.inf
    for seed in range(3):
        start = time.process_time()
        synthesizer = FederatedSynthesizer(
            schema, epsilon=1, delta=1e-10, method=method, noise_seed=seed
        )
        tables = synthesizer.split(synthesizer.encode(files), 5, "uniform")
        synthesizer.fit_encoded(name_sites(tables)).sample(seed=seed)
        best = min(best, time.process_time() - start)
    return Figure(f"study on adult, 5 sites, {method}, seeded noise", best, "CPU s")


def _start(name: str, *arguments: str) -> Figure:
    """CPU seconds of a fresh interpreter, beside one that does nothing."""

    def cost(*arguments: str) -> float:
        times = []
        for _ in range(4):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(times)

    ours, empty = cost(*arguments), cost("-c", "pass")
    return Figure(name, ours, "CPU s", f"empty Python {empty:.2f} CPU s")
