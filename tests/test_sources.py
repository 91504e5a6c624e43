"""Sources: one table is the same table however it is stored, and errors hide its rows."""

from __future__ import annotations

import errno
import gzip
import os
import signal
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from heterofedsyn.bench.fresh_process import in_fresh_process
from heterofedsyn.bench.scale import read_only
from heterofedsyn.errors import DataError, HeterofedsynError, UsageError
from heterofedsyn.schema import Schema, draft, encode
from heterofedsyn.sources import Source, open_source
from heterofedsyn.sources.duckdb_query import open_relation
from sources_support import interrupted

pytestmark = pytest.mark.sweep

SCHEMA = Schema.of(
    {
        "columns": [
            {"name": "age", "type": "integer", "min": 0, "max": 99, "nullable": True},
            {"name": "height", "type": "number", "min": 0, "max": 3, "bins": 30},
            {"name": "ward", "type": "categorical", "values": ["a", "b", "3"], "nullable": True},
            {"name": "alive", "type": "boolean"},
            {"name": "seen", "type": "datetime", "min": "2025-01-01", "max": "2025-12-31"},
        ]
    }
)
TABLE = pa.table(
    {
        "note": ["x,y", "line\nbreak", 'quo"te', "ü"],
        "age": [1, None, 50, 120],
        "height": [1.5, 0.1, 2.9, 1.75],
        "ward": ["a", "b", None, "3"],
        "alive": [True, False, True, True],
        "seen": pa.array(
            [datetime(2025, 5, day, 1, 2, 3) for day in (1, 2, 3, 4)], pa.timestamp("s")
        ),
    }
)


