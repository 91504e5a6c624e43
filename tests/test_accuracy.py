"""What `release.accuracy` promises: the standard error is that of the noise, no more, no less."""

from __future__ import annotations

import dataclasses
import functools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn import Release, load
from heterofedsyn._arrays import Floats, Integers
from heterofedsyn.errors import SchemaError, UsageError
from heterofedsyn.hub import make_method
from heterofedsyn.hub.release.accuracy import Accuracy, accuracy_of
from heterofedsyn.marginals import Flat, Grouped, Haar, TableCounts, Total
from heterofedsyn.marginals.counts import whole
from heterofedsyn.marginals.statistics import haar_levels
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.schema import (
    BooleanColumn,
    CategoricalColumn,
    Clique,
    EncodedTable,
    IntegerColumn,
    Schema,
)
from heterofedsyn.schema.labels import labels_of
from heterofedsyn.simulate.run import run_study
from heterofedsyn.synthesis import Measurement, Targets
from support import make_plan

pytestmark = pytest.mark.thorough

FORMAT_1 = Path(__file__).parent / "data" / "release-format-1"
STUDIES = 250
SCHEMA = Schema(
    (
        IntegerColumn("age", min=0, max=12),
        CategoricalColumn("ward", values=("a", "b", "c", "d", "e")),
        CategoricalColumn("town", values=("here",)),
        BooleanColumn("sick"),
    ),
    label="sick",
)
AGES = SCHEMA.domain.size("age")


