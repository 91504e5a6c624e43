"""Codes and values of one column: what is written comes back, and the schema alone decides."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any
from unicodedata import normalize

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn.schema import (
    BooleanColumn,
    CategoricalColumn,
    Column,
    DatetimeColumn,
    IntegerColumn,
    NumberColumn,
    _truth,
)

TEXTS = (pa.string(), pa.large_string(), pa.string_view())
WIDTHS = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64()),
)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def codes_of(column: Column, values: Any, kind: pa.DataType | None = None) -> list[int | None]:
    """The codes of some values, None for those that do not fit."""
    array = values if isinstance(values, pa.Array) else pa.array(values, kind)
    codes, fits = column.encode(array)
    assert codes.shape == fits.shape == (len(array),)
    return [int(code) if fit else None for code, fit in zip(codes, fits, strict=True)]


@st.composite
def integer_columns(draw: st.DrawFn) -> IntegerColumn:
    low = draw(st.integers(-(2**62), 2**62))
    span = draw(st.one_of(st.integers(0, 300), st.integers(0, 2**61)))
    bins = draw(st.integers(1, min(span + 1, 200)))
    column = IntegerColumn("x", low, min(low + span, 2**63 - 1), bins=bins)
    roomy = [column.min] if span >= 2 * bins else []
    return IntegerColumn(
        "x", column.min, column.max, bins=bins, atoms=tuple(roomy), nullable=draw(st.booleans())
    )


@st.composite
def number_columns(draw: st.DrawFn) -> NumberColumn:
    low = draw(st.floats(-1e6, 1e6))
    width = draw(st.floats(1e-3, 1e9))
    parts = draw(st.lists(st.floats(0, 1), max_size=3))
    return NumberColumn(
        "x",
        low,
        low + width,
        bins=draw(st.integers(1, 300)),
        atoms=tuple({min(low + part * width, low + width) for part in parts}),
        nullable=draw(st.booleans()),
    )


@st.composite
def datetime_columns(draw: st.DrawFn) -> DatetimeColumn:
    moments = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1))
    ends = sorted(draw(moments).replace(microsecond=0) for _ in range(2))
    return DatetimeColumn("x", ends[0], ends[1], nullable=draw(st.booleans()))


any_column = st.one_of(
    integer_columns(),
    number_columns(),
    datetime_columns(),
    st.builds(BooleanColumn, st.just("x"), nullable=st.booleans()),
    st.builds(
        CategoricalColumn,
        st.just("x"),
        st.lists(st.text(max_size=5), min_size=1, max_size=300, unique=True).map(tuple),
        nullable=st.booleans(),
    ),
)


@given(any_column, st.integers(0, 2**32))
def test_every_decoded_value_encodes_to_its_code(column: Column, seed: int) -> None:
    codes = np.arange(column.size).repeat(5)
    values = column.decode(codes, np.random.default_rng(seed))
    again, fits = column.encode(values)
    assert fits.all()
    np.testing.assert_array_equal(again, codes)


@pytest.mark.thorough
@given(any_column)
def test_decoded_text_encodes_to_its_code_when_written_to_csv(column: Column) -> None:
    codes = np.arange(column.size)
    values = column.decode(codes, rng())
    as_text = pa.array(["" if v is None else str(v) for v in values.to_pylist()], pa.string())
    if isinstance(column, CategoricalColumn) and "" in column.values and column.nullable:
        return  # an empty cell is then the listed value, not null
    again, fits = column.encode(as_text)
    assert fits.all()
    np.testing.assert_array_equal(again, codes)


@given(number_columns(), st.lists(st.floats(0, 1), min_size=1))
def test_a_number_near_a_bin_edge_falls_into_one_of_the_two_bins(
    column: NumberColumn, parts: list[float]
) -> None:
    values = [column.min + part * (column.max - column.min) for part in parts]
    codes = codes_of(column, values)
    assert column.bins is not None
    width = (column.max - column.min) / column.bins
    for value, decoded in zip(values, column.decode(np.array(codes), rng()), strict=True):
        assert abs(decoded.as_py() - min(value, column.max)) <= width * (1 + 1e-6)


@pytest.mark.parametrize(("integers", "bins"), [(74, 71), (28, 27), (74, 74), (300, 7), (2, 1)])
def test_bins_of_integers_are_filled_and_follow_the_formula(integers: int, bins: int) -> None:
    column = IntegerColumn("age", 17, 16 + integers, bins=bins)
    values = np.arange(17, 17 + integers)
    formula = np.minimum(np.floor((values - 17) / (integers - 1) * bins + 1e-9), bins - 1)
    assert codes_of(column, values) == formula.astype(int).tolist()
    assert set(formula) == set(range(bins))


@pytest.mark.parametrize("bins", [71, 73, 20])
def test_all_integers_of_a_bin_are_equally_likely(bins: int) -> None:
    column = IntegerColumn("age", 17, 90, bins=bins, atoms=(17,) if bins == 20 else ())
    n = 20_000
    for code in (0, 1, column.size - 1):
        values = column.decode(np.full(n, code), rng()).to_numpy()
        found, counts = np.unique(values, return_counts=True)
        inside = [v for v in range(17, 91) if codes_of(column, [v]) == [code]]
        assert found.tolist() == inside
        share = 1 / len(inside)
        assert np.all(np.abs(counts / n - share) <= 4 * np.sqrt(share * (1 - share) / n))


def test_numbers_outside_the_range_are_clamped() -> None:
    for column in (IntegerColumn("x", 0, 9), NumberColumn("x", 0, 9, bins=10)):
        far = [-1e300, -1, 10, 1e300, float("inf"), float("-inf")]
        assert codes_of(column, pa.array(far, pa.float64())) == [0, 0, 9, 9, 9, 0]
        assert codes_of(column, ["-1", "10", "inf", "-1e999"]) == [0, 9, 9, 0]
    assert codes_of(IntegerColumn("x", 0, 9), [2**64 - 1], pa.uint64()) == [9]


def test_an_atom_has_the_code_before_its_bin() -> None:
    column = NumberColumn("x", 0, 4, bins=4, atoms=(2.5, 0, 2), nullable=True)
    values = [0.0, 0.5, 1.5, 2.0, 2.5, 2.2, 2.7, 3.5, None, -1.0]
    assert codes_of(column, values) == [0, 1, 2, 3, 4, 5, 5, 6, 7, 0]
    assert column.size == 8
    piles = column.decode(np.array([0, 3, 4]), rng())
    assert piles.to_pylist() == [0.0, 2.0, 2.5]


def test_integers_drawn_from_a_bin_leave_out_its_atoms() -> None:
    column = IntegerColumn("x", 0, 19, bins=2, atoms=(0, 3, 9, 12))
    drawn = {code: set(column.decode(np.full(500, code), rng()).to_pylist()) for code in range(6)}
    assert drawn[3] == set(range(10)) - {0, 3, 9}
    assert drawn[5] == set(range(10, 20)) - {12}
    assert [drawn[code] for code in (0, 1, 2, 4)] == [{0}, {3}, {9}, {12}]


@pytest.mark.parametrize("kind", TEXTS, ids=str)
def test_text_is_read_as_numbers(kind: pa.DataType) -> None:
    words = [
        "17",
        " 17 ",
        "17.0",
        "1.8e1",
        "+19",
        "018",
        "2.5",
        "x",
        "0x11",
        "1_7",
        "",
        None,
        "nan",
    ]
    column = IntegerColumn("age", 17, 90, nullable=True)
    assert codes_of(column, ["9" * 38, "9" * 39, "-" + "9" * 38, "1e999999"]) == [73, 73, 0, 73]
    null = column.size - 1
    expected = [0, 0, 0, 1, 2, 1, None, None, None, None, null, null, null]
    assert codes_of(column, words, kind) == expected
    assert codes_of(NumberColumn("x", 0, 10, bins=10), ["2.5", ".5", "5.", "x"], kind) == [
        2,
        0,
        5,
        None,
    ]


@pytest.mark.parametrize("kind", WIDTHS, ids=str)
def test_every_width_of_number_is_read(kind: pa.DataType) -> None:
    column = IntegerColumn("x", 0, 50)
    assert codes_of(column, pa.array([3, None, 50, 51]).cast(kind)) == [3, None, 50, 50]
    assert codes_of(column, pa.array([3, 3, None]).cast(kind).dictionary_encode()) == [3, 3, None]
    category = CategoricalColumn("x", ("3", "50"), nullable=True)
    assert codes_of(category, pa.array([3, None, 50, 51]).cast(kind)) == [0, 2, 1, None]


@pytest.mark.parametrize("digits", [5, 9, 30, 60])
def test_decimals_are_read_exactly(digits: int) -> None:
    kind = (pa.decimal128 if digits < 39 else pa.decimal256)(digits, 2)
    array = pa.array([Decimal("3.00"), Decimal("2.50"), None], kind)
    assert codes_of(IntegerColumn("x", 0, 9), array) == [3, None, None]
    assert codes_of(NumberColumn("x", 0, 10, bins=20), array) == [6, 5, None]
    assert codes_of(CategoricalColumn("x", ("3", "2.50")), array) == [0, 1, None]


def test_integers_beyond_doubles_keep_their_digits() -> None:
    low = 2**60
    column = IntegerColumn("x", low, low + 9)
    values = list(range(low, low + 10))
    assert codes_of(column, values) == list(range(10))
    assert codes_of(column, [str(value) for value in values]) == list(range(10))
    assert codes_of(column, [Decimal(value) for value in values]) == list(range(10))
    assert column.decode(np.arange(10), rng()).to_pylist() == values


def test_whole_floats_fit_an_integer_column_and_others_do_not() -> None:
    column = IntegerColumn("x", 0, 9)
    assert codes_of(column, [2.0, 2.5, float("nan"), None]) == [2, None, None, None]


def test_null_has_the_last_code_where_it_is_allowed_and_fits_nowhere_else() -> None:
    for column in (
        IntegerColumn("x", 0, 1),
        NumberColumn("x", 0, 1, bins=2),
        BooleanColumn("x"),
        CategoricalColumn("x", ("0", "1"), other="0"),
        DatetimeColumn("x", datetime(2025, 1, 1), datetime(2025, 1, 1, 0, 0, 1)),
    ):
        nullable = replace(column, nullable=True)
        assert nullable.size == column.size + 1 == 3
        for missing in (
            pa.nulls(2),
            pa.array([None, ""]),
            pa.array(["", None]).dictionary_encode(),
        ):
            assert codes_of(column, missing) == [None, None]
            assert codes_of(nullable, missing) == [2, 2]
        assert nullable.decode(np.array([2, 2]), rng()).null_count == 2


def test_truth_has_many_spellings() -> None:
    column = BooleanColumn("x")
    words = ["True", "TRUE", "true", "1", "1.0", " false ", "0", "0.0", "2", "yes", "perhaps"]
    assert codes_of(column, words) == [1, 1, 1, 1, 1, 0, 0, 0, None, 1, None]
    assert codes_of(column, [True, False, None]) == [1, 0, None]
    assert codes_of(column, [1, 0, 2]) == codes_of(column, [1.0, 0.0, 0.5]) == [1, 0, None]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (1, "true t yes y on ja j wahr oui vrai si sí sim tak да"),
        (0, "false f no n off nein falsch non faux não nie нет"),
        (None, "o v w m x yess nope tf 10 -1 yes/no"),
    ],
)
def test_yes_and_no_are_read_in_any_usual_spelling(code: int | None, words: str) -> None:
    for word in words.split():
        spellings = [word, word.upper(), word.title(), f"\t{word} ", normalize("NFD", word)]
        assert codes_of(BooleanColumn("x"), spellings) == [code] * len(spellings), word


def test_no_word_means_both_yes_and_no() -> None:
    assert not {*_truth.YES} & {*_truth.NO}
    for words in (_truth.YES, _truth.NO):
        assert codes_of(NumberColumn("x", 0, 1), words) == [None] * len(words)


def test_a_category_matches_its_text_before_its_integer_form() -> None:
    column = CategoricalColumn("x", ("2", "2.0", "True", "3.0"))
    assert codes_of(column, ["2", "2.0", "2.00", "3", "3.0", "03"]) == [0, 1, 0, 3, 3, None]
    assert codes_of(column, [2, 3, 4]) == codes_of(column, [2.0, 3.0, 2.5]) == [0, 3, None]
    assert codes_of(column, [True, False]) == [2, None]


def test_unknown_categories_go_to_other_and_nulls_do_not() -> None:
    column = CategoricalColumn("x", ("a", "?"), other="?")
    assert codes_of(column, ["a", "b", "A", " a", None, ""]) == [0, 1, 1, 1, None, None]
    listed = CategoricalColumn("x", ("a", ""), nullable=True)
    assert codes_of(listed, ["a", "", None]) == [0, 1, 2]


@pytest.mark.parametrize("kind", TEXTS, ids=str)
def test_dictionaries_encode_as_their_values(kind: pa.DataType) -> None:
    column = CategoricalColumn("x", ("a", "b"), nullable=True)
    words = pa.array(["b", None, "a", "c", "b"], kind)
    assert codes_of(column, words.dictionary_encode()) == codes_of(column, words)
    sparse = pa.DictionaryArray.from_arrays(pa.array([1], pa.int8()), pa.array(list("xbyz"), kind))
    assert codes_of(column, sparse) == [1]


def test_datetimes_are_read_to_the_second_in_utc() -> None:
    start = datetime(2025, 1, 1)
    column = DatetimeColumn("x", start, start + timedelta(seconds=9), nullable=True)
    words = [
        *("2025-01-01T00:00:03", "2025-01-01 00:00:03.999", "2025-01-01T00:00:03Z"),
        *(
            "2025-01-01T02:00:03+02:00",
            "2024-12-31 22:30:03-0130",
            "2025-01-01",
            "2025-01-01T00:00",
        ),
        *("1066-10-14", "2025-02-30", "2025-13-01", "2025-01-01T24:00:00", "1.1.2025", ""),
    ]
    expected = [3, 3, 3, 3, 3, 0, 0, 0, None, None, None, None, 10]
    assert codes_of(column, words) == expected
    moment = start + timedelta(seconds=3, microseconds=999_999)
    east = timezone(timedelta(hours=5))
    for unit in ("s", "ms", "us", "ns"):
        naive = pa.array([moment.replace(microsecond=0), None], pa.timestamp(unit))
        zoned = pa.array([moment.replace(microsecond=0, tzinfo=UTC)], pa.timestamp(unit, "UTC"))
        assert codes_of(column, naive) == [3, 10]
        assert codes_of(column, zoned) == [3]
    assert codes_of(column, pa.array([moment], pa.timestamp("us"))) == [3]
    assert codes_of(column, pa.array([moment.replace(tzinfo=UTC).astimezone(east)])) == [3]
    for kind in (pa.date32(), pa.date64()):
        assert codes_of(column, pa.array([date(2025, 1, 1), None], kind)) == [0, 10]


@pytest.mark.thorough
@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)))
def test_text_and_timestamps_say_the_same_moment(moment: datetime) -> None:
    column = DatetimeColumn("x", datetime(1, 1, 1), datetime(9999, 12, 31), bins=60_000)
    whole = moment.replace(microsecond=0)
    stamps = codes_of(column, [moment], pa.timestamp("us"))
    assert stamps == codes_of(column, [moment.isoformat()])
    assert stamps == codes_of(column, [str(whole)])


def test_values_of_another_kind_do_not_fit() -> None:
    number = IntegerColumn("x", 0, 9, nullable=True)
    moment = DatetimeColumn("x", datetime(2025, 1, 1), datetime(2025, 1, 2))
    category = CategoricalColumn("x", ("a",), other="a")
    for column in (number, moment, category, BooleanColumn("x")):
        for odd in (
            pa.array([[1]]),
            pa.array([b"1"]),
            pa.array([timedelta(1)]),
            pa.array([{"a": 1}]),
        ):
            assert codes_of(column, odd) == [None]
    assert codes_of(number, [date(2025, 1, 1), None]) == [None, 10]
    assert codes_of(moment, [20_000]) == [None]


@pytest.mark.thorough
@given(
    any_column,
    st.lists(st.one_of(st.none(), st.text(max_size=6), st.sampled_from(["1", "1.5", "nan", "+2"]))),
)
def test_a_row_is_encoded_without_regard_to_other_rows(
    column: Column, words: list[str | None]
) -> None:
    alone = [codes_of(column, [word], pa.string())[0] for word in words]
    assert codes_of(column, words, pa.string()) == alone
    assert codes_of(column, pa.array(words, pa.string()).dictionary_encode()) == alone


def test_damaged_text_does_not_fit_and_does_not_fail() -> None:
    offsets, letters = pa.py_buffer(np.array([0, 2, 3], np.int32)), pa.py_buffer(b"\xff\xfe1")
    array = pa.Array.from_buffers(pa.string(), 2, [None, offsets, letters])
    for column in (
        IntegerColumn("x", 0, 1),
        BooleanColumn("x"),
        CategoricalColumn("x", ("0", "1")),
    ):
        assert codes_of(column, array) == [None, 1]


@pytest.mark.thorough
@given(st.data())
def test_a_decimal_of_any_precision_is_read_or_does_not_fit(data: st.DataObject) -> None:
    precision = data.draw(st.integers(1, 38))
    scale = data.draw(st.integers(-10, precision))
    digits = data.draw(
        st.lists(st.integers(1 - 10**precision, 10**precision - 1), min_size=1, max_size=5)
    )
    kind = pa.decimal128(precision, scale)
    # Strings of bits, for Python's decimals know no negative scale without an exponent.
    raw = b"".join(number.to_bytes(16, "little", signed=True) for number in digits)
    array = pa.Array.from_buffers(kind, len(digits), [None, pa.py_buffer(raw)])
    values = [Fraction(number) / Fraction(10) ** scale for number in digits]
    whole = [code is not None for code in codes_of(IntegerColumn("x", 0, 9), array)]
    assert whole == [value.denominator == 1 for value in values]
    expected = [min(max(int(value), 0), 9) for value in values if value.denominator == 1]
    assert [c for c in codes_of(IntegerColumn("x", 0, 9), array) if c is not None] == expected
    assert None not in codes_of(NumberColumn("x", 0, 9), array)


def test_a_decimal_beyond_any_other_is_clamped() -> None:
    raw = pa.py_buffer((10**75).to_bytes(32, "little"))
    array = pa.Array.from_buffers(pa.decimal256(76, -5), 1, [None, raw])
    assert codes_of(IntegerColumn("x", 0, 9), array) == [9]


def test_a_truth_value_is_no_number_whatever_the_source() -> None:
    for column in (IntegerColumn("x", 0, 1), NumberColumn("x", 0, 1)):
        assert codes_of(column, [True, False]) == [None, None]
        assert codes_of(column, ["true", "False"]) == [None, None]


def test_the_text_of_a_moment_does_not_depend_on_its_unit() -> None:
    column = CategoricalColumn("x", ("2025-01-01 03:00:00", "2025-01-01 00:00:00.25"))
    whole, part = datetime(2025, 1, 1, 3), datetime(2025, 1, 1, 0, 0, 0, 250_000)
    for unit in ("s", "ms", "us", "ns"):
        assert codes_of(column, [whole], pa.timestamp(unit)) == [0]
    for unit in ("ms", "us", "ns"):
        assert codes_of(column, [whole, part], pa.timestamp(unit)) == [0, 1]


def test_output_types_are_those_of_the_schema() -> None:
    kinds = {
        IntegerColumn("x", 0, 1): pa.int64(),
        NumberColumn("x", 0, 1): pa.float64(),
        CategoricalColumn("x", ("a", "b")): pa.string(),
        BooleanColumn("x"): pa.bool_(),
        DatetimeColumn("x", datetime(2025, 1, 1), datetime(2025, 1, 2)): pa.timestamp("s"),
    }
    for column, kind in kinds.items():
        assert column.decode(np.array([0, 1], np.uint8), rng()).type == kind
        assert column.decode(np.empty(0, np.uint8), rng()).type == kind