class OnlyAStream:
    """An object that offers nothing but the Arrow protocol."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def csv(folder: Path) -> str:
    pyarrow.csv.write_csv(TABLE, folder / "t.csv")
    return f"csv-multiline:{folder}/t.csv"  # one of the notes has two lines


def csv_gz(folder: Path) -> str:
    csv(folder)
    (folder / "t.CSV.GZ").write_bytes(gzip.compress((folder / "t.csv").read_bytes()))
    return f"csv-multiline:{folder}/t.CSV.GZ"


def pandas_csv(folder: Path) -> str:
    TABLE.to_pandas().to_csv(folder / "p.CSV", index=False, encoding="utf-8-sig")
    return f"csv-multiline:{folder}/p.CSV"


def csv_of_lines(folder: Path) -> Path:
    notes = pa.array(["x,y", "one line", 'quo"te', "ü"])
    pyarrow.csv.write_csv(TABLE.set_column(0, "note", notes), folder / "t.csv")
    return folder / "t.csv"


def parquet(folder: Path) -> str:
    pq.write_table(TABLE, folder / "t.parquet", row_group_size=3)
    return str(folder / "t.parquet")


def filtered_pandas(folder: Path) -> pd.DataFrame:
    frame = TABLE.to_pandas()
    return pd.concat([frame, frame])[4:]


KINDS: list[Callable[[Path], object]] = [
    csv,
    csv_gz,
    pandas_csv,
    csv_of_lines,
    parquet,
    filtered_pandas,
    lambda folder: TABLE,
    lambda folder: TABLE.combine_chunks().to_batches()[0],
    lambda folder: TABLE.to_reader(max_chunksize=2),
    lambda folder: TABLE.to_pandas().convert_dtypes(),
    lambda folder: TABLE.to_pandas().astype({"ward": "category"}),
    lambda folder: pl.from_arrow(TABLE),
    lambda folder: pl.DataFrame(TABLE).with_columns(pl.col("ward").cast(pl.Categorical)),
    lambda folder: pl.DataFrame(TABLE).lazy(),
    lambda folder: pl.scan_parquet(parquet(folder)),
    lambda folder: OnlyAStream(TABLE),
    lambda folder: open_source(TABLE),
]


@pytest.mark.parametrize("store", KINDS, ids=map(str, range(len(KINDS))))
def test_one_table_encodes_the_same_from_every_source(
    tmp_path: Path, store: Callable[[Path], object]
) -> None:
    source = open_source(store(tmp_path))
    assert isinstance(source, Source)
    assert source.columns == tuple(TABLE.column_names)
    encoded = encode(SCHEMA, source.batches(SCHEMA.domain.names))
    assert encoded.describe() is None
    expected = [[1, 100, 50, 99], [15, 1, 29, 17], [0, 1, 3, 2], [1, 0, 1, 1], [32, 33, 33, 33]]
    moments = encode(SCHEMA, TABLE.to_batches()).table.codes[4]
    assert encoded.table.codes[:4].tolist() == expected[:4]
    np.testing.assert_array_equal(encoded.table.codes[4], moments)


@pytest.mark.parametrize("store", KINDS, ids=map(str, range(len(KINDS))))
def test_batches_hold_the_named_columns_in_their_order(
    tmp_path: Path, store: Callable[[Path], object]
) -> None:
    batches = list(open_source(store(tmp_path)).batches(["ward", "age"]))
    assert all(batch.schema.names == ["ward", "age"] for batch in batches)
    assert sum(batch.num_rows for batch in batches) == 4


@pytest.mark.parametrize(
    "store", [csv, parquet, filtered_pandas, lambda folder: pl.DataFrame(TABLE)]
)
def test_files_and_frames_can_be_read_again(
    tmp_path: Path, store: Callable[[Path], object]
) -> None:
    source = open_source(store(tmp_path))
    assert list(source.batches()) == list(source.batches())
    assert len(list(source.batches())) > 0


@pytest.mark.parametrize("stream", [OnlyAStream(TABLE), TABLE.to_reader()])
def test_a_stream_says_that_it_was_read(stream: object) -> None:
    source = open_source(stream)
    assert sum(batch.num_rows for batch in source.batches()) == 4
    with pytest.raises(UsageError, match="only once"):
        source.batches()


def test_a_missing_column_is_named_with_a_hint(tmp_path: Path) -> None:
    for stored in (csv(tmp_path), parquet(tmp_path), TABLE, TABLE.to_reader()):
        with pytest.raises(DataError, match=r"no column 'wards' among its 6; did you mean 'ward'"):
            open_source(stored).batches(["age", "wards"])


def test_csv_cells_stay_text_and_empty_cells_stay_empty(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b'\xef\xbb\xbfid,x\r\n007,""\r\nNA,\r\n"two\nlines",1.50\r\n')
    (batch,) = open_source(f"csv-multiline:{path}").batches()
    assert batch.to_pydict() == {"id": ["007", "NA", "two\nlines"], "x": ["", "", "1.50"]}


def test_a_csv_with_only_a_header_has_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n")
    source = open_source(path)
    assert source.columns == ("a", "b")
    assert sum(batch.num_rows for batch in source.batches()) == 0


def test_a_parquet_column_with_a_point_in_its_name_is_found(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a.b": ["x"], "c": [1]}), tmp_path / "t.parquet")
    (batch,) = open_source(tmp_path / "t.parquet").batches(["c", "a.b"])
    assert batch.to_pydict() == {"c": [1], "a.b": ["x"]}


def failure(stored: object, kind: type[HeterofedsynError] = DataError) -> str:
    with pytest.raises(kind) as refusal:
        list(open_source(stored).batches())
    message = str(refusal.value)
    assert "\n" not in message
    assert "secret" not in message
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None
    return message


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "empty"),
        (b"\n\n", "empty"),
        (b"a,b\n1,2\nsecret\n", "row 3 (the header is row 1) has 1 cells but the header has 2"),
        (b"a,b\n1,2,secret\n", "row 2 (the header is row 1) has 3 cells"),
        (b"a,b\n" + b"1,2\n" * 600_000 + b"1,2,secret\n", "row 600002 "),
        (b"a,b\n1,2\n1,secret\xe9\n", "row 3 (the header is row 1) is not UTF-8"),
        (b"a\xe9,b\n1,2\n", "the header is not UTF-8"),
        ("a,b\nsecret,2\n".encode("utf-16"), "not UTF-8"),
        (b'a,b\n"secret,2\n1,2\n', "cells but the header has 2"),
        (b"a,a\n1,2\n", "columns 1 and 2 have the same name"),
        (b"a;b\n1;2\n", "separated by ';'"),
        (b"a,b\n" + b"secret" * 2_000_000 + b",1\n", "too long to be read"),
        (b'a,b\n1,2\n1,"secret\n1,2\n1,2\n', "row 3 (the header is row 1) has a quote that is not"),
        (b'a,b\n1,"secret\n1,""\n\n', "row 2 (the header is row 1) has a quote that is not"),
        (b'a,b\n1,"x"\n2,"secret', "row 3 (the header is row 1) has a quote that is not"),
        (b'a,b\n1,"secret ""x', "row 2 (the header is row 1) has a quote that is not"),
        (b'a,b\n1,"secret""', "row 2 (the header is row 1) has a quote that is not"),
        (b'a,b\r\n1,"', "row 2 (the header is row 1) has a quote that is not"),
        (b'a\r"secret', "row 2 (the header is row 1) has a quote that is not"),
        (
            b"a,b\n" + b"1,2\n" * 900_000 + b'1,"secret' + b"1,2\n" * 3_000_000,
            "too long to be read",
        ),
    ],
)
def test_a_bad_csv_is_named_and_its_rows_are_not_quoted(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    message = failure(f"csv-multiline:{path}")
    assert problem in message
    assert "bad.csv" in message
    if b'"' not in content and "too long" not in problem:
        assert failure(path) == message


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'a,b\n"secret,2\n1,2\n', "line 2 has a quote that is not closed"),
        (b'a,b\n1,2\n\n1,"secret\n1,"2"\n1,"x\n', "line 4 has a quote"),
        (b'a,b\r\n1,2\r\n\r\n1,"secret\r\n1,2\r\n', "line 4 has a quote"),
        (b'a,b\r1,2\r1,"secret\r1,2\r', "line 3 has a quote"),
        (b'a,b\n1,"x"\n2,"secret', "line 3 has a quote"),
        (b'a,b\n1,"secret ""x', "line 2 has a quote"),
        (b'a,b\n5" secret,"x\n', "line 2 has a quote"),
        (b'a,b\n5" secret,x\n', "odd number of quotes"),
        (b'a,b\n1,"two\nsecret"\n', "line 2 has a quote"),
        (b'\xef\xbb\xbf\n"a,b\n1,secret\n', "the header, line 2 has a quote"),
        (b'a,b\n1,"secret\n1,secret,2\n', "line 2 has a quote"),
        (b"a,b\n" + b"secret" * 2_000_000 + b",1\n", "line 2 is too long to be read"),
        (b"a,b\n" + b"1,2\n" * 900_000 + b"secret" * 800_000, "line 900002 is too long"),
        (
            b"a,b\n" + b"1,2\n" * 900_000 + b'1,"secret' + b"1,2\n" * 3_000_000,
            "line 900002 has a quote that is not closed",
        ),
    ],
)
def test_a_bad_line_of_a_csv_is_named_by_its_number(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    (tmp_path / "bad.csv").write_bytes(content)
    assert problem in failure(tmp_path / "bad.csv")
    (tmp_path / "bad.csv.gz").write_bytes(gzip.compress(content, 1))
    assert problem in failure(tmp_path / "bad.csv.gz")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (b"1,secret\xe9\n", "row 9000000 (the header is row 1) is not UTF-8"),
        (b"1,secret,2\n", "row 9000000 (the header is row 1) has 3 cells"),
        (b'1,"secret\n', "line 9000000 has a quote that is not closed"),
    ],
)
def test_a_bad_row_far_down_is_named_by_its_number(
    tmp_path: Path, row: bytes, problem: str
) -> None:
    path = tmp_path / "long.csv"
    path.write_bytes(b"a,b\n" + b"1,2\n" * 8_999_998 + row + b"1,2\n" * 1_000)
    assert problem in failure(path)


def test_a_cell_at_the_end_that_holds_lines_or_quotes_is_no_open_quote(tmp_path: Path) -> None:
    cells = [
        ("two\nlines", b'"two\nlines"'),
        ('a\n"b"', b'"a\n""b"""'),
        ("end\n", b'"end\n"'),
        ("x", b'"x"'),
        ('"', b'""""'),
        ("", b'""'),
        ("", b""),
        (',"', b'","""'),
        ('x"', b'x"'),
        ('x""y', b'x""y'),
    ]
    for text, raw in cells:
        for end in (b"", b"\n", b"\r\n", b"\n\n"):
            content = b"a,b\n1," + raw + end
            (tmp_path / "t.csv").write_bytes(content)
            (tmp_path / "t.csv.gz").write_bytes(gzip.compress(content))
            for name in ("t.csv", "t.csv.gz"):
                place = f"csv-multiline:{tmp_path}/{name}"
                (batch,) = open_source(place).batches()
                assert batch.to_pydict() == {"a": ["1"], "b": [text]}
                (batch,) = open_source(place).batches(["a"])
                assert batch.to_pydict() == {"a": ["1"]}


