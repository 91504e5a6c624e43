"""The committed results are those that the command gives."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from heterofedsyn.bench.paper.work import run_item
from heterofedsyn.bench.resumable.cells import SCORES, Cell
from heterofedsyn.bench.resumable.results import Item

RESULTS = Path(__file__).parents[1] / "docs" / "results"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("method", "epsilon", "trust"),
    [
        ("wavetree", 0.2, "local"),
        ("wavetree", 1.0, "secure-aggregation"),
        ("fedprivsyn", 1.0, "local"),
        ("adafedprivsyn", 5.0, "local"),
        ("privsyn", 1.0, "local"),
        ("independent", 5.0, "local"),
    ],
)
def test_a_kept_figure_comes_out_again(
    data_folder: Path, method: str, epsilon: float, trust: str
) -> None:
    cell = Cell("insurance", method, epsilon, trust=trust)
    with (RESULTS / "results.csv").open(newline="") as file:
        kept = {
            row["metric"]: float(row["value"])
            for row in csv.DictReader(file)
            if (row["table"], row["method"], row["epsilon"], row["trust"])
            == ("insurance", method, f"{epsilon:g}", trust)
            and (row["sites"], row["settings"], row["repetition"]) == ("5", "", "0")
        }
    found = run_item(Item(cell, 0, SCORES), data_folder, 0).figures
    for metric in ("tvd.two_way", "query.test.2_way", "fidelity.histogram"):
        assert found[metric] == pytest.approx(kept[metric], rel=1e-4)
