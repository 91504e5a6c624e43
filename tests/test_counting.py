"""Exact counts: the kernels agree with the obvious way to count."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn import marginals
from heterofedsyn._arrays import Integers, stream
from heterofedsyn.errors import UsageError
from heterofedsyn.marginals import TableCounts, count_pairs
from heterofedsyn.marginals.counts import Side, View, count_views, shape, whole
from heterofedsyn.marginals.cover import cover
from heterofedsyn.schema import Domain, EncodedTable
from support import dependent_table, tables

pytestmark = pytest.mark.sweep


def plain(table: EncodedTable, a: str, b: str) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    sizes = table.domain.shape((a, b))
    out = np.zeros(sizes, dtype=np.int64)
    np.add.at(out, (table.codes[table.domain.index(a)], table.codes[table.domain.index(b)]), 1)
    return out.ravel()


@given(tables(most_rows=200), st.integers(1, 3))
def test_all_pairs_are_counted_exactly_with_any_number_of_threads(
    table: EncodedTable, threads: int
) -> None:
    for found in count_pairs(table, threads=threads):
        assert np.array_equal(found.counts, plain(table, *found.clique))


@pytest.mark.parametrize("size", [2, 256, 257, 1000])
def test_wide_attributes_are_counted_exactly(size: int) -> None:
    rng = np.random.default_rng(size)
    domain = Domain(("a", "b"), (size, 300))
    codes = np.stack([rng.integers(0, s, 50_000) for s in domain.sizes])
    table = EncodedTable.from_codes(domain, codes)
    (found,) = count_pairs(table)
    assert np.array_equal(found.counts, plain(table, "a", "b"))


def test_a_pair_that_is_asked_for_twice_is_refused() -> None:
    table = dependent_table(Domain(("a", "b"), (3, 4)), 10)
    with pytest.raises(UsageError, match="asked for twice"):
        count_pairs(table, [("a", "b"), ("a", "b")])


@pytest.mark.thorough
def test_a_thousand_columns_are_covered_by_triples() -> None:
    pairs = tuple((a, b) for b in range(1_000) for a in range(b))
    groups = cover(pairs, (10,) * 1_000, 10**6)
    assert sum(len(group) == 3 for group in groups) * 3 > 0.7 * len(pairs)


@pytest.mark.parametrize("rows", [0, 5, 400])
def test_many_maps_of_one_pair_take_few_passes_and_count_the_same(rows: int) -> None:
    asked: list[View] = []

    class Watched(TableCounts):
        def _count(self, views: Sequence[View]) -> list[Integers]:
            asked.extend(views)
            return super()._count(views)

    table = dependent_table(Domain(("a", "b", "c"), (4, 5, 3)), rows)
    rng = np.random.default_rng(rows)
    maps = [(rng.integers(0, 3, 4), rng.integers(0, 2, 5)) for _ in range(40)]
    views: list[View] = [
        (("a", tuple(map(int, one))), ("b", tuple(map(int, other)) if number % 3 else None))
        for number, (one, other) in enumerate(maps)
    ]
    views += [whole(("b", "c")), whole(("a",)), (("c", (0, 0, 1)),)]
    counts = Watched(table)
    counts.prepare(views)
    assert len(asked) == (4 if rows == 400 else len({*views}))
    for view in views:
        assert np.array_equal(counts.of(view), count_views([table], [view], table.domain)[0])


@given(tables(most_rows=100))
def test_singles_are_the_sums_of_pairs(table: EncodedTable) -> None:
    counts = TableCounts(table)
    a, b = table.domain.names[:2]
    joint = counts.of(whole((a, b))).reshape(table.domain.shape((a, b)))
    assert np.array_equal(counts.of(whole((a,))), joint.sum(axis=1))
    assert np.array_equal(counts.of(whole((b,))), joint.sum(axis=0))


@given(st.data(), st.integers(0, 300), st.integers(1, 3))
def test_three_columns_are_counted_as_numpy_counts_them_whatever_is_merged(
    data: st.DataObject, rows: int, threads: int
) -> None:
    sizes = tuple(data.draw(st.lists(st.integers(1, 300), min_size=3, max_size=4)))
    table = dependent_table(Domain(tuple("abcd"[: len(sizes)]), sizes), rows)
    views: list[View] = []
    for clique in combinations(table.domain.names, 3):
        sides: list[Side] = []
        for name in clique:
            size = table.domain.size(name)
            number = data.draw(st.integers(1, min(size, 9)))
            groups = tuple(value * number // size for value in range(size))
            sides.append((name, None if number == 9 else groups))
        views.append(tuple(sides))
    views += [views[0][:2], views[0][:1], views[0][1:], whole(table.domain.names[:2])]
    views = [*dict.fromkeys(views)]
    for view, found in zip(views, count_views([table], views, table.domain, threads), strict=True):
        codes = [
            (np.arange(table.domain.size(name)) if groups is None else np.array(groups))[
                table.codes[table.domain.index(name)]
            ]
            for name, groups in view
        ]
        expected = np.zeros(shape(view, table.domain), np.int64)
        np.add.at(expected, tuple(codes), 1)
        assert np.array_equal(found, expected.ravel())


@pytest.mark.parametrize("sizes", [(256, 1, 256), (256, 256, 256), (1, 256, 2), (3, 40_000, 90)])
def test_three_wide_columns_are_counted_exactly(sizes: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, 2_000) for size in sizes])
    codes[:, 0] = np.array(sizes) - 1
    table = EncodedTable.from_codes(Domain(("a", "b", "c"), sizes), codes)
    found = TableCounts(table).of(whole(("a", "b", "c"))).reshape(sizes)
    expected = np.zeros(sizes, np.int64)
    np.add.at(expected, tuple(codes), 1)
    assert np.array_equal(found, expected)


@given(tables(most_rows=100))
def test_pairs_are_the_sums_of_three_columns(table: EncodedTable) -> None:
    counts = TableCounts(table)
    for clique in combinations(table.domain.names, 3):
        joint = counts.of(whole(clique)).reshape(table.domain.shape(clique))
        for axis in range(3):
            pair = clique[:axis] + clique[axis + 1 :]
            assert np.array_equal(counts.of(whole(pair)), joint.sum(axis=axis).ravel())


def test_many_maps_of_three_columns_take_one_pass_and_count_the_same() -> None:
    table = dependent_table(Domain(("a", "b", "c"), (4, 5, 3)), 400)
    rng = np.random.default_rng(0)
    views: list[View] = [
        (("a", tuple(map(int, rng.integers(0, 3, 4)))), ("b", None), ("c", (0, number % 2, 1)))
        for number in range(12)
    ]
    counts = TableCounts(table)
    counts.prepare(views)
    for view in views:
        assert np.array_equal(counts.of(view), count_views([table], [view], table.domain)[0])


@given(tables(most_rows=60), st.integers(1, 5), st.integers(0, 2**32))
def test_the_sum_over_sites_is_the_same_whatever_the_split(
    table: EncodedTable, sites: int, seed: int
) -> None:
    site = np.random.default_rng(seed).integers(0, sites, table.rows)
    whole = count_pairs(table)
    parts = [count_pairs(table.take(np.flatnonzero(site == i))) for i in range(sites)]
    for i, found in enumerate(whole):
        assert np.array_equal(found.counts, sum(part[i].counts for part in parts))


@pytest.mark.thorough
def test_maps_of_past_queries_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 2**17
    monkeypatch.setattr(marginals.counts, "_MOST_KEPT", most)
    rng = np.random.default_rng(0)
    domain = Domain(("a", "b"), (2_000, 2))
    codes = np.stack([rng.integers(0, size, 100) for size in domain.sizes])
    counts = TableCounts(EncodedTable.from_codes(domain, codes))
    held = []
    tracemalloc.start()
    try:
        for _ in range(40):
            # Few cells, long maps: all but the first value of each go into one of two groups.
            maps = [(0, 1, *map(int, rng.integers(0, 2, 1_998))) for _ in range(10)]
            views = [(("a", groups), ("b", None)) for groups in maps]
            counts.prepare(views)
            for groups, view in zip(maps, views, strict=True):
                merged = np.array(groups)[codes[0]] * 2 + codes[1]
                assert np.array_equal(counts.of(view), np.bincount(merged, minlength=4))
            del maps, views, groups, view
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert max(held) < 8 * most + 500_000


def test_streams_of_one_seed_for_different_purposes_are_independent() -> None:
    draws = [stream(0, purpose).random(1_000) for purpose in ("cut", "sample", "split")]
    draws.append(np.random.default_rng(0).random(1_000))
    for i, one in enumerate(draws):
        for other in draws[:i]:
            assert abs(np.corrcoef(one, other)[0, 1]) < 4 / np.sqrt(1_000)
    assert np.array_equal(draws[0], stream(0, "cut").random(1_000))