@pytest.mark.thorough
@given(
    st.lists(st.text(st.sampled_from('",\nx'), max_size=4), min_size=2, max_size=6),
    st.sampled_from(["", "1,"]),
)
def test_a_file_cut_inside_its_last_cell_is_never_taken_for_whole(
    cells: list[str], before: str
) -> None:
    assume(before or cells[-1].strip("\n"))
    quoted = ['"' + cell.replace('"', '""') + '"' for cell in cells]
    whole = ("a,b\n" if before else "b\n") + "".join(f"{before}{cell}\n" for cell in quoted)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.csv")
        for text in (whole, whole[:-1]):
            path.write_text(text, newline="")
            (batch,) = open_source(f"csv-multiline:{path}").batches()
            assert batch.to_pydict()["b"] == cells
        path.write_text(whole[:-2], newline="")
        assert "a quote that is not closed" in failure(f"csv-multiline:{path}")
        assert "a quote that is not closed" in failure(path)


def test_bytes_of_a_column_that_is_not_wanted_are_nobodys_business(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b,c\n1,caf\xe9,caf\xe9\n2,x,\xe9\n")
    (batch,) = open_source(path).batches(["a"])
    assert batch.to_pydict() == {"a": ["1", "2"]}
    assert "not UTF-8" in failure(path)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    whole = Path(parquet(tmp_path)).read_bytes()
    for content in (b"", b"PAR1", whole[:-20], whole[:4] + bytes(200) + whole[204:], b"a,b\n1,2\n"):
        (tmp_path / "bad.parquet").write_bytes(content)
        message = failure(tmp_path / "bad.parquet")
        assert "bad.parquet" in message
        assert "make it again" in message
    for content in (Path(csv_gz(tmp_path).partition(":")[2]).read_bytes()[:60], b"a,b\n1,2\n"):
        (tmp_path / "bad.csv.gz").write_bytes(content)
        assert "damaged or cut short" in failure(tmp_path / "bad.csv.gz")


@pytest.mark.parametrize("kept", [0.1, 0.6, 0.99])
def test_a_gzip_that_is_cut_off_says_after_which_line(tmp_path: Path, kept: float) -> None:
    rng = np.random.default_rng(0)
    lines = [b"a,b\n", *(b"%d,secret\n" % number for number in rng.integers(0, 10**9, 300_000))]
    packed = gzip.compress(b"".join(lines), 1)
    packed = packed[: int(len(packed) * kept)]
    (tmp_path / "cut.csv.gz").write_bytes(packed)
    readable = zlib.decompressobj(wbits=31).decompress(packed).count(b"\n")
    assert f"cut short after line {readable}; " in failure(tmp_path / "cut.csv.gz")


def test_the_first_row_of_a_file_without_a_header_is_not_repeated(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("secret-1,secret-2\n1,2\n")
    with pytest.raises(DataError, match="none of the 2 columns asked for is in its first row") as e:
        open_source(path).batches(["a", "b"])
    assert "secret" not in str(e.value)
    path.write_text("secret,1,secret\n1,2,3\n")
    assert "columns 1 and 3 have the same name" in failure(path)


def test_no_file_of_a_folder_is_passed_over(tmp_path: Path) -> None:
    lake, elsewhere = tmp_path / "lake", tmp_path / "elsewhere"
    (lake / "a").mkdir(parents=True)
    elsewhere.mkdir()
    table = pa.table({"x": [1]})
    for path in (lake / "0.parquet", lake / "a" / "1.parquet", elsewhere / "2.parquet"):
        pq.write_table(table, path)
    (lake / "linked").symlink_to(elsewhere)
    (lake / "a" / "back").symlink_to(lake)
    places = [str(lake), f"{lake}/**/*.parquet", f"{lake}/**"]
    for place in places:
        assert sum(batch.num_rows for batch in open_source(place).batches()) == 3
    assert sum(batch.num_rows for batch in open_source(f"{lake}/*/?.parquet").batches()) == 3 - 1
    os.mkfifo(lake / "a" / "pipe.parquet")
    assert sum(batch.num_rows for batch in open_source(lake).batches()) == 3
    (lake / "latest").symlink_to(lake / "a")
    for place in places:
        assert "latest/1.parquet: the same file as" in failure(place)
    (lake / "latest").unlink()
    (lake / "a" / "3.parquet").symlink_to(tmp_path / "gone")
    for place in places:
        assert "a/3.parquet: the link leads nowhere" in failure(place)


def test_a_folder_that_may_not_be_looked_into_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lake" / "closed").mkdir(parents=True)
    pq.write_table(pa.table({"x": [1]}), tmp_path / "lake" / "0.parquet")
    inside = Path.iterdir

    def iterdir(folder: Path) -> Iterator[Path]:  # nothing is closed to root
        if folder.name == "closed":
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))
        return inside(folder)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    for place in ("lake", "lake/**/*.parquet", "lake/*/*.parquet"):
        assert "lake/closed: looking into this folder failed" in failure(tmp_path / place)
    assert list(open_source(str(tmp_path / "lake" / "*.parquet")).batches())


