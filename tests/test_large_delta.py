"""A delta that protects nobody is said so once, and one that nobody means is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from heterofedsyn.errors import PrivacyRefusal
from heterofedsyn.privacy.budget import LARGE_DELTA, check_usual_delta
from invented import Desk

pytestmark = pytest.mark.thorough

SIMULATE = ("simulate", "--data", "d.csv", "--out", "out", "--method", "independent")
PLAN = ("plan", "--rows", "1000", "--sites", "2", "--method", "independent")
NEW = ("study", "new", "--site", "elmwood", "--out", "out")
TERMS = ("--schema", "s.toml", "--epsilon", "1")


@pytest.mark.parametrize("command", [SIMULATE, PLAN, NEW], ids=["simulate", "plan", "new"])
def test_a_delta_of_a_hundredth_must_be_allowed(desk: Desk, command: tuple[str, ...]) -> None:
    words = (*command, *TERMS, "--delta", str(LARGE_DELTA))
    desk.run(*words)
    desk.refused(3, "delta 0.01 would allow publishing 1% of all records", "--allow-large-delta")
    assert not Path("out").exists()
    assert desk.run(*words, "--allow-large-delta") == 0


@pytest.mark.parametrize("delta", [LARGE_DELTA, 0.5, 0.999])
def test_what_is_allowed_is_not_refused(delta: float) -> None:
    check_usual_delta(delta, allow_large=True)
    check_usual_delta(LARGE_DELTA * 0.999, allow_large=False)
    with pytest.raises(PrivacyRefusal):
        check_usual_delta(delta, allow_large=False)


def test_simulate_says_once_that_delta_is_above_one_of_all_rows(desk: Desk) -> None:
    assert desk.run(*SIMULATE, *TERMS, "--delta", "0.009", "--seed", "1") == 0
    assert (desk.out + desk.err).count("delta 0.009 is not below 1 / (number of rows)") == 1


def test_a_usual_delta_is_not_mentioned(desk: Desk) -> None:
    assert desk.run(*SIMULATE, *TERMS, "--delta", "1e-9", "--seed", "1") == 0
    assert "number of rows" not in desk.out + desk.err


def test_a_steward_is_told_of_a_delta_above_one_of_the_declared_rows(desk: Desk) -> None:
    Path("vault").mkdir()
    desk.run(
        *("site", "init", "--schema", "s.toml", "--data", "d.csv", "--name", "elmwood"),
        *("--epsilon", "3", "--study-epsilon", "1", "--delta", "0.005", "--engine", "0"),
        *("--group", "0", "--anchor", "vault/anchor", "--socket", "run/s"),
    )
    assert "delta 0.005 is not below 1 / (number of rows)" in desk.err
    assert desk.run(*NEW, *TERMS, "--delta", "0.005", "--method", "independent") == 0
    assert desk.run("site", "preview", "out") == 0
    assert desk.out.count("delta 0.005 is not below 1 / (number of rows)") == 1
