"""Answers with intervals: what a question is, what is said of it, and what is kept."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from scipy import stats

from heterofedsyn import FederatedSynthesizer, Release, Schema, combine
from heterofedsyn.cli.app import run
from heterofedsyn.errors import UsageError
from heterofedsyn.hub.questions import Interval, Intervals, kept
from heterofedsyn.hub.questions.combining import t_quantile
from heterofedsyn.hub.questions.within_groups import lean
from heterofedsyn.marginals.counting import count_pairs
from heterofedsyn.schema import EncodedTable, encode
from heterofedsyn.simulate.hospitals import hospital_schema, hospitals
from invented import SCHEMA, patients
from rules_support import broken_rows

pytestmark = pytest.mark.thorough

ROWS = 3_000
FEW = 6
"""Replicates that are enough to see a law."""

RULES = """
[[columns]]
name = "id"
type = "key"

[[columns]]
name = "old"
type = "categorical"
values = ["no", "yes"]

[[columns]]
name = "wing"
type = "categorical"
values = ["north", "south"]

[[rules]]
never = { old = "yes", ward = "c" }

[[rules]]
determines = { from = "ward", to = "wing", table = { a = "north", b = "north", c = "south" } }
"""


def stays() -> pa.Table:
    table = patients(ROWS)
    old = ["yes" if age > 50 else "no" for age in table["age"].to_pylist()]
    wing = ["south" if ward == "c" else "north" for ward in table["ward"].to_pylist()]
    more = {"id": pa.array(range(ROWS)), "old": pa.array(old), "wing": pa.array(wing)}
    for name, column in more.items():
        table = table.append_column(name, column)
    return table


def released(method: str = "wavetree", **terms: Any) -> Release:
    settings = {"epsilon": 5.0, "delta": 1e-6, "noise_seed": 1, "method": method, **terms}
    schema = Schema.from_toml(SCHEMA + RULES)
    half = ROWS // 2
    table = stays()
    sites = {"one": table.slice(0, half), "two": table.slice(half)}
    return FederatedSynthesizer(schema, **settings).fit(sites).release


@pytest.fixture(scope="module")
def release() -> Release:
    return released()


@pytest.fixture(scope="module")
def folder(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release.save(tmp_path_factory.mktemp("questions") / "release")


@pytest.mark.parametrize("freedom", [1, 2, 4.5, 19, 99])
def test_quantiles_are_those_of_student(freedom: float) -> None:
    assert t_quantile(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-4)


def test_results_combine_by_the_rules_of_multiple_imputation() -> None:
    rng = np.random.default_rng(0)
    own, within = rng.normal(size=(8, 3)), rng.random((8, 3))
    whole = combine(own, within)
    variance = (1 + 1 / 8) * own.var(axis=0, ddof=1) + within.mean(axis=0)
    assert whole.estimate == pytest.approx(own.mean(axis=0))
    assert whole.error == pytest.approx(np.sqrt(variance))
    assert (whole.high - whole.low) / 2 == pytest.approx(whole.error * stats.t.ppf(0.975, 7), 1e-4)
    assert np.all(combine(own).error < whole.error)


@pytest.mark.parametrize(
    ("estimates", "variances"),
    [([1.0], None), ([1.0, 2.0], [1.0]), (["a", "b"], None), ([1.0, np.nan], None), (1.0, None)],
)
def test_what_cannot_be_combined_is_refused(estimates: Any, variances: Any) -> None:
    with pytest.raises(UsageError):
        combine(estimates, variances)


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("SELECT age FROM release", "sample"),
        ("SELECT * FROM release", "name the columns"),
        ("SELECT count(*), * FROM release", "name the columns"),
        ("SELECT 1; SELECT count(*) FROM release", "one SELECT"),
        ("DROP VIEW release", "one SELECT"),
        ("COPY release TO 'x.csv'", "one SELECT"),
        ("SET lock_configuration = false", "one SELECT"),
        ("SELEC count(*) FROM release", "does not read"),
        ("SELECT count(*) FROM release UNION SELECT 1", "singly"),
        ("SELECT ward, count(*) FROM release GROUP BY ROLLUP (ward)", "singly"),
        ("SELECT count(*) FROM read_csv('/etc/passwd')", "reads no files"),
        ("SELECT count(*) FROM '/etc/passwd'", "the table is called 'release'"),
        ("SELECT count(*) FROM duckdb_settings()", "reads no files"),
        ("SELECT (SELECT count(*) FROM 'x.parquet') FROM release", "the table is called"),
        ("SELECT count(*) FROM realease", "the table is called 'release'"),
        ("SELECT avg(agee) FROM release", "did you mean 'age'"),
        ("SELECT count(DISTINCT id) FROM release", "invented identifiers"),
        ("SELECT count(*) FROM release r JOIN release s ON r.age = s.age", "one table"),
        ("SELECT count(*) FROM release, release AS other", "one table"),
        ("SELECT count(*) FROM release USING SAMPLE 10%", "differs each time"),
        ("SELECT count(*) + random() FROM release", "random() is not known"),
        ("SELECT count(*) FROM release WHERE age > random() * 100", "random() is not known"),
        ("SELECT count(*) FROM release WHERE now() > '2020-01-01'", "now() is not known"),
        ("SELECT sum(count(*)) OVER () FROM release", "window"),
        ("SELECT max(ward) FROM release", "numbers"),
        ("SELECT count(*) FROM release GROUP BY ward", "look alike"),
        ("SELECT age / 0.0001 + age, count(*) FROM release GROUP BY ALL HAVING", "does not read"),
        ("SELECT avg(ward) FROM release", "DuckDB refuses"),
        ("SELECT avg(sick) FROM release", "avg(CAST(... AS INTEGER))"),
    ],
)
def test_what_is_no_question_is_refused_in_one_line(release: Release, sql: str, word: str) -> None:
    with pytest.raises(UsageError) as refusal:
        release.answer(sql, replicates=FEW)
    assert word in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_estimates_are_what_was_measured_of_a_column(release: Release) -> None:
    answer = release.answer("SELECT ward, count(*) FROM release GROUP BY ward", replicates=FEW)
    known = release.accuracy("ward")
    told = {cell.keys[0]: cell.estimate for cell in answer.cells}
    for word, estimate in zip(known.labels[0], known.estimate, strict=True):
        assert told.get(word, 0) == pytest.approx(estimate, abs=1.5)
    assert answer.shown_head == ("ward", "estimate", "low", "high", "basis")
    assert all(
        cell.low <= cell.estimate <= cell.high
        for cell in answer.cells
        if cell.low is not None and cell.high is not None and cell.estimate is not None
    )


def test_estimates_of_three_columns_are_what_the_synthetic_table_says(release: Release) -> None:
    rows = release.sample(seed=release.run.seed)
    sql = "SELECT ward, count(*) FROM release WHERE age > 20 AND sick GROUP BY ward"
    answer = release.answer(sql, replicates=FEW)
    some = rows.filter((pc.field("age") > 20) & pc.field("sick"))
    counts = {v["values"]: v["counts"] for v in some["ward"].value_counts().to_pylist()}
    assert {cell.keys[0]: cell.estimate for cell in answer.cells} == counts


def test_order_limit_and_having_choose_among_estimates_only(release: Release) -> None:
    every = "SELECT age // 10 AS decade, count(*) AS n FROM release GROUP BY decade"
    whole = {cell.keys: cell for cell in release.answer(every, replicates=FEW).cells}
    some = release.answer(f"{every} HAVING n > 200 ORDER BY n DESC LIMIT 3", replicates=FEW).cells
    assert [cell.estimate for cell in some] == sorted(
        (cell.estimate or 0 for cell in whole.values()), reverse=True
    )[:3]
    assert all(whole[cell.keys] == cell for cell in some)


def test_the_same_question_has_the_same_answer(release: Release) -> None:
    sql = "SELECT ward, avg(age), count(*) FROM release GROUP BY ward"
    first, second = (release.answer(sql, replicates=FEW) for _ in range(2))
    assert first == second
    assert first.head == ("ward", "what", "estimate", "low", "high", "basis")


@pytest.mark.parametrize(
    ("sql", "basis"),
    [
        ("SELECT avg(age) FROM release", "measured"),
        ("SELECT count(*) FROM release", "measured"),
        ("SELECT wing, count(*) FROM release GROUP BY wing", "measured"),
        ("SELECT wing, count(*) FROM release WHERE sick GROUP BY wing", "measured"),
        ("SELECT avg(age) FROM release WHERE ward = 'a' AND sick", "follows"),
        ("WITH ill AS (SELECT age FROM release WHERE sick) SELECT avg(age) FROM ill", "measured"),
    ],
)
def test_a_basis_says_whether_columns_were_measured_together(
    release: Release, sql: str, basis: str
) -> None:
    assert {cell.basis for cell in release.answer(sql, replicates=FEW).cells} == {basis}


@pytest.mark.parametrize(
    ("what", "basis"),
    [
        ("avg((one = other)::INT)", "follows"),
        ("count(*) FILTER (WHERE one <= other)", "follows"),
        ("avg(abs(one - other))", "follows"),
        ("avg(greatest(one, other))", "follows"),
        ("avg(one - other)", "measured"),
        ("count(*) FILTER (WHERE one > 50 AND other > 50)", "measured"),
        ("corr(one, other)", "measured"),
    ],
)
def test_what_compares_two_columns_within_their_groups_is_a_guess(what: str, basis: str) -> None:
    answer = copied().answer(f"SELECT {what} FROM release", replicates=FEW)
    assert {cell.basis for cell in answer.cells} == {basis}
    assert any("beside each other row by row" in note for note in answer.notes) == (
        basis == "follows"
    )
    inside = copied().answer("SELECT avg(one) FROM release WHERE one = other", replicates=FEW)
    assert {cell.basis for cell in inside.cells} == {"follows"}


@functools.cache
def copied() -> Release:
    """Of two columns that are copies of each other, measured in fewer groups than values."""
    values = pa.array(np.random.default_rng(3).integers(0, 100, 4_000))
    columns = [{"name": name, "type": "integer", "min": 0, "max": 99} for name in ("one", "other")]
    terms: dict[str, Any] = {"epsilon": 5.0, "delta": 1e-6, "noise_seed": 1}
    made = FederatedSynthesizer({"columns": columns}, **terms)
    half = pa.table({"one": values, "other": values}).slice(0, 2_000)
    return made.fit({"one": half, "two": half.slice(0, 1_999)}).release


def test_pairs_that_were_not_measured_are_named() -> None:
    answer = released("independent").answer(
        "SELECT ward, avg(age), avg(sick::INTEGER) FROM release GROUP BY ward", replicates=FEW
    )
    assert {*answer.pairs.values()} == {False}
    assert "age and ward were not measured together: read this as a guess" in answer.notes
    assert {cell.basis for cell in answer.cells} == {"follows"}


@pytest.mark.parametrize(
    ("expression", "low", "high"),
    [
        ("count(*) FILTER (WHERE ward = 'c' AND age > 98)", 0, np.inf),
        ("avg((age > 97 AND ward = 'c')::INTEGER)", 0, 1),
        ("avg((NOT (age > 97 AND ward = 'c'))::INTEGER)", 0, 1),
        ("100.0 * count(*) FILTER (WHERE age >= 1) / count(*)", 0, 100),
        ("avg(age) FILTER (WHERE age > 97)", 0, 99),
        ("median(age) FILTER (WHERE age < 2)", 0, 99),
        ("avg(CASE WHEN age > 97 AND ward = 'c' THEN 1 ELSE 0 END)", 0, 1),
        ("avg(CASE WHEN age > 97 AND ward = 'c' THEN 0.6 ELSE 0 END::INTEGER)", 0, 1),
        ("sum(CASE WHEN age >= 1 THEN 1 ELSE 0 END) / count(*)", 0, 1),
        ("avg(CASE WHEN age > 97 THEN age WHEN ward = 'c' THEN -3 END)", -3, 99),
    ],
)
def test_no_interval_leaves_what_is_possible(
    release: Release, expression: str, low: float, high: float
) -> None:
    (cell,) = release.answer(f"SELECT {expression} FROM release", replicates=FEW).cells
    assert cell.low is not None
    assert cell.high is not None
    assert low <= cell.low <= cell.high <= high


def test_a_cell_without_a_value_stays(release: Release) -> None:
    (cell,) = release.answer("SELECT avg(age) FROM release WHERE age > 200", replicates=FEW).cells
    assert (cell.estimate, cell.low, cell.high) == (None, None, None)
    (cell,) = release.answer("SELECT count(*) FROM release WHERE age > 200", replicates=FEW).cells
    assert (cell.estimate, cell.low, cell.high) == (0, 0, 0)


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("SELECT count(*) FROM release WHERE age > 200", "not that there are none"),
        ("SELECT age / 3.0 + age AS x, count(*) FROM release WHERE age > 95 OR age < 0 "
         "GROUP BY x HAVING count(*) < 0", None),
        ("SELECT ward, count(*) FROM release GROUP BY ward", None),
        ("SELECT avg(age) FROM release WHERE age > 200", "there is no number"),
        ("SELECT ward, avg(age) FROM release WHERE age > 200 GROUP BY 1", "the answer is empty"),
        ("SELECT age > 98 AND ward = 'b' AS o, avg(age) FROM release GROUP BY o",
         "1 of 2 groups (True) has fewer than 30 synthetic rows"),
    ],
)  # fmt: skip
def test_what_no_row_shows_is_said(release: Release, sql: str, word: str | None) -> None:
    notes = " ".join(release.answer(sql, replicates=FEW).notes)
    assert (word or "") in notes
    assert word or "none" not in notes


def test_groups_that_replicates_do_not_have_are_better_ranges() -> None:
    schema = Schema.of(
        {"columns": [{"name": "cost", "type": "number", "min": 0, "max": 1, "bins": 4}]}
    )
    rows = pa.table({"cost": np.random.default_rng(0).random(300)})
    fitted = FederatedSynthesizer(schema, epsilon=5.0, delta=1e-6, noise_seed=1).fit(rows)
    answer = fitted.release.answer(
        "SELECT cost, 1.0 * count(*) FROM release GROUP BY cost", replicates=FEW
    )
    assert any("group by ranges" in note for note in answer.notes)
    with pytest.raises(UsageError, match="infinite or no number"):
        fitted.release.answer("SELECT cost / 0, count(*) FROM release GROUP BY ALL", replicates=FEW)


def test_a_group_that_replicates_lack_counts_as_nobody(release: Release) -> None:
    """However a count is written."""
    rare = "FROM release WHERE age > 96 GROUP BY age, ward ORDER BY age, ward"
    forms = ("count(*)", "1.0 * count(*)", "coalesce(count(*), 0)")
    one, *others = (
        [
            (cell.estimate, cell.low, cell.high)
            for cell in release.answer(f"SELECT age, ward, {form} {rare}", replicates=FEW).cells
        ]
        for form in forms
    )
    assert others == [one, one]
    assert all(low is not None and low >= 0 for _, low, _ in one)


def test_what_having_looks_at_counts_for_every_number() -> None:
    sql = "SELECT ward, count(*) FROM release GROUP BY ward HAVING avg(age) > 1"
    answer = released("independent").answer(sql, replicates=FEW)
    assert {cell.basis for cell in answer.cells} == {"follows"}


def test_numbers_in_one_column_have_one_form() -> None:
    cells = tuple(
        Interval((ward,), "avg", estimate, estimate - 1_278.3, estimate + 1_278.3, "measured")
        for ward, estimate in [("a", 7_760.4), ("b", 9_319.0), ("c", 10_604.2)]
    )
    shown = Intervals("", ("ward",), cells, {}, (), FEW).shown()
    assert shown[0] == ["a", "7,760", "6,482", "9,039", "measured"]
    assert shown[2][1] == "10,604"


def test_replicates_are_tables_like_the_synthetic_one(release: Release) -> None:
    ours = release.sample()
    first, second = release.replicates(2, seed=3)
    assert first.schema == second.schema == ours.schema
    assert not first.equals(second)
    assert first.equals(release.replicates(1, seed=3)[0])
    assert not any(broken_rows(release.schema, first))
    assert first.num_rows != second.num_rows
    assert release.replicates(1, rows=50)[0].num_rows == 50
    with pytest.raises(UsageError, match=r"must be in 1\.\.1000"):
        release.replicates(10**9)


def test_what_was_combined_is_shown_line_by_line() -> None:
    head, *lines = str(combine([[1.0, 20_000.0], [2.0, 30_000.0]])).splitlines()
    assert head.split() == ["estimate", "error", "low", "high"]
    assert [line.split()[0] for line in lines] == ["1.5", "25,000"]
    assert len(str(combine([1.0, 2.0])).splitlines()) == 2


@pytest.mark.parametrize("method", ["independent", "fedprivsyn", "local-merge"])
def test_releases_of_every_kind_answer(method: str) -> None:
    made = released(method)
    cells = made.answer("SELECT ward, count(*) FROM release GROUP BY ward", replicates=FEW).cells
    assert len(cells) == 3
    assert all(cell.low is not None and cell.low < cell.high for cell in cells if cell.high)


def test_few_rows_that_stand_for_many_count_as_many(
    release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = "SELECT count(*), sum(age), avg(age) FROM release"
    whole = release.answer(sql, replicates=FEW)
    monkeypatch.setattr(kept, "MOST_DRAWN", 400)
    monkeypatch.setattr(kept, "_REMEMBERED", {})
    fewer = release.answer(sql, replicates=FEW)
    for one, other in zip(whole.cells, fewer.cells, strict=True):
        assert one.estimate == other.estimate
        assert other.low is not None
        assert one.high is not None
        assert other.low < (one.estimate or 0) < (other.high or 0)
        assert (other.high or 0) - other.low < 4 * (one.high - (one.low or 0))


def test_rows_dealt_anew_within_groups_keep_every_table_on_groups() -> None:
    schema = hospital_schema()
    rows = pa.concat_tables(hospitals(patients=3_000).values())
    made = FederatedSynthesizer(schema, epsilon=2.0, delta=1e-6, noise_seed=1).fit(rows).release
    (targets,) = made.model.targets
    table = made.model.synthesizer.synthesize(targets, 2_000, np.random.default_rng(0))
    leant = lean(targets.estimates, table, np.random.default_rng(1))
    assert not np.array_equal(leant.codes, table.codes)
    for place, name in enumerate(table.domain.names):
        assert np.array_equal(np.sort(leant.codes[place]), np.sort(table.codes[place])), name
    grid = targets.estimates.grid

    def on_groups(own: EncodedTable) -> EncodedTable:
        groups = targets.estimates.groups
        codes = [groups[name][own.codes[place]] for place, name in enumerate(own.domain.names)]
        return EncodedTable.from_codes(grid, np.stack(codes))

    pairs = list(targets.pairs)
    for one, other in zip(
        count_pairs(on_groups(table), pairs), count_pairs(on_groups(leant), pairs), strict=True
    ):
        assert np.array_equal(one.counts, other.counts)


def test_values_lean_within_their_bins(release: Release) -> None:
    (replicate,) = release.replicates(1)
    assert encode(release.schema, replicate.to_batches()).rows_dropped == 0


def test_the_command_answers_in_a_table_or_in_json(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    sql = "SELECT ward, avg(age) FROM release WHERE sick AND old = 'no' GROUP BY ward ORDER BY ward"
    asked = ["ask", str(folder), sql, "--replicates", str(FEW)]
    assert run(asked) == 0
    said = capsys.readouterr()
    assert "drawing 6 replicates" in said.err
    assert "follows" in said.out
    assert "avg(age), with intervals of 95 %" in said.out
    assert run([*asked, "--json"]) == 0
    said = capsys.readouterr()
    told = json.loads(said.out)
    assert said.err == ""
    assert [cell["ward"] for cell in told["cells"]] == ["a", "b", "c"]
    assert all(cell["low"] <= cell["estimate"] <= cell["high"] for cell in told["cells"])
    assert {*told} == {"sql", "cells", "pairs", "notes", "replicates"}
    assert [path.name for path in tmp_path.iterdir()] == ["heterofedsyn"]


def test_the_command_refuses_in_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ask", str(folder), "SELECT avg(agee) FROM release"]) == 2
    assert run(["ask", str(folder), "SELECT avg(age) FROM release", "--replicates", "1"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in errors if "drawing" not in line] == ["error"] * 2


def test_a_data_frame_has_the_notes(release: Release) -> None:
    frame = release.ask(
        "SELECT ward, avg(age) FROM release WHERE sick GROUP BY ward", replicates=FEW
    )
    assert [*frame.columns] == ["ward", "what", "estimate", "low", "high", "basis"]
    assert {*frame["what"]} == {"avg(age)"}
    assert any("more than two columns" in note for note in frame.attrs["notes"])


def test_text_of_strangers_is_escaped(release: Release) -> None:
    answer = release.answer(
        "SELECT '<b>\x1b[31m' AS \"<i>\", count(*) FROM release GROUP BY 1", replicates=FEW
    )
    assert "<b>" not in answer._repr_html_()
    assert "&lt;b&gt;" in answer._repr_html_()
    assert "\x1b" not in str(answer) + answer._repr_html_()


def test_a_bin_that_holds_far_more_than_others_is_said() -> None:
    schema = Schema.of({"columns": [{"name": "dose", "type": "number", "min": 0, "max": 8}]})
    rng = np.random.default_rng(0)
    dose = np.where(rng.random(ROWS) < 0.5, 3.0, rng.uniform(0, 8, ROWS))
    synthesizer = FederatedSynthesizer(schema, epsilon=5.0, delta=1e-6, noise_seed=1)
    made = synthesizer.fit({"one": pa.table({"dose": dose})}).release
    answer = made.answer("SELECT avg((dose < 3.02)::INTEGER) FROM release", replicates=FEW)
    assert any("dose has bins that hold far more" in note for note in answer.notes)
    (cell,) = answer.cells
    assert cell.low is not None
    assert cell.high is not None
    assert cell.low < np.mean(dose < 3.02) < cell.high
