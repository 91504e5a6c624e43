"""Rows that stream by: the same counts whatever is kept of them, and nothing left behind."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn import marginals
from heterofedsyn.bench.fresh_process import in_fresh_process
from heterofedsyn.errors import DataError, UsageError
from heterofedsyn.marginals import Counts, TableCounts, Tally, count_pairs
from heterofedsyn.marginals.counts import PAIRS, TRIPLES, PairCounts, View, whole
from heterofedsyn.marginals.cover import cover
from heterofedsyn.schema import Domain, EncodedTable
from support import dependent_table, tables
from tally_support import kept_rows

DOMAIN = Domain(("a", "b", "c", "d"), (3, 40, 2, 7))

KEPT = {
    "in memory": {},
    "as codes": {"BLOCK_BYTES": 1_000, "MOST_CELLS": 0},
    "as counts": {"BLOCK_BYTES": 1},
    "as codes, then as counts": {"BLOCK_BYTES": 2_000},
}


def tallied(
    table: EncodedTable,
    monkeypatch: pytest.MonkeyPatch,
    kept: dict[str, int],
    batch: int = 173,
    folder: Path | None = None,
    together: int = PAIRS,
) -> Counts:
    """The counts of a table that arrives in batches."""
    for name, value in kept.items():
        monkeypatch.setattr(marginals.tally, name, value)
    with Tally(table.domain, folder, together=together) as tally:
        for start in range(0, table.rows, batch):
            tally.add(table.codes[:, start : start + batch])
        return tally.counts()


def views(domain: Domain) -> list[View]:
    """Views of one and two attributes, some of them merged, in no particular order."""
    rng = np.random.default_rng(0)

    def merged(name: str) -> tuple[str, tuple[int, ...]]:
        size = domain.size(name)
        return name, tuple(map(int, rng.integers(0, max(1, size // 2), size)))

    found = [whole(clique) for clique in (*domain.pairs(), *domain.singles())]
    found += [(merged(one), merged(other)) for one, other in domain.pairs()]
    found += [(merged(one), (other, None)) for one, other in domain.pairs()]
    return found[::-1]


@pytest.mark.parametrize("kept", KEPT.values(), ids=KEPT)
@pytest.mark.parametrize("rows", [0, 1, 5_000])
def test_counts_are_the_same_whatever_is_kept(
    kept: dict[str, int], rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = dependent_table(DOMAIN, rows)
    found = tallied(table, monkeypatch, kept)
    plain = TableCounts(table)
    assert found.rows == rows
    found.prepare(views(DOMAIN))
    for view in views(DOMAIN):
        assert np.array_equal(found.of(view), plain.of(view))


@pytest.mark.parametrize("kept", KEPT.values(), ids=KEPT)
@pytest.mark.parametrize("rows", [0, 1, 5_000])
def test_three_columns_are_counted_whatever_is_kept(
    kept: dict[str, int], rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = dependent_table(DOMAIN, rows)
    found = tallied(table, monkeypatch, kept, together=TRIPLES)
    plain = TableCounts(table)
    halves = tuple(value // 2 for value in range(DOMAIN.size("b")))
    asked: list[View] = [
        whole(("a", "b", "c")),
        (("a", (0, 1, 1)), ("b", halves), ("d", None)),
        (("b", halves), ("c", None), ("d", (0,) * 7)),
    ]
    found.prepare([*views(DOMAIN), *asked])
    for view in (*views(DOMAIN), *asked):
        assert np.array_equal(found.of(view), plain.of(view))


def test_three_columns_are_never_counted_from_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    found = tallied(dependent_table(DOMAIN, 3_000), monkeypatch, KEPT["as counts"])
    assert isinstance(found, PairCounts)
    with pytest.raises(UsageError, match="only pairs were counted"):
        found.of(whole(("a", "b", "c")))


def test_what_is_smaller_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = sum(DOMAIN.cells(pair) for pair in DOMAIN.pairs())
    few, many = cells, 8 * cells
    kept = KEPT["as codes, then as counts"]
    assert isinstance(tallied(dependent_table(DOMAIN, few), monkeypatch, kept), TableCounts)
    assert isinstance(tallied(dependent_table(DOMAIN, many), monkeypatch, kept), PairCounts)


def test_one_attribute_has_no_pairs_but_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    table = dependent_table(Domain(("a",), (5,)), 3_000)
    found = tallied(table, monkeypatch, KEPT["as counts"])
    assert np.array_equal(found.of(whole(("a",))), np.bincount(table.codes[0], minlength=5))


def test_the_copy_has_no_name_and_is_for_its_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = dependent_table(DOMAIN, 5_000)
    descriptors = Path("/proc/self/fd")
    before = {*descriptors.iterdir()}
    found = tallied(table, monkeypatch, KEPT["as codes"], folder=tmp_path)
    assert list(tmp_path.iterdir()) == []
    kept = [path.stat() for path in descriptors.iterdir() if path not in before and path.exists()]
    ours = [s for s in kept if stat.S_ISREG(s.st_mode) and s.st_dev == tmp_path.stat().st_dev]
    assert [(stat.S_IMODE(s.st_mode), s.st_nlink) for s in ours] == [(0o600, 0)]
    assert ours[0].st_size >= 0.9 * table.codes.nbytes
    assert found.rows == table.rows


def test_a_folder_without_room_is_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match=r"cannot keep the encoded rows in .*TMPDIR"):
        tallied(
            dependent_table(DOMAIN, 5_000),
            monkeypatch,
            KEPT["as codes"],
            folder=tmp_path / "missing",
        )


@given(st.integers(3, 30), st.integers(0, 2**32), st.sampled_from([1_000, 10**5, 10**8]))
def test_every_pair_is_in_one_group_and_no_group_is_too_large(
    attributes: int, seed: int, rows: int
) -> None:
    rng = np.random.default_rng(seed)
    sizes = tuple(map(int, rng.integers(1, 120, attributes)))
    every = [(a, b) for b in range(attributes) for a in range(b)]
    pairs = tuple(pair for pair in every if rng.random() < 0.7)
    found = cover(pairs, sizes, rows)
    covered = [(a, b) for g in found for i, b in enumerate(g) for a in g[:i]]
    assert sorted(covered) == sorted(pairs)
    for group in found:
        assert len(group) == 2 or np.prod([sizes[a] for a in group]) <= min(2**17, rows / 2)


@given(tables(most_rows=3_000), st.integers(1, 3))
def test_triples_count_what_pairs_count(table: EncodedTable, threads: int) -> None:
    alone = {pair: count_pairs(table, [pair])[0].counts for pair in table.domain.pairs()}
    for found in count_pairs(table, threads=threads):
        assert np.array_equal(found.counts, alone[found.clique])


# MEMORY

FEW_VALUES = Domain(tuple(f"a{i}" for i in range(10)), (30,) * 10)
MANY_VALUES = Domain(("a", "b", "c"), (9_000, 9_000, 2))
"""A pair of these has more cells than are ever kept as counts."""


@pytest.mark.thorough
def test_memory_does_not_grow_with_rows_that_are_kept_as_counts() -> None:
    few, many = (in_fresh_process(kept_rows, FEW_VALUES, n).result for n in (40, 400))
    assert not few.as_codes
    assert not many.as_codes
    assert many.codes > few.codes + 300
    assert many.counting < few.counting + 29


@pytest.mark.thorough
def test_memory_does_not_grow_with_rows_that_are_kept_as_codes() -> None:
    few, many = (in_fresh_process(kept_rows, MANY_VALUES, n).result for n in (60, 600))
    assert few.as_codes
    assert many.as_codes
    more = many.codes - few.codes
    assert more > 300
    assert many.adding < few.adding + 29
    assert many.anonymous < few.anonymous + 29
    assert many.counting < few.counting + more + 29  # mapped once, never copied
