from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn.errors import UsageError
from heterofedsyn.schema import Domain, Encoded, EncodedTable
from heterofedsyn.simulate.split import MOST_SITES, Split, split

KINDS = [str(kind) for kind in Split]


def encoded(rows: int, seed: int = 0, people: int | None = None) -> Encoded:
    """Rows with a number of their own (two digits of base 200), and a label of four values."""
    rng = np.random.default_rng(seed)
    number = np.arange(rows)
    codes = np.stack([number // 200, number % 200, rng.integers(0, 4, rows)])
    table = EncodedTable.from_codes(Domain(("high", "low", "label"), (200, 200, 4)), codes)
    units = None if people is None else rng.integers(0, people, rows)
    return Encoded(table, rows_read=rows, units=units)


def numbers(table: EncodedTable) -> list[int]:
    return [int(high) * 200 + int(low) for high, low in table.codes[:2].T]


def cut(table: Encoded, sites: int, kind: str, seed: int = 1) -> list[EncodedTable]:
    return split(table, sites, kind, "label", np.random.default_rng(seed))


@given(
    rows=st.integers(0, 400),
    sites=st.integers(1, 30),
    kind=st.sampled_from(KINDS),
    people=st.none() | st.integers(1, 50),
    seed=st.integers(0, 99),
)
def test_every_row_goes_to_exactly_one_site(
    rows: int, sites: int, kind: str, people: int | None, seed: int
) -> None:
    tables = cut(encoded(rows, seed, people), sites, kind, seed)
    assert len(tables) == sites
    assert sorted(number for table in tables for number in numbers(table)) == list(range(rows))


@given(kind=st.sampled_from(KINDS), people=st.integers(1, 60), seed=st.integers(0, 99))
def test_all_rows_of_a_person_go_to_one_site(kind: str, people: int, seed: int) -> None:
    whole = encoded(300, seed, people)
    assert whole.units is not None
    homes: dict[int, set[int]] = {}
    for site, table in enumerate(cut(whole, 4, kind, seed)):
        for number in numbers(table):
            homes.setdefault(int(whole.units[number]), set()).add(site)
    assert all(len(sites) == 1 for sites in homes.values())


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_sites(kind: str) -> None:
    first, second, other = (cut(encoded(300), 4, kind, seed) for seed in (1, 1, 2))
    assert [numbers(table) for table in first] == [numbers(table) for table in second]
    assert [numbers(table) for table in first] != [numbers(table) for table in other]


@given(rows=st.integers(0, 5000), sites=st.integers(1, 20))
def test_uniform_sites_differ_by_at_most_one_row(rows: int, sites: int) -> None:
    sizes = [table.rows for table in cut(encoded(rows), sites, "uniform")]
    assert max(sizes) - min(sizes) <= 1


@given(rows=st.integers(0, 5000), sites=st.integers(1, 20))
def test_sizes_are_in_proportion_to_the_number_of_the_site(rows: int, sites: int) -> None:
    sizes = np.array([table.rows for table in cut(encoded(rows), sites, "sizes")])
    shares = np.arange(1, sites + 1) / (sites * (sites + 1) / 2)
    assert np.abs(sizes - rows * shares).max() <= 1


def label_shares(tables: list[EncodedTable]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return np.stack([np.bincount(table.codes[2], minlength=4) / table.rows for table in tables])


def test_a_label_split_gives_every_site_its_own_labels() -> None:
    shares = label_shares(cut(encoded(2000), 4, "label"))
    assert (shares.max(axis=1) > 0.85).all()
    assert sorted(shares.argmax(axis=1)) == [0, 1, 2, 3]


def test_a_dirichlet_split_skews_labels_and_a_uniform_one_does_not() -> None:
    spread = {
        kind: float(label_shares(cut(encoded(4000), 4, kind)).std(axis=0).mean())
        for kind in ("uniform", "dirichlet")
    }
    # A site's share of a label has standard error sqrt(1/4 * 3/4 / 1000) = 0.014.
    assert spread["uniform"] < 4 * 0.014 < spread["dirichlet"]


def test_uniform_does_not_follow_the_order_of_the_file() -> None:
    first = cut(encoded(2000), 2, "uniform")[0]
    late = np.mean(np.array(numbers(first)) >= 1000)
    assert abs(late - 0.5) < 4 * np.sqrt(0.25 / 1000)


@pytest.mark.parametrize("sites", [0, -1, MOST_SITES + 1])
def test_an_impossible_number_of_sites_is_refused(sites: int) -> None:
    with pytest.raises(UsageError, match=rf"sites \({sites}\) must be in 1"):
        cut(encoded(10), sites, "uniform")


def test_an_unknown_split_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(UsageError, match="'unifrom'; did you mean 'uniform'"):
        cut(encoded(10), 2, "unifrom")


@pytest.mark.parametrize("kind", ["label", "dirichlet"])
def test_a_split_by_label_needs_a_label(kind: str) -> None:
    with pytest.raises(UsageError, match="needs a label"):
        split(encoded(10), 2, kind, None, np.random.default_rng(0))
