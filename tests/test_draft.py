"""Drafting a schema from public rows: the rows fit it, however they were stored."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn.errors import SchemaError
from heterofedsyn.schema import (
    BooleanColumn,
    CategoricalColumn,
    DatetimeColumn,
    IntegerColumn,
    NumberColumn,
    Schema,
    draft,
    encode,
)
from heterofedsyn.sources import open_source


def drafted(*batches: dict[str, list[object]]) -> Schema:
    return draft([pa.record_batch({k: pa.array(v) for k, v in batch.items()}) for batch in batches])


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
        NumberColumn("price", 0.01, 1.24),
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


def test_columns_that_cannot_be_drafted_are_all_named_without_their_values() -> None:
    people = [f"person-{i}" for i in range(1001)]
    odd = [[1]] * 1001
    with pytest.raises(SchemaError) as refusal:
        drafted({"name": [*people], "empty": [None] * 1001, "odd": [*odd], "ok": [1] * 1001})
    message = str(refusal.value)
    assert "'name' has more than 1,000 distinct texts" in message
    assert "'empty' holds no values" in message
    assert "'odd' has a type" in message
    assert "person-" not in message
    assert "'ok'" not in message


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
    batch = pa.record_batch({"x": pa.array(column)})
    try:
        schema = draft([batch])
    except SchemaError as refusal:
        assert "'x'" in str(refusal)  # noqa: PT017  (an empty column, or one too narrow to cut)
        return
    assert encode(schema, [batch]).describe() is None
    assert Schema.from_toml(schema.to_toml()) == schema


def test_dictionaries_are_drafted_as_their_values() -> None:
    frame = pl.DataFrame({"x": ["a", None, "b"]}, schema={"x": pl.Categorical})
    schema = draft(open_source(frame).batches())
    assert schema.columns == (CategoricalColumn("x", ("a", "b"), nullable=True),)


def test_a_public_table_fits_its_draft(data_folder: Path) -> None:
    source = open_source(data_folder / "adult" / "val.csv")
    schema = draft(source.batches())
    assert encode(schema, source.batches()).describe() is None
    assert isinstance(schema.column("age"), IntegerColumn)
    assert isinstance(schema.column("sex"), CategoricalColumn)
