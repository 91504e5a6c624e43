"""Schemas in formats of others: what can be said comes back, and nothing is lost in silence."""

from __future__ import annotations

import json
from datetime import date, datetime
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn.errors import SchemaError, UsageError
from heterofedsyn.schema import (
    BooleanColumn,
    CategoricalColumn,
    Column,
    DateColumn,
    DatetimeColumn,
    IntegerColumn,
    KeyColumn,
    NumberColumn,
    Schema,
)
from heterofedsyn.schema.formats import FORMATS, format_of, guessed, parsed
from heterofedsyn.schema.formats.yaml_text import from_yaml, to_yaml
from heterofedsyn.schema.outline import Outline, filled, skeleton
from invented import Desk
from rules_support import random_schema

pytestmark = pytest.mark.thorough

texts = st.text(max_size=6)
words = st.lists(texts, min_size=1, max_size=30, unique=True).map(tuple)
moments = st.datetimes(datetime(1000, 1, 1), datetime(9990, 1, 1)).map(
    lambda moment: moment.replace(microsecond=0)
)


@st.composite
def columns(draw: st.DrawFn, name: str) -> Column:
    nullable = draw(st.booleans())
    bins = draw(st.sampled_from([None, 7]))
    match draw(st.sampled_from(["integer", "number", "decimals", "words", "flag", "day", "time"])):
        case "integer":
            low = draw(st.integers(-(2**60), 2**60))
            return IntegerColumn(
                name, low, low + 900, bins, (low,) if bins else (), nullable=nullable
            )
        case "number":
            start, width = draw(st.floats(-1e9, 1e9)), draw(st.floats(1, 1e9))
            return NumberColumn(name, start, start + width, bins, (start,), nullable=nullable)
        case "decimals":
            low = draw(st.integers(-(10**6), 10**6))
            ends = low / 10, (low + 900) / 10
            return NumberColumn(name, *ends, bins, decimals=1, nullable=nullable)
        case "words":
            values, ordered = draw(words), draw(st.booleans())
            other = draw(st.sampled_from([None, *values]))
            return CategoricalColumn(name, values, ordered, other, nullable=nullable)
        case "flag":
            return BooleanColumn(name, nullable=nullable)
        case "day":
            first, last = sorted(draw(st.tuples(moments, moments)))
            return DateColumn(name, first.date(), last.date(), nullable=nullable)
        case _:
            first, last = sorted(draw(st.tuples(moments, moments)))
            return DatetimeColumn(name, first, last, nullable=nullable)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    names = draw(st.lists(texts.filter(bool), min_size=1, max_size=5, unique=True))
    found = [draw(columns(name)) for name in names]
    key = draw(st.sampled_from([None, KeyColumn("a key"), KeyColumn("a key", prefix="P")]))
    label = draw(st.sampled_from([None, *names]))
    task = draw(st.sampled_from([None, "regression"])) if label else None
    return Schema((*found, key) if key else tuple(found), label, task)


RULED = Schema.of(
    {
        "label": "ward",
        "columns": [
            {"name": "born", "type": "date", "min": date(1930, 1, 1), "max": date(2025, 1, 1)},
            {"name": "came", "type": "date", "min": date(2024, 1, 1), "max": date(2025, 1, 1)},
            {"name": "seen", "type": "datetime", "min": date(2024, 1, 1), "max": date(2025, 1, 1)},
            {"name": "age", "type": "integer", "min": 0, "max": 99, "bins": 10},
            {"name": "ward", "type": "categorical", "values": ["a", "b", "c"], "nullable": True},
            {"name": "house", "type": "categorical", "values": ["x", "y"], "nullable": True},
        ],
        "rules": [
            {"never": {"ward": ["a", "b"], "age": {"above": 17, "missing": False}}},
            {"never": {"born": {"from": date(2010, 1, 1)}, "ward": {"missing": True}}},
            {"never": {"seen": {"above": datetime(2024, 6, 1, 12)}, "age": 3}},
            {"order": ["born", "came"]},
            {
                "determines": {
                    "from": "ward",
                    "to": "house",
                    "table": {"a": "x", "b": "y", "c": "y"},
                }
            },
        ],
    }
)


def imported(name: str, text: str, table: str | None = None) -> Outline:
    source = parsed(text)
    assert guessed(source) == name
    return format_of(name).read(source, table)


