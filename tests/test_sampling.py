"""Rows in chunks: as many as asked, the same for a seed, near the targets, never half-written."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn import _words
from heterofedsyn._arrays import Floats
from heterofedsyn.bench.fresh_process import in_fresh_process
from heterofedsyn.bench.scale import draw
from heterofedsyn.errors import HeterofedsynError, UsageError
from heterofedsyn.hub import Release, make_method
from heterofedsyn.hub.release import MOST_RELEASED, MOST_STREAMED, sampling
from heterofedsyn.marginals import count_pairs
from heterofedsyn.schema import decode, encode
from heterofedsyn.simulate.run import run_study, site_names
from heterofedsyn.synthesis import pgm
from heterofedsyn.synthesis.stopping import heed
from invented import Desk, names
from support import categories, deal, dependent_table, make_plan

pytestmark = pytest.mark.sweep

SCHEMA = categories(4, 6, 3, 5, label=0)


def study(name: str, **settings: Any) -> Release:
    method = make_method(name, settings)
    sites = site_names(method, ("one", "two", "three"))
    plan = make_plan(SCHEMA, sites, method=name, settings=settings, epsilon=100.0)
    tables = deal(dependent_table(SCHEMA.domain, 20_000), 3)
    return run_study(SCHEMA, plan, method, tables, noise_seed=3)


@pytest.fixture(scope="module")
def release() -> Release:
    return study("wavetree")


@pytest.fixture(scope="module")
def merged() -> Release:
    """A release of three populations."""
    return study("local-merge")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    """Chunks of a thousand rows."""
    monkeypatch.setattr(sampling, "CHUNK", 1_000)
    return 1_000


# WHICH ROWS


@given(st.integers(1, 5_000_000), st.lists(st.floats(1, 1e6), min_size=1, max_size=5))
def test_chunks_share_out_all_rows_and_are_equally_large(rows: int, totals: list[float]) -> None:
    shares = list(sampling.shares(totals, rows))
    sizes = [sum(counts) for counts in shares]
    assert sum(sizes) == rows
    assert len(sizes) == -(-rows // sampling.CHUNK)
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= sampling.CHUNK
    for counts, total in zip(np.sum(shares, axis=0), totals, strict=True):
        assert abs(counts - total / sum(totals) * rows) <= 1 + 1e-9 * rows


@pytest.mark.parametrize("which", ["release", "merged"])
def test_the_parts_are_the_rows_of_a_sample(
    which: str, small: int, request: pytest.FixtureRequest
) -> None:
    made: Release = request.getfixturevalue(which)
    parts = list(made.batches(4_500, seed=1))
    assert [part.num_rows for part in parts] == [900] * 5
    assert pa.concat_tables(parts).equals(made.sample(4_500, seed=1))
    assert len({str(part.to_pydict()) for part in parts}) == 5
    assert not made.sample(4_500, seed=1).equals(made.sample(4_500, seed=2))
    assert not made.sample(4_500).equals(made.sample(4_500))


def test_the_same_rows_come_however_many_chunks_are_drawn_at_once(
    release: Release, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = release.sample(7_000, seed=1)
    for at_once in (1, 5):
        monkeypatch.setattr(sampling, "AT_ONCE", at_once)
        assert release.sample(7_000, seed=1).equals(two)


def test_populations_follow_each_other_in_the_shares_of_their_totals(
    merged: Release, small: int
) -> None:
    parts = list(merged.batches(5_000, seed=1))
    totals = np.array([targets.total for targets in merged.model.targets])
    shares = np.array(list(sampling.shares(totals.tolist(), 5_000)))
    assert [part.num_rows for part in parts] == shares.sum(axis=1).tolist()
    assert shares[0, 1] == shares[-1, 1] == 0
    assert np.abs(shares.sum(axis=0) - totals / totals.sum() * 5_000).max() <= 1


def test_limits_are_those_of_memory_for_a_table_and_of_patience_for_a_stream(
    release: Release,
) -> None:
    with pytest.raises(UsageError, match=r"must be in 1\.\.100000000; .*batches"):
        release.sample(MOST_RELEASED + 1)
    release.batches(MOST_RELEASED + 1).close()
    # At once, not when the first rows are asked for.
    with pytest.raises(UsageError, match=r"must be in 1\.\.10000000000; .*another seed"):
        release.batches(MOST_STREAMED + 1)
    with pytest.raises(UsageError, match="seed"):
        release.batches(1, seed=-1)


# HOW NEAR


def errors(release: Release, table: pa.Table) -> Floats:
    """For every measured pair the total variation between rows and targets."""
    estimates = release.model.targets[0].estimates
    made = encode(release.schema, table.to_batches()).table
    pairs = [
        pair for pair in estimates.pairs if estimates.grid.shape(pair) == made.domain.shape(pair)
    ]
    assert len(pairs) >= 3
    return np.array(
        [
            np.abs(
                found.counts / made.rows - estimates.pairs[found.clique].ravel() / estimates.total
            ).sum()
            / 2
            for found in count_pairs(made, pairs)
        ]
    )


@pytest.mark.parametrize("synthesizer", ["tree", "gum"])
def test_many_chunks_come_as_near_the_targets_as_one(
    synthesizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = study("wavetree", synthesizer=synthesizer)
    whole = errors(release, release.sample(20_000, seed=1))
    monkeypatch.setattr(sampling, "CHUNK", 2_000)
    parts = list(release.batches(20_000, seed=1))
    together = errors(release, pa.concat_tables(parts))
    # What chance does to a chunk is evened out by the others; what they share is not chance.
    alone = np.mean([errors(release, part) for part in parts], axis=0)
    assert (together <= alone + 1e-12).all()
    assert together.mean() < whole.mean() + 0.002


# WRITING


def test_every_file_holds_the_same_rows_in_row_groups(
    release: Release, small: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "STEP", 300)
    rows = release.sample(2_500, seed=release.run.seed)
    folder = release.save(tmp_path / "release", rows=2_500)
    file = pyarrow.parquet.ParquetFile(folder / "synthetic.parquet")
    assert [file.metadata.row_group(k).num_rows for k in range(3)] == [833, 833, 834]
    assert file.read().equals(rows)
    pyarrow.csv.write_csv(rows, tmp_path / "rows.csv")
    assert (folder / "synthetic.csv").read_bytes() == (tmp_path / "rows.csv").read_bytes()


def test_the_command_streams_and_says_how_far_it_is(
    desk: Desk, release: Release, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    release.save("made", rows=1)
    ask = ["sample", "made", "--rows", "3500", "--seed", "4"]
    assert desk.run(*ask, "--out", "a.csv") == 0
    assert desk.err == "3,500 rows in a.csv\n"
    monkeypatch.setattr(_words, "SILENCE", 0.0)
    assert desk.run(*ask, "--out", "a.parquet") == 0
    *progress, last = desk.err.splitlines()
    assert [line.split(" rows")[0] for line in progress] == [
        f"drawing: {done:,}" for done in (875, 1_750, 2_625, 3_500)
    ]
    assert all(line.endswith(" a second") for line in progress)
    assert last == "3,500 rows in a.parquet"
    assert desk.run(*ask) == 0
    assert desk.out == (desk.folder / "a.csv").read_text()
    table = release.sample(3_500, seed=4)
    assert pyarrow.parquet.read_table("a.parquet").equals(table)


@pytest.mark.parametrize("out", ["a.csv", "a.parquet"])
def test_stopped_in_the_middle_nothing_half_written_is_left(
    desk: Desk, release: Release, small: int, monkeypatch: pytest.MonkeyPatch, out: str
) -> None:
    release.save("made", rows=1)
    before = names(desk.folder)

    def stop(pace: _words.Pace, done: int) -> None:
        if done > 4_500:
            raise KeyboardInterrupt

    monkeypatch.setattr(_words.Pace, "__call__", stop)
    assert desk.run("sample", "made", "--rows", "9000", "--out", out) == 130
    assert names(desk.folder) == before
    assert not [each for each in threading.enumerate() if each.name.startswith("drawing")]


def test_a_chunk_that_fails_ends_the_drawing(
    release: Release, small: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def fail(*arguments: Any) -> pa.Table:
        calls.append(1)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")
        return decode(*arguments)

    monkeypatch.setattr(sampling, "decode", fail)
    with pytest.raises(HeterofedsynError, match="No space left"):
        release.save(tmp_path / "release", rows=50_000)
    assert names(tmp_path) == set()
    assert len(calls) < 10


@pytest.mark.parametrize("synthesizer", ["tree", "gum"])
def test_chunks_under_way_are_ended_when_nobody_wants_them(
    small: int, monkeypatch: pytest.MonkeyPatch, synthesizer: str
) -> None:
    chunk, begun, finished = sampling._chunk, threading.Event(), []
    release = study("wavetree", synthesizer=synthesizer)

    def endless(*arguments: Any) -> pa.Table:
        if arguments[4] > 0:
            for _ in range(2_000):  # a minute, in steps of its own alone
                chunk(*arguments)
                begun.set()
            finished.append(arguments[4])
        return chunk(*arguments)

    monkeypatch.setattr(sampling, "_chunk", endless)
    drawing = release.batches(9_000, seed=1)
    assert next(drawing).num_rows == small
    assert begun.wait(20)
    drawing.close()
    assert not [each for each in threading.enumerate() if each.name.startswith("drawing")]
    assert finished == []


@pytest.mark.parametrize(
    "synthesizer", ["tree", "gum", pytest.param("pgm", marks=pytest.mark.thorough)]
)
def test_drawing_looks_up_for_every_column(synthesizer: str) -> None:
    class Counted(threading.Event):
        looks = 0

        def is_set(self) -> bool:
            self.looks += 1
            return False

    model, stop = study("allmarg", synthesizer=synthesizer).model, Counted()
    with ThreadPoolExecutor(1, initializer=heed, initargs=(stop,)) as pool:
        pool.submit(sampling._chunk, SCHEMA, model, [1_000], 1, 0, 1).result()
    assert stop.looks > len(SCHEMA.columns)


@pytest.mark.thorough
def test_a_fitted_model_is_fitted_once(small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    release = study("allmarg", synthesizer="pgm", iterations=50)
    fit, asked = pgm._fit, []

    def watched(*terms: Any) -> Any:
        asked.append(1)
        return fit(*terms)

    monkeypatch.setattr(pgm, "_fit", watched)
    assert release.sample(5_000, seed=1).equals(release.sample(5_000, seed=1))
    assert len(asked) == 1


@pytest.mark.slow
def test_memory_does_not_grow_with_rows(tmp_path: Path) -> None:
    made = study("independent").save(tmp_path / "made", rows=1)
    few, many = (
        in_fresh_process(draw, str(made), chunks * sampling.CHUNK).peak for chunks in (4, 40)
    )
    # Ten million rows would take at least 40 bytes each: 400 MiB.
    assert many < few + 100
