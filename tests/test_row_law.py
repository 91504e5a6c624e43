"""What a row counts as depends on that row and its own person's rows alone, from every source."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn.audit.sources import STORES, Columns, encode_through, written
from heterofedsyn.schema import Encoded, Schema, _parsing, encode
from heterofedsyn.sources import csv_file, memory, open_source
from heterofedsyn.sources._cells import texts
from postgres_support import Server, server

pytestmark = pytest.mark.thorough

SCHEMA = Schema.of(
    {
        "columns": [
            {"name": "age", "type": "integer", "min": 0, "max": 99, "nullable": True},
            {"name": "height", "type": "number", "min": 0, "max": 3, "bins": 30, "nullable": True},
            {
                "name": "ward",
                "type": "categorical",
                "values": ["a", "b", "1.5", "True", "?"],
                "other": "?",
                "nullable": True,
            },
            {"name": "alive", "type": "boolean", "nullable": True},
            {"name": "seen", "type": "datetime", "min": "2025-01-01", "max": "2025-12-31"},
            {"name": "born", "type": "date", "min": "1950-01-01", "max": "2025-12-31", "bins": 30},
            {
                "name": "left",
                "type": "date",
                "min": "1950-01-01",
                "max": "2025-12-31",
                "bins": 30,
                "nullable": True,
            },
            {"name": "fever", "type": "number", "min": 35, "max": 42, "decimals": 1},
        ],
        "rules": [
            {"order": ["born", "left"]},
            {"never": {"ward": ["True", "?"], "fever": {"above": 36.8}}},
        ],
    }
)
Row = dict[str, Any]
ROWS: list[Row] = [
    {
        "person": f"p{number % 7}",
        "age": number,
        "height": Decimal(number) / 10 + Decimal("0.5"),
        "ward": "ab"[number % 2],
        "alive": number % 3 == 0,
        "seen": datetime(2025, 1 + number % 12, 3, 4, 5, 6),
        "born": date(1945 + 2 * number, 2, 3),
        "left": None if number % 5 == 4 else date(1990 + 2 * number, 2, 3),
        "fever": Decimal(number) / 4 + Decimal("36.56"),
    }
    for number in range(20)
]
ODD_CELLS: list[object] = [
    b"bytes",
    b"\xff\xfe",
    Decimal("1.25"),
    Decimal("1E+900"),
    Decimal("NaN"),
    Decimal("Infinity"),
    1.5,
    float("nan"),
    float("-inf"),
    1e300,
    2**63,
    -(2**200),
    10**5_000,
    True,
    None,
    "",
    "unknown",
    "true",
    'an open " quote',
    '"',
    '""',
    ',"',
    "two\nlines",
    "x" * 100_000,
    "nul\0byte",
    "\ud800",
    "\ufdd0",
    date(2025, 5, 5),
    date(1, 1, 1),
    datetime(2025, 5, 5, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999999),
    pd.NaT,
    pd.NA,
    pd.Timestamp("2025-05-05T01:02:03.000000004"),
    np.float32(0.7),
    np.int8(3),
    np.datetime64("2025-05-05T01:02"),
    np.datetime64("NaT"),
    [1, 2],
    {"a": 1},
    object(),
    1j,
]

IN_MEMORY = ("arrow", "stream", "pandas", "polars")
FILES = [kind for kind in STORES if kind not in IN_MEMORY]


def columns(rows: list[Row]) -> Columns:
    return {name: [row[name] for row in rows] for name in ROWS[0]}


def counted(encoded: Encoded) -> Counter[tuple[int, ...]]:
    return Counter(map(tuple, encoded.table.codes.T.tolist()))


def check(before: Encoded, after: Encoded, what: object) -> None:
    """At most one row more, none fewer, and none that is read in another way."""
    one, other = counted(before), counted(after)
    assert not one - other, what
    assert (other - one).total() <= 1, what


@pytest.fixture
def in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames are read six rows at a time, CSV files in blocks that hold the longest odd cell."""
    monkeypatch.setattr(memory, "BATCH_ROWS", 6)
    monkeypatch.setattr(csv_file, "_BLOCK_BYTES", 250_000)


def folders(root: Path) -> Iterator[Path]:
    number = 0
    while True:
        number += 1
        (root / str(number)).mkdir()
        yield root / str(number)


