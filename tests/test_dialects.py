"""Files in other dialects: what the location says is read, cell by cell, as the canonical file."""

from __future__ import annotations

import codecs
import csv
import encodings
import gzip
import io
import itertools
import os
import pkgutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from encodings.aliases import aliases
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heterofedsyn import FederatedSynthesizer
from heterofedsyn.errors import DataError, PrivacyRefusal, UsageError
from heterofedsyn.schema import Encoded, Schema, encode
from heterofedsyn.schema.table import columns_of
from heterofedsyn.sources import (
    Dialect,
    Spelling,
    anchored,
    check_apart,
    check_location,
    csv_file,
    file_of,
    looks_like,
    name_of,
    open_source,
    remedy,
    split_name,
    with_options,
)
from heterofedsyn.sources._date_format import LAYOUTS
from heterofedsyn.sources.dialect import written

pytestmark = pytest.mark.thorough

WARDS = ("Chirurgie", "größer", 'say "a"', "it's; 1,5|2\t3", "NA", "31.12.2025", "two\nlines")
SCHEMA = Schema.of(
    {
        "columns": [
            {"name": "age", "type": "integer", "min": -9, "max": 2_000_000, "nullable": True},
            {"name": "weight", "type": "number", "min": -9, "max": 9_000, "nullable": True},
            {"name": "ward", "type": "categorical", "values": WARDS, "nullable": True},
            {"name": "alive", "type": "boolean", "nullable": True},
            {
                "name": "born",
                "type": "date",
                "min": "1970-01-01",
                "max": "2060-01-01",
                "bins": 30_000,
                "nullable": True,
            },
            {
                "name": "seen",
                "type": "datetime",
                "min": "1970-01-01",
                "max": "2060-01-01",
                "bins": 40_000,
                "nullable": True,
            },
        ]
    }
)
KINDS = columns_of(SCHEMA, None)
GERMAN = "delimiter=;&decimal=,&thousands=.&date=%d.%m.%Y&null=k.A.,-9&null.weight=-1"

Row = dict[str, Any]


def encoded(place: object, schema: Schema = SCHEMA) -> Encoded:
    source = open_source(place).forgiving(lambda line: None)
    return encode(schema, source.batches(columns_of(schema, None)))


def codes(place: object) -> list[list[int]]:
    found = encoded(place)
    assert found.rows_dropped == 0
    rows: list[list[int]] = found.table.codes.T.tolist()
    return rows


# READING


@dataclass(frozen=True)
class Written:
    """A way to write a table, and the options that say so."""

    dialect: Dialect
    packed: bool = False
    multiline: bool = False

    @property
    def options(self) -> str:
        cells = self.dialect.cells
        marks = {"\t": "tab", " ": "space", "&": "%26", "": "none"}
        said = {
            "delimiter": marks.get(self.dialect.delimiter, self.dialect.delimiter),
            "quote": marks.get(self.dialect.quote, self.dialect.quote),
            "encoding": self.dialect.encoding,
        }
        given = [f"{key}={value}" for key, value in said.items()]
        given += [written("decimal", cells.decimal), written("thousands", cells.thousands)]
        given += [written("null", cells.null), f"date={cells.date}" if cells.date else "date="]
        return "&".join(given)

    def write(self, folder: Path, rows: Sequence[Row]) -> str:
        """A file of these rows, as a location."""
        path = folder / f"rows.csv{'.gz' if self.packed else ''}"
        text = io.StringIO(newline="")
        lines = csv.writer(text, delimiter=self.dialect.delimiter, quotechar=self.dialect.quote)
        lines.writerow(KINDS)
        for row in rows:
            lines.writerow(self.cell(row[name], place) for place, name in enumerate(KINDS))
        content = text.getvalue().encode(self.dialect.encoding)
        path.write_bytes(gzip.compress(content, 1) if self.packed else content)
        return f"{'csv-multiline:' if self.multiline else ''}{path}?{self.options}"

    def cell(self, value: Any, place: int) -> str:
        cells = self.dialect.cells
        if value is None:
            return (*cells.null, "")[place % (1 + len(cells.null))]
        if isinstance(value, bool):
            return ("Nein", "Ja")[value]
        if isinstance(value, int | Decimal):
            text = f"{value:,f}" if isinstance(value, Decimal) else f"{value:,}"
            return text.translate({ord(","): cells.thousands, ord("."): cells.decimal})
        return self.moment(value) if isinstance(value, date) else str(value)

    def moment(self, value: date) -> str:
        layout = self.dialect.cells.date or "%Y-%m-%d"
        no_time = "%M" in layout or not isinstance(value, datetime)
        return value.strftime(layout if no_time else f"{layout} %H:%M:%S")


