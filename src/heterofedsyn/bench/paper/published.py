"""What the paper printed, for the ratio of every measured figure to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

COUNTERPARTS = {
    "privsyn": "PrivSyn",
    "allmarg": "FedPrivSyn-allMarg",
    "randmarg": "FedPrivSyn-RandMarg",
    "fedprivsyn-noprojection": "FedPrivSyn-w/o RP",
    "fedprivsyn": "FedPrivSyn",
    "adafedprivsyn": "AdaFedPrivSyn",
}
"""Methods that the paper has too, and its names for them."""

REGRESSION = ("abalone", "insurance")
"""Tables whose label is a number: the paper prints an error for them, else a weighted F1."""


@dataclass(frozen=True)
class Measure:
    """One of the three parts of the paper's main table, and our name for the same figure."""

    name: str
    title: str
    published: str
    metric: str
    rank_metric: str | None = None

    def metric_of(self, table: str) -> str:
        """What is measured on a table to compare with the paper."""
        return self.rank_metric if self.rank_metric and table in REGRESSION else self.metric

    def higher_is_better(self, table: str) -> bool:
        """Whether more is better on a table."""
        return self.name == "ml" and table not in REGRESSION


MEASURES = (
    Measure("query", "Query error", "query_error", "query.test.2_way"),
    Measure("fidelity", "Fidelity error", "fidelity_error", "fidelity.num_num"),
    Measure("ml", "Machine learning", "ml_efficiency", "ml.average", "ml.rmse_rank.average"),
)


@cache
def _published() -> Mapping[str, Any]:
    text = files("heterofedsyn.bench.paper").joinpath("published.json").read_text("utf-8")
    printed: Mapping[str, Any] = json.loads(text)
    return printed


def citation() -> str:
    """Whose figures they are."""
    return str(_published()["citation"])


def overall(measure: Measure, method: str, table: str, epsilon: float) -> float:
    """A cell of the main table; the best federated method's for one the paper does not have.

    >>> (
    ...     overall(MEASURES[0], "fedprivsyn", "adult", 5.0),
    ...     overall(MEASURES[0], "wavetree", "adult", 1.0),
    ... )
    (0.005, 0.009)
    """
    rows = _published()["overall"][measure.published]
    if method in COUNTERPARTS:
        return float(rows[COUNTERPARTS[method]][table][f"{epsilon:g}"])
    federated = [name for name in COUNTERPARTS.values() if name != "PrivSyn"]
    best = max if measure.higher_is_better(table) else min
    return best(float(rows[name][table][f"{epsilon:g}"]) for name in federated)


@dataclass(frozen=True)
class BoundRow:
    """A line of the paper's table on the number of selected pairs."""

    table: str
    epsilon: float
    bound: str
    query_error: float
    fidelity_error: float
    selected: int
    most: int


def bound_rows() -> list[BoundRow]:
    """The paper's table on the bound of adafedprivsyn."""
    return [BoundRow(**row) for row in _published()["bound"]]