def test_paths_that_cannot_be_are_named(tmp_path: Path) -> None:
    assert "there is no such file" in failure("~nobody-of-this-name/x.csv")
    assert "File name too long" in failure(tmp_path / ("x" * 300))
    assert "no .parquet file is there" in failure(str(tmp_path / "**x.parquet"))
    assert "cannot follow a wildcard" in failure(str(tmp_path / "*" / ".." / "x.pq"), UsageError)


@pytest.mark.parametrize("group", [1, 4, 7])
def test_a_damaged_row_group_is_named(tmp_path: Path, group: int) -> None:
    path = tmp_path / "t.parquet"
    table = pa.table({"a": np.arange(70_000), "b": ["secret"] * 70_000})
    pq.write_table(table, path, row_group_size=10_000, write_page_checksum=True)
    place = pq.ParquetFile(path).metadata.row_group(group - 1).column(0).data_page_offset
    content = bytearray(path.read_bytes())
    content[place + 5_000 : place + 5_004] = b"oops"
    path.write_bytes(content)
    assert f"row group {group} of 7 is damaged" in failure(path)
    assert sum(batch.num_rows for batch in open_source(path).batches(["b"])) == 70_000


def test_files_read_together_need_the_same_columns(tmp_path: Path) -> None:
    for name, table in (("1", TABLE), ("2", TABLE.drop_columns(["ward"])), ("3", TABLE)):
        pq.write_table(table, tmp_path / f"{name}.parquet")
    source = open_source(f"{tmp_path}/[12].parquet")
    assert sum(batch.num_rows for batch in source.batches(["age"])) == 8
    pq.write_table(pa.table([[1], [2]], ["age", "age"]), tmp_path / "3.parquet")
    with pytest.raises(DataError, match=r"3\.parquet: its columns 1 and 2 have the same name"):
        list(open_source(tmp_path / "[13].parquet").batches(["age"]))
    with pytest.raises(DataError, match=r"2\.parquet: no column 'ward', which 1\.parquet has"):
        list(source.batches(["age", "ward"]))
    (tmp_path / "2.parquet").write_bytes(b"PAR1")
    assert "2.parquet: not a Parquet file" in failure(tmp_path)