MARKS = [(".", ""), (".", ","), (",", ""), (",", "."), (",", " "), (".", "'"), (".", "\u202f")]
ENCODINGS = ("utf-8", "utf-8-sig", "cp1252", "latin-1", "gb18030")


@st.composite
def ways(draw: st.DrawFn) -> Written:
    decimal, thousands = draw(st.sampled_from(MARKS))
    encodings = ENCODINGS if thousands.isascii() else ("utf-8", "gb18030")
    layouts = [layout for layout in LAYOUTS if "%M" not in layout or "%S" in layout]
    cells = Spelling(
        decimal,
        thousands,
        draw(st.sampled_from(["", *layouts])),
        draw(st.sampled_from([(), ("k.A.",), ("-", "n/a,b", "&=%"), ("#N/A", "?")])),
    )
    delimiter = draw(st.sampled_from(",;\t|&:"))
    dialect = Dialect(
        delimiter, draw(st.sampled_from("\"'")), draw(st.sampled_from(encodings)), cells
    )
    return Written(dialect, draw(st.booleans()), draw(st.booleans()))


tables = st.lists(
    st.fixed_dictionaries(
        {
            "age": st.none() | st.integers(-8, 2_000_000),
            "weight": st.none() | st.decimals(-8, 9_000, places=2, allow_nan=False),
            "ward": st.none() | st.sampled_from(WARDS),
            "alive": st.none() | st.booleans(),
            "born": st.none() | st.dates(date(1970, 1, 1), date(2060, 1, 1)),
            "seen": st.none()
            | st.datetimes(datetime(1970, 1, 1), datetime(2060, 1, 1)).map(
                lambda moment: moment.replace(microsecond=0)
            ),
        }
    ),
    max_size=12,
)


@given(tables, ways())
@settings(max_examples=150, deadline=None)
def test_a_table_in_any_dialect_is_read_as_its_canonical_form(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row], way: Written
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    rows = [row for row in rows if way.multiline or row["ward"] != "two\nlines"]
    plain = Written(Dialect(), multiline=True).write(folder, rows).partition("?")[0]
    expected = codes(plain)
    assert len(expected) == len(rows)
    assert codes(way.write(folder, rows)) == expected


def test_cells_of_parquet_files_have_dialects_too(tmp_path: Path) -> None:
    way = Written(Dialect(cells=Spelling(",", ".", "%d.%m.%Y", ("k.A.", "-9"))))
    rows: list[Row] = [
        {
            "age": 1_234,
            "weight": Decimal("1234.5"),
            "ward": "NA",
            "alive": True,
            "born": date(2025, 1, 2),
            "seen": None,
        },
        {
            "age": None,
            "weight": None,
            "ward": None,
            "alive": None,
            "born": None,
            "seen": datetime(2025, 12, 31),
        },
    ]
    cells = {name: [way.cell(row[name], 1) for row in rows] for name in KINDS}
    expected = codes(Written(Dialect()).write(tmp_path, rows).partition("?")[0])
    for kind in (
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
    ):
        table = pa.table(
            {name: pa.array(texts, pa.string()).cast(kind) for name, texts in cells.items()}
        )
        pq.write_table(table, tmp_path / "rows.parquet")
        options = "decimal=,&thousands=.&date=%d.%m.%Y&null=k.A.,-9"
        assert codes(f"{tmp_path}/rows.parquet?{options}") == expected
        assert codes(f"{tmp_path}/*.parquet?{options}") == expected
    typed = pa.table({**table.to_pydict(), "age": pa.array([1_234, -9], pa.int32())})
    pq.write_table(typed, tmp_path / "rows.parquet")
    assert codes(f"{tmp_path}/rows.parquet?{options}") == expected
    with pytest.raises(UsageError, match="are for CSV files"):
        open_source(f"{tmp_path}/rows.parquet?delimiter=;")
    with pytest.raises(UsageError, match="no column 'agee', of which"):
        open_source(f"{tmp_path}/rows.parquet?null.agee=1")


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64()),
        *(pa.decimal32(5, 1), pa.decimal64(9, 1), pa.decimal128(20, 1), pa.decimal256(60, 1)),
        *(pa.bool_(), pa.date32(), pa.timestamp("us", "UTC"), pa.null(), pa.binary()),
    ],
    ids=str,
)
def test_values_that_are_no_text_have_a_dialect_in_their_nulls_alone(kind: pa.DataType) -> None:
    dialect = Dialect(cells=Spelling(",", ".", "%d.%m.%Y", ("9", "NA", "x")))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        array = pa.array([9.0, 7.0, 0.0, None]).cast(kind)
        expected = [None, *array[1:].to_pylist()]
    else:
        array = pa.nulls(4, kind)
        expected = [None] * 4
    for each in ("integer", "number", "date", "categorical", ""):
        found = dialect.rewritten(array, each, "x")
        assert found.to_pylist() == expected


