"""Exact counts of encoded tables, and the statistics that sites can be asked for."""

from heterofedsyn.marginals.counting import Counts, count_pairs
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
    "Total",
    "count_pairs",
]
