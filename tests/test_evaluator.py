"""The evaluator: any synthetic table is scored, exactly, the same way each time, and told apart."""

from __future__ import annotations

import json
import math
import stat
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow import csv
from scipy.optimize import linear_sum_assignment

from heterofedsyn.cli.app import run
from heterofedsyn.errors import DataError, UsageError
from heterofedsyn.evaluation import MEASURES, QUICK, Evaluator, read_real, read_synthetic
from heterofedsyn.evaluation.learning import Task, guess, learn
from heterofedsyn.evaluation.transport import transport
from heterofedsyn.schema import (
    BooleanColumn,
    CategoricalColumn,
    IntegerColumn,
    NumberColumn,
    Schema,
)
from heterofedsyn.simulate.hospitals import hospital_schema, hospitals
from support import categories

SCHEMA = Schema(
    (
        IntegerColumn("age", 0, 100, bins=50),
        NumberColumn("weight", 0.0, 10.0, bins=40, nullable=True),
        CategoricalColumn("ward", ("a", "b", "c")),
        BooleanColumn("sick"),
    ),
    label="sick",
)


def population(rows: int, seed: int = 0) -> pa.Table:
    """Sick people are older and heavier, and lie in ward c."""
    rng = np.random.default_rng(seed)
    sick = rng.random(rows) < 0.4
    age = np.clip(rng.normal(np.where(sick, 70, 35), 10), 0, 100).astype(int)
    weight = np.clip(rng.normal(np.where(sick, 7, 4), 1.5), 0, 10)
    ward = np.where(rng.random(rows) < 0.8, np.where(sick, "c", "a"), "b")
    nulls = rng.random(rows) < 0.05
    columns = {"age": age, "weight": pa.array(weight, mask=nulls), "ward": ward, "sick": sick}
    return pa.table(columns)


def shuffled(table: pa.Table, column: str) -> pa.Table:
    """The same table with one column torn from the others."""
    order = np.random.default_rng(1).permutation(table.num_rows)
    place = table.column_names.index(column)
    return table.set_column(place, column, table[column].take(order))


# Tables that do not fit


@pytest.mark.thorough
def test_what_a_synthetic_table_gets_wrong_is_said_and_counts_against_it() -> None:
    real = population(400)
    wrong = pa.table(
        {
            "age": ["-5", "400", *real["age"].cast(pa.string()).to_pylist()[2:]],
            "ward": ["nowhere", "", "?", *real["ward"].to_pylist()[3:]],
            "sick": real["sick"],
        }
    )
    scores = Evaluator(SCHEMA, real, population(200, 1)).score(wrong, (*MEASURES,))
    assert scores.remarks == (
        "column 'age': 2 numbers lie outside the range: moved to its end",
        "column 'weight': absent, so all that is said about it counts as wrong",
        "column 'ward': 3 cells hold what the schema does not list",
    )
    assert scores.tvd is not None
    assert scores.tvd.attributes == {
        "age": pytest.approx(2 / 400),
        "weight": 1.0,
        "ward": pytest.approx(3 / 400),
        "sick": 0.0,
    }
    assert scores.fidelity["num_num"] == 2.0
    assert scores.ml is not None
    assert scores.ml.synthetic is not None


@pytest.mark.thorough
def test_cells_that_are_no_numbers_cost_more_than_numbers_at_the_end_of_the_range() -> None:
    real = population(400)
    evaluator = Evaluator(SCHEMA, real)
    texts = {"clean": real["age"].cast(pa.string()).to_pylist()}
    texts["far"] = ["9999"] * 300 + texts["clean"][300:]
    texts["text"] = ["old"] * 300 + texts["clean"][300:]
    found = {}
    for name, ages in texts.items():
        made = real.set_column(0, "age", pa.array(ages))
        found[name] = evaluator.score(made, ["num_num", "histogram"]).fidelity
    for kind in ("num_num", "histogram"):
        clean, far, text = (found[name][kind] for name in ("clean", "far", "text"))
        assert clean is not None
        assert far is not None
        assert text is not None
        assert clean < far < text


@pytest.mark.thorough
def test_pairs_of_very_many_values_are_compared_by_the_rows_that_occur() -> None:
    many = tuple(f"v{i}" for i in range(60_000))
    schema = Schema((CategoricalColumn("a", many), CategoricalColumn("b", many)))
    table = pa.table({"a": ["v1", "v2", "v59999", "v7"], "b": ["v1", "v2", "v59999", "v7"]})
    other = table.set_column(1, "b", pa.array(["v1", "v2", "v3", "v4"]))
    scores = Evaluator(schema, table).score(other, ["tvd"])
    assert scores.tvd is not None
    assert scores.tvd.attributes == {"a": 0, "b": 0.5}
    assert scores.tvd.pairs == {("a", "b"): 0.5}