def test_short_floats_stand_for_no_value_by_their_text() -> None:
    for kind in (pa.float16(), pa.float32(), pa.float64()):
        cells = pa.array([0.7, 0.5]).cast(kind)
        found = Dialect(cells=Spelling(null=("0.7",))).rewritten(cells, "number", "x")
        assert found.to_pylist() == [None, 0.5]


def test_bytes_that_are_no_text_are_no_error() -> None:
    cells = pa.array([b"1.234,5", b"\xff", b"1\xff", b"31.12.2025\xff", None], pa.binary())
    text = cells.view(pa.string())
    dialect = Dialect(cells=Spelling(",", ".", "%d.%m.%Y", ("NA",)))
    for kind in KINDS.values():
        found = dialect.rewritten(text, kind, "x")
        assert len(found) == len(cells)
        looks_like(text, kind)


def cells_of(kind: str, spelling: Spelling, *texts: str | None) -> list[str | None]:
    dialect = Dialect(cells=spelling)
    cells: list[str | None] = dialect.rewritten(pa.array(texts, pa.string()), kind, "x").to_pylist()
    return cells


@pytest.mark.parametrize(
    ("marks", "good", "bad"),
    [
        (",", "1,5 ,5 5, -1,5 +7 1e3 1,5E-3 inf NaN", "1.5 1.234 1.234,5 1,2,3 1'000 x , 1,5x"),
        (",.", "1,5 1.234 1.234,5 1234,5 1.234.567", "1.5 12.34 1,5.0 1.23,4 1,234.5 .234 1..234"),
        (".,", "1.5 1,234 1,234.5 12,34,567.8", "1,5 1,23 1.234,5 ,5 1,,234"),
        (".'", "1.5 1'234 1'234.5", "1,5 1'23 '234"),
    ],
)
def test_a_number_is_one_in_its_own_spelling_or_none(marks: str, good: str, bad: str) -> None:
    spelling = Spelling(marks[0], marks[1:])
    for text in good.split():
        plain = text.replace(marks[1:] or "?", "").replace(marks[0], ".")
        assert cells_of("number", spelling, text, f" {text} ", None, "") == [plain, plain, None, ""]
    for text in bad.split():
        (odd,) = cells_of("number", spelling, text)
        assert odd is not None
        for kind in ("integer", "number"):
            schema = Schema.of(
                {"columns": [{"name": "x", "type": kind, "min": 0, "max": 9, "nullable": True}]}
            )
            assert encode(schema, pa.table({"x": [odd]}).to_batches()).rows_dropped == 1, text


def test_blanks_between_digits_are_any_blank() -> None:
    texts = ("1 234,5", "1\u00a0234,5", "1\u202f234,5")
    assert cells_of("number", Spelling(",", " "), *texts) == ["1234.5"] * 3
    assert cells_of("number", Spelling(",", "\u00a0"), *texts) == ["1234.5"] * 3


