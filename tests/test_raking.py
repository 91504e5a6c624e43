"""Rows are weighed so that all wanted tables fit, and taken so that errors cancel."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn._arrays import Codes, Floats
from heterofedsyn.hub.methods.attempts import Mode
from heterofedsyn.hub.methods.choosing import choose, most_extras, stands_out
from heterofedsyn.marginals import count_pairs
from heterofedsyn.schema import Clique, Domain, EncodedTable
from heterofedsyn.synthesis.raking import SPARE_ROWS, raked, spare_rows, taken

DOMAIN = Domain(("a", "b", "c"), (3, 4, 2))


def drawn(rows: int, seed: int = 0, domain: Domain = DOMAIN) -> Codes:
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, rows) for size in domain.sizes])
    return EncodedTable.from_codes(domain, codes).codes


def tables(codes: Codes, weights: Floats | None = None) -> dict[Clique, Floats]:
    """The tables of all pairs of weighted rows."""
    found: dict[Clique, Floats] = {}
    for one, other in DOMAIN.pairs():
        first, second = DOMAIN.index(one), DOMAIN.index(other)
        cells = codes[first].astype(np.int64) * DOMAIN.size(other) + codes[second]
        counts = np.bincount(cells, weights, DOMAIN.cells((one, other)))
        found[one, other] = counts.reshape(DOMAIN.shape((one, other))).astype(np.float64)
    return found


def leaning(codes: Codes) -> Floats:
    """Weights under which all three columns depend on each other in pairs."""
    a, b, c = (codes[place].astype(np.float64) for place in range(3))
    weights: Floats = np.exp(0.3 * a * b - 0.4 * b * c + 0.5 * a * c)
    return weights


@given(st.integers(0, 1_000), st.integers(0, 400))
def test_as_many_rows_are_taken_as_are_wanted_and_each_was_drawn(seed: int, rows: int) -> None:
    codes = drawn(400, seed)
    own = taken(DOMAIN, codes, tables(codes, leaning(codes)), rows, 3, np.random.default_rng(seed))
    assert own.shape == (3, rows)
    assert {*map(tuple, own.T.tolist())} <= {*map(tuple, codes.T.tolist())}


def test_weighed_rows_fit_all_wanted_tables_at_once() -> None:
    codes = drawn(20_000)
    wanted = tables(codes, leaning(codes))
    weights = raked(DOMAIN, codes, wanted, 60)
    for pair, table in tables(codes, weights).items():
        target = wanted[pair] / wanted[pair].sum()
        assert np.abs(table / table.sum() - target).max() < 1e-3, pair


def test_what_is_not_wanted_stays_as_it_was_drawn() -> None:
    codes = drawn(40_000)
    wanted: dict[Clique, Floats] = {("a", "b"): tables(codes, leaning(codes))["a", "b"]}
    weights = raked(DOMAIN, codes, wanted, 30)
    table = tables(codes, weights)["b", "c"]
    apart = table / table.sum() - np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum() ** 2
    assert np.abs(apart).max() < 4 / math.sqrt(codes.shape[1])


def test_rows_that_are_taken_in_turn_are_closer_to_their_weights_than_rows_by_lot() -> None:
    codes, rows = drawn(8_000), 2_000
    wanted = tables(codes, leaning(codes))
    own = taken(DOMAIN, codes, wanted, rows, 40, np.random.default_rng(1))
    weights = raked(DOMAIN, codes, wanted, 40)
    chances = weights / weights.sum()
    lots = codes[:, np.random.default_rng(1).choice(chances.size, rows, p=chances)]

    def off(made: Codes) -> float:
        return sum(
            float(np.abs(table / rows - wanted[pair] / wanted[pair].sum()).sum())
            for pair, table in tables(made).items()
        )

    assert off(own) < off(lots) / 4


def test_columns_come_out_as_they_are_known_though_pairs_contradict_each_other() -> None:
    codes, rows = drawn(8_000), 2_000
    wanted = tables(codes, leaning(codes))
    wanted["a", "b"] = wanted["a", "b"][::-1]  # not those of the other two
    singles = [np.arange(1.0, size + 1) for size in DOMAIN.sizes]
    own = taken(DOMAIN, codes, wanted, rows, 5, np.random.default_rng(1), singles)
    for column, single in zip(own, singles, strict=True):
        shares = np.bincount(column, minlength=single.size) / rows
        assert np.abs(shares - single / single.sum()).max() < 0.005


@pytest.mark.parametrize("empty", [("a", "b"), ("a", "c"), ("b", "c")])
def test_a_pair_of_which_rules_leave_nothing_takes_no_rows_away(empty: Clique) -> None:
    codes = drawn(400)
    wanted = tables(codes, leaning(codes))
    weights = raked(DOMAIN, codes, {**wanted, empty: np.zeros(DOMAIN.shape(empty))}, 5)
    others = {pair: table for pair, table in wanted.items() if pair != empty}
    assert weights == pytest.approx(raked(DOMAIN, codes, others, 5))


def test_rows_come_out_though_none_has_what_is_known_of_its_columns() -> None:
    """So it is with few rows if rules forbid what noise says of two columns."""
    codes = drawn(400)
    codes = codes[:, (codes[0] == 0) & (codes[1] > 0)]
    singles = [np.array(own, np.float64) for own in ([0, 20, 0], [20, 0, 0, 0], [5, 15])]
    rows, rng = 40, np.random.default_rng(1)
    own = taken(DOMAIN, codes, {}, rows, 5, rng, singles)
    assert own.shape == (3, rows)
    assert np.bincount(own[2]).tolist() == [10, 30]


def test_a_column_of_very_many_values_is_taken_in_turn_too() -> None:
    domain = Domain(("codes", "more"), (60_000, 60_000))
    codes = drawn(3_000, domain=domain)
    own = taken(domain, codes, {}, 1_000, 5, np.random.default_rng(0))
    assert own.shape == (2, 1_000)


def test_of_few_rows_more_are_drawn_than_wanted_and_of_many_no_more() -> None:
    assert spare_rows(1_000) == 4_000
    assert spare_rows(SPARE_ROWS) == SPARE_ROWS
    assert spare_rows(10 * SPARE_ROWS) == 10 * SPARE_ROWS
    assert spare_rows(0) == 0


def test_cells_that_cannot_be_lose_weight_and_never_gain_any() -> None:
    codes = drawn(5_000)
    possible = np.array([[1.0, 0.0], [1, 1], [1, 1]])
    wanted: dict[Clique, Floats] = {("a", "c"): tables(codes)["a", "c"] * possible}
    weights = raked(DOMAIN, codes, wanted, 40)
    assert tables(codes, weights)["a", "c"][0, 1] < 1e-6


# WHICH PAIRS

FULL = Mode("full", planned=6.0, shares=(0.55, 0.05, 0.38), sigma=20.0, needed=2.5)


def test_the_more_pairs_are_scored_the_surer_each_must_be() -> None:
    assert stands_out(1) == 1.0
    assert 1.6 < stands_out(100) < stands_out(1_000) < stands_out(10_000) < 5


@given(
    st.lists(st.floats(0, 0.5), min_size=15, max_size=15),
    st.floats(100, 1e6),
    st.sampled_from([None, "a"]),
)
def test_pairs_are_chosen_by_score_each_once_and_the_label_always(
    values: list[float], n: float, label: str | None
) -> None:
    domain = Domain(tuple("abcdef"), (8,) * 6)
    open_ = [pair for pair in domain.pairs() if label not in pair]
    scores = dict(zip(open_, values, strict=False))
    chosen = choose(domain, label, scores, FULL, n)
    assert len({*chosen}) == len(chosen)
    assert {pair for pair in domain.pairs() if label in pair} <= {*chosen}
    assert all(scores[pair] > 0 for pair in chosen if label not in pair)
    assert len(chosen) <= 5 + 5 + most_extras(domain)


@pytest.mark.parametrize(("n", "more"), [(500, 0), (1_000_000, 10)])
def test_a_pair_more_is_measured_where_it_saves_more_than_its_noise(n: float, more: int) -> None:
    domain = Domain(tuple("abcdef"), (8,) * 6)
    scores = dict.fromkeys(domain.pairs(), 0.05)
    assert len(choose(domain, None, scores, FULL, n)) == 5 + more


def test_counts_of_pairs_agree_with_the_plain_ones() -> None:
    codes = drawn(500)
    plain = tables(codes)
    for marginal in count_pairs(EncodedTable(DOMAIN, codes), list(DOMAIN.pairs())):
        assert np.array_equal(marginal.counts, plain[marginal.clique].ravel())
