"""The made-up table for timing: a table of any length is written from a few batches."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from heterofedsyn.bench import mixed_table
from heterofedsyn.sources import open_source


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_few_batches_are_held_while_a_table_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    made = mixed_table.mixed_batches
    seen: list[weakref.ref[pa.RecordBatch]] = []
    alive: list[int] = []

    def watched(rows: int, sets: int) -> Iterator[pa.RecordBatch]:
        for batch in made(rows, sets):
            seen.append(weakref.ref(batch))
            alive.append(sum(each() is not None for each in seen))
            yield batch

    monkeypatch.setattr(mixed_table, "mixed_batches", watched)
    monkeypatch.setattr(mixed_table, "_BATCH", 10)
    path = mixed_table.write_mixed(tmp_path / f"rows.{ending}", 95)
    assert sum(batch.num_rows for batch in open_source(path).batches()) == 95
    assert len(alive) == 10
    assert max(alive) <= 3  # the first, the last written and the one just made
