"""Answers claim no more than they know: whatever stands beside a number, within bins, at ends."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn import FederatedSynthesizer, Release, Schema, _sql
from heterofedsyn._sql import Clock, database_of
from heterofedsyn.errors import UsageError
from heterofedsyn.hub.questions.intervals import Interval
from heterofedsyn.hub.questions.looking_inside import Along
from test_questions import FEW, released
from test_sql_reading import asked

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def release() -> Release:
    return released(measure=[("age", "ward")])


def cells(release: Release, sql: str, what: str | None = None) -> dict[object, Interval]:
    found = release.answer(sql, replicates=FEW).cells
    return {cell.keys: cell for cell in found if what in (None, cell.what)}


@pytest.mark.parametrize(
    "rest",
    [
        "{}, avg(sick::INTEGER) FROM release GROUP BY ward",
        "{}, corr(age, sick::INTEGER), count(*) FROM release GROUP BY ward",
        "{} FROM release GROUP BY ward ORDER BY avg(sick::INTEGER) DESC",
        "{}, avg(sick::INTEGER) AS s FROM release GROUP BY ward ORDER BY s, 2",
        "{} FROM release GROUP BY ward HAVING avg(sick::INTEGER) >= 0",
    ],
)
def test_a_number_is_the_same_whatever_is_asked_beside_it(release: Release, rest: str) -> None:
    one = cells(release, "SELECT ward, avg(age) AS a FROM release GROUP BY ward")
    beside = cells(release, f"SELECT ward, {rest.format('avg(age) AS a')}", "a")
    numbers = {keys: (cell.estimate, cell.low, cell.high) for keys, cell in one.items()}
    assert numbers == {keys: (cell.estimate, cell.low, cell.high) for keys, cell in beside.items()}
    if "HAVING" not in rest:
        assert one == beside


def test_rows_dealt_for_one_number_differ_from_those_for_another(release: Release) -> None:
    """Else the law above says nothing."""
    pair = cells(release, "SELECT ward, avg(age) FROM release GROUP BY ward")
    three = cells(
        release, "SELECT ward, avg(age) FROM release WHERE sick IS NOT NULL GROUP BY ward"
    )
    assert {k: c.estimate for k, c in pair.items()} != {k: c.estimate for k, c in three.items()}


@pytest.mark.parametrize("order", ["avg(age)", "2 DESC", "a, ward", "ward DESC"])
def test_groups_are_in_order_of_what_is_shown(release: Release, order: str) -> None:
    sql = "SELECT ward, avg(age) AS a, avg(sick::INTEGER) AS s FROM release GROUP BY ward ORDER BY "
    found = release.answer(sql + order, replicates=FEW).cells
    shown: list[Any] = [
        cell.keys[0] if order.startswith("ward") else cell.estimate for cell in found[::2]
    ]
    pairs = [*pairwise(shown)]
    assert all(a >= b if "DESC" in order else a <= b for a, b in pairs)


def test_what_is_kept_answers_as_what_is_drawn(release: Release, tmp_path: Path) -> None:
    """Also of a column that follows from another, which the question does not name."""
    sql = "SELECT wing, avg(age) FROM release GROUP BY wing"
    kept = release.answer(sql, replicates=FEW, cache=tmp_path)
    assert kept == release.answer(sql, replicates=FEW)


@pytest.mark.parametrize(
    ("keys", "groups"),
    [
        ("ward", {("a",), ("b",), ("c",)}),
        ("ward, wing", {("a", "north"), ("b", "north"), ("c", "south")}),
        ("wing, old", {("north", "no"), ("north", "yes"), ("south", "no")}),
        ("old, ward", {("no", "a"), ("no", "b"), ("no", "c"), ("yes", "a"), ("yes", "b")}),
    ],
)
def test_every_group_that_can_be_is_listed(
    release: Release, keys: str, groups: set[tuple[str, ...]]
) -> None:
    sql = f"SELECT {keys}, count(*) FROM release WHERE age > 98 AND sick GROUP BY {keys}"
    assert {*cells(release, sql)} == groups


def test_a_group_without_synthetic_rows_has_an_interval() -> None:
    """As wide as the noise of its measured table; and if it has no number it is named."""
    column = {"name": "sex", "type": "categorical", "values": [*"fmstuvwxyz"]}
    age = {"name": "age", "type": "integer", "min": 0, "max": 9}
    schema = Schema.of({"columns": [column, age]})
    rows = pa.table({"sex": ["f", "m"] * 400, "age": [*range(8)] * 100})
    synthesizer = FederatedSynthesizer(
        schema, epsilon=0.5, delta=1e-6, noise_seed=2, method="independent"
    )
    made = synthesizer.fit(rows).release
    known = made.accuracy("sex")
    told = made.answer("SELECT sex, count(*) FROM release GROUP BY 1 ORDER BY 1", replicates=FEW)
    assert [cell.keys[0] for cell in told.cells] == [*known.labels[0]]
    empty = [place for place, cell in enumerate(told.cells) if cell.estimate == 0]
    assert empty
    for place in empty:
        assert (told.cells[place].high or 0) >= known.high[place] - known.estimate[place]
    answer = made.answer("SELECT sex, avg(age) FROM release GROUP BY sex", replicates=FEW)
    assert any("no synthetic row and no number" in note for note in answer.notes)


@pytest.mark.parametrize(
    ("expression", "inside"),
    [
        ("avg(age)", ()),
        ("avg(ln(cost + 1))", ()),
        ("avg(abs(age - 50))", ()),
        ("avg((age BETWEEN 30 AND 60)::INTEGER)", ()),
        ("avg((day >= DATE '2021-03-01' AND day < DATE '2021-06-01')::INTEGER)", ()),
        ("avg(stays % 3)", ()),
        ("sum(cost * age)", ()),
        ("avg(CASE WHEN ward = 'icu' THEN cost ELSE 0 END)", ()),
        ("count(DISTINCT age // 10)", ()),
        ("avg(age % 10)", ("age",)),
        ("avg(cost % 7)", ("cost",)),
        ("avg((cost * 100)::INTEGER % 2)", ("cost",)),
        ("avg((age = 30)::INTEGER)", ("age",)),
        ("avg((cost BETWEEN 110 AND 111)::INTEGER)", ("cost",)),
        ("count(*) FILTER (WHERE cost > 110 AND sick AND cost < 111)", ("cost",)),
        ("avg((dayofweek(day) IN (0, 6))::INTEGER)", ("day",)),
        ("avg(day(day))", ("day",)),
        ("avg(right(age::VARCHAR, 1)::INTEGER)", ("age",)),
        ("avg(cost * age % 10)", ("age", "cost")),
        ("avg(cost % 7) FILTER (WHERE sick)", ("cost",)),
        ("avg((SELECT avg(cost % 7) FROM release))", ("cost",)),
    ],
)
def test_what_looks_inside_bins_is_told_from_their_edges(
    expression: str, inside: tuple[str, ...]
) -> None:
    assert asked(f"SELECT {expression} FROM release").figures[0].inside == inside


@pytest.mark.parametrize(
    ("sql", "inside"),
    [
        ("SELECT age, count(*) FROM release GROUP BY age", ("age",)),
        ("SELECT age // 10, count(*) FROM release GROUP BY ALL", ()),
        ("SELECT floor(cost / 100), count(*) FROM release GROUP BY 1", ()),
        ("SELECT floor(cost / 10), count(*) FROM release GROUP BY 1", ("cost",)),
        ("SELECT month(day), avg(age) FROM release GROUP BY 1", ()),
        ("SELECT dayofweek(day), avg(age) FROM release GROUP BY 1", ("day",)),
        ("SELECT avg(h) FROM (SELECT cost / 3 AS h FROM release) WHERE h % 2 < 1", ("cost",)),
        ("SELECT avg(x) FROM (SELECT age AS x, cost % 7 AS unused FROM release)", ()),
        ("WITH t AS (SELECT cost / 3 AS h FROM release) SELECT avg(h % 2) FROM t", ("cost",)),
        ("SELECT ward, count(*) FROM release GROUP BY ward ORDER BY avg(cost % 7)", ()),
    ],
)
def test_names_hide_nothing_that_looks_inside_bins(sql: str, inside: tuple[str, ...]) -> None:
    assert asked(sql).figures[0].inside == inside


@pytest.mark.parametrize(
    "expression",
    [
        "round(cost, 2)",
        "cost // 0.01",
        "cost % 1000",
        "CASE WHEN true THEN cost END",
        "cost::VARCHAR",
    ],
)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(DISTINCT {}) FROM release",
        "SELECT sum(n * (n - 1)) FROM (SELECT {} AS c, count(*) AS n FROM release GROUP BY c)",
        "SELECT count(*) * (SELECT avg(n) FROM (SELECT {} AS c, count(*) AS n FROM release GROUP "
        "BY c)) FROM release",
    ],
)
def test_how_many_invented_values_differ_is_no_question(sql: str, expression: str) -> None:
    with pytest.raises(UsageError, match=r"invented within its bins.*floor\(cost / 100\)"):
        asked(sql.format(expression))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-9, 9)), min_size=1, max_size=40))
def test_what_rises_or_is_constant_in_bins_looks_into_none(found: list[tuple[int, int]]) -> None:
    parts = np.sort([part for part, _ in found])
    rising = sorted(value for _, value in found)
    assert not Along.of(rising, parts).moves_astray
    assert not Along.of([-value for value in rising], parts).moves_astray
    constant = [found[part][1] if part < len(found) else 0 for part in parts]
    assert not Along.of(constant, parts).moves_astray
    assert not Along.of(constant, parts).cuts_out


@given(st.integers(2, 9), st.integers(3, 9))
def test_what_begins_anew_in_every_bin_looks_inside(bins: int, many: int) -> None:
    parts = np.repeat(np.arange(bins), many)
    saw = [*range(many)] * bins
    assert Along.of(saw, parts).moves_astray
    assert Along.of(saw, parts).cuts_out
    assert Along.of([value == 1 for value in saw], parts).moves_astray


@pytest.mark.parametrize(
    ("expression", "basis", "word"),
    [
        ("quantile_cont(age, 0.9)", "measured", None),
        ("quantile_cont(age, 0.99)", "follows", "few rows at the ends"),
        ("quantile_disc(age, 0.01)", "follows", "few rows at the ends"),
        ("quantile_cont(age, 0)", "follows", "do not use"),
        ("quantile_cont(age, 1.0)", "follows", "do not use"),
        ("percentile_cont(0.99) WITHIN GROUP (ORDER BY age)", "follows", "few rows"),
        ("kurtosis(age)", "follows", "few rows at the ends"),
        ("bool_or(age > 98)::INTEGER", "follows", "do not use"),
        ("avg(age % 10)", "follows", "looks inside bins"),
        ("count(DISTINCT ward)", "measured", "not that it is certain"),
        ("sqrt(avg(age) - 1000)", "follows", None),
    ],
)
def test_what_hangs_on_few_rows_is_said(
    release: Release, expression: str, basis: str, word: str | None
) -> None:
    answer = release.answer(f"SELECT {expression} FROM release", replicates=FEW)
    assert answer.cells[0].basis == basis
    assert word is None or word in " ".join(answer.notes)


@pytest.mark.parametrize(
    ("expression", "low", "high"),
    [
        ("corr(age, -age)", -1, 1),
        ("bool_or(age > 98)::INTEGER", 0, 1),
        ("stddev(age)", 0, np.inf),
        ("regr_r2(age, age)", 0, 1),
    ],
)
def test_aggregates_stay_where_they_always_are(expression: str, low: float, high: float) -> None:
    assert asked(f"SELECT {expression} FROM release").figures[0].ends == (low, high)


def test_all_pieces_of_a_question_share_one_clock() -> None:
    with database_of("a test", {}) as connection:
        clock = Clock(connection, 1.0)
        clock.run(lambda: time.sleep(0.6))
        with pytest.raises(UsageError, match="no result after 1 seconds"):
            clock.run(lambda: time.sleep(0.9))


def test_work_that_hears_nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sql, "_GRACE", 0.1)
    with database_of("a test", {}) as connection, pytest.raises(UsageError, match="no result"):
        Clock(connection, 0.1).run(lambda: time.sleep(3))
