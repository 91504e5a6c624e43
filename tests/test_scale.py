"""Large tables: how far reading has come, how it is stopped, and that the benchmark runs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from heterofedsyn import _words
from heterofedsyn._words import Pace
from heterofedsyn.bench.mixed_table import mixed_batches, mixed_schema, write_mixed
from heterofedsyn.marginals.counts import whole
from heterofedsyn.schema import encode
from heterofedsyn.site.counting import check, count
from heterofedsyn.sources import open_source


def test_a_pace_speaks_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    pace = Pace(said.append)
    pace(1_000)
    assert said == []
    monkeypatch.setattr(_words, "SILENCE", 0.0)
    pace(1_000)
    (line,) = said
    assert line.startswith("1,000 rows so far, ")


@pytest.mark.thorough
def test_a_holder_is_counted_as_one_table_whatever_its_files(tmp_path: Path) -> None:
    schema = mixed_schema()
    one = write_mixed(tmp_path / "rows.csv", 3_000)
    other = write_mixed(tmp_path / "rows.parquet", 5_000)
    seen: list[int] = []
    found = count([open_source(one), open_source(other)], schema, watch=seen.append)
    table = encode(schema, [*mixed_batches(3_000), *mixed_batches(5_000)]).table
    assert seen[-1] == found.fit.rows_read == found.counts.rows == table.rows
    first, second = schema.domain.names[:2]
    cells = table.codes[0].astype(np.int64) * schema.domain.size(second) + table.codes[1]
    expected = np.bincount(cells, minlength=schema.domain.cells((first, second)))
    assert np.array_equal(found.counts.of(whole((first, second))), expected)
    assert check([open_source(one)], schema).describe() is None


@pytest.mark.slow
def test_stopped_while_reading_leaves_nothing(tmp_path: Path) -> None:
    lake, scratch = tmp_path / "lake", tmp_path / "scratch"
    lake.mkdir()
    scratch.mkdir()
    first = write_mixed(lake / "0.parquet", 250_000)
    for number in range(1, 80):
        shutil.copyfile(first, lake / f"{number}.parquet")
    mixed_schema().save(tmp_path / "schema.toml")
    words = "simulate --schema schema.toml --site lake --epsilon 1 --delta 1e-9 --out release"
    with subprocess.Popen(
        [sys.executable, "-m", "heterofedsyn", *words.split()],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(scratch)},
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stderr is not None
        try:
            line = child.stderr.readline()
            child.send_signal(signal.SIGINT)
            rest = child.stderr.read()
        finally:
            child.kill()
    assert "rows so far" in line
    assert (child.returncode, "stopped" in rest) == (130, True)
    assert "Traceback" not in rest
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lake", "schema.toml", "scratch"]
    assert list(scratch.iterdir()) == []


@pytest.mark.slow
def test_the_benchmark_of_scale_prints_every_figure(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "heterofedsyn", "bench", "scale", "--rows", "20000", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    figures = json.loads(run.stdout)
    assert all(figure["value"] > 0 for figure in figures.values())
    assert {"PARQUET", "CSV", "study", "one"} <= {name.split(",")[0].split()[0] for name in figures}
    assert list(tmp_path.iterdir()) == []
