"""Maximum entropy by someone else's code: within its limit, seeded, and only if it is installed."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn.errors import UsageError
from heterofedsyn.evaluation import total_variation
from heterofedsyn.hub import METHODS, Release, make_method
from heterofedsyn.hub.methods.base import Value
from heterofedsyn.marginals import count_pairs
from heterofedsyn.schema import Domain
from heterofedsyn.schema import encode as encode_rows
from heterofedsyn.simulate import FederatedSynthesizer
from heterofedsyn.simulate.run import run_study, site_names
from heterofedsyn.synthesis import Pgm
from heterofedsyn.synthesis.pgm import eliminate
from support import categories, deal, dependent_table, make_plan

pytestmark = pytest.mark.thorough

SCHEMA = categories(4, 6, 3, 5, label=0)
TABLE = dependent_table(SCHEMA.domain, 20_000)
HERE = str(Path(__file__).parent)


def study(name: str, rows: int = 20_000, epsilon: float = 100.0, **settings: int) -> Release:
    """A release whose rows pgm makes."""
    chosen: dict[str, Value] = {"synthesizer": "pgm", **settings}
    method = make_method(name, chosen)
    tables = deal(dependent_table(SCHEMA.domain, rows), 2)
    sites = site_names(method, ("one", "two"))
    plan = make_plan(SCHEMA, sites, method=name, settings=chosen, epsilon=epsilon)
    return run_study(SCHEMA, plan, method, tables, noise_seed=3)


@pytest.fixture(scope="module")
def every_pair() -> Release:
    """All pairs of four attributes with hardly any noise: one clique of 360 cells."""
    return study("allmarg")


def digest_of_rows() -> str:
    """The rows of a small study, for another process to make again."""
    rows = study("allmarg", 400, 1.0, iterations=100).sample(seed=1)
    return hashlib.sha256(str(rows.to_pydict()).encode()).hexdigest()


def test_targets_that_agree_are_met(every_pair: Release) -> None:
    targets = every_pair.model.targets[0]
    made = Pgm().synthesize(targets, 20_000, np.random.default_rng(0))
    pairs = list(targets.estimates.pairs)
    assert len(pairs) == 6
    for found in count_pairs(made, pairs):
        wanted = targets.estimates.pairs[found.clique].ravel() * (20_000 / targets.estimates.total)
        assert np.abs(found.counts - wanted).sum() / 20_000 < 0.01


def test_wavetree_with_pgm_is_close_to_the_truth_given_a_large_budget() -> None:
    rows = study("wavetree").sample(seed=1)
    apart = total_variation(TABLE, encode_rows(SCHEMA, rows.to_batches()).table)
    assert apart.one_way < 0.01
    assert apart.two_way < 0.03


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_can_have_its_rows_made_by_pgm(name: str) -> None:
    release = study(name, rows=300, epsilon=5.0, iterations=50)
    assert release.model.synthesizer == Pgm(iterations=50)
    assert release.sample(seed=1).num_rows == release.run.noisy_total


def test_pairs_join_from_the_strongest_until_the_largest_clique_is_full(
    every_pair: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = every_pair.model.targets[0]
    weights = targets.estimates.residuals
    shape = Pgm(largest=100).structure(targets.estimates)
    assert max(map(shape.grid.cells, shape.cliques)) <= 100
    assert {*shape.pairs, *shape.left_out} == weights.keys()
    assert shape.left_out
    assert max(weights, key=weights.__getitem__) in shape.pairs
    assert min(weights, key=weights.__getitem__) in shape.left_out
    for pair in shape.left_out:
        assert max(map(shape.grid.cells, eliminate([*shape.pairs, pair], shape.grid))) > 100

    # The limit is told before anything is fitted.
    monkeypatch.setattr("heterofedsyn.synthesis.pgm._fit", lambda *_: pytest.fail("too late"))
    said = rf"leaves out {len(shape.left_out)} of 6 pairs.* 360 cells .*largest is 100; raise"
    with pytest.raises(UserWarning, match=said):  # pytest turns warnings into errors
        Pgm(largest=100).synthesize(targets, 10, np.random.default_rng(0))


def test_rows_are_made_with_pairs_left_out(every_pair: Release) -> None:
    targets = every_pair.model.targets[0]
    with pytest.warns(UserWarning, match="leaves out"):
        made = Pgm(iterations=50, largest=100).synthesize(targets, 10, np.random.default_rng(0))
    assert made.rows == 10


def test_measured_pairs_that_all_do_not_fit_are_left_out_since_they_are_paid_for(
    every_pair: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heterofedsyn.synthesis.pgm._fit", lambda *_: pytest.fail("of nothing"))
    with pytest.warns(UserWarning, match="leaves out 6 of 6 pairs"):
        made = Pgm(largest=11).synthesize(every_pair.model.targets[0], 10, np.random.default_rng(0))
    assert made.rows == 10


def test_a_limit_that_no_pair_fits_is_refused_before_anything_is_spent() -> None:
    said = r"any pair: even \('a0', 'a2'\) has 12 cells, largest is 11; raise largest"
    for method in ("allmarg", "fedprivsyn", "privsyn"):
        with pytest.raises(UsageError, match=said):
            FederatedSynthesizer(
                SCHEMA,
                epsilon=1,
                delta=1e-9,
                method=method,
                settings={"synthesizer": "pgm", "largest": 11},
            )


@given(st.integers(2, 7).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, 2**32))))
def test_every_pair_lies_within_a_clique_and_parents_within_a_later_one(
    case: tuple[int, int],
) -> None:
    many, seed = case
    rng = np.random.default_rng(seed)
    names = tuple(f"a{i}" for i in range(many))
    grid = Domain(names, tuple(rng.integers(1, 9, many).tolist()))
    pairs = [pair for pair in grid.pairs() if rng.random() < 0.5]
    cliques = eliminate(pairs, grid)
    assert sorted(clique[0] for clique in cliques) == sorted({n for pair in pairs for n in pair})
    for pair in pairs:
        assert any({*pair} <= {*clique} for clique in cliques)
    for place, (_, *given_) in enumerate(cliques):
        # A perfect elimination: what an attribute depends on is settled together, later.
        assert not given_ or any({*given_} <= {*later} for later in cliques[place + 1 :])


def test_without_the_extra_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mbi", None)
    with pytest.raises(UsageError, match=r"pip install 'heterofedsyn\[pgm\]'$"):
        make_method("wavetree", {"synthesizer": "pgm"})


@pytest.mark.parametrize("setting", [{"iterations": 0}, {"largest": 3}])
def test_settings_out_of_range_are_refused(setting: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=r"must be in"):
        Pgm(**setting)


def test_a_saved_release_makes_the_same_rows(tmp_path: Path) -> None:
    from heterofedsyn.hub.release import load

    release = study("wavetree", 300, 5.0, iterations=50)
    again = load(release.save(tmp_path / "release", rows=5))
    assert again.model.synthesizer == Pgm(iterations=50)
    assert again.sample(50, seed=2).equals(release.sample(50, seed=2))


def test_others_keep_their_own_precision(every_pair: Release) -> None:
    import jax

    Pgm(iterations=50).synthesize(every_pair.model.targets[0], 5, np.random.default_rng(0))
    assert jax.numpy.zeros(1).dtype == np.float32


def _elsewhere(code: str, hash_seed: str = "0") -> str:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": HERE},
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_jax_is_loaded_only_when_rows_are_made() -> None:
    code = "import sys, heterofedsyn.hub as h; h.make_method('wavetree', {'synthesizer': 'pgm'})\n"
    assert _elsewhere(code + "print({'jax', 'mbi'} & {*sys.modules})") == "set()\n"


@pytest.mark.slow
@pytest.mark.thorough
def test_rows_do_not_depend_on_the_process() -> None:
    code = "import test_pgm; print(test_pgm.digest_of_rows())"
    assert _elsewhere(code, "1") == digest_of_rows() + "\n"