@pytest.mark.usefixtures("in_small_pieces")
@pytest.mark.parametrize(
    "kind", [*IN_MEMORY, *(pytest.param(k, marks=pytest.mark.thorough) for k in FILES)]
)
@pytest.mark.parametrize("unit", [None, "person"])
def test_an_odd_row_changes_nothing_but_itself(tmp_path: Path, kind: str, unit: str | None) -> None:
    places = folders(tmp_path)
    before = encode_through(kind, columns(ROWS), SCHEMA, next(places), unit=unit)
    assert before.rows_dropped == 0
    for number, cell in enumerate(ODD_CELLS):
        for column in ROWS[0] if kind == "pandas" and number % 5 == 0 else ["ward"]:
            odd = ROWS[0] | {"person": "another", column: cell}
            at = (0, 10, 20)[number % 3]
            rows = [*ROWS[:at], odd, *ROWS[at:]]
            after = encode_through(kind, columns(rows), SCHEMA, next(places), unit=unit)
            check(before, after, (column, number))


ODD_ROWS: list[Row] = [
    {"born": date(1, 1, 1)},
    {"born": date(9999, 12, 31), "left": None},
    {"left": date(9999, 12, 31)},
    {"born": date(2020, 2, 3), "left": date(2020, 2, 2)},
    {"fever": Decimal("99.97")},
    {"ward": "?", "fever": Decimal("36.85")},
    {"ward": "unknown", "fever": Decimal("36.86")},
]
"""Beyond ranges, out of order, and against a rule."""


@pytest.mark.usefixtures("in_small_pieces")
@pytest.mark.parametrize("kind", STORES)
def test_a_row_beyond_ranges_or_rules_changes_nothing_but_itself(tmp_path: Path, kind: str) -> None:
    places = folders(tmp_path)
    before = encode_through(kind, columns(ROWS), SCHEMA, next(places))
    for odd in ODD_ROWS:
        for at in (0, 6, 20):
            rows = [*ROWS[:at], ROWS[0] | odd, *ROWS[at:]]
            check(before, encode_through(kind, columns(rows), SCHEMA, next(places)), (odd, at))


@pytest.mark.usefixtures("in_small_pieces")
@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("most", [1, 2])
def test_which_rows_of_a_person_count_is_the_same_in_every_source_and_order(
    tmp_path: Path, kind: str, most: int
) -> None:
    places = folders(tmp_path)
    expected = counted(
        encode(SCHEMA, written(columns(ROWS)).to_batches(), "person", max_rows_per_unit=most)
    )
    rng = np.random.default_rng(0)
    for _ in range(4):
        rows = [ROWS[place] for place in rng.permutation(len(ROWS))]
        found = encode_through(
            kind, columns(rows), SCHEMA, next(places), unit="person", max_rows_per_unit=most
        )
        assert counted(found) == expected
        # Rows of one person more change nothing of others, whatever they hold.
        extra = [ROWS[0] | {"person": "p7", "age": age} for age in (1, 2, 3)]
        mixed = [*extra[:2], *rows[:9], extra[2], *rows[9:]]
        found = encode_through(
            kind, columns(mixed), SCHEMA, next(places), unit="person", max_rows_per_unit=most
        )
        assert not expected - counted(found)
        assert (counted(found) - expected).total() == most


CELL = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=4),
    st.binary(max_size=4),
    st.decimals(),
    st.dates(),
    st.datetimes(),
    st.sampled_from(["a", "b", "True", "1.5", "2025-02-03"]),
)


@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=8), st.data())
def test_a_column_of_objects_is_read_cell_by_cell(
    cells: list[tuple[object, object]], data: st.DataObject
) -> None:
    def found(some: list[tuple[object, object]]) -> Counter[tuple[int, ...]]:
        rows = [ROWS[0] | {"ward": ward, "height": height} for ward, height in some]
        return counted(encode_through("pandas", columns(rows), SCHEMA, Path()))

    place = data.draw(st.integers(0, len(cells) - 1))
    others = cells[:place] + cells[place + 1 :]
    assert found(cells) == found(others) + found([cells[place]])


ODD_LINES = [
    b'"open,1,1,a,true,2025-02-03',
    b'another,1,1,"a,true,2025-02-03',
    b'another,1,1,a,true,"2025-02-03',
    b'5" pipe,1,1,"a,true,2025-02-03',
    b'5" pipe,1,1,a,true,2025-02-03',
    b'"another","1","1","a","true","2025-02-03',
    b'another,1,1,"a"b"c",true,2025-02-03',
    b'another,1,1,a"",true,"2025-02-03"',
    b"another,1,1",
    b"another,1,1,a,true,2025-02-03,more",
    b"another,1,1,\xff\xfe,true,2025-02-03",
    b"another,1,1,\xc3,true,2025-02-03",
    b"another,1,1,a\0b,true,2025-02-03",
    b"\0",
    b"",
    b'"' * 5,
    b'"' + b"x" * 3_000_000,
    b"\xef\xbb\xbf",
]


