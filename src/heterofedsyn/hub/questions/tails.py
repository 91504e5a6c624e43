"""Aggregates that hang on few rows at the end of a column."""

from __future__ import annotations

from typing import Any, Literal

from heterofedsyn._sql import nodes
from heterofedsyn.hub.questions.plain_select import arguments
from heterofedsyn.hub.release.sql_reading import literal, uncast

Tail = Literal["single", "few"]
"""Whether a number hangs on single rows, or on few."""

SINGLE = frozenset({"min", "max", "mode", "bool_and", "bool_or"})
FEW = frozenset({"skewness", "kurtosis", "kurtosis_pop"})
QUANTILES = frozenset({"quantile", "quantile_cont", "quantile_disc"})

INNER = (0.05, 0.95)
"""Shares of records between which quantiles are told about as well as the median."""


def tail_of(tree: Any) -> Tail | None:
    """On how few rows the aggregates of a tree hang."""
    found = {_of_function(part) for part in nodes(tree) if part.get("class") == "FUNCTION"}
    return "single" if "single" in found else "few" if "few" in found else None


def _of_function(part: Any) -> Tail | None:
    name = part["function_name"].lower()
    if name in SINGLE:
        return "single"
    if name in FEW:
        return "few"
    if name not in QUANTILES:
        return None
    shares = [_share(uncast(own)) for own in arguments(part)[-1:]]
    if any(share is not None and not 0 < share < 1 for share in shares):
        return "single"
    inner = all(share is not None and INNER[0] <= share <= INNER[1] for share in shares)
    return None if inner else "few"


def _share(expression: Any) -> float | None:
    """A number that is written out."""
    if expression.get("class") != "CONSTANT":
        return None
    try:
        return float(literal(expression))
    except (TypeError, ValueError):
        return None