def table() -> EncodedTable:
    rng = np.random.default_rng(4)
    age = rng.binomial(12, 0.4, 3000)
    codes = np.stack([age, (age // 3 + rng.integers(0, 2, 3000)) % 5, 0 * age, age > 5])
    return EncodedTable.from_codes(SCHEMA.domain, codes)


def studies(method: str, trust: str = "local", rows_per_unit: int = 1) -> list[Release]:
    """Many studies of one table, which differ in their noise only."""
    whole_table = table()
    sites = [whole_table.take(np.arange(i, whole_table.rows, 3)) for i in range(3)]
    made = make_method(method, {"q": 0.3} if "privsyn" in method else {})
    plan = make_plan(
        SCHEMA,
        ("one", "two", "three"),
        method=method,
        trust=trust,
        epsilon=4.0,
        unit=None if rows_per_unit == 1 else "person",
        rows_per_unit=rows_per_unit,
    )
    return [run_study(SCHEMA, plan, made, sites, noise_seed=seed) for seed in range(STUDIES)]


def leaves(targets: Targets, name: str) -> Floats:
    """An unbiased 1-way: the counts themselves, or every node shared out to its halves."""
    levels = {}
    for measurement in targets.measurements:
        if measurement.statistic == Flat((name,)):
            return measurement.noisy.values
        if isinstance(measurement.statistic, Haar) and measurement.statistic.attributes == (name,):
            levels[measurement.statistic.level] = measurement.noisy.values
    size = targets.domain.size(name)
    found: list[float] = []

    def descend(mass: float, level: int, node: int) -> None:
        if level == haar_levels(size):
            found.append(mass)
            return
        padded = (2 * node + 1) * 2 ** (haar_levels(size) - level - 1) >= size
        left = mass if padded else (mass + levels[level][node]) / 2
        descend(left, level + 1, 2 * node)
        if not padded:
            descend(mass - left, level + 1, 2 * node + 1)

    descend(targets.total, 0, 0)
    return np.array(found)


def exact(clique: Clique) -> Integers:
    return TableCounts(table()).of(whole(clique))


def summed(values: Floats, groups: Integers) -> Floats:
    return np.bincount(groups, values).astype(np.float64)


def check_errors(errors: list[Floats], claimed: list[Floats]) -> None:
    """Errors divided by their standard error have mean 0 and variance 1, in every cell."""
    scaled = np.stack([e / c for e, c in zip(errors, claimed, strict=True)])
    many = len(scaled)
    assert np.abs(scaled.mean(axis=0)).max() < 4 / math.sqrt(many)
    assert np.abs(scaled.var(axis=0) - 1).max() < 4 * math.sqrt(2 / many)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("method", "trust", "rows_per_unit"),
    [
        ("wavetree", "local", 1),
        pytest.param("wavetree", "local", 3, marks=pytest.mark.slow),
        pytest.param("wavetree", "secure-aggregation", 1, marks=pytest.mark.slow),
        ("fedprivsyn", "secure-aggregation", 2),
        pytest.param("adafedprivsyn", "local", 1, marks=pytest.mark.slow),
        pytest.param("local-merge", "local", 1, marks=pytest.mark.slow),
    ],
)
def test_standard_errors_are_those_of_many_studies(
    method: str, trust: str, rows_per_unit: int
) -> None:
    releases = studies(method, trust, rows_per_unit)
    totals = [np.array([release.model.total - table().rows]) for release in releases]
    check_errors(totals, [release.accuracy(()).standard_error for release in releases])
    groups = np.array([0, 0, 0, 0, 1, 1, 2, 1, 2, 2, 2, 2, 0])
    alone = np.arange(AGES)
    for name, maps in (("age", alone), ("age", groups), ("ward", alone[:5]), ("ward", groups[2:7])):
        truth = exact((name,))
        errors = [
            summed(np.sum([leaves(t, name) for t in release.model.targets], axis=0) - truth, maps)
            for release in releases
        ]
        claimed = [release.accuracy((name,), list(maps)).standard_error for release in releases]
        check_errors(errors, claimed)
    check_pairs(releases)


def check_pairs(releases: list[Release]) -> None:
    """The same of every pair that was measured for all populations, over all of its cells."""
    counts = TableCounts(table())
    scaled = []
    for release in releases:
        several = len(release.model.targets)
        for pair in [p.attributes for p in release.run.pairs if p.measured]:
            found: list[tuple[Noisy, Integers]] = []
            for targets in release.model.targets:
                if pair in targets.marginals:
                    found.append((targets.marginals[pair], counts.of(whole(pair))))
                found += [
                    (noisy, statistic.exact(counts).values)
                    for statistic, noisy in targets.combined.items()
                    if isinstance(statistic, Grouped) and statistic.attributes == pair
                ]
            if len(found) < several:
                with pytest.raises(UsageError, match="was not measured"):
                    release.accuracy(pair)
                continue
            claimed = release.accuracy(pair[::-1])
            assert claimed.attributes == pair
            error = sum(noisy.values.ravel() for noisy, _ in found) - found[0][1]
            scaled.append(error / claimed.standard_error.ravel())
    every = np.concatenate(scaled)
    assert every.size > 2_000
    assert abs(every.mean()) < 4 / math.sqrt(every.size)
    assert abs((every**2).mean() - 1) < 4 * math.sqrt(2 / every.size)


# LAWS OF ONE RELEASE


@functools.cache
def release(method: str = "wavetree", epsilon: float = 4.0) -> Release:
    plan = make_plan(SCHEMA, ("one",), method=method, epsilon=epsilon)
    return run_study(SCHEMA, plan, make_method(method), [table()], noise_seed=1)


@pytest.mark.parametrize("method", ["wavetree", "independent"])
@pytest.mark.parametrize("name", SCHEMA.domain.names)
def test_one_group_of_everything_has_the_error_of_the_total(method: str, name: str) -> None:
    whole_column = release(method).accuracy((name,), [0] * SCHEMA.domain.size(name))
    total = release(method).accuracy(())
    assert whole_column.standard_error == pytest.approx(total.standard_error)
    assert release(method).accuracy("town").standard_error == pytest.approx(total.standard_error)


@pytest.mark.parametrize("name", ["age", "ward"])
def test_every_value_by_itself_is_no_grouping(name: str) -> None:
    alone = release().accuracy(name, range(SCHEMA.domain.size(name)))
    assert alone.standard_error == pytest.approx(release().accuracy(name).standard_error)


def test_fractions_are_of_the_noisy_total() -> None:
    found = release().accuracy(("sick", "age"))
    assert found.attributes == ("age", "sick")
    assert found.fraction * release().run.noisy_total == pytest.approx(found.standard_error)
    assert not found.standard_error.flags.writeable


def test_flat_counts_have_the_noise_that_the_statement_names() -> None:
    (site,) = release("independent").privacy.sites
    for part in site.charges[0].parts:
        if part.integers > 1:
            found = release("independent").accuracy(part.attributes).standard_error
            assert found == pytest.approx(part.sigma)


@given(st.lists(st.integers(0, 3), min_size=AGES, max_size=AGES), st.integers(0, 3))
def test_a_sum_is_at_most_as_uncertain_as_its_parts_together(groups: list[int], cut: int) -> None:
    """Standard errors obey the triangle inequality; groups nobody is in have none."""
    found = release().accuracy("age", groups).standard_error
    assert found.size == max(groups) + 1
    assert np.array_equal(found > 0, np.bincount(groups) > 0)
    singles = release().accuracy("age").standard_error
    assert np.all(found <= np.bincount(groups, singles) + 1e-9)
    joined = [max(0, group - cut) for group in groups]
    coarse = release().accuracy("age", joined).standard_error
    assert coarse[0] <= found[: cut + 1].sum() + 1e-9


@given(st.permutations(range(4)))
def test_numbers_of_groups_are_names_only(names: list[int]) -> None:
    groups = [0, 0, 1, 1, 1, 2, 2, 3, 3, 3, 3, 0, 2]
    found = release().accuracy("age", groups).standard_error
    renamed = release().accuracy("age", [names[group] for group in groups]).standard_error
    assert renamed[list(names)] == pytest.approx(found)


@pytest.mark.parametrize(("epsilon", "as_many"), [(0.5, 1.5), (4.0, 1.0)])
def test_dyadic_blocks_are_far_more_accurate_than_their_values_suggest(
    epsilon: float, as_many: float
) -> None:
    """And more than as many scattered values, the more so the less single ones can be told."""
    made = release(epsilon=epsilon)
    blocks = made.accuracy("age", [i // 8 for i in range(AGES)]).standard_error
    scattered = made.accuracy("age", [i % 2 for i in range(AGES)]).standard_error
    single = made.accuracy("age").standard_error.max()
    assert blocks[0] < single * math.sqrt(8) / 2
    assert blocks[0] < scattered[0] / as_many


def test_measuring_twice_halves_the_variance() -> None:
    once = release()
    (targets,) = once.model.targets
    doubled = targets.with_measured(targets.measurements)
    twice = dataclasses.replace(once, model=dataclasses.replace(once.model, targets=(doubled,)))
    for clique in ((), ("age",), ("ward",), ("age", "sick")):
        before, after = once.accuracy(clique), twice.accuracy(clique)
        assert before.standard_error / math.sqrt(2) == pytest.approx(after.standard_error)


def test_populations_add_their_variances() -> None:
    once = release()
    (targets,) = once.model.targets
    model = dataclasses.replace(once.model, targets=(targets, targets, targets))
    thrice = dataclasses.replace(once, model=model)
    for clique in ((), ("age",), ("ward",), ("age", "sick")):
        before, after = once.accuracy(clique), thrice.accuracy(clique)
        assert before.standard_error * math.sqrt(3) == pytest.approx(after.standard_error)


def test_a_release_of_format_1_tells_its_accuracy() -> None:
    old = load(FORMAT_1)
    pairs = [pair.attributes for pair in old.run.pairs if pair.measured]
    assert pairs
    for clique in [*old.schema.domain.singles(), *pairs]:
        assert old.accuracy(clique).standard_error.shape == old.schema.domain.shape(clique)


# REFUSALS


def test_what_was_not_measured_is_named_with_a_remedy() -> None:
    names: Any = ("age", "ward")
    with pytest.raises(
        UsageError, match=r"\('age', 'ward'\) was not measured.*singly.*--measure age,ward"
    ):
        release("independent").accuracy(("ward", "age"))
    with pytest.raises(UsageError, match=r"measured with one of them: .*age and "):
        release().accuracy(("age", "town"))
    with pytest.raises(UsageError, match="there is no attribute 'agee'; did you mean 'age'"):
        release().accuracy("agee")
    with pytest.raises(UsageError, match="at most two columns"):
        release().accuracy(("age", "ward", "sick"))
    with pytest.raises(UsageError, match=r"one argument: accuracy\(\('age', 'ward'\)\)"):
        release().accuracy(*names)


@pytest.mark.parametrize(
    ("attributes", "groups", "words"),
    [
        (("age", "sick"), [0] * 13, "one column"),
        ((), [0], "one column"),
        (("sick",), [0], "2 whole numbers"),
        (("sick",), [0, 0.5], "2 whole numbers"),
        (("sick",), [0, 2], "0..1"),
        (("sick",), [-1, 0], "0..1"),
    ],
)
def test_groups_that_are_no_map_are_refused(
    attributes: Clique, groups: list[int], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        release().accuracy(attributes, groups)


def test_pairs_on_grids_that_differ_are_refused() -> None:
    once = release()
    (targets,) = once.model.targets

    def with_grid(groups: int) -> Targets:
        grid = Grouped(("age", "ward"), (tuple(i % groups for i in range(AGES)), (0, 1, 1, 1, 1)))
        measured = Measurement(grid, Noisy(np.zeros(2 * groups), 1.0))
        kept = [m for m in targets.measurements if m.statistic.attributes != ("age", "ward")]
        return dataclasses.replace(targets, measurements=(*kept, measured))

    model = dataclasses.replace(once.model, targets=(with_grid(2), with_grid(3)))
    with pytest.raises(UsageError, match="different grids"):
        dataclasses.replace(once, model=model).accuracy(("age", "ward"))


def test_the_total_is_told_by_whatever_tells_it() -> None:
    """By the total itself, and by the sum of every flat column."""
    (targets,) = release().model.targets
    told = [m for m in targets.measurements if isinstance(m.statistic, Total | Flat)]
    weights = [1 / (m.noisy.variance * m.noisy.values.size) for m in told]
    assert len(told) == 4
    assert release().accuracy(()).standard_error[0] ** -2 == pytest.approx(sum(weights))


# THE TABLE


def test_every_measured_marginal_is_a_table_of_its_cells() -> None:
    for method in ("wavetree", "fedprivsyn", "local-merge"):
        made = release(method)
        measured = set.intersection(*(set(targets.pairs) for targets in made.model.targets))
        for clique in [(), ("age",), ("ward",), *measured]:
            found = made.accuracy(clique)
            table = found.to_arrow()
            assert table.column_names == [*clique, "estimate", "standard_error", "low", "high"]
            assert table.num_rows == found.standard_error.size == found.estimate.size
            assert found.estimate.shape == found.standard_error.shape
            assert found.estimate.sum() == pytest.approx(made.model.total, abs=0.5)
            cells = [tuple(row[name] for name in clique) for row in table.to_pylist()]
            assert len({*cells}) == len(cells)
            assert np.all(found.low >= 0)
            assert np.all((found.low <= found.estimate) & (found.estimate <= found.high))
            assert found.to_pandas().shape == (table.num_rows, len(clique) + 4)


def test_intervals_hold_the_truth_about_19_times_in_20() -> None:
    """A fitted estimate is no worse than an unbiased one, so no fewer."""
    held = []
    for made in (release(), release("fedprivsyn")):
        for name in ("age", "ward"):
            found, truth = made.accuracy(name), exact((name,))
            held += ((found.low <= truth) & (truth <= found.high)).tolist()
    assert np.mean(held) >= 0.95 - 4 * math.sqrt(0.05 * 0.95 / len(held))


def test_estimates_of_groups_are_sums_of_those_of_values() -> None:
    groups = [code // 4 for code in range(AGES)]
    found = release().accuracy("age", groups)
    assert found.labels == (("0 to 3", "4 to 7", "8 to 11", "12"),)
    assert found.estimate == pytest.approx(
        summed(release().accuracy("age").estimate, np.array(groups))
    )


def test_a_table_is_printed_with_its_words_and_obeys_none_of_them() -> None:
    shown = str(release().accuracy("ward")).splitlines()
    assert shown[0].split() == ["ward", "estimate", "standard", "error", "low", "high"]
    assert [line.split()[0] for line in shown[1:6]] == ["a", "b", "c", "d", "e"]
    odd = ("<b>\x1b[2K", "a & b", *(f"v{n}" for n in range(60)))
    schema = Schema((CategoricalColumn("<i>", values=odd),))
    found = Accuracy(("<i>",), (labels_of(schema.columns[0]),), *[np.ones(62)] * 3)
    assert "\x1b" not in str(found) + found._repr_html_()
    assert "&lt;b&gt;" in found._repr_html_()
    assert "<b>" not in found._repr_html_()
    assert "&lt;i&gt;" in found._repr_html_()
    assert "22 more cells" in str(found)
    assert len(str(found).splitlines()) == 43


@given(st.data())
def test_labels_name_every_value_of_a_range_once(data: st.DataObject) -> None:
    low = data.draw(st.integers(-50, 50))
    high = low + data.draw(st.integers(1, 40))
    bins = data.draw(st.integers(1, high - low + 1))
    atoms = data.draw(st.sets(st.integers(low, high), max_size=3))
    try:
        column = IntegerColumn("n", low, high, bins=bins, atoms=(*sorted(atoms),), nullable=True)
    except SchemaError:
        return
    labels = labels_of(column)
    assert labels[-1] == "missing"
    ends = [tuple(map(int, label.split(" to "))) for label in labels[:-1]]
    for value in range(low, high + 1):
        code = int(column.encode(pa.array([value]))[0][0])
        assert ends[code][0] <= value <= ends[code][-1]
    widest = sum(own[-1] - own[0] + 1 for own in ends)
    assert widest >= high - low + 1
    assert not any(own[-1] in atoms and own[-1] != own[0] for own in ends)


def test_what_is_not_measured_by_nature_says_what_to_ask_for() -> None:
    schema = Schema.of(
        {
            "columns": [
                {"name": "id", "type": "key"},
                {"name": "ward", "type": "categorical", "values": ["a", "b"]},
                {"name": "floor", "type": "categorical", "values": ["1", "2"]},
            ],
            "rules": [
                {"determines": {"from": "ward", "to": "floor", "table": {"a": "1", "b": "2"}}}
            ],
        }
    )
    targets = Targets(schema, (), release().model.targets[0].rebuild)
    with pytest.raises(UsageError, match=r"'floor' follows from 'ward'.*ask for 'ward'"):
        accuracy_of([targets], "floor", None, 1.0)
    with pytest.raises(UsageError, match="'id' is a key"):
        accuracy_of([targets], "id", None, 1.0)
