"""Numbers that stand for no value are told from others, however rows come."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn.schema._missing_codes import CODES, Tails

NUMBERS = st.one_of(st.integers(-1_000, 1_000), st.sampled_from(CODES.tolist()))


@given(st.lists(NUMBERS), st.lists(NUMBERS))
def test_parts_tell_what_the_whole_tells(first: list[int], second: list[int]) -> None:
    parts = Tails.of(np.array(first, float)).merge(Tails.of(np.array(second, float)))
    assert parts == Tails.of(np.array(first + second, float))


@given(st.lists(NUMBERS, max_size=50))
def test_suspects_are_outside_of_all_other_numbers(values: list[int]) -> None:
    suspects = Tails.of(np.array(values, float)).suspects
    rest = [value for value in values if value not in CODES]
    assert all(code < min(rest) or code > max(rest) for code in suspects)


@pytest.mark.parametrize(
    ("values", "suspects"),
    [
        ([*range(11), -9, -9], (-9,)),
        ([*range(11), -9], ()),
        ([*range(1, 6), 9, 9], (9,)),
        ([*range(10)] * 3, ()),
        ([*range(100)] * 3, ()),
        ([*range(18, 96)] * 9 + [99] * 60, (99,)),
        ([-1, 0, 1] * 9, ()),
        ([-5, -1, 3, 8] * 9, ()),
        ([-20, 30, -99, -99, 999, 999], (-99, 999)),
        ([9, 99, 999] * 9, ()),
    ],
)
def test_a_code_is_of_another_sign_far_away_or_a_pile(
    values: list[int], suspects: tuple[int, ...]
) -> None:
    assert Tails.of(np.array(values, float)).suspects == suspects
