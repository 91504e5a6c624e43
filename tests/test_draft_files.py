"""Drafting from files as people have them: the location it names reads every row."""

from __future__ import annotations

import csv
import re
import shlex
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heterofedsyn.schema import (
    BooleanColumn,
    CategoricalColumn,
    DateColumn,
    DatetimeColumn,
    Encoder,
    IntegerColumn,
    KeyColumn,
    NumberColumn,
    Schema,
)
from heterofedsyn.schema._candidates import MOST_SAMPLED, Sample
from heterofedsyn.schema._seen import AS_IT_IS, MOST_TRACKED, Seen
from heterofedsyn.sources import open_source
from heterofedsyn.sources._date_format import LAYOUTS
from invented import Desk
from raw_export import CODES, COLUMNS, write_raw

pytestmark = pytest.mark.thorough


def drafted(desk: Desk, location: str, *arguments: str) -> tuple[Schema, str]:
    """What is drafted from a file, and the location that it says to write."""
    ask = ("schema", "draft", "--public", "--data", location, "--out", "new.toml", "--overwrite")
    assert desk.run(*ask, *arguments) == 0, desk.err
    named = re.search(r"are read, write (.*)$", desk.err, re.MULTILINE)
    return Schema.load("new.toml"), shlex.split(named[1])[0] if named else location


def misfits(schema: Schema, location: str) -> str | None:
    """Who does not fit, if anybody."""
    encoder = Encoder(schema)
    for _ in encoder.encode(open_source(location).batches(encoder.columns)):
        pass
    return encoder.fit.describe()


def test_an_export_with_all_its_habits_is_drafted_and_fits(desk: Desk) -> None:
    write_raw(desk.folder / "raw.csv")
    schema, location = drafted(desk, "raw.csv", "--label", "verstorben")
    assert location == (
        "raw.csv?delimiter=;&encoding=cp1252&date=%d.%m.%Y&decimal=,&thousands=.&null=k.A."
    )
    kinds = {column.name: type(column) for column in schema.columns}
    assert kinds == {
        "Fallnummer": KeyColumn,
        **dict.fromkeys(("geboren", "aufgenommen", "entlassen"), DateColumn),
        "Aufnahme": DatetimeColumn,
        "Größe": IntegerColumn,
        **dict.fromkeys(("Gewicht", "BMI", "Kosten", "CRP"), NumberColumn),
        **dict.fromkeys(("Geschlecht", "ICD", "Kapitel", "Station", "PLZ"), CategoricalColumn),
        **dict.fromkeys(("Raucher", "verstorben"), BooleanColumn),
    }
    assert {*COLUMNS} - {*kinds} == {"Patienten-ID", "Haus", "Bemerkung"}
    assert schema.column("ICD").size == CODES
    assert (schema.label, schema.task) == ("verstorben", "binary_classification")
    assert misfits(schema, location) is None