def said(outline: Outline) -> str:
    """All that is told to whoever imports a file."""
    lines = [f"{entry.name}: {line}" for entry in outline.entries for line in entry.remarks]
    return "\n".join([*outline.remarks, *lines])


def again(outline: Outline) -> Schema:
    """The schema of an outline, which its file says too."""
    schema = outline.schema()
    assert Schema.from_toml(outline.to_toml()) == schema
    return schema


# ALL FORMATS


@given(schemas())
def test_frictionless_gives_every_schema_back(schema: Schema) -> None:
    outline = imported("frictionless", FORMATS["frictionless"].text(schema))
    assert again(outline) == schema


@given(st.integers(0, 2**32))
def test_frictionless_gives_every_rule_back(seed: int) -> None:
    schema = random_schema(np.random.default_rng(seed))
    outline = imported("frictionless", FORMATS["frictionless"].text(schema))
    assert again(outline) == schema


def test_frictionless_keeps_the_fingerprint() -> None:
    outline = imported("frictionless", FORMATS["frictionless"].text(RULED))
    assert again(outline) == RULED
    assert outline.schema().fingerprint == RULED.fingerprint


@given(schemas(), st.sampled_from(["sdv", "dpsynth"]))
def test_what_is_exported_is_imported_with_the_columns_the_format_can_say(
    schema: Schema, name: str
) -> None:
    text = FORMATS[name].text(schema)
    kept = {column.name for column in schema.columns}
    if name == "dpsynth":
        kept = {*(yaml.safe_load(text) or {})}
    if kept:
        assert {entry.name for entry in imported(name, text).entries} == kept
    told = "\n".join(FORMATS[name].lost(schema))
    for column in schema.columns:
        assert column.name in kept or column.name in told


@given(schemas())
def test_a_second_trip_through_a_format_changes_nothing_more(schema: Schema) -> None:
    ranged = [
        c for c in schema.columns if not isinstance(c, KeyColumn | DateColumn | DatetimeColumn)
    ]
    if not ranged or any("" in c.values for c in ranged if isinstance(c, CategoricalColumn)):
        return
    form = FORMATS["dpsynth"]
    first = imported("dpsynth", form.text(Schema(tuple(ranged)))).schema()
    assert imported("dpsynth", form.text(first)).schema() == first


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "type", "constraints", "enum", "columns"]), inner
        )
    ),
    max_leaves=8,
)
keys = st.sampled_from(
    [
        *("fields", "schema", "primaryKey", "missingValues", "tables", "columns", "heterofedsyn"),
        *("uniqueKeys", "primary_key", "alternate_keys", "resources", "METADATA_SPEC_VERSION"),
    ]
)


@given(st.dictionaries(keys, values, max_size=5), st.sampled_from([*FORMATS]))
def test_whatever_a_file_says_the_answer_is_an_outline_or_one_line(
    source: dict[str, Any], name: str
) -> None:
    try:
        FORMATS[name].read(source, None).to_toml()
    except UsageError as error:
        assert "\n" not in str(error)  # noqa: PT017


# FRICTIONLESS

PACKAGE = """
{
  "name": "stays",
  "resources": [
    {"name": "notes", "path": "notes.txt"},
    {
      "name": "stays",
      "path": "stays.csv",
      "encoding": "cp1252",
      "dialect": {"delimiter": ";"},
      "schema": {
        "fields": [
          {"name": "id", "type": "string", "constraints": {"required": true}},
          {"name": "visit", "type": "integer", "constraints": {"unique": true}},
          {"name": "age", "type": "integer", "title": "Age in years", "groupChar": ".",
           "constraints": {"minimum": 0, "exclusiveMaximum": "120"}},
          {"name": "bmi", "type": "number", "decimalChar": ",", "missingValues": ["", "-1"],
           "constraints": {"minimum": 10, "maximum": 80.5, "required": true}},
          {"name": "sex", "type": "string", "constraints": {"enum": ["f", "m"]}},
          {"name": "grade", "type": "integer", "categories": [1, 2, 4], "categoriesOrdered": true},
          {"name": "dose", "type": "integer", "constraints": {"enum": [3, 1, 2]}},
          {"name": "smoker", "type": "boolean", "trueValues": ["Ja"], "falseValues": ["Nix"]},
          {"name": "came", "type": "date", "format": "%d.%m.%Y",
           "constraints": {"minimum": "2024-01-01", "maximum": "2024-12-31"}},
          {"name": "seen", "type": "datetime", "format": "default",
           "constraints": {"minimum": "2024-01-01T00:00:00Z", "maximum": "2024-12-31T23:59:59"}},
          {"name": "since", "type": "year", "constraints": {"minimum": 1990, "maximum": 2024}},
          {"name": "billed", "type": "yearmonth",
           "constraints": {"minimum": "2023-11", "maximum": "2024-02"}},
          {"name": "mail", "type": "string", "format": "email"},
          {"name": "ward", "type": "string", "constraints": {"pattern": "[a-z]+"}},
          {"name": "place", "type": "geopoint"},
          {"name": "length", "type": "number", "bareNumber": false}
        ],
        "missingValues": ["", "NA"],
        "primaryKey": "id",
        "foreignKeys": [{"fields": "ward", "reference": {"resource": "w", "fields": "id"}}]
      }
    }
  ]
}
"""


