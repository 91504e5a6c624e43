"""Drafting a schema from public rows: the rows fit it, however they were stored."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from datetime import date, datetime, time
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn.errors import SchemaError
from heterofedsyn.schema import (
    BooleanColumn,
    CategoricalColumn,
    DateColumn,
    DatetimeColumn,
    Determines,
    IntegerColumn,
    KeyColumn,
    Never,
    NumberColumn,
    Schema,
    draft,
    encode,
)
from heterofedsyn.schema._candidates import with_tables
from heterofedsyn.schema.outline import Candidate, Entry, Outline
from heterofedsyn.sources import open_source

pytestmark = pytest.mark.thorough


def outlined(*batches: dict[str, list[object]]) -> Outline:
    return draft([pa.record_batch({k: pa.array(v) for k, v in batch.items()}) for batch in batches])


def drafted(*batches: dict[str, list[object]]) -> Schema:
    return outlined(*batches).schema()


def test_text_and_types_lead_to_the_same_columns() -> None:
    moment = datetime(2025, 3, 1, 12)
    typed = drafted(
        {
            "age": [17, 90, None],
            "price": [0.014, 1.236, 0.5],
            "alive": [True, False, None],
            "seen": [moment, moment, moment],
            "ward": ["b", "a", "b"],
            "flag": [0, 1, 1],
        }
    )
    text = drafted(
        {
            "age": ["17", "90.0", ""],
            "price": ["0.014", "1.236", "0.5"],
            "alive": ["true", "FALSE", ""],
            "seen": ["2025-03-01T12:00:00", "2025-03-01 12:00", "2025-03-01T12:00:00Z"],
            "ward": ["b", "a", "b"],
            "flag": ["0", "1", "1"],
        }
    )
    expected = (
        IntegerColumn("age", 17, 90, nullable=True),
        NumberColumn("price", 0.01, 1.24, decimals=3),
        BooleanColumn("alive", nullable=True),
        DatetimeColumn("seen", moment, moment),
        CategoricalColumn("ward", ("a", "b")),
        IntegerColumn("flag", 0, 1),
    )
    assert typed.columns == text.columns == expected


def test_later_rows_can_change_the_kind() -> None:
    schema = drafted({"x": ["1"], "y": [1]}, {"x": ["2.5"], "y": [None]}, {"x": ["a"], "y": [7]})
    assert schema.columns == (
        CategoricalColumn("x", ("1", "2.5", "a")),
        IntegerColumn("y", 1, 7, nullable=True),
    )


def test_digits_with_leading_zeros_are_names() -> None:
    assert drafted({"zip": ["00420", "10115"]}).columns == (
        CategoricalColumn("zip", ("00420", "10115")),
    )


def test_integers_too_large_become_numbers() -> None:
    assert isinstance(drafted({"x": [0.5e300, 1e300]}).columns[0], NumberColumn)
    assert isinstance(drafted({"x": ["1", "9" * 30]}).columns[0], NumberColumn)


def test_columns_that_cannot_be_drafted_are_left_out_with_the_reason() -> None:
    rows = 30
    outline = outlined(
        {
            "name": [f"Ann Example {'x' * i}" for i in range(rows)],
            "empty": [None] * rows,
            "odd": [[1]] * rows,
            "notes": [f"a long text about what happened to the {i}th of them" for i in range(rows)],
            "same": ["here"] * rows,
            "ok": [i % 7 for i in range(rows)],
        }
    )
    assert [column.name for column in outline.schema().columns] == ["ok"]
    why = outline.left_out
    assert "a text of its own" in why["name"]
    assert "no value" in why["empty"]
    assert "of a type" in why["odd"]
    assert "free text" in why["notes"]
    assert "the same value" in why["same"]
    assert "Ann" not in "".join(why.values())


@pytest.mark.parametrize(
    ("array", "why"),
    [
        (pa.array([0, 1] * 20).cast(pa.float16()), None),
        (pa.array([2**63, 2**63 + 1] * 20, pa.uint64()), "same value"),  # both are clamped
        (pa.array([f"v{i % 3}" for i in range(40)], pa.string_view()), None),
        (pa.array([f"v{i % 3}" for i in range(40)]).dictionary_encode(), None),
        (pa.array([i % 3 for i in range(40)]).dictionary_encode(), None),
        (pa.array([1.5, float("nan")] * 20), None),
        (pa.array([float("nan")] * 40), "no value"),
        (pa.array([1e308, -1e308] * 20), "too wide"),
        (pa.array([2**62, -(2**62)] * 20), None),
        (pa.array([time(1, i) for i in range(40)]), "of a type"),
        (pa.array([b"x"] * 40), "of a type"),
        (pa.nulls(40), "no value"),
        (pa.array([""] * 40), "no value"),
        (pa.array(["0000-01-01", "9999-12-31"] * 20), None),
        (
            pa.array([datetime(2024, 1, 1, 1, i) for i in range(40)], pa.timestamp("ns", "UTC")),
            None,
        ),
    ],
)
def test_a_column_of_any_type_is_drafted_or_left_out(array: pa.Array, why: str | None) -> None:
    batch = pa.record_batch({"x": array, "usable": [n % 2 for n in range(40)]})
    outline = draft([batch])
    assert (why or "") in outline.left_out.get("x", "")
    assert ("x" in outline.left_out) == (why is not None)
    assert encode(outline.schema(), [batch]).describe() is None


def test_a_column_without_a_name_is_left_out() -> None:
    outline = outlined({"": [*range(30)], "x": [n % 3 for n in range(30)]})
    assert "no name" in outline.left_out[""]
    assert Schema.from_toml(outline.to_toml()).domain.names == ("x",)


def test_lists_of_values_that_are_too_long_together_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules["heterofedsyn.schema.draft"], "MOST_SCHEMA_BYTES", 4_000)
    columns: dict[str, list[object]] = {
        f"c{n}": [f"word {i % (n + 3)}" for i in range(900)] for n in range(30)
    }
    outline = outlined(columns)
    assert outline.left_out
    assert len(outline.schema().columns) + len(outline.left_out) == 30
    assert {*outline.left_out} == {f"c{n}" for n in range(30 - len(outline.left_out), 30)}


def test_a_table_of_which_nothing_can_be_drafted_is_refused_naming_every_column() -> None:
    with pytest.raises(SchemaError, match=r"'empty': it holds no value.*'odd': its cells"):
        drafted({"empty": [None] * 3, "odd": [[1]] * 3})


@pytest.mark.parametrize(
    ("values", "is_key"),
    [
        ([f"P-{n:05}" for n in range(40)], True),
        ([f"{n * 7919:08x}-{n:04x}" for n in range(40)], True),
        ([*range(40)], True),
        ([n * n for n in range(40)], False),
        ([f"P-{n // 2:05}" for n in range(40)], False),
        ([f"P-{n:05}" for n in range(9)], False),
    ],
)
def test_values_that_all_differ_and_look_like_identifiers_are_keys(
    values: list[object], is_key: bool
) -> None:
    schema = drafted({"x": values, "y": [n % 3 for n in range(len(values))]})
    assert isinstance(schema.column("x"), KeyColumn) == is_key


def test_invented_ids_look_like_those_they_stand_for() -> None:
    usable: list[object] = [n % 3 for n in range(40)]
    for text, prefix in (("F24-{}", "F24-"), ("{:05}", ""), ("{}x", "")):
        column = drafted({"id": [text.format(n) for n in range(40)], "y": usable}).column("id")
        assert column == KeyColumn("id", prefix)
    assert drafted({"id": [*range(40)], "y": usable}).column("id") == KeyColumn("id")


def test_numbers_that_are_called_identifiers_are_keys_if_they_all_differ() -> None:
    numbers: list[object] = [n * n for n in range(40)]
    for name in ("id", "patient_id", "PatientId", "Fall-Nr", "MRN"):
        schema = drafted({name: numbers, "y": [n % 3 for n in range(40)]})
        assert isinstance(schema.column(name), KeyColumn), name
    for name in ("paid", "void", "piano", "knr"):
        schema = drafted({name: numbers, "y": [n % 3 for n in range(40)]})
        assert not isinstance(schema.column(name), KeyColumn), name


def test_codes_are_categories_where_they_repeat() -> None:
    rng = np.random.default_rng(0)
    codes = [f"{n:04}" for n in rng.integers(0, 5_000, 30_000)]
    column = drafted({"icd": [*codes]}).column("icd")
    assert isinstance(column, CategoricalColumn)
    assert column.values == tuple(sorted({*codes}))
    outline = outlined({"icd": [*codes[:6_000]], "y": [1, 2] * 3_000})
    assert "too many" in outline.left_out["icd"]
    assert '# type = "categorical"\n# values = ["...", "..."]' in outline.to_toml()


def test_dates_are_dates_and_moments_are_moments() -> None:
    schema = drafted(
        {
            "day": ["2024-02-29", "2025-01-01", ""],
            "typed": [date(2024, 2, 29), date(2025, 1, 1), None],
            "moment": ["2024-02-29", "2025-01-01T12:00", "2025-01-02"],
        }
    )
    ends = date(2024, 2, 29), date(2025, 1, 1)
    assert schema.column("day") == DateColumn("day", *ends, nullable=True)
    assert schema.column("typed") == DateColumn("typed", *ends, nullable=True)
    assert isinstance(schema.column("moment"), DatetimeColumn)


@pytest.mark.parametrize(
    ("values", "decimals"),
    [
        (["23.40", "7.5", "1"], 2),
        ([0.1, 0.2, 0.25], 2),
        ([1 / 3, 0.5, 0.25], None),
        (["1e-3", "0.5", "0.25"], None),
    ],
)
def test_decimals_are_those_that_were_written(values: list[object], decimals: int | None) -> None:
    column = drafted({"x": values}).column("x")
    assert isinstance(column, NumberColumn)
    assert column.decimals == decimals


@pytest.mark.parametrize(
    ("values", "is_boolean"),
    [
        (["Ja", "Nein", ""], True),
        (["yes", "NO", "no"], True),
        (["J", "n", "N"], True),
        (["T", "F", "F"], True),
        (["N", "S", "S"], False),
        (["yes", "no", "maybe"], False),
    ],
)
def test_usual_words_for_yes_and_no_are_truth_values(
    values: list[object], is_boolean: bool
) -> None:
    assert isinstance(drafted({"x": values}).column("x"), BooleanColumn) == is_boolean


def test_words_for_no_value_are_no_categories_of_numbers() -> None:
    outline = outlined({"x": ["1", "NA", "3"], "y": ["NA", "b", "c"], "z": ["1.5", "?", "-"]})
    schema = outline.schema()
    assert schema.column("x") == IntegerColumn("x", 1, 3, nullable=True)
    assert schema.column("y") == CategoricalColumn("y", ("NA", "b", "c"))
    assert outline.dialect == {("null", "x"): ("NA",), ("null", "z"): ("-", "?")}


@pytest.mark.parametrize(
    ("values", "task"),
    [
        ([True, False, True], "binary_classification"),
        (["a", "b", "a"], "binary_classification"),
        (["a", "b", "c"], "multiclass_classification"),
        ([0, 1, 1], "binary_classification"),
        ([0, 1, 7], "regression"),
        ([0.5, 1.5, 2.5], "regression"),
        (["2025-01-01", "2025-01-02", ""], None),
    ],
)
def test_the_task_follows_from_the_label(values: list[object], task: str | None) -> None:
    outline = draft([pa.record_batch({"y": pa.array(values), "x": [1, 2, 3]})], label="y")
    assert (outline.label, outline.task) == ("y", task)
    assert Schema.from_toml(outline.to_toml()) == outline.schema()


def test_a_label_that_is_left_out_is_refused_with_the_reason() -> None:
    batch = pa.record_batch({"y": pa.nulls(3, pa.string()), "x": [1, 2, 3]})
    with pytest.raises(SchemaError, match="label 'y' is left out: it holds no value"):
        draft([batch], label="y")


# RULES


def confirmed(outline: Outline) -> Schema:
    """The outline with all its candidates, their marks removed."""
    text = re.sub(r"^# (?=\[\[rules)", "", outline.to_toml(), flags=re.MULTILINE)
    return Schema.from_toml(re.sub(r"(?<=\[\[rules\]\]\n)# ", "", text))


def test_rules_are_suggested_where_chance_would_break_them_and_hold_if_confirmed() -> None:
    rng = np.random.default_rng(0)
    sex = rng.choice(["m", "w"], 2_000)
    ward = np.where(sex == "m", rng.choice(["a", "b"], 2_000), rng.choice(["a", "b", "gyn"], 2_000))
    street = rng.choice([f"s{i}" for i in range(10)], 2_000)
    town = np.array([f"t{int(s[1:]) % 3}" for s in street])
    batch = pa.record_batch({"sex": sex, "ward": ward, "street": street, "town": town})
    outline = draft([batch])
    assert Schema.from_toml(outline.to_toml()).rules == ()
    kinds = [next(iter(candidate.rule)) for candidate in outline.candidates]
    assert kinds == ["determines", "never"]
    schema = confirmed(outline)
    first, second = schema.rules
    assert isinstance(first, Determines)
    assert (first.source, first.target) == ("street", "town")
    assert isinstance(second, Never)
    assert second.settings == {"sex": "m", "ward": "gyn"}
    assert encode(schema, [batch]).describe() is None


def test_dates_that_never_decrease_suggest_an_order() -> None:
    rng = np.random.default_rng(0)
    came = np.datetime64("2024-01-01") + rng.integers(0, 300, 500)
    seen = came + rng.integers(0, 9, 500)
    left = seen + rng.integers(0, 9, 500)
    other = np.datetime64("2024-01-01") + rng.integers(0, 300, 500)
    for kind in (pa.date32(), pa.string()):
        days = {"left": left, "other": other, "came": came, "seen": seen}
        batch = pa.record_batch({name: pa.array(d).cast(kind) for name, d in days.items()})
        outline = draft([batch])
        assert [c.rule for c in outline.candidates] == [{"order": ["came", "seen", "left"]}]
        assert encode(confirmed(outline), [batch]).describe() is None


def test_a_value_that_goes_with_one_end_of_numbers_suggests_a_threshold() -> None:
    rng = np.random.default_rng(0)
    ages = rng.integers(0, 90, 2_000)
    wards = np.where(ages <= 17, "paediatrics", rng.choice(["surgery", "medicine"], 2_000))
    outline = outlined({"ward": wards.tolist(), "age": ages.tolist()})
    rules = [candidate.rule for candidate in outline.candidates]
    assert {"never": {"ward": "paediatrics", "age": {"above": 17}}} in rules
    assert {"never": {"ward": ["medicine", "surgery"], "age": {"below": 18}}} in rules
    assert len(rules) == 2
    confirmed = replace(outline, rules=tuple(rules), candidates=())
    rows = pa.record_batch({"ward": pa.array(wards.tolist()), "age": pa.array(ages.tolist())})
    assert encode(confirmed.schema(), [rows]).rows_dropped == 0


def test_values_that_only_tend_to_one_end_suggest_no_threshold() -> None:
    rng = np.random.default_rng(0)
    old = rng.random(4_000) < 0.5
    ages = np.rint(np.where(old, rng.normal(70, 8, 4_000), rng.normal(30, 8, 4_000)))
    wards = np.where(old, "geriatrics", "sports").tolist()
    assert outlined({"ward": wards, "age": ages.astype(int).tolist()}).candidates == ()


def test_dates_of_different_ranges_suggest_an_order() -> None:
    rng = np.random.default_rng(0)
    day = np.datetime64("1950-01-01")
    born = (day + rng.integers(0, 20_000, 200)).tolist()
    came = (day + rng.integers(25_000, 26_000, 200)).tolist()
    (candidate,) = outlined({"came": came, "born": born}).candidates
    assert candidate.rule == {"order": ["born", "came"]}


def test_independent_columns_suggest_no_rules() -> None:
    rng = np.random.default_rng(1)
    columns = {f"c{size}": rng.integers(0, size, 5_000).astype(str) for size in (2, 5, 30, 900)}
    assert draft([pa.record_batch(columns)]).candidates == ()


def test_a_long_table_is_written_to_a_file_only_and_one_that_lacks_values_says_so() -> None:
    street = [f"s{i % 40}" for i in range(400)]
    town = [f"t{i % 40 % 7}" for i in range(400)]
    outline = draft([pa.record_batch({"street": street, "town": town})])
    assert 'table = "..."' in outline.to_toml()
    named, tables = with_tables(outline.candidates, "tables")
    assert named[0].rule["determines"]["table"] == "tables/street-town.csv"
    head, table = tables["street-town.csv"]
    assert head == ("street", "town")
    assert table == dict(zip(street, town, strict=True))


@given(st.text(min_size=1, max_size=5), st.lists(st.text(max_size=4), min_size=1, unique=True))
def test_no_name_or_value_breaks_out_of_a_comment(name: str, values: list[str]) -> None:
    usable = Entry({"name": f"{name} too", "type": "boolean"})
    column = {"name": name, "type": "categorical", "values": values}
    rule = Candidate({"never": {name: values, f"{name} too": True}}, f"because of {name}")
    outline = Outline((Entry(column, f"it is {name}", (name,)), usable), candidates=(rule,))
    assert Schema.from_toml(outline.to_toml()) == outline.schema()
    assert len(outline.schema().columns) == 1


def test_no_rows_give_no_schema() -> None:
    with pytest.raises(SchemaError, match="no rows"):
        draft([])


texts = st.one_of(st.none(), st.integers().map(str), st.floats().map(str), st.text(max_size=4))
values = st.one_of(
    st.lists(texts, min_size=1, max_size=20),
    st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=1),
    st.lists(st.one_of(st.none(), st.floats(-1e200, 1e200)), min_size=1),
    st.lists(st.one_of(st.none(), st.booleans()), min_size=1),
    st.lists(st.datetimes(), min_size=1),
)


@given(values)
def test_rows_fit_the_schema_drafted_from_them(column: list[object]) -> None:
    batch = pa.record_batch({"x": pa.array(column), "usable": [0] * len(column)})
    outline = draft([batch])
    schema = outline.schema()
    assert Schema.from_toml(outline.to_toml()) == schema
    if outline.dialect:  # the location reads some words as missing
        return
    assert encode(schema, [batch]).describe() is None


cells = st.one_of(st.none(), st.text(max_size=5), st.sampled_from(["1", "2,5", "31.12.2025", "NA"]))
batches = st.integers(1, 40).flatmap(
    lambda rows: st.dictionaries(
        st.text(min_size=1, max_size=4), st.lists(cells, min_size=rows, max_size=rows), max_size=4
    ).map(lambda columns: {**columns, "usable ": [n % 2 for n in range(rows)]})
)


@given(st.lists(batches, min_size=1, max_size=1))
def test_no_column_stops_the_draft_of_a_table_with_a_usable_one(
    tables: list[dict[str, list[object]]],
) -> None:
    outline = outlined(*tables)
    schema = Schema.from_toml(outline.to_toml())
    assert schema == outline.schema()
    there = {column.name for column in schema.columns} | outline.left_out.keys()
    assert there == {*tables[0]}


def test_dictionaries_are_drafted_as_their_values() -> None:
    frame = pl.DataFrame({"x": ["a", None, "b"]}, schema={"x": pl.Categorical})
    schema = draft(open_source(frame).batches()).schema()
    assert schema.columns == (CategoricalColumn("x", ("a", "b"), nullable=True),)


def test_a_public_table_fits_its_draft(data_folder: Path) -> None:
    source = open_source(data_folder / "adult" / "val.csv")
    schema = draft(source.batches()).schema()
    assert encode(schema, source.batches()).describe() is None
    assert isinstance(schema.column("age"), IntegerColumn)
    assert isinstance(schema.column("sex"), CategoricalColumn)