def test_folders_named_like_spark_does_are_columns(tmp_path: Path) -> None:
    for number, year in enumerate(("2024", "2025", "__HIVE_DEFAULT_PARTITION__")):
        folder = tmp_path / "lake" / f"year={year}" / "unit=a%2Fb"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"age": [number, 7], "unit": ["x", None]}), folder / "0.parquet")
    wanted = {"year": ["2024"] * 2 + ["2025"] * 2 + [None] * 2, "age": [0, 7, 1, 7, 2, 7]}
    for text in (f"{tmp_path}/lake", f"{tmp_path}/lake/*/*/*.parquet", f"{tmp_path}/l*/**/0.pa*"):
        source = open_source(text)
        assert source.columns == ("age", "unit", "year")
        read = pa.Table.from_batches(source.batches(["year", "age"])).to_pydict()
        assert read == wanted
        years = [batch["year"].to_pylist() for batch in source.batches(["year"])]
        assert years == [["2024"] * 2, ["2025"] * 2, [None] * 2]
        unit = [batch["unit"].to_pylist() for batch in source.batches(["unit"])]
        assert unit == [["x", None]] * 3  # a column of the file comes first
    single = open_source(tmp_path / "lake" / "year=2024" / "unit=a%2Fb" / "0.parquet")
    assert single.columns == ("age", "unit")