def test_a_data_package_becomes_an_outline_and_says_what_it_cannot() -> None:
    outline = imported("frictionless", PACKAGE)
    settings = {entry.name: dict(entry.settings) for entry in outline.entries}
    assert settings["id"] == {"name": "id", "type": "key"}
    assert settings["visit"]["type"] == "key"
    assert (settings["age"]["min"], settings["age"]["max"]) == (0, 119)
    assert settings["age"]["nullable"]
    assert "nullable" not in settings["bmi"]
    assert settings["sex"]["values"] == ["f", "m"]
    assert settings["grade"] | {"name": ""} == {
        **{"name": "", "type": "categorical", "values": ["1", "2", "4"]},
        **{"ordered": True, "nullable": True},
    }
    assert (settings["dose"]["type"], settings["dose"]["min"], settings["dose"]["max"]) == (
        *("integer", 1),
        3,
    )
    assert settings["came"]["min"] == date(2024, 1, 1)
    assert settings["seen"]["max"] == datetime(2024, 12, 31, 23, 59, 59)
    assert settings["billed"]["values"] == ["2023-11", "2023-12", "2024-01", "2024-02"]
    assert outline.left_out.keys() == {"mail", "place"}
    assert outline.lacking == {"ward": ("values",), "length": ("min", "max")}
    for words in ("title: Age", "pattern is not kept", "bareNumber", "foreignKeys", "falseValues"):
        assert words in said(outline)
    assert "trueValues" not in said(outline)
    assert outline.dialect == {
        ("delimiter", ""): (";",),
        ("encoding", ""): ("cp1252",),
        ("null", ""): ("NA",),
        ("thousands", "age"): (".",),
        ("decimal", "age"): (",",),
        ("decimal", "bmi"): (",",),
        ("null", "bmi"): ("-1",),
        ("date", "came"): ("%d.%m.%Y",),
    }


def one_field(**said: Any) -> Outline:
    field = {"name": "x", **said, "constraints": {"required": True, **said["constraints"]}}
    return imported("frictionless", json.dumps({"fields": [field]}))


GERMAN = {"decimalChar": ",", "groupChar": "."}


@pytest.mark.parametrize(
    ("field", "low", "high", "column"),
    [
        ({"type": "integer", "groupChar": "."}, "-1.000", "20.000", IntegerColumn),
        ({"type": "integer", "groupChar": "."}, -1000, 20000, IntegerColumn),
        ({"type": "integer"}, "-1000", "20000", IntegerColumn),
        ({"type": "number", **GERMAN}, "-1.000,0", "20000", NumberColumn),
        ({"type": "number", **GERMAN}, -1000.0, "20.000", NumberColumn),
        ({"type": "date", "format": "%d.%m.%Y"}, "01.02.2024", "31.12.2024", DateColumn),
        ({"type": "date", "format": "%d.%m.%Y"}, "2024-02-01", "31.12.2024", DateColumn),
        ({"type": "datetime", "format": "%d.%m.%Y"}, "01.02.2024", "31.12.2024", DatetimeColumn),
    ],
)
def test_ends_are_read_in_the_format_of_their_field(
    field: dict[str, Any], low: object, high: object, column: Any
) -> None:
    outline = one_field(**field, constraints={"minimum": low, "maximum": high})
    ends: tuple[Any, Any] = (-1000, 20000)
    if column in (DateColumn, DatetimeColumn):
        ends = (datetime(2024, 2, 1), datetime(2024, 12, 31))
    if column is DateColumn:
        ends = (ends[0].date(), ends[1].date())
    assert outline.schema().columns == (column("x", *ends),)