@pytest.mark.parametrize(
    ("end", "packed", "last"),
    [(b"\n", False, True), (b"\r\n", False, False), (b"\r", False, True), (b"\n", True, False)],
)
def test_an_odd_line_of_a_csv_changes_nothing_but_itself(
    tmp_path: Path, end: bytes, packed: bool, last: bool
) -> None:
    plain = b"person,age,height,ward,alive,seen"
    lines = [plain] + [
        b'p%d,%d,1.5,"a",true,2025-02-03' % (number % 7, number) for number in range(40)
    ]
    schema = Schema(SCHEMA.columns[:5])
    path = tmp_path / ("rows.csv.gz" if packed else "rows.csv")
    said: list[str] = []

    def read(some: list[bytes]) -> Encoded:
        content = end.join(some) + (end if last else b"")
        path.write_bytes(gzip.compress(content, 1) if packed else content)
        source = open_source(path).forgiving(said.append)
        return encode(schema, source.batches(schema.domain.names))

    before = read(lines)
    assert (before.rows_read, before.rows_dropped, said) == (40, 0, [])
    for odd in ODD_LINES:
        for place in (1, 20, 41) if len(odd) < 1_000 else (20,):
            check(before, read([*lines[:place], odd, *lines[place:]]), (odd[:40], place))
            # Two of them do not close each other.
            twice = read([*lines[:place], odd, *lines[place:], odd])
            assert not counted(before) - counted(twice), (odd[:40], place)


FAR = 2**60
TYPED: dict[str, tuple[pa.DataType, list[Any], list[Any]]] = {
    "integers": (pa.int64(), [1, 2, 3], [None, 2**63 - 1, -(2**63)]),
    "unsigned": (pa.uint64(), [1, 2, 3], [None, 2**64 - 1]),
    "floats": (pa.float64(), [1.0, 2.5], [None, np.nan, np.inf, -np.inf, 1e300, 5e-324, -0.0]),
    "short floats": (pa.float32(), [1.0, 2.5], [None, np.nan, np.inf, 3e38]),
    "decimals": (pa.decimal128(38, 2), [Decimal("1.50")], [None, Decimal("9" * 36)]),
    "booleans": (pa.bool_(), [True, False], [None]),
    "texts": (pa.string(), ["a", "b", "1.5"], [None, "", "\0", "x" * 10_000, "\ufdd0"]),
    "bytes": (pa.binary(), [b"a"], [None, b"\xff"]),
    "days": (pa.date32(), [1, 2, 20_000], [None, 2**31 - 1, -(2**31)]),
    "long days": (pa.date64(), [0, 86_400_000], [None, 86_400_000 * 2**36]),
    "seconds": (pa.timestamp("s"), [1, 1_740_000_000], [None, FAR, -FAR]),
    "nanoseconds": (pa.timestamp("ns"), [1, 1_740_000_000 * 10**9], [None, 2**62, -(2**62)]),
    "moments": (pa.timestamp("us", "UTC"), [1_740_000_000 * 10**6], [None, FAR]),
}


@pytest.mark.parametrize("kind", TYPED)
@pytest.mark.parametrize("coded", [False, True])
def test_an_odd_value_of_a_type_changes_nothing_but_itself(
    tmp_path: Path, kind: str, coded: bool
) -> None:
    schema = Schema.of(
        {
            "columns": [
                {"name": "integer", "type": "integer", "min": 0, "max": 9},
                {"name": "number", "type": "number", "min": 0, "max": 9, "nullable": True},
                {"name": "word", "type": "categorical", "values": ["a", "1"], "other": "a"},
                {"name": "flag", "type": "boolean", "nullable": True},
                {"name": "moment", "type": "datetime", "min": "1970-01-01", "max": "2030-01-01"},
                {"name": "day", "type": "date", "min": "1970-01-02", "max": "2020-01-01"},
                {"name": "tenth", "type": "number", "min": 0, "max": 9, "decimals": 1},
            ]
        }
    )
    form, usual, odd = TYPED[kind]

    def array(values: list[Any]) -> pa.Array:
        found = pa.array(values, pa.int32() if kind == "days" else form).cast(form)
        return found.dictionary_encode() if coded else found

    for column in schema.columns:
        single = Schema((column,))
        for unit in (None, "id"):
            if unit and kind == "bytes":
                continue  # no type to tell people apart by: refused, whatever the rows

            def read(values: list[Any], schema: Schema = single, unit: Any = unit) -> Encoded:
                (name,) = schema.domain.names
                table = pa.table({name: array(values), "id": array(values)})
                return encode(schema, table.to_batches(), unit, max_rows_per_unit=3)

            before = read(usual * 2)
            for value in odd:
                for at in (0, 1, 2 * len(usual)):
                    values = usual * 2
                    values.insert(at, value)
                    check(before, read(values), (column.name, value, at))


