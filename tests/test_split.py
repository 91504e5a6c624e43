from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn._arrays import Floats
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
    # As many sites as labels would leave nothing to chance in a split by label.
    first, second, other = (cut(encoded(300), 5, kind, seed) for seed in (1, 1, 2))
    assert [numbers(table) for table in first] == [numbers(table) for table in second]
    assert [numbers(table) for table in first] != [numbers(table) for table in other]


def plus(whole: Encoded, number: int, label: int, unit: int = 0) -> Encoded:
    """The same rows and one more at the end."""
    table = whole.table
    row = np.array([[number // 200], [number % 200], [label]])
    codes = np.concatenate([table.codes.astype(np.int64), row], axis=1)
    units = None if whole.units is None or unit is None else np.append(whole.units, unit)
    grown = EncodedTable.from_codes(table.domain, codes)
    return Encoded(grown, rows_read=grown.rows, units=units)


def changed(before: list[EncodedTable], after: list[EncodedTable]) -> list[list[int]]:
    """By site, the rows that are in one of two deals only."""
    pairs = zip(before, after, strict=True)
    return [sorted({*numbers(first)} ^ {*numbers(second)}) for first, second in pairs]


@given(
    rows=st.integers(0, 300),
    sites=st.integers(1, 30),
    kind=st.sampled_from(KINDS),
    people=st.none() | st.integers(1, 50),
    label=st.integers(0, 3),
    seed=st.integers(0, 99),
)
def test_one_more_is_one_row_more_at_one_site_whatever_its_label(
    rows: int, sites: int, kind: str, people: int | None, label: int, seed: int
) -> None:
    whole = encoded(rows, seed, people)
    more = plus(whole, 39_999, label, people or 0)
    found = changed(cut(whole, sites, kind, seed), cut(more, sites, kind, seed))
    assert sorted(found) == [[]] * (sites - 1) + [[39_999]]


@pytest.mark.thorough
@given(
    kind=st.sampled_from(KINDS),
    people=st.integers(1, 40),
    label=st.integers(0, 3),
    seed=st.integers(0, 99),
)
def test_another_row_of_a_person_moves_nobody_else(
    kind: str, people: int, label: int, seed: int
) -> None:
    whole = encoded(200, seed, people)
    assert whole.units is not None
    person = int(whole.units[seed])
    more = plus(whole, 39_999, label, person)
    theirs = {39_999, *np.flatnonzero(whole.units == person).tolist()}
    found = changed(cut(whole, 5, kind, seed), cut(more, 5, kind, seed))
    assert {number for numbers in found for number in numbers} <= theirs


@given(kind=st.sampled_from(KINDS), people=st.integers(1, 60), seed=st.integers(0, 99))
def test_the_order_of_a_persons_rows_does_not_decide_where_they_go(
    kind: str, people: int, seed: int
) -> None:
    whole = encoded(300, seed, people)
    assert whole.units is not None
    order = np.random.default_rng(seed).permutation(300)
    shuffled = Encoded(whole.table.take(order), rows_read=300, units=whole.units[order])
    before, after = cut(whole, 4, kind, seed), cut(shuffled, 4, kind, seed)
    assert [sorted(numbers(table)) for table in before] == [
        sorted(numbers(table)) for table in after
    ]


@given(kind=st.sampled_from(KINDS), value=st.integers(0, 3), seed=st.integers(0, 99))
def test_where_rows_go_does_not_depend_on_which_labels_others_have(
    kind: str, value: int, seed: int
) -> None:
    """All rows but the last get another label; the last, by its own draw, stays where it was."""
    whole = encoded(100, seed)
    codes = whole.table.codes.astype(np.int64)
    codes[2, :-1] = value
    others = Encoded(EncodedTable.from_codes(whole.table.domain, codes), rows_read=100)
    homes = [
        next(site for site, table in enumerate(cut(some, 7, kind, seed)) if 99 in numbers(table))
        for some in (whole, others)
    ]
    assert homes[0] == homes[1]


def near(found: Floats, chances: Floats, many: int) -> bool:
    """Whether shares of independent draws are within four standard errors of their chances."""
    return bool(np.all(np.abs(found - chances) <= 4 * np.sqrt(chances * (1 - chances) / many)))


@pytest.mark.parametrize("people", [None, 8000])
@pytest.mark.parametrize(
    ("kind", "shares"), [("uniform", [1, 1, 1, 1, 1]), ("sizes", [1, 2, 3, 4, 5])]
)
def test_sites_have_chances_as_declared(kind: str, shares: list[int], people: int | None) -> None:
    whole = encoded(20_000, people=people)
    homes = np.empty(20_000, np.int64)
    for site, table in enumerate(cut(whole, 5, kind)):
        homes[numbers(table)] = site
    if whole.units is not None:
        homes = homes[np.unique(whole.units, return_index=True)[1]]
    found = np.bincount(homes, minlength=5) / homes.size
    assert near(found, np.array(shares) / sum(shares), homes.size)
    # Draws that were not independent, such as a dealt-out pack, would fill sites too evenly.
    late = homes[homes.size // 2 :]
    assert near(
        np.bincount(late, minlength=5) / late.size, np.array(shares) / sum(shares), late.size
    )


@pytest.mark.parametrize("kind", ["uniform", "sizes"])
def test_no_size_of_a_site_is_fixed(kind: str) -> None:
    """Sizes vary as those of independent draws do: a fixed size lets one row displace others."""
    rows, sites, deals = 2000, 4, 400
    whole = encoded(rows)
    sizes = np.array(
        [[table.rows for table in cut(whole, sites, kind, seed)] for seed in range(deals)]
    )
    chances = np.full(sites, 1 / 4) if kind == "uniform" else np.arange(1, 5) / 10
    wanted = rows * chances * (1 - chances)
    # The variance of a sample variance of normal draws is 2 / (n - 1) of its square.
    assert np.all(np.abs(sizes.var(axis=0, ddof=1) / wanted - 1) <= 4 * np.sqrt(2 / (deals - 1)))


@pytest.mark.parametrize("sites", [1, 2, 3, 4, 6, 8, 11])
def test_a_label_split_gives_every_site_its_own_stretch_of_the_domain(sites: int) -> None:
    whole = encoded(20_000)
    labels = whole.table.codes[2]
    edges = np.linspace(0, 4, sites + 1)
    for value in range(4):
        many = int(np.count_nonzero(labels == value))
        overlap = np.clip(np.minimum(edges[1:], value + 1) - np.maximum(edges[:-1], value), 0, None)
        found = [np.count_nonzero(t.codes[2] == value) / many for t in cut(whole, sites, "label")]
        assert near(np.array(found), overlap, many)


def test_a_label_that_nobody_has_leaves_its_site_empty() -> None:
    whole = encoded(500)
    codes = whole.table.codes.astype(np.int64)
    codes[2] = 2
    only = Encoded(EncodedTable.from_codes(whole.table.domain, codes), rows_read=500)
    assert [table.rows for table in cut(only, 4, "label")] == [0, 0, 500, 0]


def test_dirichlet_shares_are_dirichlet() -> None:
    """Over many deals a label's share at a site has the mean and spread that the law says."""
    rows, sites, deals = 2000, 4, 300
    whole = encoded(rows)
    shares = np.empty((deals, 4, sites))
    for seed in range(deals):
        for site, table in enumerate(cut(whole, sites, "dirichlet", seed)):
            shares[seed, :, site] = np.bincount(table.codes[2], minlength=4)
    shares /= np.bincount(whole.table.codes[2], minlength=4)[None, :, None]
    # Beta(0.5, 1.5): mean 1/4, variance mean (1 - mean) / (2 + 1), and its draw of about 500 rows.
    spread = 0.25 * 0.75 / 3
    flat = shares.reshape(-1, sites)
    assert np.all(np.abs(flat.mean(axis=0) - 0.25) <= 4 * np.sqrt(spread / len(flat)))
    # A fourth moment of Beta(0.5, 1.5) about its mean is at most 0.75^2 times its variance.
    error = np.sqrt(0.75**2 * spread / len(flat))
    wanted = spread + (0.25 * 0.75 - spread) / 500
    assert np.all(np.abs(((flat - 0.25) ** 2).mean(axis=0) - wanted) <= 4 * error)


def test_a_dirichlet_split_skews_labels_and_a_uniform_one_does_not() -> None:
    def label_shares(kind: str) -> Floats:
        tables = cut(encoded(4000), 4, kind)
        return np.stack([np.bincount(table.codes[2], minlength=4) / table.rows for table in tables])

    spread = {kind: float(label_shares(kind).std(axis=0).mean()) for kind in KINDS}
    # A site's share of a label has standard error sqrt(1/4 * 3/4 / 1000) = 0.014.
    assert spread["uniform"] < 4 * 0.014 < spread["dirichlet"]


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