def test_one_column_has_no_pairs_to_be_close_on() -> None:
    schema = Schema((SCHEMA.column("age"),))
    found = Evaluator(schema, population(20)).score(population(20, 1), ["tvd"]).to_dict()
    assert found["tvd"]["two_way"] is None
    assert found["tvd"]["one_way"] > 0


@pytest.mark.thorough
def test_a_table_without_the_label_teaches_nothing_but_has_all_other_scores() -> None:
    evaluator = Evaluator(SCHEMA, population(300), population(100, 1))
    scores = evaluator.score(population(300, 2).drop_columns(["sick"]))
    found = scores.to_dict()
    assert "no machine learning: too few synthetic rows have a label" in scores.remarks
    assert found["ml"]["average"] is None
    assert found["ml"]["ceiling"] > found["ml"]["trivial"] > 0
    assert found["tvd"]["two_way"] > 0


def test_real_rows_that_do_not_fit_are_left_out_and_counted_and_a_missing_column_is_an_error() -> (
    None
):
    real = population(50)
    broken = real.set_column(2, "ward", pa.array(["x", "y", *real["ward"].to_pylist()[2:]]))
    rows = read_real(SCHEMA, broken)
    assert rows.number == 48
    assert rows.remarks == ("2 real rows do not fit the schema (ward: 2): left out",)
    with pytest.raises(DataError, match="no column 'ward'"):
        read_real(SCHEMA, real.drop_columns(["ward"]))
    with pytest.raises(DataError, match="none of the real rows fits"):
        read_real(SCHEMA, broken.slice(0, 2))


def test_tables_of_several_files_are_pooled(tmp_path: Path) -> None:
    parts = [population(60, seed) for seed in (0, 1)]
    files = [tmp_path / f"{i}.csv" for i in (0, 1)]
    for part, file in zip(parts, files, strict=True):
        csv.write_csv(part, file)
    made = population(70, 2)
    whole = Evaluator(SCHEMA, pa.concat_tables(parts)).score(made, QUICK)
    assert Evaluator(SCHEMA, files).score(made, QUICK).to_dict() == whole.to_dict()


# Transport


def by_linear_program(first: list[Any], second: list[Any], scale: tuple[float, ...]) -> float:
    """Transport between two lists of points; a scale of 0 means a category.

    With as many copies of each as makes both lists equally long, the linear program has a best
    solution in whole numbers: an assignment, which is found without a tolerance.
    """

    def cost(a: Any, b: Any) -> float:
        return sum(
            abs(x - y) / s if s else float(x != y) for x, y, s in zip(a, b, scale, strict=True)
        )

    many = math.lcm(len(first), len(second))
    first, second = first * (many // len(first)), second * (many // len(second))
    costs = np.array([[cost(a, b) for b in second] for a in first])
    return math.fsum(costs[linear_sum_assignment(costs)]) / many


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "names", "scale"),
    [
        ("num_num", ("age", "weight"), (100.0, 10.0)),
        ("cat_num", ("age", "ward"), (100.0, 0.0)),
        ("cat_cat", ("ward", "sick"), (0.0, 0.0)),
    ],
)
@settings(max_examples=20)
@given(st.integers(2, 12), st.integers(2, 12), st.integers(0, 99))
@example(2, 3, 32)
def test_transport_is_that_of_the_linear_program(
    kind: str, names: tuple[str, str], scale: tuple[float, float], n: int, m: int, seed: int
) -> None:
    schema = Schema(tuple(SCHEMA.column(name) for name in names))
    tables = [population(rows, seed + rows).drop_null().select(names) for rows in (n, m)]
    if not all(table.num_rows for table in tables):
        return
    sizes = min(table.num_rows for table in tables)
    first, second = read_real(schema, tables[0]), read_synthetic(schema, tables[1])
    # Cuts of all rows of the smaller table: compared where both have as many.
    if kind != "cat_cat":
        first, second = (rows.take(np.arange(sizes)) for rows in (first, second))
        tables = [table.slice(0, sizes) for table in tables]
    points = [list(zip(*table.to_pydict().values(), strict=True)) for table in tables]
    found = transport(first, second, kind, rows=sizes)
    assert found == pytest.approx(by_linear_program(points[0], points[1], scale), abs=1e-9)


@pytest.mark.thorough
def test_transport_of_a_sample_against_itself_is_nothing_and_has_a_floor_against_another() -> None:
    first, same, other = (read_real(SCHEMA, population(2_000, seed)) for seed in (0, 0, 1))
    for kind in ("num_num", "cat_num", "cat_cat"):
        apart = transport(first, other, kind, rows=2_000)
        assert transport(first, same, kind, rows=2_000) == 0
        assert apart is not None
        assert 0 < apart < 0.05
    assert transport(first, other, "num_num", rows=200) != transport(
        first, other, "num_num", seed=1, rows=200
    )