@pytest.fixture(scope="module")
def database() -> Iterator[Server]:
    with server() as found, pytest.MonkeyPatch.context() as patch:
        for name, value in found.environment.items():
            patch.setenv(name, value)
        yield found


@pytest.mark.thorough
def test_an_odd_row_in_postgresql_changes_nothing_but_itself(database: Server) -> None:
    before = encode(SCHEMA, written(columns(ROWS)).to_batches(), "person", max_rows_per_unit=2)
    odd = [cell for cell in ODD_CELLS if not isinstance(cell, str) or "\0" not in cell]
    for number, cell in enumerate(odd[::3]):
        rows = [*ROWS, ROWS[0] | {"person": "another", "ward": cell, "height": cell}]
        table = written(columns(rows)).cast(pa.schema([(name, pa.string()) for name in ROWS[0]]))
        database.fill(f"rows{number}", table)
        for query in (
            f"rows{number}",
            f"SELECT * FROM rows{number} ORDER BY ward DESC, person",
            f"SELECT DISTINCT * FROM rows{number}",
        ):
            source = open_source(database.url(query))
            batches = source.batches(["person", *SCHEMA.domain.names])
            after = encode(SCHEMA, batches, "person", max_rows_per_unit=2)
            check(before, after, (query, number))


@pytest.mark.parametrize("most", [1, 3])
def test_the_order_of_a_query_changes_nothing(tmp_path: Path, most: int) -> None:
    """Joins, sorting, duplicates and threads: the same rows of each person count."""
    many = 5_000
    rng = np.random.default_rng(1)
    table = pa.table(
        {
            "person": [f"p{number}" for number in rng.integers(0, 1_000, many)],
            "age": rng.integers(0, 100, many),
            "ward": ["ab"[number] for number in rng.integers(0, 2, many)],
        }
    )
    schema = Schema(tuple(column for column in SCHEMA.columns if column.name in ("age", "ward")))
    place = tmp_path / "lake.duckdb"
    with duckdb.connect(str(place)) as connection:
        connection.register("given", table)
        connection.sql("CREATE TABLE stays AS SELECT * FROM given")
    expected = counted(encode(schema, table.to_batches(), "person", max_rows_per_unit=most))
    for query in (
        "stays",
        "SELECT * FROM stays ORDER BY person",
        "SELECT * FROM stays ORDER BY ward, age DESC",
        "SELECT s.* FROM stays AS s JOIN (SELECT DISTINCT person FROM stays) AS p USING (person)",
        "SELECT * FROM stays WHERE age < 50 UNION ALL SELECT * FROM stays WHERE age >= 50",
    ):
        batches = open_source(f"{place}#{query}").batches(["person", "age", "ward"])
        assert counted(encode(schema, batches, "person", max_rows_per_unit=most)) == expected


def spellings(number: Decimal) -> Iterator[tuple[str, object]]:
    """Tables with nothing in column `x` but this number, in every type that holds it exactly."""
    real, places = float(number), -int(number.as_tuple().exponent)
    kinds: list[tuple[pa.DataType, object]] = [(pa.float64(), real)]
    kinds += [
        (pa.decimal128(38, scale), number) for scale in {places, places + 1, 15} if scale < 20
    ]
    kinds += [(pa.decimal256(76, scale), number) for scale in (places, places + 1, 40)]
    with np.errstate(over="ignore"):
        short = [kind(real) for kind in (np.float16, np.float32)]
    short = [cell for cell in short if str(cell) != "inf" and Decimal(str(cell)) == number]
    kinds += [(pa.from_numpy_dtype(cell.dtype), cell) for cell in short]
    if number == int(number):
        kinds += [(pa.int64(), int(number)), (pa.uint64(), int(number))] if number >= 0 else []
    for kind, value in kinds:
        array = pa.array([value], kind)
        yield f"Arrow, {kind}", pa.table({"x": array})
        if not pa.types.is_decimal256(kind):
            yield f"polars, {kind}", pl.DataFrame(pa.table({"x": array}))
        if not pa.types.is_float16(kind):
            yield f"Arrow, dictionary of {kind}", pa.table({"x": array.dictionary_encode()})
    cells = [number, number * Decimal("1.00"), real, *(int(number),) * (number == int(number))]
    cells += [np.float64(real), *short]
    for cell in cells:
        yield f"pandas, {type(cell)}", pd.DataFrame({"x": [cell]})
        yield f"pandas, one {type(cell)}", pd.DataFrame({"x": pd.Series([cell], dtype=object)})
        if not isinstance(cell, np.float16):
            yield f"categories, {type(cell)}", pd.DataFrame({"x": pd.Categorical([cell])})
        yield f"polars, one {type(cell)}", pl.DataFrame({"x": pl.Series([cell], dtype=pl.Object)})
    yield "pandas, Float64", pd.DataFrame({"x": pd.Series([real], dtype="Float64")})


