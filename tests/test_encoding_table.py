"""Tables of codes: rows that do not fit are left out and counted, people keep few rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn.errors import DataError, UsageError
from heterofedsyn.schema import (
    BooleanColumn,
    CategoricalColumn,
    Domain,
    EncodedTable,
    IntegerColumn,
    Schema,
    _units,
    decode,
    encode,
)
from heterofedsyn.sources import open_source

SCHEMA = Schema(
    (
        IntegerColumn("age", 0, 99),
        CategoricalColumn("ward", ("a", "b")),
        BooleanColumn("alive", nullable=True),
    )
)


def batch(**columns: Sequence[object]) -> pa.RecordBatch:
    return pa.record_batch({name: pa.array(values) for name, values in columns.items()})


def rows(count: int) -> pa.RecordBatch:
    return batch(age=list(range(count)), ward=["a"] * count, alive=[None] * count)


def test_codes_are_narrow_contiguous_and_read_only() -> None:
    table = encode(SCHEMA, [rows(3), rows(2)]).table
    assert table.codes.dtype == np.uint8
    assert table.codes.flags.c_contiguous
    assert not table.codes.flags.writeable
    assert table.rows == 5
    assert table.codes[0].tolist() == [0, 1, 2, 0, 1]


@pytest.mark.parametrize(("values", "kind"), [(2, np.uint8), (256, np.uint8), (300, np.uint16)])
def test_three_hundred_categories_need_wider_codes(values: int, kind: type) -> None:
    words = tuple(f"v{i}" for i in range(values))
    schema = Schema((CategoricalColumn("x", words),))
    encoded = encode(schema, [batch(x=list(words))])
    assert encoded.table.codes.dtype == kind
    assert encoded.table.codes[0].tolist() == list(range(values))
    again = decode(schema, encoded.table, np.random.default_rng(0))
    assert again.column("x").to_pylist() == list(words)


def test_rows_that_do_not_fit_are_left_out_and_counted_by_column() -> None:
    bad = batch(age=[1, None, 3, None], ward=["a", "c", "b", "a"], alive=[True, True, None, False])
    encoded = encode(SCHEMA, [bad, rows(2)])
    assert (encoded.rows_read, encoded.rows_dropped) == (6, 2)
    assert encoded.misfits == {"age": {"missing": 2}, "ward": {"unknown value": 1}}
    assert encoded.table.codes.tolist() == [[1, 3, 0, 1], [0, 1, 0, 0], [1, 2, 2, 2]]
    assert (
        encoded.describe()
        == "2 rows do not fit and are left out (age: 2 missing; ward: 1 unknown value)"
    )
    assert encode(SCHEMA, [rows(1)]).describe() is None


def test_no_rows_make_an_empty_table() -> None:
    assert encode(SCHEMA, []).table.codes.shape == (3, 0)
    assert encode(SCHEMA, [rows(0)], unit="age").table.rows == 0
    assert encode(SCHEMA, [], unit="age").table.rows == 0


def test_a_missing_column_is_named_with_a_hint() -> None:
    with pytest.raises(DataError, match=r"no column 'ward'.*did you mean 'wards'"):
        encode(SCHEMA, [batch(age=[1], wards=["a"], alive=[True])])
    with pytest.raises(DataError, match=r"no column 'person'.*'age', 'ward', 'alive'"):
        encode(SCHEMA, [rows(1)], unit="person")
    twice = pa.RecordBatch.from_arrays([pa.array([1])] * 2, names=["age", "age"])
    with pytest.raises(DataError, match="2 columns named 'age'"):
        encode(SCHEMA, [twice])


def test_columns_may_come_in_any_order_and_extra_ones_are_ignored() -> None:
    mixed = batch(note=["secret"], alive=[True], ward=["b"], age=[7])
    assert encode(SCHEMA, [mixed]).table.codes[:, 0].tolist() == [7, 1, 1]


def test_a_few_fitting_rows_of_each_unit_stay() -> None:
    one = batch(
        person=["p", "q", "p", None, "p"], age=[None, 1, 2, 3, 4], ward=["a"] * 5, alive=[True] * 5
    )
    two = batch(person=["q", "p", ""], age=[5, 6, 7], ward=["b"] * 3, alive=[True] * 3)
    encoded = encode(SCHEMA, [one, two], unit="person", max_rows_per_unit=2)
    assert encoded.units is not None
    assert encoded.units.dtype == np.int64
    of_unit: dict[int, set[int]] = {}
    for unit, age in zip(encoded.units.tolist(), encoded.table.codes[0].tolist(), strict=True):
        of_unit.setdefault(unit, set()).add(age)
    other, known = sorted(of_unit.values(), key=lambda ages: 1 in ages)
    assert known == {1, 5}
    assert len(other) == 2
    assert other < {2, 4, 6}
    assert (encoded.rows_dropped, encoded.rows_over) == (3, 1)
    assert encoded.misfits == {"age": {"missing": 1}, "person": {"no unit": 2}}
    assert str(encoded.describe()).endswith(
        "1 row is left out as more than one unit may contribute"
    )


def test_one_person_is_one_unit_however_the_id_is_written() -> None:
    ids: list[list[object]] = [[17], [17.0], ["17"], ["17.0"]]
    batches = [batch(person=one, age=[1], ward=["a"], alive=[True]) for one in ids]
    encoded = encode(SCHEMA, batches, unit="person")
    assert (encoded.table.rows, encoded.rows_over) == (1, 3)
    for spelt in (["17", " 17", "17 ", "17.00"], ["1.5", "1.50", " 1.500"], ["é", "e\u0301"]):
        table = batch(
            person=spelt, age=[1] * len(spelt), ward=["a"] * len(spelt), alive=[True] * len(spelt)
        )
        assert encode(SCHEMA, [table], unit="person").table.rows == 1
    apart = batch(
        person=["17", "017", "17.5", "1.05", "1.5"], age=[1] * 5, ward=["a"] * 5, alive=[True] * 5
    )
    assert encode(SCHEMA, [apart], unit="person").table.rows == 5
    view = pa.array(["17"], pa.string_view())
    for array in (view, view.dictionary_encode(), pa.array([17]).dictionary_encode()):
        more = batches[0].set_column(0, "person", array)
        assert encode(SCHEMA, [*batches, more], unit="person").table.rows == 1


def test_an_id_that_is_no_text_is_nobodys_and_fails_nobody() -> None:
    offsets, letters = pa.py_buffer(np.array([0, 2, 3], np.int32)), pa.py_buffer(b"\xff\xfe1")
    ids = pa.Array.from_buffers(pa.string(), 2, [None, offsets, letters])
    rows = batch(person=["", ""], age=[1, 2], ward=["a"] * 2, alive=[True] * 2)
    for array in (ids, ids.dictionary_encode()):
        encoded = encode(SCHEMA, [rows.set_column(0, "person", array)], unit="person")
        assert encoded.table.codes[0].tolist() == [2]
        assert encoded.misfits == {"person": {"no unit": 1}}


def test_a_unit_column_of_the_schema_is_counted_once() -> None:
    encoded = encode(
        SCHEMA, [batch(age=[None, 5, 5], ward=["a"] * 3, alive=[None] * 3)], unit="age"
    )
    assert encoded.misfits == {"age": {"missing": 1}}
    assert encoded.table.codes[0].tolist() == [5]


@pytest.mark.thorough
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 120)), max_size=30),
    st.integers(0, 4),
    st.integers(1, 3),
)
def test_one_persons_rows_never_change_what_others_contribute(
    records: list[tuple[int, int]], person: int, most: int
) -> None:
    def kept(some: list[tuple[int, int]]) -> list[tuple[int, int]]:
        schema = Schema(
            (IntegerColumn("id", 0, 4), CategoricalColumn("x", tuple(map(str, range(99)))))
        )
        table = batch(id=[i for i, _ in some], x=[str(x) for _, x in some])
        batches = [table.slice(0, len(some) // 2), table.slice(len(some) // 2)]
        encoded = encode(schema, batches if some else [], unit="id", max_rows_per_unit=most)
        assert encoded.units is not None
        for unit in set(encoded.units.tolist()):
            assert np.count_nonzero(encoded.units == unit) <= most
        return [(int(i), int(x)) for i, x in encoded.table.codes.T]

    others = [record for record in records if record[0] != person]
    assert [row for row in kept(records) if row[0] != person] == kept(others)


@pytest.mark.thorough
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 120)), max_size=30),
    st.integers(0, 99),
    st.integers(1, 3),
    st.integers(1, 7),
)
def test_which_rows_of_a_unit_count_depends_on_no_order_and_no_batch(
    records: list[tuple[int, int]], seed: int, most: int, size: int
) -> None:
    schema = Schema((IntegerColumn("id", 0, 4), CategoricalColumn("x", tuple(map(str, range(99))))))

    def kept(some: list[tuple[int, int]], size: int) -> tuple[list[list[int]], int]:
        table = pa.table({"id": [i for i, _ in some], "x": [str(x) for _, x in some]})
        table = table.cast(pa.schema({"id": pa.int64(), "x": pa.string()}))
        encoded = encode(schema, table.to_batches(size), unit="id", max_rows_per_unit=most)
        return sorted(encoded.table.codes.T.tolist()), encoded.rows_over

    order = np.random.default_rng(seed).permutation(len(records))
    shuffled = [records[place] for place in order]
    expected = kept(records, 1_000)
    assert kept(shuffled, size) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_units, "_WORTH_SORTING", 3)
        assert kept(shuffled, size) == expected


def test_equal_ranks_are_told_apart_by_the_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_units, "ranks", lambda codes, salts: salts * 0)
    for ages in ([3, 1, 2], [2, 3, 1], [1, 2, 3]):
        table = batch(person=["p"] * 3, age=ages, ward=["a"] * 3, alive=[True] * 3)
        assert encode(SCHEMA, [table], unit="person").table.codes[0].tolist() == [1]


def test_the_hash_chooses_among_the_rows_of_a_unit_evenly() -> None:
    people, rows = 4_000, 4
    ages = np.tile(np.arange(rows), people)
    table = pa.table(
        {
            "person": np.repeat(np.arange(people), rows),
            "age": ages,
            "ward": ["a"] * len(ages),
            "alive": [True] * len(ages),
        }
    )
    chosen = encode(SCHEMA, table.to_batches(), unit="person").table.codes[0]
    share = np.bincount(chosen, minlength=rows) / people
    # Four standard errors of a share of 1 in 4 among 4,000.
    assert np.abs(share - 1 / rows).max() < 4 * np.sqrt(0.25 * 0.75 / people)


def test_memory_for_units_grows_with_what_is_kept_of_them() -> None:
    people = _units.People(2, np.empty((1, 0), np.uint8))
    identities = pa.array(["p", "q"]).dictionary_encode().take(pa.array([0, 1] * 50_000))
    for number in range(20):
        people.admit(np.full((1, 100_000), number, np.uint8), identities)
        waiting = sum(rows.codes.shape[1] for rows in people._rows)
        assert waiting <= _units._WORTH_SORTING + 100_000
    numbers, codes = people.kept()
    assert np.bincount(numbers).tolist() == [2, 2]
    assert codes.shape == (1, 4)


def test_a_unit_keeps_at_least_one_row() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        encode(SCHEMA, [], unit="age", max_rows_per_unit=0)
    with pytest.raises(DataError, match="'age' of type list"):
        encode(Schema((BooleanColumn("x"),)), [batch(x=[True], age=[[1]])], unit="age")


def test_codes_outside_the_domain_are_refused() -> None:
    domain = Domain(("a", "b"), (2, 3))
    assert EncodedTable.from_codes(domain, np.array([[0, 1], [2, 0]])).rows == 2
    with pytest.raises(UsageError, match="'a' has codes outside 0 to 1"):
        EncodedTable.from_codes(domain, np.array([[2], [0]]))
    with pytest.raises(UsageError, match="'b' has codes outside"):
        EncodedTable.from_codes(domain, np.array([[0], [-1]]))
    with pytest.raises(UsageError, match="2 attributes"):
        EncodedTable.from_codes(domain, np.array([[0]]))
    with pytest.raises(UsageError, match="pass integers"):
        EncodedTable.from_codes(domain, np.array([[0.0], [1.0]]))


def test_tables_are_cut_and_put_together() -> None:
    domain = Domain(("a", "b"), (2, 3))
    table = EncodedTable.from_codes(domain, np.array([[0, 1, 1], [2, 0, 1]]))
    swapped = table.take(np.array([2, 0]))
    assert swapped.codes.tolist() == [[1, 0], [1, 2]]
    assert swapped.codes.flags.c_contiguous
    both = EncodedTable.concatenate([table, swapped])
    assert both.codes[0].tolist() == [0, 1, 1, 1, 0]
    assert not both.codes.flags.writeable
    with pytest.raises(UsageError, match="domains"):
        EncodedTable.concatenate(
            [table, EncodedTable.from_codes(Domain(("a",), (2,)), table.codes[:1])]
        )
    with pytest.raises(UsageError, match="at least one"):
        EncodedTable.concatenate([])


def test_decoding_needs_the_schema_of_the_table() -> None:
    table = EncodedTable.from_codes(Domain(("a",), (2,)), np.array([[0]]))
    with pytest.raises(UsageError, match="schema"):
        decode(SCHEMA, table, np.random.default_rng(0))


def test_what_comes_back_has_the_schemas_order_and_types() -> None:
    table = decode(SCHEMA, encode(SCHEMA, [rows(4)]).table, np.random.default_rng(0))
    assert table.column_names == ["age", "ward", "alive"]
    assert table.schema.types == [pa.int64(), pa.string(), pa.bool_()]
    assert table.column("age").to_pylist() == [0, 1, 2, 3]
    assert table.column("alive").null_count == 4


@pytest.mark.parametrize("name", ["adult", "shoppers", "obesity", "abalone", "insurance"])
def test_public_tables_fit_their_schemas_and_return(data_folder: Path, name: str) -> None:
    schema = Schema.load(data_folder / name / "schema.toml")
    encoded = encode(schema, open_source(data_folder / name / "val.csv").batches())
    assert encoded.describe() is None
    again = decode(schema, encoded.table, np.random.default_rng(0))
    np.testing.assert_array_equal(
        encode(schema, again.to_batches()).table.codes, encoded.table.codes
    )


def test_one_person_is_one_unit_however_the_id_is_written_in_one_batch() -> None:
    schema = Schema((CategoricalColumn("a", values=("x",)),))
    for ids in (
        pa.array(["17", "17.0", "17.", "17.00"]),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3]), pa.array(["p", "p", "p", "p"])),
    ):
        table = pa.table({"id": ids, "a": ["x"] * 4})
        kept = encode(schema, table.to_batches(), unit="id", max_rows_per_unit=1).table.rows
        assert kept == 1
