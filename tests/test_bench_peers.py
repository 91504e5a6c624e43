"""Central methods beside ours: they spend what they are given, and no release comes of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from heterofedsyn._arrays import Floats
from heterofedsyn.bench.families import family
from heterofedsyn.bench.peers import aim, central, field, mst
from heterofedsyn.bench.peers.aim import Aim
from heterofedsyn.bench.peers.central import Peer, pairs_of, singles_of
from heterofedsyn.bench.peers.field import Bough, Field, Measured
from heterofedsyn.bench.peers.match import Match, coarser
from heterofedsyn.bench.peers.mst import Mst
from heterofedsyn.errors import UsageError
from heterofedsyn.evaluation import total_variation
from heterofedsyn.hub import METHODS
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.schema import Clique, Domain, EncodedTable, IntegerColumn, Schema, encode
from invented import Desk
from support import categories

pytestmark = pytest.mark.thorough
needs_mbi = pytest.mark.skipif(find_spec("mbi") is None, reason="mbi, the extra pgm, is missing")

PEERS = [Mst(iterations=200), Aim(rounds=3, iterations=200)]
SMALL = ("bench", "peers", "--family", "binary", "--rows", "400", "--columns", "5", "--seeds", "2")


def small(name: str = "small-categories", rows: int = 2_000) -> EncodedTable:
    made = family(name).invent(np.random.default_rng(0), rows, 5)
    return encode(made.schema, made.rows.to_batches()).table


@pytest.fixture(scope="module")
def loop() -> tuple[EncodedTable, Field]:
    """A model whose pairs form a square with a tail, so that it must be triangulated."""
    table = small()
    names = table.domain.names
    exact = {**singles_of(table), **pairs_of(table)}
    edges = [(names[i], names[j]) for i, j in ((0, 1), (1, 2), (2, 3), (0, 3), (3, 4))]
    measured = [Measured(pair, exact[pair].ravel(), 1.0) for pair in edges]
    return table, field.fit(table.domain, measured, 1000)


@needs_mbi
def test_the_tables_of_all_pairs_are_those_that_mbi_finds(loop: tuple[EncodedTable, Field]) -> None:
    import jax

    table, model = loop
    found = model.pairs()
    assert sorted(found) == sorted(table.domain.pairs())
    for pair, own in found.items():
        with jax.enable_x64(True):
            numbers = tuple(table.domain.index(name) for name in pair)
            theirs = np.asarray(model.model.project(numbers).values)
        assert np.allclose(own, theirs, atol=1e-6 * table.rows)


@needs_mbi
def test_rows_follow_the_model_and_the_model_what_was_measured(
    loop: tuple[EncodedTable, Field],
) -> None:
    table, model = loop
    assert model.total == pytest.approx(table.rows)
    drawn = model.draw(20_000, np.random.default_rng(0))
    expected, seen = model.pairs(), pairs_of(drawn)
    exact = pairs_of(table)
    for pair, own in expected.items():
        assert np.abs(seen[pair] / 20_000 - own / model.total).sum() < 0.03
    first = table.domain.names[:2]
    assert np.abs(expected[first] - exact[first]).sum() < 0.01 * table.rows


def test_two_tables_of_a_clique_count_by_their_precision() -> None:
    noisy = Measured(("a",), np.array([10.0, 0.0]), 2.0)
    better = Measured(("a",), np.array([20.0, 5.0]), 1.0)
    (both,) = field.combined([noisy, better])
    assert np.allclose(both.values, [18.0, 4.0])
    assert both.sigma**-2 == pytest.approx(1 / 4 + 1)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: type(peer).__name__)
@pytest.mark.parametrize("epsilon", [0.5, 5.0])
def test_a_peer_spends_all_of_its_budget_and_no_more(
    peer: Peer, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent: list[float] = []

    def measured(clique: Clique, exact: Any, sigma: float, rng: Any) -> Measured:
        spent.append(1 / (2 * sigma**2))
        return central.measure(clique, exact, sigma, rng)

    def chosen(scores: Any, epsilon: float, sensitivity: float, rng: Any) -> int:
        spent.append(epsilon**2 / 8)
        return central.choose(scores, epsilon, sensitivity, rng)

    def unfitted(domain: Domain, tables: list[Measured], *rest: Any) -> Field:
        """Columns that are alike and independent: what is spent must not hang on the model."""
        even: dict[Clique, Floats] = {
            (name,): np.ones(size) for name, size in zip(domain.names, domain.sizes, strict=True)
        }
        boughs = tuple(Bough(one, i - 1 if i else None, ()) for i, one in enumerate(even))
        return Field(domain, 1.0, boughs, even, None)

    for module in (mst, aim):
        monkeypatch.setattr(module, "fit", unfitted)
        monkeypatch.setattr(module, "measure", measured)
        monkeypatch.setattr(module, "choose", chosen)
    budget = Budget.of(epsilon=epsilon, delta=1e-9)
    peer.run(small(), budget, np.random.default_rng(1))
    assert sum(spent) == pytest.approx(budget.rho, rel=1e-9)


@needs_mbi
@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: type(peer).__name__)
def test_a_peer_almost_without_noise_finds_what_depends(peer: Peer) -> None:
    table = small()
    budget = Budget.of(epsilon=100.0, delta=1e-9)
    made = peer.run(table, budget, np.random.default_rng(1))
    again = peer.run(table, budget, np.random.default_rng(1))
    assert np.array_equal(made.table.codes, again.table.codes)
    apart = total_variation(table, made.table)
    assert apart.one_way < 0.01
    assert apart.two_way < 0.02
    assert made.pairs >= 4


@needs_mbi
def test_aim_keeps_its_model_within_its_room() -> None:
    table = small("few-wide")
    made = Aim(megabytes=1e-3, rounds=1, iterations=50).run(
        table, Budget.of(epsilon=5.0, delta=1e-9), np.random.default_rng(0)
    )
    assert made.pairs == 0  # no pair of 20 values or more fits into 131 cells
    assert made.table.domain == table.domain


@needs_mbi
def test_rare_values_come_back_each_as_often() -> None:
    schema = categories(40, 2)
    rng = np.random.default_rng(0)
    codes = np.stack(
        [
            np.where(rng.random(5_000) < 0.9, 0, rng.integers(1, 40, 5_000)),
            rng.integers(0, 2, 5_000),
        ]
    )
    table = EncodedTable.from_codes(schema.domain, codes)
    made = Mst(iterations=100).run(table, Budget.of(epsilon=1.0, delta=1e-9), rng)
    counts = np.bincount(made.table.codes[0], minlength=40)
    assert counts.size == 40
    assert np.abs(counts[0] / counts.sum() - 0.9) < 0.05


@pytest.mark.parametrize("chance", [0.0, 3.0])
def test_the_exponential_mechanism_chooses_by_score(chance: float) -> None:
    rng = np.random.default_rng(0)
    draws = 4_000
    seen = sum(central.choose([0.0, 2.0], chance, 1.0, rng) for _ in range(draws)) / draws
    wanted = 1 / (1 + np.exp(-chance))  # half of epsilon times a difference of 2
    assert abs(seen - wanted) < 4 * np.sqrt(wanted * (1 - wanted) / draws)


def test_fewer_bins_touch_only_columns_with_more() -> None:
    schema = Schema((IntegerColumn("age", 0, 99), IntegerColumn("floor", 0, 4)))
    assert coarser(schema, None) == schema
    assert coarser(schema, 10).domain.sizes == (10, 5)


@needs_mbi
def test_a_match_is_kept_and_continued(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    work: Callable[..., Any] = Match.__call__

    def counted(self: Match, item: Any, *, noise_seed: int) -> Any:
        done.append(item.cell.method)
        return work(self, item, noise_seed=noise_seed)

    monkeypatch.setattr(Match, "__call__", counted)
    asked = (*SMALL, "--rounds", "1", "--out", "kept", "--json")
    assert desk.run(*asked, "--methods", "independent,mst") == 0, desk.err
    first = json.loads(desk.out)
    assert done == ["real", *["independent", "independent", "mst"] * 2]
    assert {(own["method"], own["noise"]) for own in first["cells"]} == {
        ("independent", "local"),
        ("independent", "secure-aggregation"),
        ("mst", "central"),
    }
    for own in first["cells"]:
        assert own["figures"]["tvd.two_way"]["repetitions"] == 2
        assert own["figures"]["synthesis_seconds"]["mean"] > 0
    done.clear()
    assert desk.run(*asked, "--methods", "mst,aim") == 0, desk.err
    assert done == ["aim"] * 2
    assert json.loads(desk.out)["cells"][0] == first["cells"][2]
    assert "no release" in desk.err


@needs_mbi
def test_own_rows_are_compared_if_they_are_public(desk: Desk) -> None:
    asked = ("bench", "peers", "--data", "d.csv", "--schema", "s.toml", "--seeds", "1")
    desk.run(*asked)
    desk.refused(3, "--public")
    assert desk.run(*asked, "--public", "--methods", "mst", "--bins", "3") == 0, desk.err
    assert "central" in desk.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--family"),
        (("--family", "binari"), "did you mean 'binary'"),
        (("--family", "binary", "--data", "d.csv"), "leave out --data"),
        (("--family", "binary", "--methods", "mts"), "did you mean 'mst'"),
        (("--family", "binary", "--trust", "locl"), "did you mean 'local'"),
        (("--family", "binary", "--columns", "3"), "5..100"),
        (("--family", "binary", "--seeds", "0"), "--seeds"),
        (("--family", "binary", "--bins", "1"), "--bins"),
        (("--family", "binary", "--megabytes", "0"), "megabytes"),
        (("--family", "binary", "--ml"), "--ml needs a label"),
    ],
)
def test_wrong_use_is_said_in_one_line(desk: Desk, words: tuple[str, ...], said: str) -> None:
    desk.run("bench", "peers", *words)
    desk.refused(2, said)


def test_without_mbi_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pip install"):
        field.need_mbi()


@pytest.mark.parametrize("name", ["mst", "aim"])
def test_no_release_comes_of_a_peer(desk: Desk, name: str) -> None:
    assert name not in METHODS
    desk.simulate("--method", name)
    desk.refused(2, "there is no method")
