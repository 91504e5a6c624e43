"""How close a synthetic table is to a real one."""

from heterofedsyn.evaluation.binning import coarse
from heterofedsyn.evaluation.evaluator import (
    MEASURES,
    QUICK,
    Evaluator,
    Learning,
    Scores,
    cache_folder,
    score,
)
from heterofedsyn.evaluation.queries import RangeQueries, range_query_error
from heterofedsyn.evaluation.rows import Rows, read_real, read_synthetic
from heterofedsyn.evaluation.transport import KIND_WORDS
from heterofedsyn.evaluation.tvd import TotalVariation, total_variation
from heterofedsyn.evaluation.wasserstein import histogram_wasserstein

__all__ = [
    "KIND_WORDS",
    "MEASURES",
    "QUICK",
    "Evaluator",
    "Learning",
    "RangeQueries",
    "Rows",
    "Scores",
    "TotalVariation",
    "cache_folder",
    "coarse",
    "histogram_wasserstein",
    "range_query_error",
    "read_real",
    "read_synthetic",
    "score",
    "total_variation",
]