def test_what_a_writer_has_not_finished_is_left_out(tmp_path: Path) -> None:
    for folder in ("year=1", "year=2", "_temporary/0/year=1", ".spark-staging/year=1"):
        place = tmp_path / "_lake" / folder  # names above the wildcards are the owner's choice
        place.mkdir(parents=True)
        for name in ("x.parquet", "_x.parquet", ".x.parquet"):
            pq.write_table(pa.table({"age": [1, 2]}), place / name)
    for pattern in ("", "/**/*.parquet", "/*/*.parquet", "/*/**/x.parquet", "/*/*/*/*.parquet"):
        place = tmp_path / f"_lake{pattern}"
        if pattern == "/*/*/*/*.parquet":
            assert "no .parquet file" in failure(str(place))
            continue
        assert sum(batch.num_rows for batch in open_source(str(place)).batches()) == 4


def lake(folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    with duckdb.connect(str(folder / "lake.duckdb")) as connection:
        connection.register("given", TABLE)
        connection.sql("CREATE TABLE stays AS SELECT * FROM given")
        connection.sql('CREATE TABLE "Odd ""one" ("select" int, "b""x" int)')
    return str(folder / "lake.duckdb")


def test_a_query_gives_its_rows_and_reads_only_what_is_wanted(tmp_path: Path) -> None:
    place = lake(tmp_path)
    some = open_source(f"{place}#SELECT age, 1 // 0 AS x, error('secret') AS y FROM stays -- all;")
    assert some.columns == ("age", "x", "y")
    assert [batch.to_pydict() for batch in some.batches(["age"])] == [{"age": [1, None, 50, 120]}]
    odd = open_source(f'duckdb:{place}#main."Odd ""one"')
    assert odd.columns == ("select", 'b"x')
    assert list(odd.batches(['b"x'])) == []
    assert open_source(f"{place}#stays").name == place


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("nothing", "a table or function that is not there"),
        ("SELECT secret FROM stays", "a column or table that is not there"),
        ("SELECT age, ward, age FROM stays", "columns 1 and 3 have the same name"),
        ("SELECT age, ward AS AGE FROM stays", "columns 1 and 2 have the same name"),
        ("SELEC age FROM stays", "not SQL"),
        ("SELECT 1 AS x; DROP TABLE stays", "not one SELECT"),
        ("DELETE FROM stays RETURNING age", "not one SELECT"),
        ("SELECT (ward || 'secret')::int AS x FROM stays", "casts a value that does not fit"),
        (
            "SELECT CASE WHEN i < 900000 THEN 1 ELSE ('secret' || i)::int END AS x "
            "FROM range(1000000) AS t(i)",
            "casts a value that does not fit",
        ),
        ("SELECT error('secret') AS x", "could not run the query"),
        ("SELECT * FROM 'secret.parquet'", "say which folder it may read"),
    ],
)
def test_a_query_that_fails_is_explained(tmp_path: Path, query: str, problem: str) -> None:
    message = failure(f"{lake(tmp_path)}#{query}")
    assert problem in message
    assert "lake.duckdb" in message


