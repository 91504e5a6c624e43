"""Scores of a synthetic table: distances are distances, and queries count what they say."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv
from scipy.optimize import linprog

from heterofedsyn._arrays import Floats, Integers
from heterofedsyn.errors import DataError, UsageError
from heterofedsyn.evaluation import (
    QUICK,
    Evaluator,
    RangeQueries,
    coarse,
    histogram_wasserstein,
    range_query_error,
    read_real,
    score,
    total_variation,
)
from heterofedsyn.evaluation.queries import cut_to, seeded_queries
from heterofedsyn.evaluation.wasserstein import grid_distance
from heterofedsyn.schema import (
    BooleanColumn,
    CategoricalColumn,
    DatetimeColumn,
    EncodedTable,
    IntegerColumn,
    NumberColumn,
    Schema,
    decode,
    encode,
)
from support import categories, dependent_table

EVERY_KIND = Schema(
    (
        IntegerColumn("age", 17, 90, bins=37, atoms=(18,)),
        NumberColumn("weight", -1.5, 2.5, bins=100, atoms=(0.0,), nullable=True),
        DatetimeColumn("seen", datetime(2025, 1, 1), datetime(2025, 12, 31), bins=12),
        CategoricalColumn("ward", ("a", "b", "?"), other="?", nullable=True),
        BooleanColumn("smokes"),
    )
)


def made_up(schema: Schema, rows: int, seed: int = 0) -> pa.Table:
    """Rows that use every code, nulls included, and lean on one another."""
    table = dependent_table(schema.domain, rows, seed)
    return decode(schema, table, np.random.default_rng(seed))


def as_text(table: pa.Table) -> pa.Table:
    """The table as a CSV file would give it back: text, with empty text for null."""
    columns = [column.cast(pa.string()).fill_null("") for column in table.columns]
    return pa.table(columns, names=table.column_names)


def values_of(schema: Schema, table: pa.Table) -> Floats:
    return read_real(schema, table).values


def histograms(rows: int, columns: int) -> st.SearchStrategy[Integers]:
    counts = st.lists(st.integers(0, 9), min_size=rows * columns, max_size=rows * columns)
    return counts.filter(any).map(lambda cells: np.array(cells).reshape(rows, columns))


@st.composite
def several_histograms(draw: st.DrawFn, number: int) -> list[Integers]:
    shape = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    return [draw(histograms(*shape)) for _ in range(number)]


# Coarser grids


def test_a_coarse_schema_has_fewer_bins_no_atoms_and_all_else_as_before() -> None:
    grid = coarse(EVERY_KIND, 20)
    assert grid.domain.sizes == (20, 21, 12, 4, 2)
    for before, after in zip(EVERY_KIND.columns, grid.columns, strict=True):
        if isinstance(after, IntegerColumn | NumberColumn | DatetimeColumn):
            assert after.atoms == ()
            same = ("name", "min", "max", "nullable")
            assert all(getattr(after, name) == getattr(before, name) for name in same)
        else:
            assert after == before
    assert coarse(grid, 20) == grid


def test_bins_that_are_cut_out_of_coarse_ones_are_at_least_as_far_apart() -> None:
    schema = Schema(tuple(NumberColumn(name, 0, 1, bins=60) for name in "abc"))
    tables = [made_up(schema, 300, seed) for seed in (0, 1)]
    fine = total_variation(*(encode(schema, table.to_batches()).table for table in tables))
    grid = coarse(schema)
    wide = total_variation(*(encode(grid, table.to_batches()).table for table in tables))
    assert 0 < wide.one_way < fine.one_way
    assert 0 < wide.two_way < fine.two_way


# Values


def test_values_are_the_same_from_text_from_types_and_from_dictionaries() -> None:
    table = made_up(EVERY_KIND, 500)
    values = values_of(EVERY_KIND, table)
    coded = pa.table({name: table[name].dictionary_encode() for name in table.column_names})
    assert np.isnan(values[[1, 3]]).any(axis=1).all()
    assert not np.isnan(values[[0, 2, 4]]).any()
    np.testing.assert_array_equal(values_of(EVERY_KIND, as_text(table)), values)
    np.testing.assert_array_equal(values_of(EVERY_KIND, coded), values)


def test_values_keep_the_rows_that_encoding_keeps_and_clamp_what_it_clamps() -> None:
    columns = {
        "age": ["20", "17.5", "200", "", "30"],
        "weight": ["", "0", "-inf", "1", "much"],
        "seen": ["2025-06-01"] * 5,
        "ward": ["b", "a", "elsewhere", "a", "a"],
        "smokes": ["true", "0", "False", "1", "1"],
    }
    table = pa.table(columns)
    kept = encode(EVERY_KIND, table.to_batches()).table
    values = values_of(EVERY_KIND, table)
    assert kept.rows == 2
    june = (datetime(2025, 6, 1) - datetime(1970, 1, 1)).total_seconds()
    expected = [[20, 90], [np.nan, -1.5], [june, june], [1, 2], [1, 0]]
    np.testing.assert_array_equal(values, np.array(expected))


def test_a_missing_column_is_named() -> None:
    table = made_up(EVERY_KIND, 5).drop_columns(["ward"])
    with pytest.raises(DataError, match="no column 'ward'"):
        range_query_error(EVERY_KIND, table, table)


# Queries


@given(st.integers(1, 5), st.integers(0, 2**32))
def test_queries_stay_inside_the_public_ranges_and_repeat_no_attribute(
    ways: int, seed: int
) -> None:
    queries = seeded_queries(EVERY_KIND, ways, 50, seed)
    assert queries.places.shape == queries.low.shape == queries.high.shape == (50, ways)
    assert all(len(set(row)) == ways for row in queries.places.tolist())
    assert (queries.low <= queries.high).all()
    first = datetime(1970, 1, 1)
    seconds = [
        (day - first).total_seconds() for day in (datetime(2025, 1, 1), datetime(2025, 12, 31))
    ]
    ends = np.array([[17, 90], [-1.5, 2.5], seconds, [0, 2], [0, 1]])[queries.places]
    assert (queries.low >= ends[..., 0]).all()
    assert (queries.high <= ends[..., 1]).all()
    category = queries.places >= 3
    assert (queries.low == queries.high)[category].all()
    assert (queries.low == np.floor(queries.low))[category].all()


def test_attributes_and_ends_of_intervals_are_uniform() -> None:
    schema = Schema((NumberColumn("x", 0, 1), NumberColumn("y", 0, 1), BooleanColumn("c")))
    n = 20_000
    queries = RangeQueries.draw(schema, 1, n, np.random.default_rng(0))
    place, low, high = queries.places[:, 0], queries.low[:, 0], queries.high[:, 0]
    assert np.abs(np.bincount(place) / n - 1 / 3).max() < 4 * np.sqrt(2 / 9 / n)
    numeric = place < 2
    part = (high - low)[numeric] / (1 - low[numeric])
    error = 4 * np.sqrt(1 / 12 / numeric.sum())
    assert abs(low[numeric].mean() - 0.5) < error
    assert abs(part.mean() - 0.5) < error
    assert abs(low[~numeric].mean() - 0.5) < 4 * np.sqrt(1 / 4 / (~numeric).sum())


def test_a_seed_always_asks_the_same_and_another_seed_asks_something_else() -> None:
    one, same, other = (seeded_queries(EVERY_KIND, 2, seed=seed) for seed in (5, 5, 6))
    assert np.array_equal(one.places, same.places)
    assert np.array_equal(one.low, same.low)
    assert np.array_equal(one.high, same.high)
    assert not np.array_equal(one.low, other.low)


@pytest.mark.thorough
@given(st.integers(1, 5), st.integers(1, 40), st.integers(0, 2**32))
def test_an_answer_is_the_part_of_the_rows_that_satisfies_every_condition(
    ways: int, rows: int, seed: int
) -> None:
    values = values_of(EVERY_KIND, made_up(EVERY_KIND, rows, seed))
    queries = seeded_queries(EVERY_KIND, ways, 20, seed)
    for query, answer in enumerate(queries.answer(values)):
        ends = (queries.places[query], queries.low[query], queries.high[query])
        conditions = list(zip(*ends, strict=True))
        held = sum(
            all(low <= row[place] <= high for place, low, high in conditions) for row in values.T
        )
        assert answer == held / max(1, rows)


def test_a_null_satisfies_no_condition() -> None:
    values = np.full((len(EVERY_KIND.columns), 10), np.nan)
    assert not seeded_queries(EVERY_KIND, 1).answer(values).any()


def test_query_error_is_a_distance_between_tables_whatever_the_order_of_rows() -> None:
    first, second, third = (made_up(EVERY_KIND, rows, rows) for rows in (200, 300, 400))

    def error(one: pa.Table, other: pa.Table) -> float:
        return range_query_error(EVERY_KIND, one, other, queries=200)

    shuffled = first.take(np.random.default_rng(0).permutation(200))
    assert error(first, shuffled) == error(first, pa.concat_tables([first, first])) == 0
    assert error(first, second) == error(second, first) > 0
    assert error(first, third) <= error(first, second) + error(second, third) + 1e-12


def test_one_value_too_many_is_seen_by_the_queries_that_ask_for_it() -> None:
    schema = categories(2)
    real, synthetic = pa.table({"a0": ["v0", "v1"]}), pa.table({"a0": ["v0", "v0"]})
    assert range_query_error(schema, real, synthetic, ways=1) == 0.5


def test_a_cut_table_is_a_random_part_of_the_whole() -> None:
    values = np.arange(1000.0).reshape(1, -1)
    part = cut_to(values, 100)[0]
    assert len(part) == len(set(part)) == 100
    assert set(part) <= set(values[0])
    assert abs(part.mean() - values.mean()) < 4 * values.std() / 10
    assert np.array_equal(np.sort(cut_to(values, 5000)), values)
    assert not np.array_equal(part, cut_to(values, 100, seed=1)[0])


def test_cutting_a_larger_table_to_the_real_rows_changes_the_error_and_a_smaller_one_not() -> None:
    small, large = made_up(EVERY_KIND, 50), made_up(EVERY_KIND, 2000, 1)

    def error(real: pa.Table, synthetic: pa.Table, cut: bool) -> float:
        return range_query_error(EVERY_KIND, real, synthetic, ways=1, queries=100, cut=cut)

    assert error(small, large, cut=True) != error(small, large, cut=False)
    assert error(large, small, cut=True) == error(large, small, cut=False)


@pytest.mark.parametrize(("ways", "queries"), [(0, 10), (6, 10), (1, 0)])
def test_queries_that_cannot_be_asked_are_refused(ways: int, queries: int) -> None:
    table = made_up(EVERY_KIND, 5)
    with pytest.raises(UsageError, match="must be"):
        range_query_error(EVERY_KIND, table, table, ways, queries)


# Wasserstein


def transport(first: Integers, second: Integers) -> float:
    """Optimal transport as the linear program over all pairs of cells."""
    rows, columns = first.shape
    i, j = np.divmod(np.arange(first.size), columns)
    cost = np.abs(np.subtract.outer(i, i)) / rows + np.abs(np.subtract.outer(j, j)) / columns
    one, eye = np.ones((1, first.size)), np.eye(first.size)
    sums = np.vstack([np.kron(eye, one), np.kron(one, eye)])
    masses = np.concatenate([first.ravel() / first.sum(), second.ravel() / second.sum()])
    return float(linprog(cost.ravel(), A_eq=sums, b_eq=masses, method="highs").fun)


@pytest.mark.thorough
@given(several_histograms(2))
def test_the_distance_is_that_of_the_linear_program(both: list[Integers]) -> None:
    assert grid_distance(*both) == pytest.approx(transport(*both), abs=1e-9)


@pytest.mark.parametrize("shape", [(20, 20), (20, 17), (19, 7)])
def test_the_distance_on_a_large_grid_is_that_of_the_cheapest_flow(
    shape: tuple[int, int],
) -> None:
    # The linear program of the flow on the edges is small enough for any grid.
    rng = np.random.default_rng(0)
    first, second = rng.poisson(2, shape), rng.poisson(rng.gamma(0.3, 7, shape))
    cells = np.arange(first.size).reshape(shape)
    down = [(a, b, 1 / shape[0]) for a, b in zip(cells[:-1].flat, cells[1:].flat, strict=True)]
    right = [
        (a, b, 1 / shape[1]) for a, b in zip(cells[:, :-1].flat, cells[:, 1:].flat, strict=True)
    ]
    edges = [*down, *right, *((b, a, cost) for a, b, cost in (*down, *right))]
    leaving = np.zeros((first.size, len(edges)))
    for edge, (a, b, _) in enumerate(edges):
        leaving[a, edge], leaving[b, edge] = 1, -1
    apart = (first / first.sum() - second / second.sum()).ravel()
    costs = [cost for _, _, cost in edges]
    best = linprog(costs, A_eq=leaving, b_eq=apart, method="highs").fun
    assert grid_distance(first, second) == pytest.approx(best, abs=1e-9)


@pytest.mark.thorough
@given(st.integers(1, 30).flatmap(lambda n: st.tuples(histograms(1, n), histograms(1, n))))
def test_along_one_axis_the_distance_is_the_area_between_cumulative_sums(
    both: tuple[Integers, Integers],
) -> None:
    cumulated = [np.cumsum(counts / counts.sum()) for counts in both]
    area = np.abs(cumulated[0] - cumulated[1]).sum() / both[0].size
    assert grid_distance(*both) == pytest.approx(area, abs=1e-12)
    assert grid_distance(both[0].T, both[1].T) == pytest.approx(area, abs=1e-12)


@given(several_histograms(3))
def test_the_distance_is_a_metric(three: list[Integers]) -> None:
    first, second, third = three
    assert grid_distance(first, second) == grid_distance(second, first)
    assert grid_distance(first, third) <= (
        grid_distance(first, second) + grid_distance(second, third) + 1e-12
    )
    equal = np.array_equal(first * second.sum(), second * first.sum())
    assert (grid_distance(first, second) == 0) == equal


@given(histograms(3, 4), st.integers(0, 3), st.integers(0, 2), st.integers(1, 10**6))
def test_shifting_all_mass_costs_the_way_whatever_the_number_of_rows(
    counts: Integers, down: int, right: int, times: int
) -> None:
    first, second = np.zeros((2, 7, 9), np.int64)
    first[:3, :4] = counts
    second[down : down + 3, right : right + 4] = counts * times
    assert grid_distance(first, second) == pytest.approx(down / 7 + right / 9, rel=1e-12)


def test_a_pair_that_only_one_table_holds_is_as_far_as_cells_can_be() -> None:
    nothing, something = np.zeros((4, 5), np.int64), np.eye(4, 5, dtype=np.int64)
    corners = np.zeros((2, 4, 5), np.int64)
    corners[0, 0, 0] = corners[1, -1, -1] = 1
    assert grid_distance(nothing, something) == pytest.approx(grid_distance(*corners))
    assert grid_distance(nothing, nothing) == 0


def test_the_histogram_distance_is_the_mean_over_numeric_pairs_without_nulls() -> None:
    tables = [made_up(EVERY_KIND, rows, rows) for rows in (150, 220)]
    sizes, distances = {0: 20, 1: 20, 2: 12}, []
    values = [values_of(EVERY_KIND, table) for table in tables]
    days = np.array([datetime(2025, 1, 1), datetime(2025, 12, 31)], "datetime64[s]").astype(float)
    ends = {0: (17, 90), 1: (-1.5, 2.5), 2: (days[0], days[1])}
    for pair in ((0, 1), (0, 2), (1, 2)):
        grids = []
        for rows in values:
            known = rows[:, ~np.isnan(rows[list(pair)]).any(axis=0)]
            places = []
            for column in pair:
                low, high = ends[column]
                part = (known[column] - low) / (high - low) * sizes[column]
                places.append(np.minimum((part + 1e-9).astype(int), sizes[column] - 1))
            counts = np.zeros([sizes[column] for column in pair], np.int64)
            np.add.at(counts, tuple(places), 1)
            grids.append(counts)
        distances.append(grid_distance(*grids))
    found = histogram_wasserstein(EVERY_KIND, *tables)
    assert found == pytest.approx(np.mean(distances), rel=1e-12)


def test_there_is_no_histogram_distance_without_two_numeric_columns() -> None:
    schema = replace(EVERY_KIND, columns=EVERY_KIND.columns[2:])
    table = made_up(schema, 10)
    assert histogram_wasserstein(schema, table, table) is None


# All scores


def flat(scores: dict[str, Any], path: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in scores.items():
        found |= flat(value, f"{path}{name}.") if isinstance(value, dict) else {path + name: value}
    return found


def test_equal_tables_score_zero_everywhere_and_others_nowhere() -> None:
    real, other = made_up(EVERY_KIND, 200), made_up(EVERY_KIND, 300, 1)
    same, apart = (flat(score(EVERY_KIND, real, made, test=real)) for made in (real, other))
    assert same.pop("remarks") == apart.pop("remarks") == []
    assert set(same.values()) == {0.0}
    assert all(0 < value < 1 for value in apart.values())


def test_scores_are_those_of_the_single_functions() -> None:
    real, made, test = (made_up(EVERY_KIND, rows, rows) for rows in (200, 300, 50))
    grid = coarse(EVERY_KIND)

    def encoded(schema: Schema, table: pa.Table) -> EncodedTable:
        return encode(schema, table.to_batches()).table

    def queries(against: pa.Table, cut: bool) -> dict[str, float]:
        return {
            f"{ways}_way": range_query_error(EVERY_KIND, against, made, ways, seed=3, cut=cut)
            for ways in (1, 2, 3)
        }

    fine = total_variation(encoded(EVERY_KIND, real), encoded(EVERY_KIND, made))
    wide = total_variation(encoded(grid, real), encoded(grid, made))
    assert score(EVERY_KIND, real, made, test, seed=3) == {
        "tvd": {
            "one_way": fine.one_way,
            "two_way": fine.two_way,
            "one_way_20": wide.one_way,
            "two_way_20": wide.two_way,
        },
        "query": {"train": queries(real, cut=False), "test": queries(test, cut=True)},
        "fidelity": {"histogram": histogram_wasserstein(EVERY_KIND, real, made)},
        "remarks": [],
    }


def test_without_a_test_table_or_enough_columns_those_scores_are_left_out() -> None:
    schema = categories(3, 2)
    real, made = made_up(schema, 30), made_up(schema, 40, 1)
    scores = json.loads(json.dumps(score(schema, real, made)))
    assert set(scores["query"]) == {"train"}
    assert set(scores["query"]["train"]) == {"1_way", "2_way"}
    assert scores["fidelity"] == {"histogram": None}
    assert Evaluator(schema, real).score(made, QUICK).test is None


def test_tables_may_come_as_files_frames_and_streams(tmp_path: Path) -> None:
    real, made = made_up(EVERY_KIND, 60), made_up(EVERY_KIND, 70, 1)
    expected = score(EVERY_KIND, real, made)
    path = tmp_path / "real.csv"
    csv.write_csv(as_text(real), path)
    assert score(EVERY_KIND, path, made.to_pandas()) == expected
    assert score(EVERY_KIND, real.to_reader(), made.to_reader(max_chunksize=9)) == expected


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_table_without_rows_cannot_be_compared(place: int) -> None:
    tables = [made_up(EVERY_KIND, 60)] * 3
    tables[place] = tables[place].slice(0, 0)
    whose = ("real", "synthetic", "test")[place]
    with pytest.raises(DataError, match=f"the {whose} table has no rows"):
        score(EVERY_KIND, *tables)