def codes_of(schema: Schema, table: object) -> list[int]:
    """The codes of all rows that fit."""
    codes: list[int] = encode(schema, open_source(table).batches(["x"])).table.codes[0].tolist()
    return codes


NUMBERS = (
    *("1.5", "-0.5", "0.12", "0.464", "0.07737", "2", "0", "100", "-40", "16777216", "0.7"),
    *("0.0000001", "0.000001", "0.00001", "0.000015", "0.0001", "0.001", "0.00000000025"),
    *("1000000000000000", "12345678901234567", "123456789012345680", "100000000000000000"),
)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_counts_as_the_same_in_every_representation(number: str) -> None:
    exact = Decimal(number)
    if float(exact) != exact and float(number).is_integer():
        exact = Decimal(int(float(number)))  # what a float can hold
    pointed = f"{exact:f}" if "." in number else f"{exact:f}."
    listed = {f"{exact:f}", f"{pointed}0", f"{pointed}000", f"{exact:.25e}".lower()}
    listed |= {repr(float(exact)), str(pa.scalar(float(exact)).cast(pa.string()))}
    below, above = float(exact) - 10, float(exact) + 10
    for table_kind, table in spellings(exact):
        for category in listed:
            schema = Schema.of(
                {"columns": [{"name": "x", "type": "categorical", "values": ["a", category]}]}
            )
            assert codes_of(schema, table) == [1], (table_kind, category)
        column = {"name": "x", "type": "number", "min": below, "max": above, "bins": 2}
        if above - below == 20:
            schema = Schema.of({"columns": [column | {"atoms": [float(exact)]}]})
            (code,) = codes_of(schema, table)
            assert code == schema.columns[0].encode(pa.array([str(exact)]))[0][0], table_kind
            assert schema.columns[0].decode(np.array([code]), np.random.default_rng(0))[
                0
            ].as_py() == float(exact), table_kind


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_has_one_text(number: float) -> None:
    schema = Schema.of({"columns": [{"name": "x", "type": "categorical", "values": [str(number)]}]})
    for array in (pa.array([number]), texts([number]), texts([np.float64(number)])):
        assert schema.columns[0].encode(array)[1].all()
    assert _parsing.words(pa.array([number])).to_pylist() == texts([number]).to_pylist()


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_a_short_float_has_one_text(number: float) -> None:
    array = _parsing.plain(pa.array([number], pa.float32()))
    assert _parsing.words(array).to_pylist() == texts([np.float32(number)]).to_pylist()


@given(st.decimals(allow_nan=False, allow_infinity=False, places=9, min_value=-(10**20)))
def test_the_scale_of_a_column_has_no_part_in_a_decimal(number: Decimal) -> None:
    if abs(number) > 10**20:
        return
    found = [pa.array([number], pa.decimal256(76, scale)) for scale in (9, 10, 30, 50)]
    said = [_parsing.words(array).to_pylist() for array in found]
    assert said == [texts([number]).to_pylist()] * 4
    for array in found:
        assert _parsing.numbers(array).values.tolist() == [float(number)]