@pytest.mark.parametrize(
    ("layout", "text", "iso"),
    [
        ("%d.%m.%Y", "31.12.2025", "2025-12-31"),
        ("%d.%m.%Y", " 1.2.2025 ", "2025-02-01"),
        ("%d.%m.%Y", "1.2.2025 4:05", "2025-02-01 04:05:00"),
        ("%d.%m.%Y", "1.2.2025, 14:05:06.789", "2025-02-01 14:05:06"),
        ("%d.%m.%Y", "01.02.2025T04:05:06Z", "2025-02-01 04:05:06Z"),
        ("%d.%m.%Y", "2025-12-31", "2025-12-31"),
        ("%d.%m.%Y", "31/12/2025", "31/12/2025"),
        ("%d.%m.%Y", "31.12.25", "31.12.25"),
        ("%m/%d/%y", "12/31/68", "2068-12-31"),
        ("%m/%d/%y", "12/31/69", "1969-12-31"),
        ("%Y%m%d", "20251231", "2025-12-31"),
        ("%Y%m%d", "2025123", "2025123"),
        ("%d%b%Y", "31DEC2025", "2025-12-31"),
        ("%d-%b-%y", "1-jan-25", "2025-01-01"),
        ("%d%b%Y", "31xxx2025", "31xxx2025"),
        ("%m/%d/%Y %I:%M %p", "1/2/2025 12:30 am", "2025-01-02 00:30:00"),
        ("%m/%d/%Y %I:%M %p", "1/2/2025 12:30 P.M.", "2025-01-02 12:30:00"),
        ("%m/%d/%Y %I:%M %p", "1/2/2025 13:30 PM", "2025-01-02 99:30:00"),
        ("%d.%m.%Y %H:%M:%S.%f", "1.2.2025 3:04:05.678", "2025-02-01 03:04:05"),
        ("%Y-%d-%m", "2025-31-12", "2025-12-31"),
    ],
)
def test_a_date_is_read_by_its_layout_or_as_iso(layout: str, text: str, iso: str) -> None:
    assert cells_of("datetime", Spelling(date=layout), text, None, "") == [iso, None, ""]
    assert cells_of("categorical", Spelling(date=layout), text) == [text]


@given(st.sampled_from(LAYOUTS), st.dates(date(1969, 1, 1), date(2068, 12, 31)))
def test_every_common_layout_is_read(layout: str, day: Any) -> None:
    moment = datetime.combine(day, datetime.min.time())
    (iso,) = cells_of("datetime", Spelling(date=layout), moment.strftime(layout))
    assert iso is not None
    assert datetime.fromisoformat(iso) == moment


def test_words_for_no_value_are_those_of_the_column_and_of_all(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b,c\nNA, -1 ,x\n-1,NA,NA\n-1.0,NAN,\n")
    (batch,) = open_source(f"{path}?null=NA&null.b=-1").batches(["a", "b", "c"])
    assert batch.to_pydict() == {
        "a": [None, "-1", "-1.0"],
        "b": [None, None, "NAN"],
        "c": ["x", None, ""],
    }
    with pytest.raises(UsageError, match="no column 'd', of which an option speaks"):
        open_source(f"{path}?null=NA&null.d=-1")


# ROW BY ROW

ODD = [
    *("1.5", "1,5", "1.234,5", "x", "", "k.A.", "-9", "-1", "31.12.2025", "31.02.2025", "2025-1-1"),
    *('"', '""', '";"', 'an open " quote', "a;b", "a,b", "Ja", "9" * 60, "," * 50, "\ufdd0", "é\0"),
]
FITTING = "1.234;70,5;Chirurgie;Ja;1.2.2003;31.12.2025"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("encoding", "place"),
    [
        *(("utf-8", place) for place in range(6)),
        *((encoding, place) for encoding in ("cp1252", "gb18030") for place in (1, 2)),
    ],
)
def test_a_row_is_read_alone_as_among_others(
    tmp_path: Path, encoding: str, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_file, "_BLOCK_BYTES", 500)

    def counted(rows: Sequence[bytes]) -> Counter[tuple[int, ...]]:
        header = ";".join(KINDS).encode(encoding)
        newline = "\n".encode(encoding)
        (tmp_path / "a.csv").write_bytes(newline.join([header, *rows, b""]))
        found = encoded(f"{tmp_path}/a.csv?encoding={encoding}&{GERMAN}").table.codes
        return Counter(map(tuple, found.T.tolist()))

    usual = [FITTING.encode(encoding)] * 30
    others = counted(usual)
    assert others.total() == 30
    broken = b"\x81" if encoding == "cp1252" else b"\xff"
    odd = [text.encode(encoding, "replace") for text in ODD] + [
        broken,
        "a".encode(encoding) + broken,
    ]
    separator = ";".encode(encoding)
    for cell in odd:
        cells = [text.encode(encoding) for text in FITTING.split(";")]
        cells[place] = cell
        row = separator.join(cells)
        alone = counted([row])
        assert counted([*usual, row]) == counted([row, *usual]) == others + alone, cell


