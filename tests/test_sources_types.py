"""One table gives the same codes from every source and in every type its columns may have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from heterofedsyn.schema import Schema, encode
from heterofedsyn.sources import open_source
from typed_table import CODES, SCHEMA, TABLES, typed_table

pytestmark = pytest.mark.sweep

Store = Callable[[pa.Table, Path], object]


def simple(table: pa.Table) -> pa.Table:
    """The same values without types that a program does not take."""
    arrays = []
    for array in table.itercolumns():
        plain = array.cast(array.type.value_type) if pa.types.is_dictionary(array.type) else array
        if pa.types.is_string_view(plain.type):
            plain = plain.cast(pa.string())
        if pa.types.is_decimal256(plain.type):
            plain = plain.cast(pa.decimal128(38, plain.type.scale))
        arrays.append(plain)
    return pa.table(arrays, table.column_names)


def arrow(table: pa.Table, folder: Path) -> object:
    return table


def parquet(table: pa.Table, folder: Path) -> object:
    pq.write_table(table, folder / "t.parquet", row_group_size=4)
    return folder / "t.parquet"


def parquet_folder(table: pa.Table, folder: Path) -> object:
    for number in (2, 0, 1):
        (folder / f"part={number}").mkdir()
        part = table.slice(2 * number, 2)
        pq.write_table(part if number else simple(part), folder / f"part={number}" / "x.parquet")
    (folder / "_temporary.parquet").write_text("not finished")
    (folder / "_SUCCESS").write_text("")
    return str(folder)


def parquet_glob(table: pa.Table, folder: Path) -> object:
    parquet_folder(table, folder)
    return f"{folder}/*/x.parquet"


def csv(table: pa.Table, folder: Path) -> object:
    rows = simple(table)
    for place, array in enumerate(rows.columns):
        if pa.types.is_floating(array.type):  # as text, NaN is no number but a word
            plain = pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
            rows = rows.set_column(place, rows.column_names[place], plain)
    pyarrow.csv.write_csv(rows, folder / "t.csv")
    return str(folder / "t.csv")


def pandas(table: pa.Table, folder: Path) -> object:
    return table.to_pandas()


def pandas_arrow(table: pa.Table, folder: Path) -> object:
    return simple(table).to_pandas(types_mapper=pd.ArrowDtype)


def polars(table: pa.Table, folder: Path) -> object:
    return pl.from_arrow(simple(table))


def polars_lazy(table: pa.Table, folder: Path) -> object:
    return pl.DataFrame(simple(table)).with_columns(pl.col("ward").cast(pl.Categorical)).lazy()


def duckdb_file(table: pa.Table, folder: Path) -> object:
    rows = simple(table)
    with duckdb.connect(str(folder / "lake.duckdb")) as connection:
        connection.register("given", rows)
        connection.sql("CREATE TABLE stays AS SELECT * FROM given")
        connection.sql("ALTER TABLE stays ALTER person TYPE UUID")
        connection.sql("CREATE TYPE wards AS ENUM ('b', 'a', '3', 'größer, als')")
        connection.sql("ALTER TABLE stays ALTER ward TYPE wards")
    return f"{folder}/lake.duckdb#stays"


def duckdb_relation(table: pa.Table, folder: Path) -> object:
    return duckdb.connect().from_arrow(simple(table))


STORES: list[Store] = [
    arrow,
    parquet,
    parquet_folder,
    parquet_glob,
    csv,
    pandas,
    pandas_arrow,
    polars,
    polars_lazy,
    duckdb_file,
    duckdb_relation,
]


def test_short_floats_are_what_their_text_says(tmp_path: Path) -> None:
    tenths = [number / 10 for number in range(100)]
    columns = [
        {"name": "real", "type": "number", "min": 0, "max": 10, "bins": 100, "nullable": True},
        {"name": "word", "type": "categorical", "values": [str(t) for t in tenths[1:9]]},
    ]
    schema = Schema.of({"columns": columns})
    reals = [*tenths, float("inf"), -float("inf"), float("nan"), None]
    words = [*tenths[1:9] * 13]
    texts = [*map(str, reals[:-2]), "", ""]
    text = pa.table({"real": texts, "word": list(map(str, words))})
    expected = encode(schema, open_source(csv(text, tmp_path)).batches()).table.codes
    assert expected[0, :100].tolist() == list(range(100))
    for kind in (pa.float16(), pa.float32(), pa.float64()):
        table = pa.table({"real": pa.array(reals), "word": pa.array(words)})
        short = pa.table([column.cast(kind) for column in table.columns], table.column_names)
        for stored in (short, parquet(short, tmp_path)):
            codes = encode(schema, open_source(stored).batches()).table.codes
            assert codes.tolist() == expected.tolist()


@pytest.mark.parametrize("number", TABLES)
@pytest.mark.parametrize("store", STORES, ids=lambda store: store.__name__)
def test_every_type_in_every_source_gives_the_same_codes(
    tmp_path: Path, store: Store, number: int
) -> None:
    source = open_source(store(typed_table(number), tmp_path))
    encoded = encode(SCHEMA, source.batches(SCHEMA.domain.names))
    assert encoded.describe() is None
    assert encoded.table.codes.tolist() == CODES