def test_a_value_that_retypes_its_column_changes_nothing_but_itself(tmp_path: Path) -> None:
    """One value more gives a whole column another scale, or another type."""
    halves = [Decimal("1.5"), Decimal("2.5")] * 20
    stories: list[tuple[list[str], list[Any], list[Any]]] = [
        (["1.5", "2.5"], halves, [Decimal("1.25"), Decimal("1E-9"), Decimal("123456.7")]),
        (["1.50", "2.500"], halves, [Decimal("1.25")]),
        (["0.00001"], [1e-5] * 40, ["x", None, True, 7]),
        (["1e-7"], [1e-7] * 40, ["x"]),
        (["2", "3.0"], [2, 3] * 20, ["x", None, 2.5, 2**70]),
        (["2025-05-05 00:00:00"], [np.datetime64("2025-05-05")] * 40, ["x", None]),
        (["2025-05-05 01:02:00"], [np.datetime64("2025-05-05T01:02")] * 40, ["x"]),
        (["2025-05-05 00:00:00+00:00"], [pd.Timestamp("2025-05-05", tz="UTC")] * 40, ["x", None]),
        (
            ["2025-05-04 22:00:00.5+00:00"],
            [pd.Timestamp("2025-05-05 00:00:00.5", tz="Europe/Berlin")] * 40,
            ["x", datetime(2025, 5, 5, tzinfo=UTC), datetime(2025, 5, 5)],
        ),
    ]
    for values, usual, others in stories:
        schema = Schema.of({"columns": [{"name": "x", "type": "categorical", "values": values}]})
        for odd in (None, *others):
            frame = pd.DataFrame({"x": [*usual, *([odd] if odd is not None else [])]})
            tables: list[object] = [frame]
            try:
                whole = pa.Table.from_pandas(frame, preserve_index=False)
            except (pa.ArrowException, OverflowError):
                pass  # a mixture, which no file holds
            else:
                pq.write_table(whole, tmp_path / "x.parquet")
                tables += [whole, pl.DataFrame(whole), tmp_path / "x.parquet"]
            for table in tables:
                assert len(codes_of(schema, table)) == len(usual), (values, odd, type(table))


def test_a_moment_with_a_zone_counts_as_the_same_in_every_representation() -> None:
    moment = datetime(2025, 5, 5, 3, tzinfo=ZoneInfo("Europe/Berlin"))
    value = "2025-05-05 01:00:00+00:00"
    schema = Schema.of({"columns": [{"name": "x", "type": "categorical", "values": [value]}]})
    for zone in ("UTC", "Europe/Berlin", "America/New_York"):
        there = moment.astimezone(ZoneInfo(zone))
        cells = [there, pd.Timestamp(there)]
        for cell in cells:
            assert codes_of(schema, pd.DataFrame({"x": [cell]})) == [0]
            assert codes_of(schema, pd.DataFrame({"x": pd.Series([cell], dtype=object)})) == [0]
        for unit in ("s", "ms", "us", "ns"):
            table = pa.table({"x": pa.array([there], pa.timestamp(unit, zone))})
            assert codes_of(schema, table) == [0]
            assert codes_of(schema, pl.DataFrame(table)) == [0]


FRAMES: dict[str, Callable[[list[Any]], object]] = {
    "categories": lambda cells: pd.DataFrame(
        {"ward": pd.Categorical(pd.Series(cells, dtype=object))}
    ),
    "texts": lambda cells: pd.DataFrame({"ward": pd.Series(cells, dtype=object)}),
    "polars": lambda cells: pl.DataFrame({"ward": pl.Series(cells, dtype=pl.Object)}),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_a_cell_of_another_kind_makes_no_other_cell_misfit(kind: str) -> None:
    schema = Schema(tuple(column for column in SCHEMA.columns if column.name == "ward"))
    usual: list[Any] = [Decimal("1.5"), "a", "b", True]
    for odd in (b"x", Decimal("1.25"), 7, date(2025, 1, 1), (1, 2)):
        source = open_source(FRAMES[kind]([*usual, odd]))
        encoded = encode(schema, source.batches())
        assert encoded.table.codes[0, :4].tolist() == [2, 0, 1, 3], odd


def test_the_type_of_the_first_file_of_a_folder_decides_nothing(tmp_path: Path) -> None:
    wards = {"0": pa.array([None, None]), "1": pa.array(["a"]), "2": pa.array([1.5, np.nan])}
    wards |= {"3": pa.array([True]), "4": pa.array([Decimal("1.5")]), "5": pa.array([b"a"])}
    schema = Schema(tuple(column for column in SCHEMA.columns if column.name == "ward"))
    for name, array in wards.items():
        pq.write_table(pa.table({"ward": array}), tmp_path / f"{name}.parquet")
    codes = encode(schema, open_source(tmp_path).batches()).table.codes[0].tolist()
    assert codes == [5, 5, 0, 2, 5, 3, 2]
