"""Exact counts of encoded tables, and the statistics that sites can be asked for."""

from heterofedsyn.marginals.counting import Counts, count_pairs
from heterofedsyn.marginals.sketch import Sketch, SketchKind
from heterofedsyn.marginals.statistics import Dependence, Flat, Sketched, Statistic

__all__ = [
    "Counts",
    "Dependence",
    "Flat",
    "Sketch",
    "SketchKind",
    "Sketched",
    "Statistic",
    "count_pairs",
]
