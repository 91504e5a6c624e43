"""All that a method or a synthesizer of your own needs; docs/methods.md shows how."""

from heterofedsyn.hub.methods import METHODS, make_method
from heterofedsyn.hub.methods.base import Later, Method, Model, Outcome, Setting
from heterofedsyn.hub.methods.scores import Glimpse
from heterofedsyn.hub.methods.stages import (
    addressed,
    check_between,
    check_share,
    glimpses,
    later_pairs,
    measured,
    one_ways,
)
from heterofedsyn.hub.replies import Ask, Round
from heterofedsyn.marginals import (
    Dependence,
    Flat,
    Grouped,
    Haar,
    Sketched,
    SketchKind,
    Statistic,
    Total,
)
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.schema import Clique, Domain, EncodedTable, Schema
from heterofedsyn.synthesis import (
    REBUILDS,
    SYNTHESIZERS,
    Consistency,
    Denoising,
    Gum,
    Measurement,
    Pgm,
    Rebuild,
    Synthesizer,
    Targets,
    Tree,
)
from heterofedsyn.synthesis.allocation import allocate
from heterofedsyn.synthesis.estimates import Estimates

__all__ = [
    "METHODS",
    "REBUILDS",
    "SYNTHESIZERS",
    "Ask",
    "Budget",
    "Clique",
    "Consistency",
    "Denoising",
    "Dependence",
    "Domain",
    "EncodedTable",
    "Estimates",
    "Flat",
    "Glimpse",
    "Grouped",
    "Gum",
    "Haar",
    "Later",
    "Measurement",
    "Method",
    "Model",
    "Noisy",
    "Outcome",
    "Pgm",
    "Rebuild",
    "Round",
    "Schema",
    "Setting",
    "SketchKind",
    "Sketched",
    "Statistic",
    "Synthesizer",
    "Targets",
    "Total",
    "Tree",
    "addressed",
    "allocate",
    "check_between",
    "check_share",
    "glimpses",
    "later_pairs",
    "make_method",
    "measured",
    "one_ways",
]
