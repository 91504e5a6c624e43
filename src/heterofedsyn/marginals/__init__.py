"""Exact counts of encoded tables, and the statistics that sites can be asked for."""

from heterofedsyn.marginals.counting import count_pairs
from heterofedsyn.marginals.counts import Counts, TableCounts
from heterofedsyn.marginals.sketch import Sketch, SketchKind
from heterofedsyn.marginals.statistics import (
    Dependence,
    Flat,
    Grouped,
    Haar,
    Sketched,
    Statistic,
    Total,
)
from heterofedsyn.marginals.tally import Tally

__all__ = [
    "Counts",
    "Dependence",
    "Flat",
    "Grouped",
    "Haar",
    "Sketch",
    "SketchKind",
    "Sketched",
    "Statistic",
    "TableCounts",
    "Tally",
    "Total",
    "count_pairs",
]