@pytest.mark.parametrize(
    ("kind", "span", "remarks"), [("integer", (1, 9), 0), ("number", (0, 10), 2)]
)
def test_ends_that_do_not_belong_to_a_range_are_left_or_said(
    kind: str, span: tuple[int, int], remarks: int
) -> None:
    outside = {"exclusiveMinimum": 0, "exclusiveMaximum": "10"}
    outline = one_field(type=kind, constraints=outside)
    (entry,) = outline.entries
    assert (entry.settings["min"], entry.settings["max"]) == span
    assert said(outline).count("the end itself belongs to the range here") == remarks
    narrower = one_field(type=kind, constraints={**outside, "minimum": 3, "maximum": 50})
    (entry,) = narrower.entries
    assert (entry.settings["min"], entry.settings["max"]) == (3, span[1])


def test_values_in_the_format_of_their_field_are_those_of_its_cells() -> None:
    (column,) = one_field(type="integer", constraints={"enum": ["3", "1", "2"]}).schema().columns
    assert column == IntegerColumn("x", 1, 3)
    halves = one_field(type="number", decimalChar=",", constraints={"enum": ["0,5", 1.5]})
    assert halves.schema().columns == (CategoricalColumn("x", ("0,5", "1,5")),)


def test_labels_of_categories_are_said() -> None:
    labelled = [{"value": "1", "label": "mild"}, {"value": "2", "label": "severe"}]
    assert "labels: 1 = mild, 2 = severe" in said(
        one_field(type="string", categories=labelled, constraints={})
    )


def test_two_fields_of_one_name_are_refused() -> None:
    fields = [{"name": "x", "type": "boolean"}, {"name": "x", "type": "string"}]
    with pytest.raises(SchemaError, match="field 'x' is listed twice"):
        imported("frictionless", json.dumps({"fields": fields}))


def test_an_incomplete_import_does_not_load_and_names_the_column_until_it_is_filled_in() -> None:
    outline = imported("frictionless", PACKAGE)
    with pytest.raises(SchemaError, match="'ward' of type categorical needs values"):
        Schema.from_toml(outline.to_toml())
    outline = filled(outline, {"length": "0:2.5"}, {"ward": ["a", "b"]})
    assert again(outline).column("length") == NumberColumn("length", 0, 2.5, nullable=True)


# SDV

METADATA: dict[str, Any] = {
    "METADATA_SPEC_VERSION": "V1",
    "tables": {
        "guests": {
            "primary_key": "guest_email",
            "columns": {
                "guest_email": {"sdtype": "email", "pii": True},
                "hotel_id": {"sdtype": "id", "regex_format": "HID_[0-9]{3}"},
                "has_rewards": {"sdtype": "boolean"},
                "room_type": {"sdtype": "categorical"},
                "size": {"sdtype": "categorical", "order": ["S", "M", "L"]},
                "fee": {"sdtype": "numerical"},
                "nights": {"sdtype": "numerical", "computer_representation": "Int64"},
                "checkin": {"sdtype": "datetime", "datetime_format": "%d %b %Y"},
                "checkout": {"sdtype": "datetime", "datetime_format": "%d %b %Y"},
                "booked": {"sdtype": "datetime", "datetime_format": "%Y-%m-%d %H:%M:%S"},
                "card": {"sdtype": "credit_card_number", "pii": True},
                "country": {"sdtype": "country_code", "pii": False},
            },
        },
        "hotels": {"columns": {"city": {"sdtype": "categorical"}}},
    },
    "relationships": [{"parent_table_name": "hotels", "child_table_name": "guests"}],
}