def test_a_database_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    place = lake(tmp_path)
    script = "import duckdb, sys; kept = duckdb.connect(sys.argv[1]); print(flush=True); input()"
    command = [sys.executable, "-c", script, place]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert "another process has it open" in failure(f"{place}#stays")
        other.communicate(b"\n")
    (tmp_path / "bad.db").write_bytes(b"secret" * 5_000)
    assert "not a DuckDB file" in failure(f"{tmp_path}/bad.db#stays")


@pytest.mark.thorough
@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) AS x FROM range(100000000) AS a(i), range(1000) AS b(j) "
        "WHERE hash(i + j) % 7 = 1",
        "SELECT i AS x FROM range(1000000000000) AS a(i)",
    ],
)
def test_ctrl_c_and_sigterm_are_heard_while_a_query_runs(tmp_path: Path, query: str) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        assert interrupted(f"{lake(tmp_path / str(number))}#{query}", number)


def test_a_duckdb_relation_runs_again_and_explains_its_errors() -> None:
    connection = duckdb.connect()
    source = open_source(connection.sql("SELECT range AS a, 'x' AS b FROM range(300000)"))
    for _ in range(2):
        batches = list(source.batches(["b"]))
        assert sum(batch.num_rows for batch in batches) == 300_000
        assert batches[0].schema.names == ["b"]
    assert "casts a value" in failure(connection.sql("SELECT 'secret'::int AS a"))


def test_a_wide_relation_is_asked_for_its_columns_once() -> None:
    class Asked:
        def __init__(self, relation: duckdb.DuckDBPyRelation) -> None:
            self.relation, self.times = relation, 0

        @property
        def columns(self) -> list[str]:
            self.times += 1
            return self.relation.columns

    wide = ", ".join(f"{number} AS c{number}" for number in range(300))
    asked = Asked(duckdb.connect().sql(f"SELECT {wide}"))
    source = open_relation(asked, "duckdb")
    source.check([f"c{number}" for number in range(300)])
    assert source.columns[299] == "c299"
    assert asked.times == 1
    twice = duckdb.connect().sql("SELECT 1 AS a, 2 AS b").project("a, b AS a")
    assert "columns 1 and 2 have the same name" in failure(twice)


def test_a_wrong_path_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.xlsx").write_text("")
    assert "no such file" in failure(tmp_path / "none.csv")
    assert "no .parquet file" in failure(tmp_path)
    assert "no .parquet file" in failure(f"{tmp_path}/*.parquet")
    assert "t.xlsx is none" in failure(f"{tmp_path}/*.xlsx", UsageError)
    assert "no such file" in failure(tmp_path / "none.duckdb#stays")
    assert "use .csv" in failure(tmp_path / "t.xlsx", UsageError)