CODECS = sorted({module.name for module in pkgutil.iter_modules(encodings.__path__)})
WIDE = [
    *(f"{kind}{end}" for kind in ("utf_16", "utf_32") for end in ("", "_le", "_be")),
    *("u16", "u32", "ucs2", "ucs_2", "ucs4", "iso_10646_ucs_2", "unicodebigunmarked"),
]


@pytest.mark.slow
@pytest.mark.thorough
def test_no_encoding_lets_a_line_change_how_the_next_is_read() -> None:
    read, few = 0, b'\0\n",0@\\~\x7f\x80\x81\x8e\x8f\xa1\xfe\xff'
    for name in CODECS:
        try:
            encoding = Dialect(encoding=name).encoding
        except UsageError:
            continue
        read += 1
        begin = "".encode(encoding)
        end = '\nx,"'.encode(encoding).removeprefix(begin)
        stray = [itertools.product(range(256), repeat=many) for many in (1, 2)]
        for letters in itertools.chain(*stray, itertools.product(few, repeat=3)):
            text = codecs.decode(begin + bytes(letters) + end, encoding, "replace")
            assert text.endswith('\nx,"'), (encoding, letters)
    assert read > 60
    for name in ("utf-7", "iso2022_jp", "hz", "rot13", "unicode_escape", "idna", "zlib"):
        with pytest.raises(UsageError, match=r"encoding=.*save it as UTF-8"):
            Dialect(encoding=name)


@pytest.mark.parametrize("name", sorted({*CODECS, *aliases, *WIDE}))
def test_an_encoding_has_letters_of_single_bytes_or_is_refused(name: str) -> None:
    """In any other a stray byte would shift all rows after it."""
    for spelt in {name, name.upper(), name.replace("_", "-"), name.replace("_", "")}:
        refused = ""
        try:
            encoding = Dialect(encoding=spelt).encoding
        except UsageError as refusal:
            refused = str(refusal)
        if name in WIDE or refused:
            assert refused.endswith("save it as UTF-8")
            continue
        mark = "".encode(encoding)
        for letter in '\n,;"0':
            assert len(letter.encode(encoding).removeprefix(mark)) == 1, (spelt, letter)


# LOCATIONS


def test_a_location_with_a_dialect_is_one_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("raw.csv").write_text("a;b\n1,5;NA\n")
    os.link("raw.csv", "hard.csv")
    text = "raw.csv?delimiter=;&decimal=,&null=NA"
    for scheme in ("", "csv-multiline:"):
        place = f"{scheme}{text}"
        assert check_location(place) == place
        assert (name_of(place), file_of(place)) == ("raw.csv", Path("raw.csv"))
        whole = f"{scheme}{tmp_path}/raw.csv?delimiter=;&decimal=,&null=NA"
        assert anchored(place) == anchored(anchored(place)) == whole
        assert split_name(place) == (None, place)
        assert split_name(f"north={place}") == ("north", place)
        (batch,) = open_source(whole).batches({"a": "number", "b": "categorical"})
        assert batch.to_pydict() == {"a": ["1.5"], "b": [None]}
    for other in ("raw.csv", "hard.csv?delimiter=tab", "csv-multiline:raw.csv?decimal=,"):
        with pytest.raises(UsageError, match="would count twice"):
            check_apart([text, other])
    assert with_options("raw.csv", "") == "raw.csv"
    assert with_options('raw.csv?quote="', "null=NA") == 'raw.csv?quote="&null=NA'
    assert with_options(with_options("raw.csv", "delimiter=;"), "decimal=,&null=NA") == text