def test_metadata_of_sdv_lacks_ranges_and_says_which() -> None:
    outline = imported("sdv", json.dumps(METADATA), "guests")
    kinds = {entry.name: entry.settings["type"] for entry in outline.entries}
    assert kinds["guest_email"] == "key"
    assert outline.entries[1].settings == {"name": "hotel_id", "type": "key", "prefix": "HID_"}
    assert (kinds["fee"], kinds["nights"]) == ("number", "integer")
    assert (kinds["checkin"], kinds["booked"]) == ("date", "datetime")
    assert outline.dialect == {("date", ""): ("%d %b %Y",)}
    assert {*outline.left_out} == {"card"}
    assert outline.lacking == {
        "room_type": ("values",),
        **dict.fromkeys(("fee", "nights", "checkin", "checkout", "booked"), ("min", "max")),
        "country": ("values",),
    }
    assert "relationships" in said(outline)
    assert "nullable" in said(outline)
    ranges = {"fee": "0:99.5", "nights": "1:30", "checkin": "2020-01-01:2020-12-31"}
    ranges |= {"checkout": "2020-01-01:2021-01-31"}
    ranges |= {"booked": "2019-01-01T00:00:00:2020-12-31T23:59:59"}
    lists = {"room_type": ["basic", "suite"], "country": ["DE", "FR"]}
    schema = again(filled(outline, ranges, lists))
    assert schema.column("nights") == IntegerColumn("nights", 1, 30)
    assert schema.column("checkin") == DateColumn("checkin", "2020-01-01", "2020-12-31")  # type: ignore[arg-type]
    assert schema.column("size") == CategoricalColumn("size", ("S", "M", "L"), ordered=True)
    exported = json.loads(FORMATS["sdv"].text(schema))
    assert exported["tables"]["table"]["columns"]["nights"]["sdtype"] == "numerical"
    back = imported("sdv", json.dumps(exported))
    assert {e.name: e.settings["type"] for e in back.entries} == {
        c.name: c.kind for c in schema.columns
    }


def test_one_of_several_tables_must_be_named() -> None:
    with pytest.raises(SchemaError, match="guests, hotels; name one with --table"):
        imported("sdv", json.dumps(METADATA))
    with pytest.raises(SchemaError, match="did you mean 'hotels'"):
        imported("sdv", json.dumps(METADATA), "hotel")


def test_metadata_of_one_table_has_none_to_name() -> None:
    old = {"METADATA_SPEC_VERSION": "SINGLE_TABLE_V1", "columns": {"x": {"sdtype": "boolean"}}}
    assert again(imported("sdv", json.dumps(old))) == Schema((BooleanColumn("x"),))


# DPSYNTH

DOMAIN = """\
# an older file has no types
age:
  clip_to_range: true
  dtype: int
  max_value: 90.0
  min_value: 17.0
income>50K:
  out_of_domain_index: 1
  possible_values:
  - <=50K
  - '>50K'
lab:
  type: NumericalAttribute
  clip_to_range: false
  description: what the laboratory found in the blood of a patient on the day of the visit
    or a day later
  dtype: float
  interval_handling: midpoint
  max_value: 9.5
  min_value: -0.5
  sentinel: null
smoker: {type: CategoricalAttribute, possible_values: [false, true]}
rooms:
  type: CategoricalAttribute
  possible_values: [0, 1, 2]
drug:
  type: OpenSetCategoricalAttribute
  default_value: <OOD>
  public_possible_values: []
note: {type: FreeFormTextAttribute, max_tokens: 99}
"""


def test_a_domain_of_dpsynth_becomes_a_schema() -> None:
    outline = imported("dpsynth", DOMAIN)
    schema = again(outline)
    assert schema.columns == (
        IntegerColumn("age", 17, 90),
        CategoricalColumn("income>50K", ("<=50K", ">50K"), other=">50K"),
        NumberColumn("lab", -0.5, 9.5, nullable=True),
        BooleanColumn("smoker"),
        CategoricalColumn("rooms", ("0", "1", "2")),
        CategoricalColumn("drug", ("<OOD>",), other="<OOD>"),
    )
    assert outline.left_out == {"note": "it holds free text"}
    for words in ("lab: description", "interval_handling is not kept", "drug: its other values"):
        assert words in said(outline)
    domain = yaml.safe_load(FORMATS["dpsynth"].text(schema))
    assert domain["age"] | {"type": ""} == {
        **{"type": "", "min_value": 17.0, "max_value": 90.0},
        **{"clip_to_range": True, "dtype": "int"},
    }
    assert domain["income>50K"]["out_of_domain_index"] == 1
    assert imported("dpsynth", json.dumps(domain)).schema() == schema