@pytest.mark.parametrize("thing", [3, None, {"a": [1]}, [1], pd.Series([1]), pl.Series([1])])
def test_what_is_no_table_is_refused(thing: Any) -> None:
    assert "pass a path" in failure(thing, UsageError)


@pytest.mark.thorough
def test_a_frame_is_read_in_slices_and_cell_by_cell() -> None:
    many = 300_000
    prices = [Decimal("1.5")] * (many - 1) + [Decimal("1.25")]
    frame = pd.DataFrame(
        {
            "late": pd.Series([None] * (many - 1) + ["x"], dtype=object),
            "price": pd.Series(prices, dtype=object),
            "ward": pd.Categorical(["a", "b"] * (many // 2)),
            "age": np.arange(many),
        }
    )
    whole = pa.Table.from_pandas(frame)
    for table in (frame, pl.DataFrame(whole), pl.DataFrame(whole).lazy()):
        batches = list(open_source(table).batches())
        assert max(batch.num_rows for batch in batches) < many / 2
        assert len({batch.schema.field("price").type for batch in batches}) == 1
        read = pa.Table.from_batches(batches)
        others = ["late", "ward", "age"]
        assert read.select(others).to_pydict() == whole.select(others).to_pydict()
        places = read["price"].cast(pa.string()).to_pylist()
        assert places == ["1.5" if table is frame else "1.50"] * (many - 1) + ["1.25"]


def test_frames_with_trouble_are_named_without_their_values() -> None:
    complex_ones = pd.DataFrame({"ok": [1, 2], "odd": [1 + 2j, 3j]})
    assert "column 'odd' holds a kind of values that tables do not have" in failure(complex_ones)
    assert len(list(open_source(complex_ones).batches(["ok"]))) == 1
    twice = pd.DataFrame([[1, 2]], columns=["a", "a"])
    assert "columns 1 and 2 have the same name" in failure(twice)
    lazy = pl.DataFrame({"a": ["secret"]}).lazy().select(pl.col("a").cast(pl.Int64))
    assert "could not be computed" in failure(lazy)
    assert "could not be computed" in failure(pl.scan_csv("secret-place/none.csv"))


def test_a_stream_that_breaks_off_is_named() -> None:
    def batches() -> Any:
        yield pa.record_batch({"a": [1]})
        raise ValueError("secret")

    schema = pa.schema({"a": pa.int64()})
    reader = pa.RecordBatchReader.from_batches(schema, batches())
    assert "broke off" in failure(reader)


def test_pandas_columns_without_text_names_and_odd_indexes_are_read() -> None:
    frame = pd.DataFrame({0: [1, 2], "b": [3, 4]}, index=["x", "y"])
    source = open_source(frame)
    assert source.columns == ("0", "b")
    (batch,) = source.batches(["b", "0"])
    assert batch.to_pydict() == {"b": [3, 4], "0": [1, 2]}
    assert draft(source.batches()).schema().domain.names == ("0", "b")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "parquet", "notes.parquet"])
def test_memory_does_not_grow_with_rows(tmp_path: Path, kind: str) -> None:
    peaks = []
    for many in (6_000_000, 12_000_000):  # more than is read ahead
        place = tmp_path / f"{many}.{kind}"
        numbers = np.arange(many)
        words = pa.array([f"ward-{number}" for number in range(50)]).take(pa.array(numbers % 50))
        table = pa.table({"i": numbers, "j": numbers * 0.7, "k": numbers % 1_000, "w": words})
        if kind == "notes.parquet":  # text that does not repeat
            table = table.select(["i"]).append_column("w", pc.cast(pa.array(numbers), pa.string()))
        if kind == "csv":
            pyarrow.csv.write_csv(table, place)
        else:
            pq.write_table(table, place, row_group_size=many)
        cost = in_fresh_process(read_only, [str(place)], tuple(table.column_names))
        assert cost.result == many
        peaks.append(cost.peak)
    assert peaks[1] < peaks[0] + 58, peaks  # MiB
