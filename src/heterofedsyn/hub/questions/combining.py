"""One estimate and one interval from the results of several replicates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from heterofedsyn._arrays import Floats, frozen
from heterofedsyn.errors import UsageError
from heterofedsyn.hub.release.lines import html_of, text_of

LEVEL = 0.95
"""Of every interval."""

_STEPS = 20_001
_HEAD = ("estimate", "error", "low", "high")


@dataclass(frozen=True, eq=False)
class Combined:
    """What replicates say together; numbers, or arrays of the shape of each result.

    Attributes:
        error: the standard error, of noise and sampling together.
        low, high: the ends of the 95 % interval.
    """

    estimate: Floats
    error: Floats
    low: Floats
    high: Floats

    def __str__(self) -> str:
        return text_of(_HEAD, self._shown(), words=0)

    def _repr_html_(self) -> str:
        return html_of(_HEAD, self._shown(), words=0)

    def _shown(self) -> list[list[str]]:
        """A line for each number, in the order of the results."""
        columns = map(np.ravel, (self.estimate, self.error, self.low, self.high))
        rows = zip(*columns, strict=True)
        return [[f"{number:,.5g}" for number in row] for row in rows]


def combine(estimates: ArrayLike, variances: ArrayLike | None = None) -> Combined:
    """The mean of results of replicates, with an interval of 95 %.

    Args:
        estimates: a result for each replicate: numbers, or arrays of one shape.
        variances: the squared standard error of each result, if it has one of its own, as
            coefficients of a regression have.

    >>> combine([1.0, 2.0, 3.0]).estimate.item()
    2.0

    Raises:
        UsageError: if there are fewer than two, or they do not fit each other.
    """
    own = _stacked(estimates, "estimates")
    many = len(own)
    if many < 2:
        raise UsageError(f"there is {many} estimate; combine those of at least two replicates")
    between = own.var(axis=0, ddof=1)
    total = (1 + 1 / many) * between
    if variances is not None:
        within = _stacked(variances, "variances")
        if within.shape != own.shape:
            raise UsageError(
                f"variances have shape {within.shape}, estimates {own.shape}; give one for each"
            )
        if np.any(within < 0):
            raise UsageError("a variance is negative; give squared standard errors")
        total = total + within.mean(axis=0)
    mean = own.mean(axis=0)
    error = np.sqrt(total)
    half = t_quantile(many - 1) * error
    return Combined(*(frozen(np.asarray(a)) for a in (mean, error, mean - half, mean + half)))


@lru_cache(maxsize=64)
def t_quantile(freedom: float, level: float = LEVEL) -> float:
    """How many standard errors each side of an interval has (Student's t).

    The distribution of atan(t / sqrt(freedom)) has the density cos^(freedom - 1).

    >>> round(t_quantile(19), 4), round(t_quantile(1), 3)
    (2.093, 12.706)
    """
    angles = np.linspace(0.0, math.pi / 2, _STEPS)
    density = np.cos(angles) ** (freedom - 1)
    mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    angle = float(np.interp(level * mass[-1], mass, angles))
    return math.sqrt(freedom) * math.tan(angle)


def _stacked(results: ArrayLike, what: str) -> Floats:
    try:
        stacked = np.asarray(results, dtype=np.float64)
    except (TypeError, ValueError):
        raise UsageError(f"{what} must be numbers, or arrays of one shape") from None
    if stacked.ndim == 0:
        raise UsageError(f"{what} is one number; give one for each replicate")
    if not np.all(np.isfinite(stacked)):
        raise UsageError(f"{what} hold what is no number; leave out replicates without a result")
    return stacked
