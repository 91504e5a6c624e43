"""What rules make impossible is zero in every estimate, whatever the noise, and costs nothing."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn._arrays import Integers
from heterofedsyn.errors import UsageError
from heterofedsyn.hub import make_method
from heterofedsyn.hub.methods.base import Later, Setting
from heterofedsyn.hub.methods.forced import asked_pairs, forced_flat, ruled_pairs
from heterofedsyn.hub.methods.grouping import grid_of, kept_classes, most_groups
from heterofedsyn.hub.replies import Ask
from heterofedsyn.marginals import Flat, Grouped, Total
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.schema import Schema
from heterofedsyn.simulate import FederatedSynthesizer
from heterofedsyn.synthesis import Consistency, Denoising, Measurement, Pgm, Targets
from heterofedsyn.synthesis.denoise import fitted_pair
from heterofedsyn.synthesis.targets import Measured
from heterofedsyn.synthesis.zeros import centred, possible_cells
from rules_support import lawful_rows, random_schema
from support import make_plan

pytestmark = pytest.mark.thorough

SEX = {"name": "sex", "type": "categorical", "values": ["male", "female"]}
ILL = {"name": "ill", "type": "categorical", "values": ["flu", "pregnancy", "birth", "cold"]}
AGE = {"name": "age", "type": "integer", "min": 0, "max": 99, "bins": 25}
RULES = [
    {"never": {"sex": "male", "ill": ["pregnancy", "birth"]}},
    {"never": {"ill": ["pregnancy", "birth"], "age": {"above": 59}}},
    {"never": {"ill": "cold"}},
    {"never": {"age": {"above": 89}}},
]
CLINIC = Schema.of({"columns": [SEX, ILL, AGE], "rules": RULES})
seeds = st.integers(0, 2**32)


def noisy_targets(schema: Schema, rebuild: Any, seed: int, sigma: float) -> Targets:
    """Measurements that are mostly noise: of every pair, as the rebuild takes them."""
    rng = np.random.default_rng(seed)
    domain = schema.domain
    measured: list[Measured] = [Total()]
    measured += [Flat(single) for single in domain.singles()]
    for pair in domain.pairs():
        if isinstance(rebuild, Consistency):
            measured.append(Flat(pair))
        else:
            maps = tuple(tuple(grid(schema, name).tolist()) for name in pair)
            measured.append(Grouped(pair, maps))
    return Targets(
        schema,
        tuple(
            Measurement(one, Noisy(500 * (one == Total()) + sigma * values, sigma**2))
            for one in measured
            for values in [rng.standard_normal(one.integers(domain))]
        ),
        rebuild,
    )


def grid(schema: Schema, name: str) -> Integers:
    size = schema.domain.size(name)
    return np.minimum(np.arange(size), 6)


@pytest.mark.thorough
@pytest.mark.parametrize("rebuild", [Consistency(), Denoising()], ids=["consistency", "denoising"])
@given(seed=seeds, sigma=st.sampled_from([0.1, 10.0, 1e4]))
def test_estimates_have_nothing_where_nothing_can_be_whatever_the_noise(
    rebuild: Any, seed: int, sigma: float
) -> None:
    for schema in (CLINIC, random_schema(np.random.default_rng(seed))):
        estimates = noisy_targets(schema, rebuild, seed, sigma).estimates
        cells = possible_cells(schema, estimates.groups, estimates.pairs)
        for pair, table in estimates.pairs.items():
            assert np.all(np.isfinite(table))
            assert table.min() >= 0
            if pair in cells:
                assert table[~cells[pair]].sum() == 0
        for name, values in estimates.values.items():
            never = schema.rulebook.never_alone(name)
            assert np.all(np.isfinite(values))
            assert values.sum() == pytest.approx(estimates.total)
            assert never is None or values[never].sum() == 0


def test_without_noise_a_table_with_holes_is_found_again() -> None:
    possible = np.array([[True, True, False], [True, False, True], [True, True, True]])
    truth = np.array([[30.0, 5, 0], [10, 0, 20], [5, 25, 5]])
    rows, columns = truth.sum(axis=1), truth.sum(axis=0)
    noisy = Noisy(truth, 1e-6)
    found = fitted_pair(noisy, rows, columns, truth.sum(), None, possible)
    assert np.abs(found - truth).max() < 0.01
    assert found[~possible].sum() == 0


def test_where_nothing_stands_out_a_table_is_as_independent_as_its_holes_allow() -> None:
    possible = np.array([[True, False], [True, True]])
    rows, columns = np.array([30.0, 70]), np.array([80.0, 20])
    found = fitted_pair(Noisy(np.zeros((2, 2)), 1e6), rows, columns, 100.0, None, possible)
    assert np.abs(found - [[30, 0], [50, 20]]).max() < 1e-6


@given(seed=seeds)
def test_a_centred_table_has_no_sums_left(seed: int) -> None:
    rng = np.random.default_rng(seed)
    possible = rng.random((5, 7)) < 0.8
    apart = centred(rng.normal(size=(5, 7)), possible)
    assert apart[~possible].sum() == 0
    assert np.abs(apart.sum(axis=0)).max() < 1e-3
    assert np.abs(apart.sum(axis=1)).max() < 1e-3


@given(seed=seeds, groups=st.floats(2, 24))
def test_a_grid_keeps_apart_what_rules_tell_apart_and_is_no_finer_than_foreseen(
    seed: int, groups: float
) -> None:
    rng = np.random.default_rng(seed)
    for schema in (CLINIC, random_schema(rng)):
        values = {column.name: rng.exponential(size=column.size) ** 3 for column in schema.measured}
        values = {name: own * (1_000 / own.sum()) for name, own in values.items()}
        found = grid_of(schema, values, 1_000.0, groups, by_rules=True)
        for column in schema.measured:
            own, classes = found[column.name], kept_classes(schema, column, groups)
            assert {*own.tolist()} == {*range(int(own.max()) + 1)}
            assert own.max() + 1 <= most_groups(schema, column, groups)
            if classes is not None and column.size > 2:
                for group in range(int(own.max()) + 1):
                    assert np.unique(classes[own == group]).size == 1


def measured_pairs(schema: Schema, method: str, rows: int, epsilon: float) -> set[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = FederatedSynthesizer(
            schema, epsilon=epsilon, delta=1e-9, method=method, noise_seed=1
        )
        real = lawful_rows(schema, rows, np.random.default_rng(0))
        half = rows // 2
        release = made.fit([real.slice(0, half), real.slice(half)]).release
    return {pair.attributes for pair in release.run.pairs if pair.measured}


@pytest.mark.parametrize("method", ["wavetree", "fedprivsyn", "adafedprivsyn", "privsyn"])
def test_pairs_that_rules_tie_together_are_measured_where_pairs_are(method: str) -> None:
    tied = {("sex", "ill"), ("ill", "age")}
    assert {*CLINIC.rulebook.pairs} == tied
    assert tied <= measured_pairs(CLINIC, method, 2_000, 5.0)


def test_rules_alone_are_no_reason_to_measure_pairs_that_are_not_worth_it() -> None:
    assert not measured_pairs(CLINIC, "wavetree", 60, 0.2)


def test_cell_by_cell_only_small_pairs_are_measured_for_a_rules_sake() -> None:
    wide = Schema.of({"columns": [SEX, ILL, {**AGE, "bins": 100}], "rules": RULES})
    assert forced_flat(wide, "") == (("sex", "ill"),)
    assert forced_flat(wide, "age,ill") == (("ill", "age"), ("sex", "ill"))
    assert {*ruled_pairs(wide)} == {("sex", "ill"), ("ill", "age")}


def test_a_column_that_follows_from_another_is_measured_through_it() -> None:
    kind = {"name": "kind", "type": "categorical", "values": ["a", "b"]}
    key = {"name": "id", "type": "key"}
    table = {"flu": "a", "cold": "a", "pregnancy": "b", "birth": "b"}
    follows = {"determines": {"from": "ill", "to": "kind", "table": table}}
    schema = Schema.of({"columns": [SEX, ILL, kind, key], "rules": [follows]})
    assert asked_pairs(schema, "kind,sex") == (("sex", "ill"),)
    with pytest.raises(UsageError, match="one follows from the other"):
        asked_pairs(schema, "kind,ill")
    with pytest.raises(UsageError, match="'id' is a key"):
        asked_pairs(schema, "id,ill")
    with pytest.raises(UsageError, match="did you mean 'sex'"):
        asked_pairs(schema, "ill,sexx")


@pytest.mark.parametrize("method", ["wavetree", "fedprivsyn", "adafedprivsyn", "allmarg"])
@pytest.mark.parametrize(("rows", "epsilon"), [(60, 0.2), (3_000, 1.0), (3_000, 9.0)])
def test_what_is_foreseen_holds_with_rules(method: str, rows: int, epsilon: float) -> None:
    made = make_method(method)
    encoding = made.encoding(CLINIC)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        synthesizer = FederatedSynthesizer(
            CLINIC, epsilon=epsilon, delta=1e-9, method=method, noise_seed=1
        )
        real = lawful_rows(CLINIC, rows, np.random.default_rng(0))
        account = synthesizer.fit({"one": real}).release.privacy.sites[0]
    setting = Setting.of(encoding, make_plan(encoding, ("one",), epsilon=epsilon))
    stages = {part.label: part for part in made.ahead(setting)}
    for charge in account.charges:
        stage = stages[charge.label]
        if isinstance(stage, Ask):
            assert [p.attributes for p in charge.parts] == [s.attributes for s, _ in stage.parts]
        else:
            assert isinstance(stage, Later)
            assert len(charge.parts) <= (stage.releases or 0)
            assert sum(part.integers for part in charge.parts) <= (stage.integers or 0)


@pytest.mark.thorough
def test_pgm_keeps_out_of_what_cannot_be() -> None:
    estimates = noisy_targets(CLINIC, Denoising(), 3, 5.0).estimates
    _, tables = Pgm(iterations=50)._fitted(estimates)
    cells = possible_cells(CLINIC, estimates.groups, estimates.pairs)
    assert cells
    for clique, table in tables.items():
        for pair, can in cells.items():
            if {*pair} <= {*clique}:
                others = tuple(axis for axis, name in enumerate(clique) if name not in pair)
                assert table.sum(axis=others)[~can].sum() == 0
