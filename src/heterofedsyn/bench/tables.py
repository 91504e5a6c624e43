"""The benchmark tables, where they are at hand."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

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
    names = tuple(f"column-{i}" for i in range(len(sizes)))
    codes = np.stack([(rng.random(rows) ** 2 * size).astype(np.int64) for size in sizes])
    return EncodedTable.from_codes(Domain(names, sizes), codes)
