"""The schema file: it round trips, has one fingerprint, and refuses what contradicts itself."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn.errors import SchemaError, UsageError
from heterofedsyn.schema import (
    BooleanColumn,
    CategoricalColumn,
    Column,
    DatetimeColumn,
    IntegerColumn,
    NumberColumn,
    Schema,
)

EXAMPLE = """
label = "income"
task = "binary_classification"

[[columns]]
name = "age"
type = "integer"
min = 17
max = 90
bins = 30
atoms = [17]

[[columns]]
name = "workclass"
type = "categorical"
values = ["?", "Private", "Self-emp"]
other = "?"

[[columns]]
name = "income"
type = "boolean"
nullable = true

[[columns]]
name = "seen"
type = "datetime"
min = 2025-01-01
max = "2025-01-02T00:00:00Z"

[[columns]]
name = "price"
type = "number"
min = 0
max = 2.5
"""

names = st.text(min_size=1, max_size=8)
words = st.lists(st.text(max_size=6), min_size=1, max_size=40, unique=True).map(tuple)
moments = st.datetimes(datetime(1000, 1, 1), datetime(9999, 1, 1))


@st.composite
def columns(draw: st.DrawFn) -> Column:
    name, nullable = draw(names), draw(st.booleans())
    match draw(st.sampled_from(["integer", "number", "categorical", "boolean", "datetime"])):
        case "integer":
            low, span = draw(st.integers(-(2**62), 2**62)), draw(st.integers(200, 10**9))
            return IntegerColumn(name, low, low + span, bins=50, atoms=(low,), nullable=nullable)
        case "number":
            start, width = draw(st.floats(-1e9, 1e9)), draw(st.floats(1, 1e9))
            return NumberColumn(name, start, start + width, atoms=(start,), nullable=nullable)
        case "categorical":
            values, ordered = draw(words), draw(st.booleans())
            other = draw(st.sampled_from([None, *values]))
            return CategoricalColumn(name, values, ordered, other, nullable=nullable)
        case "datetime":
            first, last = sorted(draw(moments).replace(microsecond=0) for _ in range(2))
            return DatetimeColumn(name, first, last, nullable=nullable)
    return BooleanColumn(name, nullable=nullable)


schemas = st.lists(columns(), min_size=1, max_size=6, unique_by=lambda column: column.name).flatmap(
    lambda some: st.builds(
        Schema, st.just(tuple(some)), st.sampled_from([None, *(column.name for column in some)])
    )
)


@given(schemas)
def test_a_schema_comes_back_from_its_toml(schema: Schema) -> None:
    again = Schema.from_toml(schema.to_toml())
    assert again == schema
    assert again.domain == schema.domain
    assert again.fingerprint == schema.fingerprint


def test_the_example_says_what_it_means(tmp_path: Path) -> None:
    schema = Schema.from_toml(EXAMPLE)
    assert schema.domain.names == ("age", "workclass", "income", "seen", "price")
    assert schema.domain.sizes == (31, 3, 3, 100, 100)
    assert schema.column("age") == IntegerColumn("age", 17, 90, bins=30, atoms=(17,))
    assert [column.ordered for column in schema.columns] == [True, False, False, True, True]
    schema.save(tmp_path / "schema.toml")
    assert Schema.load(tmp_path / "schema.toml") == schema
    assert Schema.of(str(tmp_path / "schema.toml")) == Schema.of(schema) == schema


def test_defaults_say_the_same_as_their_values() -> None:
    short = {"name": "x", "type": "integer", "min": 0, "max": 9}
    long = {**short, "bins": 10, "atoms": [], "nullable": False, "max": 9.0}
    assert Schema.of({"columns": [short]}) == Schema.of({"columns": [long]})
    assert (
        Schema.of({"columns": [short]}).fingerprint == Schema.of({"columns": (long,)}).fingerprint
    )


@pytest.mark.parametrize(
    ("column", "size"),
    [
        (IntegerColumn("x", 1, 1), 1),
        (IntegerColumn("x", 0, 98), 99),
        (IntegerColumn("x", 0, 1000), 100),
        (NumberColumn("x", 0, 1), 100),
        (NumberColumn("x", 3, 3), 1),
        (DatetimeColumn("x", datetime(2025, 1, 1), datetime(2025, 1, 1, 0, 0, 41)), 42),
        (DatetimeColumn("x", datetime(2025, 1, 1), datetime(2025, 1, 2), nullable=True), 101),
        (CategoricalColumn("x", tuple(map(str, range(65_535))), nullable=True), 65_536),
    ],
)
def test_bins_have_sensible_defaults(column: Column, size: int) -> None:
    assert column.size == size


def test_moments_with_a_zone_are_kept_in_utc() -> None:
    east = timezone(timedelta(hours=2))
    ends = datetime(2025, 1, 1, 2, tzinfo=east), datetime(2025, 1, 2, tzinfo=UTC)
    assert DatetimeColumn("x", *ends).min == datetime(2025, 1, 1)


def test_the_fingerprint_is_the_same_in_another_process() -> None:
    code = (
        f"from heterofedsyn.schema import Schema; print(Schema.from_toml({EXAMPLE!r}).fingerprint)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == Schema.from_toml(EXAMPLE).fingerprint


def test_the_fingerprint_notices_every_entry() -> None:
    changes = [
        ("bins = 30", "bins = 29"),
        ("atoms = [17]", "atoms = [18]"),
        ('"?", "Private"', '"Private", "?"'),
        ("nullable = true", "nullable = false"),
        ("2025-01-01", "2025-01-01T00:00:01"),
        ("max = 2.5", "max = 2.6"),
        ('label = "income"', 'label = "age"'),
    ]
    variants = {Schema.from_toml(EXAMPLE.replace(*change)).fingerprint for change in changes}
    assert len(variants | {Schema.from_toml(EXAMPLE).fingerprint}) == len(changes) + 1


def test_importing_the_schema_does_not_import_arrow() -> None:
    code = "import sys, heterofedsyn.schema, heterofedsyn.sources; print('pyarrow' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


INTEGER = {"name": "age", "type": "integer", "min": 0, "max": 9}
NUMBER = {"name": "age", "type": "number", "min": 0, "max": 9}
MOMENT = {"name": "age", "type": "datetime", "min": "2025-01-01", "max": "2025-01-02"}
WORDS: dict[str, Any] = {"name": "age", "type": "categorical", "values": ["a", "b"]}


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({**INTEGER, "min": 10}, "min is larger than max"),
        ({**INTEGER, "bins": 0}, "at least 1"),
        ({**INTEGER, "bins": 2.5}, "at least 1"),
        ({**INTEGER, "bins": True}, "at least 1"),
        ({**INTEGER, "bins": 11}, "use at most 10"),
        ({**INTEGER, "max": 0, "bins": 2}, "use at most 1"),
        ({**INTEGER, "max": 2.5}, "whole number"),
        ({**INTEGER, "max": "9"}, "must be a number"),
        ({**INTEGER, "max": True}, "must be a number"),
        ({**INTEGER, "max": 2**63}, "64 bits"),
        ({**INTEGER, "max": 10**400}, "finite"),
        ({**INTEGER, "min": -(2**62), "max": 2**62}, "narrow it"),
        ({**INTEGER, "atoms": [10]}, "outside the range"),
        ({**INTEGER, "atoms": [0]}, "holds no other value"),
        ({**INTEGER, "bins": 5, "atoms": [0, 1]}, "holds no other value"),
        ({**INTEGER, "bins": 2, "atoms": [1, 1]}, "listed twice"),
        ({**INTEGER, "atoms": 1}, "must be a list"),
        ({**INTEGER, "max": 10**9, "bins": 65_537}, "more than 65,536"),
        ({**INTEGER, "nullable": "yes"}, "true or false"),
        ({**INTEGER, "bin": 5}, "did you mean 'bins'"),
        ({"name": "age", "type": "integer", "min": 0}, "needs max"),
        ({**NUMBER, "max": float("inf")}, "finite"),
        ({**NUMBER, "max": float("nan")}, "finite"),
        ({**NUMBER, "min": -1.7e308, "max": 1.7e308}, "narrow it"),
        ({**NUMBER, "min": 9, "bins": 2}, "use at most 1"),
        ({**NUMBER, "min": 9, "atoms": [9]}, "no number in it besides atoms"),
        ({**NUMBER, "min": 1e16, "max": 1e16 + 4}, "fewer bins"),
        ({**NUMBER, "atoms": [-1]}, "outside the range"),
        ({**MOMENT, "min": "yesterday"}, "date or time"),
        ({**MOMENT, "min": 3}, "date or time"),
        ({**MOMENT, "min": "2025-01-01T00:00:00.5"}, "to the second"),
        ({**MOMENT, "min": "2026-01-01"}, "min is larger than max"),
        ({**WORDS, "values": []}, "at least one"),
        ({**WORDS, "values": "ab"}, "must be a list"),
        ({**WORDS, "values": ["a", "a"]}, "'a' is listed twice"),
        ({**WORDS, "values": ["a", 1.5]}, "must be text"),
        ({**WORDS, "values": ["\ud800"]}, "valid Unicode"),
        ({**WORDS, "other": "A"}, "one of the values"),
        ({**WORDS, "ordered": 1}, "true or false"),
        ({**WORDS, "values": list(map(str, range(65_537)))}, "65,536"),
        ({**WORDS, "min": 0}, "unknown key 'min'"),
        ({**WORDS, "type": "category"}, "did you mean 'categorical'"),
        ({"name": "age"}, "no type"),
    ],
)
def test_a_column_that_contradicts_itself_is_refused_by_name(
    entry: dict[str, Any], problem: str
) -> None:
    with pytest.raises(SchemaError) as refusal:
        Schema.of({"columns": [entry]})
    assert problem in str(refusal.value)
    assert "'age'" in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, "at least one column"),
        ({"columns": []}, "at least one column"),
        ({"columns": {"name": "x"}}, "[[columns]]"),
        ({"columns": ["x"]}, "column 1 must be a table"),
        ({"columns": [{"type": "boolean"}]}, "column 1 has no name"),
        ({"columns": [{"name": "", "type": "boolean"}]}, "column 1 has no name"),
        ({"columns": [INTEGER, {**WORDS}]}, "two columns are named 'age'"),
        ({"columns": [INTEGER], "label": "ages"}, "did you mean 'age'"),
        ({"columns": [INTEGER], "label": "age", "task": "regress"}, "did you mean 'regression'"),
        ({"columns": [INTEGER], "task": "regression"}, "needs a label"),
        ({"columns": [INTEGER], "lable": "age"}, "did you mean 'label'"),
    ],
)
def test_a_schema_that_contradicts_itself_is_refused(
    settings: dict[str, Any], problem: str
) -> None:
    with pytest.raises(SchemaError) as refusal:
        Schema.of(settings)
    assert problem in str(refusal.value)


def test_numbers_and_truth_values_may_be_categories() -> None:
    column = Schema.of({"columns": [{**WORDS, "values": [1, True, "a"], "other": 1}]}).columns[0]
    assert column == CategoricalColumn("age", ("1", "True", "a"), other="1")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text("[[columns]]\nname = \n")
    with pytest.raises(SchemaError, match=r"bad\.toml.*line 2"):
        Schema.load(bad)
    bad.write_text('[[columns]]\nname = "age"\ntype = "integer"\nmin = 1\nmax = 0\n')
    with pytest.raises(SchemaError, match=r"bad\.toml: column 'age'"):
        Schema.load(bad)
    bad.write_bytes(b"label = '\xff'")
    with pytest.raises(SchemaError, match=r"bad\.toml.*UTF-8"):
        Schema.load(bad)
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(UsageError, match=path.name):
            Schema.of(path)
    with pytest.raises(UsageError, match="cannot write"):
        Schema.from_toml(EXAMPLE).save(tmp_path)
    with pytest.raises(UsageError, match="int"):
        Schema.of(3)  # type: ignore[arg-type]
