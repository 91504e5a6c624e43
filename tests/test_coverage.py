"""Intervals hold the truth as often as they say, and are not much wider than that needs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from heterofedsyn.bench import coverage, with_rules
from heterofedsyn.bench.coverage import Coverage, Seen
from heterofedsyn.bench.random_questions import questions_of
from heterofedsyn.cli.app import run

HOLD, WIDEST = 0.93, 1.5
"""What is promised of cells whose columns were measured together."""

KINDS = {"share", "share of two", "mean", "median", "group mean", "two-way", "two means"}


def seen(truth: float, low: float = 0.0, high: float = 3.0) -> Seen:
    return Seen("share", "measured", truth, 1.0, low, high)


def test_a_factor_is_what_all_intervals_need() -> None:
    cells = [seen(1 + 2 * share) for share in np.linspace(0, 1, 101)]
    assert all(cell.covered for cell in cells)
    assert not seen(3.1).covered
    assert Coverage.of("t", "local", "measured", "all", 1, cells).factor == pytest.approx(0.95)
    alone = Seen("share", "measured", 1.0, 1.0, None, None)
    told = Coverage.of("t", "local", "measured", "all", 1, [*cells, alone])
    assert (told.cells, told.without) == (101, 1)
    assert seen(5.0).needed == 2.0
    assert seen(0.0, low=1.0, high=1.0).needed == np.inf


@pytest.mark.thorough
def test_intervals_of_a_small_release_hold_the_truth(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(with_rules, "PATIENTS", 2_000)
    command = ["bench", "coverage", "--tables", "hospitals", "--trust", "secure-aggregation"]
    command += ["--seeds", "1", "--questions", "30", "--replicates", "10", "--kinds", "--json"]
    assert run([*command, "--out", str(tmp_path)]) == 0
    told = json.loads(capsys.readouterr().out)
    whole = {each["basis"]: each for each in told if each["kind"] == "all"}
    assert {each["kind"] for each in told} <= {*KINDS, "all"}
    assert whole["measured"]["cells"] >= 20
    assert whole["measured"]["covered"] > 0.85
    assert whole["measured"]["factor"] > 0.4
    assert len([*tmp_path.iterdir()]) == 1

    def refuse(*_: object) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr(coverage, "release_of", refuse)
    assert run([*command, "--out", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out) == told


@pytest.mark.slow
def test_intervals_of_the_hospitals_hold_the_truth() -> None:
    whole = next(coverage.measure(["hospitals"], ["local"], seeds=3, questions=60))
    assert (whole.basis, whole.kind) == ("measured", "all")
    assert whole.cells > 200
    assert whole.covered >= HOLD
    assert whole.factor >= 1 / WIDEST


@pytest.mark.thorough
def test_random_questions_are_of_every_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(with_rules, "PATIENTS", 1_000)
    schema, rows = coverage.real_rows("hospitals")
    release = coverage.release_of(schema, rows, "independent", 1.0, "local", 0)
    asked = questions_of(release, 40, np.random.default_rng(0))
    assert sum(question.kind != "two means" for question in asked) == 40
    assert {question.kind for question in asked} == KINDS
    assert rows.num_rows == 1_000
    assert rows.schema == release.sample(10).schema


@pytest.mark.parametrize(
    "given", [["--tables", "hospital"], ["--trust", "none"], ["--seeds", "0"], ["--questions", "0"]]
)
def test_a_wrong_option_is_refused(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "coverage", *given]) == 2
    assert capsys.readouterr().err.startswith("error: ")
