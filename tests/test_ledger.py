"""The ledger never books more than its cap."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn.errors import BudgetExceeded
from heterofedsyn.privacy.budget import Budget, together
from heterofedsyn.privacy.ledger import Ledger


@given(st.lists(st.floats(1e-9, 0.2), max_size=40))
def test_what_is_spent_never_exceeds_the_cap(costs: list[float]) -> None:
    ledger = Ledger("icu", Budget(0.5))
    accepted = []
    for cost in costs:
        try:
            ledger = ledger.charge("q", Budget(cost))
            accepted.append(Budget(cost))
        except BudgetExceeded:
            assert together([*accepted, Budget(cost)]) > ledger.cap
    assert ledger.spent == together(accepted)
    assert ledger.spent <= ledger.cap


@pytest.mark.thorough
@given(st.floats(1e-6, 1), st.integers(1, 200))
def test_all_parts_of_a_budget_fit_into_it(rho: float, parts: int) -> None:
    whole = Budget(rho)
    ledger = Ledger("icu", whole)
    for part in whole.evenly(parts):
        ledger = ledger.charge("part", part)
    assert len(ledger.charges) == parts


def test_a_refusal_says_what_was_asked_what_is_left_and_what_to_do() -> None:
    ledger = Ledger("icu", Budget(0.05)).charge("one-way", Budget(0.04))
    with pytest.raises(BudgetExceeded, match=r"'pairs-2' costs rho=0.02 .* 'icu'; ask for fewer"):
        ledger.charge("pairs-2", Budget(0.02))