def test_a_path_that_is_there_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = "raw.csv?decimal=,.csv"
    Path(name).write_text("a\n1,5\n".replace(",", "."))
    assert name_of(name) == name
    assert open_source(name).dialect == Dialect()
    pq.write_table(pa.table({"a": [1]}), "b-1.parquet")
    assert sum(batch.num_rows for batch in open_source("b-?.parquet").batches()) == 1
    assert name_of("lake/a.parquet?x=1.parquet") == "lake/a.parquet?x=1.parquet"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("delimitr=;", "unknown option 'delimitr'; did you mean 'delimiter'?"),
        ("delimiter=;&x=secret", "unknown option 'x'; known: 'delimiter'"),
        ("null=a&b", "an & that belongs to a value is written %26"),
        ("delimiter=ab", "takes one character"),
        ("delimiter=", "takes one character"),
        ("delimiter=é", "takes one character"),
        ("delimiter=;&quote=;", "are the same"),
        ("delimiter.a=;", "is said of the whole file"),
        ("decimal=5", "takes one character"),
        ("decimal=", "decimal= is empty"),
        ("thousands=.", "decimal and thousands are both '.'; write decimal=,"),
        ("decimal=,&decimal=.", "given twice"),
        ("date=%d.%m", "one day, one month and one year"),
        ("date=%d.%m.%Y%d", "twice"),
        ("date=%d.%m.%Y %H", "half of a time"),
        ("date=%d.%m.%Y %I:%M", "half of a time"),
        ("date=%Q", "code '%Q'; known: %d"),
        ("date=%", "code '%'"),
        ("encoding=secret", "names none that is known"),
        ("encoding=utf-7", "cannot be read row by row"),
        ("null.=secret", "names no column"),
        ("null=%ff", "no UTF-8"),
        ("null.z=secret", "there is no column 'z'"),
    ],
)
def test_options_that_mean_nothing_are_refused_in_one_line(
    tmp_path: Path, options: str, problem: str
) -> None:
    path = tmp_path / "raw.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(UsageError) as refusal:
        open_source(f"{path}?{options}")
    said = str(refusal.value)
    assert said.startswith(f"{path}: ")
    assert problem in said
    assert "secret" not in said
    assert "\n" not in said


PIECES = [
    *("delimiter", "quote", "encoding", "decimal", "thousands", "date", "null", "nul"),
    *(
        "=",
        "=",
        "=",
        "&",
        "&",
        ".",
        ",",
        ";",
        "%d",
        "%m",
        "%Y",
        "%H:%M",
        "%2C",
        "%ff",
        "%",
        "a",
        "é",
    ),
    *("utf-16", "cp037", "tab", "space", "none", "\ud800", "\0", "/", "#", " "),
]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_any_options_are_read_or_refused_in_one_line(options: str) -> None:
    text, refused = f"/nowhere/raw.csv?{options}", ""
    try:
        place = anchored(text)
    except UsageError as refusal:
        refused = str(refusal)
    assert "\n" not in refused
    if not refused:
        assert anchored(place) == place
        assert name_of(text) in (text, "/nowhere/raw.csv")


@pytest.mark.parametrize(
    "text", ["lake.duckdb?decimal=,#t", "duckdb:lake.db?null=x#t", "postgresql://h/d?date=x#t"]
)
def test_databases_have_no_dialects(text: str) -> None:
    with pytest.raises(UsageError, match="is for CSV and Parquet files"):
        check_location(text)


# REMEDIES


def failure(place: str) -> str:
    with pytest.raises(DataError) as refusal:
        list(open_source(place).batches())
    return str(refusal.value)