@pytest.mark.parametrize(
    ("said", "column", "remark"),
    [
        ("[a, b]", CategoricalColumn("x", ("a", "b")), "unknown values count as 'a' there"),
        (
            "[a, b], out_of_domain_index: 1",
            CategoricalColumn("x", ("a", "b"), other="b"),
            "unknown values become 'b'",
        ),
        (
            "[a, b, null]",
            CategoricalColumn("x", ("a", "b"), nullable=True),
            "unknown values count as 'a' there",
        ),
        (
            "[null, a, b], out_of_domain_index: 0",
            CategoricalColumn("x", ("a", "b"), nullable=True),
            "unknown values are missing there; here a row with one does not fit",
        ),
        ("[true, false, null]", BooleanColumn("x", nullable=True), ""),
    ],
)
def test_what_becomes_of_unknown_and_missing_values_of_a_domain_is_said(
    said: str, column: Any, remark: str
) -> None:
    outline = imported("dpsynth", f"x: {{possible_values: {said}}}")
    assert outline.schema().columns == (column,)
    assert remark in outline.to_toml()


@given(schemas())
def test_a_domain_file_keeps_whether_values_may_be_missing(schema: Schema) -> None:
    text = FORMATS["dpsynth"].text(schema)
    if not yaml.safe_load(text):
        return
    for entry in imported("dpsynth", text).entries:
        column = schema.column(entry.name)
        assert entry.settings["type"] == column.kind
        assert entry.settings.get("nullable", False) == column.nullable
        if isinstance(column, CategoricalColumn):
            assert tuple(entry.settings["values"]) == column.values
            assert entry.settings.get("other") == column.other


def test_a_domain_of_several_tables_needs_the_name_of_one() -> None:
    both = "tables:\n  a:\n    x: {min_value: 0, max_value: 1}\n  b: {}\n"
    assert again(imported("dpsynth", both, "a")) == Schema((NumberColumn("x", 0, 1),))
    with pytest.raises(SchemaError, match="--table"):
        imported("dpsynth", both)


# YAML

leaves = st.one_of(
    st.text(max_size=60),
    *(st.integers(), st.booleans(), st.none(), st.floats(allow_nan=False, allow_infinity=False)),
)
trees = st.dictionaries(
    st.text(max_size=20),
    st.dictionaries(st.sampled_from("abc"), leaves | st.lists(leaves, min_size=1), min_size=1),
)


@given(trees)
def test_what_is_written_as_yaml_is_read_back(tree: dict[str, Any]) -> None:
    assert (from_yaml(to_yaml(tree)) or {}) == tree


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &x 1\nb: *x", "line 2: a value stands for another"),
        ("a: 1\nb: !!python/object:os.system x", "line 2: not YAML"),
        ("a: 1\na: 2", "line 2: a key is given twice"),
        ("a:\n\t- 1", "line 2: not YAML"),
        ("a: 'x", "line 1: not YAML"),
        ("a: [1, 2", "line 1: not YAML"),
        ("a: 1\n  b: 2", "line 2: not YAML"),
        ("a: b: c", "line 1: not YAML"),
        ("a: 2024-99-99", "no date"),
        ("[" * 100, "not valid JSON"),
        ("a:\n " + "[" * 100 + "]" * 100, "line 2: not read: it is nested too deeply"),
        ("a: " + "[" * 100_000, "nested too deeply"),
        ("", "must be a mapping"),
        ("just text", "must be a mapping"),
    ],
)
def test_yaml_that_is_not_understood_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(SchemaError) as refusal:
        parsed(text)
    assert words in str(refusal.value)


@given(st.text(st.sampled_from("ab:-[]{},'\"#? \n\t\\&1.0"), max_size=40))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    said = ""
    try:
        parsed(text)
    except SchemaError as error:
        said = str(error)
    assert "\n" not in said


# SKELETONS


def test_a_skeleton_does_not_load_until_every_column_has_a_type() -> None:
    outline = skeleton(["age", "sex"])
    with pytest.raises(SchemaError, match="'age' has no type"):
        Schema.from_toml(outline.to_toml())
    full = filled(outline, {"age": "0:120"}, {"sex": ["f", "m"]})
    assert again(full).columns == (
        IntegerColumn("age", 0, 120),
        CategoricalColumn("sex", ("f", "m")),
    )