@pytest.mark.thorough
def test_there_is_no_transport_without_such_a_pair() -> None:
    table = pa.table({"a0": ["v0", "v1"], "a1": ["v1", "v0"]})
    rows = read_real(categories(2, 2), table)
    assert transport(rows, rows, "num_num") is None
    assert transport(rows, rows, "cat_num") is None
    assert transport(rows, rows, "cat_cat") == 0


# Machine learning


@pytest.mark.thorough
def test_models_learn_what_there_is_to_learn_and_no_more() -> None:
    real, test = population(1_500), population(800, 1)
    evaluator = Evaluator(SCHEMA, real, test)
    true, torn = (
        evaluator.score(table, ["ml"]).to_dict()["ml"]
        for table in (population(1_500, 2), shuffled(population(1_500, 2), "sick"))
    )
    assert true["metric"] == "f1_weighted"
    assert true["average"] > 0.9
    assert true["average"] == pytest.approx(true["ceiling"], abs=0.05)
    assert torn["average"] < 0.75
    share = np.mean(test["sick"].to_numpy(zero_copy_only=False))
    well = 2 * (1 - share) / (2 - share)
    assert true["trivial"] == pytest.approx((1 - share) * well)
    assert true["f1_macro"]["trivial"] == pytest.approx(well / 2)


@pytest.mark.thorough
def test_regression_is_in_units_of_the_label_and_ranks_are_kept_apart() -> None:
    schema = Schema(SCHEMA.columns, label="weight", task="regression")
    real, test = population(1_000), population(500, 1)
    found = Evaluator(schema, real, test).score(population(1_000, 2), ["ml"]).to_dict()["ml"]
    weights = test["weight"].drop_null().to_numpy()
    mean = real["weight"].drop_null().to_numpy().mean()
    assert found["metric"] == "rmse"
    assert found["trivial"] == pytest.approx(np.sqrt(np.mean((weights - mean) ** 2)))
    assert 1.3 < found["average"] < 1.8 < found["trivial"]
    # Ranks run to 475 among the test rows, to 950 among the real and to 40 among the bins.
    assert found["rmse_rank"]["ceiling"] > 200
    assert found["rmse_rank"]["average"] == pytest.approx(
        np.sqrt(np.mean((np.arange(len(weights)) - 20) ** 2)), rel=0.1
    )


@pytest.mark.thorough
@pytest.mark.parametrize("rows", [2, 3, 10, 30])
def test_few_rows_one_class_and_rare_classes_are_no_obstacle(rows: int) -> None:
    schema = Schema(SCHEMA.columns, label="ward")
    test = read_real(schema, population(50, 1))
    task = Task.of(schema)
    assert task is not None
    for seed in range(3):
        some = population(rows, seed)
        one = some.set_column(2, "ward", pa.array(["b"] * rows))
        for table in (some, one):
            found = learn(task, read_synthetic(schema, table), test, made=True)
            assert found is not None
            assert all(0 <= score <= 1 for figures in found.values() for score in figures.values())
    assert found is not None
    assert found["mlp"] == guess(task, read_real(schema, one), test)


def test_a_schema_without_label_or_test_rows_says_why_nothing_is_learnt() -> None:
    plain = Schema(SCHEMA.columns)
    table = population(100)
    for schema, test, reason in ((plain, table, "no label"), (SCHEMA, None, "test rows")):
        scores = Evaluator(schema, table, test).score(table, ["ml"])
        assert scores.ml is None
        assert reason in " ".join(scores.remarks)


# The evaluator as a whole


@pytest.mark.thorough
def test_the_same_seed_gives_the_same_scores_and_another_seed_others() -> None:
    real, test, made = (population(400, seed) for seed in range(3))
    one, again, other = (
        Evaluator(SCHEMA, real, test, seed=seed).score(made).to_dict() for seed in (0, 0, 1)
    )
    assert json.dumps(one) == json.dumps(again)
    assert one["tvd"] == other["tvd"]
    assert one["query"] != other["query"]
    assert one["ml"] != other["ml"]
    assert {*one["fidelity"]} == {"num_num", "cat_num", "cat_cat", "histogram"}