MARKS = [(".", ""), (",", ""), (",", "."), (".", ","), (",", " "), (".", "'")]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_location_that_a_draft_names_reads_every_date(desk: Desk, layout: str) -> None:
    rng = np.random.default_rng(0)
    start = datetime(1990, 1, 1)
    moments = [start + timedelta(minutes=int(m)) for m in rng.integers(0, 20_000_000, 60)]
    with (desk.folder / "x.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["when", "other"])
        writer.writerows([moment.strftime(layout), moment.month] for moment in moments)
    schema, location = drafted(desk, "x.csv")
    column = schema.column("when")
    assert isinstance(column, DatetimeColumn if "H" in layout or "I" in layout else DateColumn)
    assert misfits(schema, location) is None
    first = column.min if isinstance(column, DatetimeColumn) else None
    if first and "S" in layout:
        assert first == min(moments)
    if type(column) is DateColumn:
        assert (column.min, column.max) == (min(moments).date(), max(moments).date())


@pytest.mark.parametrize("marks", MARKS)
@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_the_location_that_a_draft_names_reads_every_number(
    desk: Desk, marks: tuple[str, str], delimiter: str
) -> None:
    rng = np.random.default_rng(0)
    numbers = [*np.round(rng.exponential(5_000, 60), 1), 12_345.5, 0.5]
    table = str.maketrans({".": marks[0], ",": marks[1]})
    with (desk.folder / "x.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(["cost", "n"])
        writer.writerows(
            [f"{number:,.1f}".translate(table), n % 9] for n, number in enumerate(numbers)
        )
    schema, location = drafted(desk, "x.csv")
    column = schema.column("cost")
    assert isinstance(column, NumberColumn)
    assert column.decimals == 1
    assert column.min <= min(numbers) < max(numbers) <= column.max < 1.02 * max(numbers)
    assert misfits(schema, location) is None


cells = st.one_of(
    st.sampled_from(["1", "2,5", "1.234,5", "1,234.5", "31.12.2025", "2025-12-31", "NA", "", "Ja"]),
    st.from_regex(r"[0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{2,4}", fullmatch=True),
    st.from_regex(r"[0-9]{1,3}([., '][0-9]{3})?([.,][0-9]{1,2})?", fullmatch=True),
)
alike = st.lists(cells, min_size=1, max_size=2).flatmap(
    lambda few: st.lists(st.sampled_from(few), min_size=30, max_size=30)
)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.lists(alike, min_size=1, max_size=4))
def test_however_columns_are_written_together_the_location_reads_them_all(
    desk: Desk, columns: list[list[str]]
) -> None:
    with (desk.folder / "x.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(["usable", *(f"c{place}" for place in range(len(columns)))])
        writer.writerows(zip(range(30), *columns, strict=True))
        writer.writerows([[0, *(column[0] for column in columns)]])
    schema, location = drafted(desk, "x.csv")
    assert misfits(schema, location) is None, location


def test_what_the_location_says_is_not_guessed_again(desk: Desk) -> None:
    desk.write("x.csv", "a;b\n1,5;01/02/2025\n2,5;03/04/2025\n")
    schema, location = drafted(desk, "x.csv?delimiter=;&date=%m/%d/%Y")
    assert location == "x.csv?delimiter=;&date=%m/%d/%Y&decimal=,"
    assert schema.column("b") == DateColumn("b", datetime(2025, 1, 2), datetime(2025, 3, 4))
    _, location = drafted(desk, "x.csv?delimiter=;")
    said = "days and months cannot be told apart: read with date=%d/%m/%Y, but date=%m/%d/%Y fits"
    assert said in desk.err
    assert said in (desk.folder / "new.toml").read_text()


@pytest.mark.parametrize(("proof", "first"), [("03/25/2025", "m"), ("25/03/2025", "d")])
def test_dates_are_read_in_the_order_that_another_column_proves(
    desk: Desk, proof: str, first: str
) -> None:
    # Read in either order, the ends of `a` are the same.
    desk.write("x.csv", f"a,b,n\n01/01/2025,{proof},1\n05/07/2025,{proof},2\n12/12/2025,,3\n")
    schema, location = drafted(desk, "x.csv")
    second = "d" if first == "m" else "m"
    assert location == f"x.csv?date=%{first}/%{second}/%Y"
    assert misfits(schema, location) is None
    assert "column 'a': days and months cannot be told apart" in desk.err
    assert "the order that column 'b' proves" in desk.err
    assert "column 'b':" not in desk.err


def test_columns_that_prove_different_orders_prove_nothing(desk: Desk) -> None:
    desk.write("x.csv", "a,b,c\n01/01/2025,03/25/2025,25/03/2025\n02/01/2025,,\n")
    schema, location = drafted(desk, "x.csv")
    assert misfits(schema, location) is None
    assert "column 'a': days and months cannot be told apart" in desk.err
    assert "look which is meant" in desk.err


def test_a_number_that_may_stand_for_missing_is_said_and_the_location_reads_it_so(
    desk: Desk,
) -> None:
    rows = [f"{i % 11},{18 + i % 70},{i % 100},{20 + i % 9}.5" for i in range(300)]
    rows += ["-9,999,3,99.0"] * 5
    desk.write("x.csv", "\n".join(["pain,age,share,bmi", *rows, ""]))
    drafted(desk, "x.csv")
    for name, words, ends in (
        ("pain", "-9", "min = 0"),
        ("age", "999", "max = 87"),
        ("bmi", "99.0", "max = 28.5"),
    ):
        said = f"missing: if so, read with ?null.{name}={words}, and write nullable = true, {ends}"
        assert said in desk.err
        assert said in (desk.folder / "new.toml").read_text()
    assert "column 'share'" not in desk.err
    schema, _ = drafted(desk, "x.csv?null.pain=-9&null.age=999&null.bmi=99.0")
    assert schema.column("age") == IntegerColumn("age", 18, 87, nullable=True)
    assert "may stand for missing" not in desk.err


def test_categories_that_differ_in_case_or_blanks_are_said(desk: Desk) -> None:
    desk.write("x.csv", 'a,b\nGKV,x\ngkv,y\n" gkv",x\nPKV,y\n')
    drafted(desk, "x.csv")
    assert "column 'a': differ in case or blanks only: ' gkv', 'GKV', 'gkv';" in desk.err
    assert "column 'b'" not in desk.err


@pytest.mark.parametrize("wide", ["utf-16", "utf-32"])
def test_a_file_that_no_location_can_read_is_refused_with_its_remedy(desk: Desk, wide: str) -> None:
    (desk.folder / "x.csv").write_bytes("a;b\n1;2\n".encode(wide))
    desk.run("schema", "draft", "--public", "--data", "x.csv", "--out", "other.toml")
    desk.refused(1, "it cannot be read row by row; save it as UTF-8")


def test_columns_are_skipped_or_the_only_ones(desk: Desk) -> None:
    schema, _ = drafted(desk, "d.csv", "--skip", "person,sick")
    assert schema.domain.names == ("age", "ward")
    schema, _ = drafted(desk, "d.csv", "--only", "ward", "--only", "age")
    assert schema.domain.names == ("age", "ward")
    draft = ("schema", "draft", "--public", "--data", "d.csv", "--out", "other.toml")
    desk.run(*draft, "--skip", "wards")
    desk.refused(2, "'wards'", "did you mean 'ward'")
    desk.run(*draft, "--only", "age", "--skip", "age")
    desk.refused(2, "leave no column")


def test_tables_are_written_beside_the_schema_and_read_once_the_rule_is_confirmed(
    desk: Desk,
) -> None:
    rows = [f"s{n % 40},t{n % 40 % 7},{n % 9}" for n in range(400)]
    desk.write("x.csv", "street,town,n\n" + "\n".join(rows) + "\n")
    (desk.folder / "public").mkdir()
    ask = ("schema", "draft", "--public", "--data", "x.csv", "--out", "public/new.toml")
    assert desk.run(*ask, "--tables", "public/tables") == 0
    path = desk.folder / "public" / "new.toml"
    text = path.read_text("utf-8")
    assert (
        '# determines = { from = "street", to = "town", table = "tables/street-town.csv" }' in text
    )
    assert Schema.load(path).rules == ()
    path.write_text(re.sub(r"^# (?=\[\[rules|determines)", "", text, flags=re.M), "utf-8")
    schema = Schema.load(path)
    assert schema.domain.names == ("street", "n")
    assert misfits(schema, "x.csv") is None
    desk.run(*ask, "--tables", "public/tables", "--overwrite")
    assert desk.code == 0
    path.unlink()
    desk.run(*ask, "--tables", "public/tables")
    desk.refused(2, "street-town.csv", "--overwrite")


def test_what_is_kept_of_rows_is_bounded() -> None:
    """Every column keeps at most so many values, however many rows there are."""
    seen, sample = Seen("id", [AS_IT_IS]), Sample()
    for start in range(0, 600_000, 100_000):
        batch = pa.record_batch({"id": [f"P{n}" for n in range(start, start + 100_000)]})
        seen.add(batch.column("id"))
        sample.add(batch, {"id": seen})
    assert seen.all_differ
    assert seen.values is not None
    assert len(seen.values) <= MOST_TRACKED + 1
    assert sample.rows <= MOST_SAMPLED
