"""The benchmark tables, where they are at hand."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from heterofedsyn._arrays import Floats
from heterofedsyn.errors import DataError
from heterofedsyn.schema import Domain, EncodedTable, Schema, encode
from heterofedsyn.sources import open_source

ADULT_SIZES = (71, 9, 100, 16, 16, 7, 15, 6, 5, 2, 100, 92, 94, 42, 2)


def data_folder() -> Path | None:
    """The folder of benchmark tables: HETEROFEDSYN_DATA, or shared/data beside the checkout."""
    named = os.environ.get("HETEROFEDSYN_DATA")
    folder = Path(named) if named else Path("..") / "shared" / "data"
    return folder if (folder / "adult").is_dir() else None


def need_data() -> Path:
    """The folder of benchmark tables.

    Raises:
        DataError: saying how to get them, if they are not at hand.
    """
    folder = data_folder()
    if folder is None:
        named = os.environ.get("HETEROFEDSYN_DATA")
        place = f"in HETEROFEDSYN_DATA ({named})" if named else "in ../shared/data"
        raise DataError(
            f"the benchmark tables are not {place}; fetch them with `heterofedsyn bench data` and "
            "set HETEROFEDSYN_DATA to their folder"
        )
    return folder


def real_table(folder: Path, name: str) -> tuple[Schema, EncodedTable]:
    """Train and validation rows of one benchmark table."""
    schema = Schema.load(folder / name / "schema.toml")
    sources = [open_source(folder / name / f"{part}.csv") for part in ("train", "val")]
    batches = (batch for source in sources for batch in source.batches(schema.domain.names))
    return schema, encode(schema, batches).table


def random_table(rows: int, sizes: tuple[int, ...], seed: int = 0) -> EncodedTable:
    """Skewed random codes, for timing where no real table is at hand."""
    rng = np.random.default_rng(seed)
    return _table(sizes, [rng.random(rows) ** 2 for _ in sizes])


def leaning_table(rows: int, sizes: tuple[int, ...], seed: int = 0) -> EncodedTable:
    """Codes that all lean on one hidden number: any two columns correlate by about 0.8."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=rows)
    own = (0.9 * hidden + 0.44 * rng.normal(size=rows) for _ in sizes)
    return _table(sizes, [1 / (1 + np.exp(-1.7 * column)) for column in own])


def _table(sizes: tuple[int, ...], shares: Sequence[Floats]) -> EncodedTable:
    """Codes from numbers between 0 and 1, a column each."""
    names = tuple(f"column-{i}" for i in range(len(sizes)))
    codes = [(own * size).astype(np.int64) for own, size in zip(shares, sizes, strict=True)]
    return EncodedTable.from_codes(Domain(names, sizes), np.stack(codes))