@pytest.mark.parametrize(
    ("span", "kind"),
    [
        ("0:9", "integer"),
        ("-1.5:9", "number"),
        ("2020-01-01:2021-01-01", "date"),
        ("2020-01-01T00:00:2021-01-01T12:30", "datetime"),
    ],
)
def test_a_range_tells_the_type(span: str, kind: str) -> None:
    assert again(filled(skeleton(["x"]), {"x": span}, {})).column("x").kind == kind


@pytest.mark.parametrize("span", ["9", "a:b", "0:9:5", ":", "1:"])
def test_what_is_no_range_is_refused(span: str) -> None:
    with pytest.raises(UsageError, match="the range of column 'x' must be two values"):
        filled(skeleton(["x"]), {"x": span}, {})


# COMMANDS


def test_export_and_import_give_the_schema_back_and_say_what_is_lost(desk: Desk) -> None:
    for name in FORMATS:
        assert desk.run("schema", "export", "s.toml", "--format", name, "--out", f"s.{name}") == 0
        assert ("no place in" in desk.err) == (name != "frictionless")
    assert desk.run("schema", "import", "s.frictionless", "--out", "back.toml") == 0
    assert Schema.load("back.toml") == Schema.load("s.toml")
    assert desk.run("schema", "import", "s.sdv", "--out", "sdv.toml") == 0
    assert "column 'age': fill in min and max" in desk.err
    fill = ["--range", "age=0:99", "--values", "ward=a,b,c", "--overwrite"]
    assert desk.run("schema", "import", "s.sdv", *fill, "--out", "sdv.toml") == 0
    assert [column.kind for column in Schema.load("sdv.toml").columns] == [
        *("integer", "categorical"),
        "boolean",
    ]


def test_an_import_says_what_the_location_of_the_rows_needs_or_what_they_need(desk: Desk) -> None:
    desk.write("p.json", PACKAGE)
    assert desk.run("schema", "import", "p.json", "--out", "p.toml") == 0
    assert "the location of its rows needs ?delimiter=;&encoding=cp1252&" in desk.err
    desk.write("p.json", PACKAGE.replace("cp1252", "UTF-16LE"))
    assert desk.run("schema", "import", "p.json", "--out", "q.toml") == 0
    assert "location of its rows" not in desk.err
    assert "its rows cannot be read as they are: encoding=utf-16-le" in desk.err
    assert "save it as UTF-8" in desk.err


def test_a_skeleton_is_written_and_says_what_to_fill_in(desk: Desk) -> None:
    ask = ["schema", "new", "--columns", "age, sex,ward", "--range", "age=0:120", "--out", "n.toml"]
    assert desk.run(*ask) == 0
    assert "sex, ward" in desk.err
    desk.run("schema", "check", "--schema", "n.toml")
    desk.refused(2, "n.toml", "'sex' has no type")


DRAFT = ["draft", "--public", "--data", "d.csv", "--out", "n.toml"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["new", "--columns", " ,", "--out", "n.toml"], ["names none"]),
        (["new", "--columns", "a,b,a", "--out", "n.toml"], ["'a' twice"]),
        (["new", "--columns", "a", "--range", "b=0:1", "--out", "n.toml"], ["'b'", "'a'"]),
        (["new", "--columns", "a", "--range", "a", "--out", "n.toml"], ["COLUMN="]),
        (["new", "--columns", "a", "--range", "a=120:0", "--out", "n.toml"], ["'a'", "min"]),
        (["new", "--columns", "a", "--values", "a=x,x", "--out", "n.toml"], ["'a'", "twice"]),
        (
            [*DRAFT, "--only", "age", "--label", "sick"],
            ["label 'sick' is left out by --only"],
        ),
        (["import", "no.json", "--out", "n.toml"], ["no.json", "check the path"]),
        (["import", "d.csv", "--out", "n.toml"], ["d.csv"]),
        (["import", "s.toml", "--format", "sdw", "--out", "n.toml"], ["'sdw'", "'sdv'"]),
        (["import", "odd.json", "--out", "n.toml"], ["odd.json", "--format"]),
        (["export", "s.toml", "--format", "yaml", "--out", "n.json"], ["'yaml'", "known"]),
    ],
)
def test_bad_requests_are_one_line_and_leave_nothing(
    desk: Desk, arguments: list[str], words: list[str]
) -> None:
    desk.write("odd.json", '{"x": 1}')
    desk.run("schema", *arguments)
    desk.refused(2, *words)
    assert {path.name for path in desk.folder.iterdir()} == {"s.toml", "d.csv", "odd.json"}