@pytest.mark.parametrize(
    ("content", "options", "remedy_said"),
    [
        ("a;b\n1;2\n", "", "add ?delimiter=; to the location"),
        ("a\tb\n1\t2\n", "", "add ?delimiter=tab to the location"),
        ("a|b\n1|2\n", "", "add ?delimiter=| to the location"),
        ("a,b\n1,2\n", "?delimiter=;", "write delimiter=, into the location"),
        ("a;b\n1;2\n", "?decimal=,", "add &delimiter=; to the location"),
        ("größe,b\n1,2\n".encode("cp1252"), "", "add ?encoding=cp1252 to the location"),
        ("a,b\n1,größe\n".encode("cp1252"), "", "add ?encoding=cp1252 to the location"),
        *(
            (
                f"a{mark}b\n1{mark}2\n".encode(wide),
                "",
                "read row by row; save it as UTF-8",
            )
            for mark in (",", "\t")
            for wide in ("utf-16", "utf-32")
        ),
        (b"\xfe\xff" + "a,b\n".encode("utf-16-be"), "", "read row by row; save it as UTF-8"),
        (b"\0\0\xfe\xff" + "a,b\n".encode("utf-32-be"), "", "read row by row; save it as UTF-8"),
        ("größe;b\n1;2\n".encode("cp1252"), "", "add ?encoding=cp1252&delimiter=; to the location"),
        (b"a,b\n1,\x81\n", "?encoding=cp1252", "row 2 (the header is row 1) is not cp1252"),
        ("a,b\n1,5,2\n", "", "numbers with decimal commas need quotes"),
        ("a;b\n1\n", "?delimiter=;", "add the missing semicolons"),
    ],
)
def test_a_file_of_another_dialect_is_refused_with_a_remedy(
    tmp_path: Path, content: str | bytes, options: str, remedy_said: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    said = failure(f"{path}{options}")
    assert remedy_said in said
    assert "größe" not in said


def test_a_header_of_another_dialect_is_told_when_no_column_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("age;ward, or station;seen\n1;a, b;2\n")
    with pytest.raises(DataError, match=r"add \?delimiter=; to the location"):
        open_source(path).batches(["age"])


@pytest.mark.slow
@given(tables, ways())
@settings(max_examples=60, deadline=None)
def test_what_cells_look_like_reads_them(rows: list[Row], way: Written) -> None:
    columns = {"age": "integer", "weight": "number", "born": "date", "seen": "datetime"}
    for name, kind in columns.items():
        values = [row[name] for row in rows if row[name] is not None]
        texts = pa.array([way.cell(value, 0) for value in values], pa.string())
        like = looks_like(texts, kind) or Spelling()
        found = Dialect(cells=like).rewritten(texts, kind, name)
        schema = Schema(tuple(column for column in SCHEMA.columns if column.name == name))
        assert encode(schema, pa.table({name: found}).to_batches()).rows_dropped == 0


def test_a_remedy_makes_all_rows_fit(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        "age;weight;ward;alive;born;seen\n"
        "1.234;1.234,5;NA;Ja;1.2.1999;31.12.2025\n"
        "k.A.;7;größer;Nein;;1.2.2024 4:05\n8;70,25;NA;Nein;3.4.2005;\n"
    )
    place = f"{path}?delimiter=;"
    assert encoded(place).rows_dropped > 0
    said = remedy(open_source(place), KINDS)
    assert said == (
        "it looks like another dialect: add "
        "&decimal=,&thousands=.&date=%d.%m.%Y&null.age=k.A. to the location"
    )
    better = with_options(place, said.partition("add &")[2].removesuffix(" to the location"))
    assert encoded(better).rows_dropped == 0
    assert remedy(open_source(better), KINDS) is None


def test_a_remedy_for_some_columns_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a;b;c;d\n1,5;1.5;31.12.2025;12/31/2025\n2,5;2.25;1.1.2025;1/31/2025\n")
    kinds = {"a": "number", "b": "number", "c": "date", "d": "date"}
    said = remedy(open_source(f"{path}?delimiter=;"), kinds)
    assert said is not None
    assert "add &decimal.a=,&date.c=%d.%m.%Y&date.d=%m/%d/%Y to" in said


def test_a_table_without_a_location_has_no_remedy() -> None:
    assert remedy(open_source(pa.table({"age": ["1,5"]})), {"age": "number"}) is None
    stream = open_source(pa.table({"age": ["1,5"]}).to_reader())
    assert remedy(stream, {"age": "number"}) is None
    assert sum(batch.num_rows for batch in stream.batches()) == 1


@pytest.mark.filterwarnings("ignore::heterofedsyn.errors.HeterofedsynWarning")
def test_people_that_are_not_named_are_nobody_in_any_dialect(tmp_path: Path) -> None:
    schema = Schema.of({"columns": [{"name": "bmi", "type": "number", "min": 10, "max": 60}]})
    for site in ("north", "south"):
        rows = [f"{site}{place};2{place % 10},5" for place in range(40)] + ["k.A.;25,5"] * 3
        (tmp_path / f"{site}.csv").write_text("\n".join(["person;bmi", *rows, ""]))
    usual: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-9, "noise_seed": 1, "unit": "person"}
    synthesizer = FederatedSynthesizer(schema, method="independent", **usual)
    options = "delimiter=;&decimal=,"
    with pytest.raises(PrivacyRefusal):
        synthesizer.fit({s: f"{tmp_path}/{s}.csv?{options}" for s in ("north", "south")})
    options += "&null.person=k.A."
    synthesizer.fit({s: f"{tmp_path}/{s}.csv?{options}" for s in ("north", "south")})