def test_the_floor_falls_with_the_number_of_rows_and_real_rows_reach_it() -> None:
    small, large = (Evaluator(SCHEMA, population(rows)).floor(QUICK) for rows in (200, 5_000))
    other = Evaluator(SCHEMA, population(5_000)).score(population(5_000, 1), QUICK)
    assert small.tvd is not None
    assert large.tvd is not None
    assert other.tvd is not None
    assert small.tvd.two_way > 3 * large.tvd.two_way
    # Two samples differ by sqrt(2) times as much as a sample from what it was drawn from.
    assert 1 < other.tvd.two_way / large.tvd.two_way < 1.6


@pytest.mark.thorough
def test_what_real_rows_teach_is_kept_for_the_next_time(tmp_path: Path) -> None:
    real, test, made = (population(200, seed) for seed in range(3))
    folder = tmp_path / "deep" / "cache"

    def ceiling(real: pa.Table) -> Any:
        scores = Evaluator(SCHEMA, real, test, cache=folder).score(made, ["ml"])
        return scores.to_dict()["ml"]["ceiling"]

    first = ceiling(real)
    (kept,) = folder.iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert ceiling(real) == first
    kept.write_text(kept.read_text().replace('"f1_weighted":0.', '"f1_weighted":9.'))
    assert ceiling(real) > 9
    kept.write_text("{")
    assert ceiling(real) == first
    ceiling(population(200, 7))
    assert len(list(folder.iterdir())) == 2
    nowhere = Evaluator(SCHEMA, real, test, cache=tmp_path / "deep" / kept.name / "x")
    (tmp_path / "deep" / kept.name).write_text("a file where a folder would be")
    assert nowhere.score(made, ["ml"]).to_dict()["ml"]["ceiling"] == first


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"seed": -1}, "seed"),
        ({"transport_rows": 0}, "transport_rows"),
        ({"transport_rows": 10**9}, "transport_rows"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Evaluator(SCHEMA, population(10), **arguments)


def test_an_unknown_measure_is_named() -> None:
    table = population(10)
    with pytest.raises(UsageError, match="no measure 'tvs'; did you mean 'tvd'"):
        Evaluator(SCHEMA, table).score(table, ["tvs"])


def test_without_the_extra_its_measures_say_so_and_the_others_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("ot", "sklearn", "sklearn.ensemble", "threadpoolctl", "xgboost"):
        monkeypatch.setitem(sys.modules, module, None)
    evaluator = Evaluator(SCHEMA, population(50), population(50, 1))
    evaluator.score(population(50, 2), QUICK)
    for measure in ("num_num", "ml"):
        with pytest.raises(UsageError, match="extra `eval`"):
            evaluator.score(population(50, 2), [measure])


# The command


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    SCHEMA.save("schema.toml")
    for name, seed in (("real", 0), ("test", 1), ("made", 2)):
        csv.write_csv(population(300, seed), f"{name}.csv")
    options = ["--schema", "schema.toml", "--real", "real.csv", "--synthetic", "made.csv"]
    return ["evaluate", *options]


@pytest.mark.thorough
def test_json_has_every_figure_by_name(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*files, "--test", "test.csv", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    for path in [
        "tvd.one_way",
        "tvd.two_way",
        "tvd.one_way_20",
        "query.test.2_way",
        "query.train.2_way",
        "query.test.3_way",
        "fidelity.num_num",
        "fidelity.histogram",
        "ml.average",
        "ml.ceiling",
        "ml.trivial",
        "floor.tvd.two_way",
    ]:
        value: Any = found
        for key in path.split("."):
            value = value[key]
        assert 0 <= value <= 1, path


@pytest.mark.thorough
def test_the_table_shows_figures_floors_and_ceilings_and_warns(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*files, "--test", "test.csv", "--no-cache"]) == 0
    shown = capsys.readouterr()
    for words in (
        "total variation, two columns, 20 bins",
        "range queries, 3 conditions, test rows",
    ):
        assert words in shown.out
    for words in ("two numbers, points", "random forest", "real (ceiling)", "f1_macro", "floor"):
        assert words in shown.out
    assert "computed from private rows: do not publish" in shown.err


def test_only_some_measures_and_bad_input_are_one_line(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*files, "--only", "tvd", "--json"]) == 0
    assert {*json.loads(capsys.readouterr().out)} == {"notice", "tvd", "remarks", "floor"}
    for more, code in (
        (["--only", "tvx"], 2),
        (["--real", "nowhere.csv"], 1),
        (["--seed", "-1"], 2),
    ):
        assert run([*files, *more]) == code
        assert capsys.readouterr().err.count("\n") == 1


def test_a_release_of_every_kind_of_column_is_scored() -> None:
    stays = hospitals(patients=2_000)
    evaluator = Evaluator(hospital_schema(), list(stays.values()))
    scores = evaluator.score(next(iter(stays.values())), (*QUICK,))
    assert scores.remarks == ()
    assert scores.tvd is not None
    assert 0 < scores.tvd.two_way < 1
