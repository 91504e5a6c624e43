"""Exact optimal transport between two-way marginals, on points instead of a grid.

Ranges become [0, 1], two different categories are 1 apart, and costs add over the two columns.
Points differ between any two samples of one population, so the distance has a floor that falls
with the number of rows; the histogram form has none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from heterofedsyn._arrays import Floats, Integers, stream
from heterofedsyn.errors import HeterofedsynError
from heterofedsyn.evaluation.binning import is_numeric, span
from heterofedsyn.evaluation.extra import need
from heterofedsyn.evaluation.rows import Rows
from heterofedsyn.schema import Clique, Schema

KINDS = ("num_num", "cat_num", "cat_cat")
KIND_WORDS = {
    "histogram": "two numbers, histograms of 20 cells",
    "num_num": "two numbers, points",
    "cat_num": "a category and a number, points",
    "cat_cat": "two categories",
}
FARTHEST = 2.0
"""Between opposite corners; also what a row costs that the schema does not know."""

CUT_ROWS = 2_000
MOST_CUT = 20_000
"""A matrix of costs between so many points takes 3 GB."""

SMALL_CUTS = 3
UNIT = 2.0**34
"""Of this many steps is a range, so that lengths are whole numbers; a distance is off by two steps
at most. The solver's largest figures, lengths times points, stay exact: below 2^53."""

MOST_STEPS = 10_000_000
"""Of the solver: minutes, where seconds are usual."""

_MOST_CELLS = 2_500

Points = tuple[Floats, Integers]
"""Points, one to a row, and how many rows lie at each."""


def transport(
    real: Rows, synthetic: Rows, kind: str, seed: int = 0, rows: int = CUT_ROWS
) -> float | None:
    """The mean distance over all pairs of a kind, or None if the schema has no such pair.

    Both tables are cut to so many rows at random. Of a smaller table a cut holds four fifths, and
    the distance is the mean over three cuts. Two categories of few cells are compared in full.
    """
    pairs = _pairs(real.schema, kind)
    if not pairs:
        return None
    smaller = min(real.number, synthetic.number)
    many, size = (1, rows) if smaller >= rows else (SMALL_CUTS, max(1, smaller * 4 // 5))
    cuts = [
        [rows.take(cut) for rows, cut in zip((real, synthetic), both, strict=True)]
        for both in _cuts((real.number, synthetic.number), many, size, seed)
    ]

    def distance(pair: Clique) -> float:
        cells = np.prod([real.schema.domain.size(name) + 1 for name in pair])
        whole = kind == "cat_cat" and cells <= _MOST_CELLS
        compared = [[real, synthetic]] if whole else cuts
        return float(np.mean([_distance(pair, *both) for both in compared]))

    return float(np.mean([distance(pair) for pair in pairs]))


def _cuts(
    numbers: tuple[int, int], many: int, size: int, seed: int
) -> Iterator[tuple[Integers, Integers]]:
    rng = stream(seed, "transport")
    for _ in range(many):
        first, second = (np.sort(rng.permutation(number)[:size]) for number in numbers)
        yield first, second


def _pairs(schema: Schema, kind: str) -> list[Clique]:
    numeric = {column.name for column in schema.columns if is_numeric(column)}
    return [p for p in schema.domain.pairs() if KINDS[2 - len(numeric & set(p))] == kind]


def _distance(pair: Clique, real: Rows, synthetic: Rows) -> float:
    categories = [not is_numeric(real.schema.column(name)) for name in pair]
    here, there = (_points(pair, rows) for rows in (real, synthetic))
    foreign = strangers(pair, synthetic)
    if not len(here[0]) or not len(there[0]):
        return 0.0 if len(here[0]) == len(there[0]) else FARTHEST
    return (1 - foreign) * _earth_moved(here, there, categories) + foreign * FARTHEST


def strangers(pair: Clique, rows: Rows) -> float:
    """The part of the rows with a cell that the schema does not know as a number."""
    places = [i for i, column in enumerate(rows.schema.columns) if column.name in pair]
    numbers = [i for i in places if is_numeric(rows.schema.columns[i])]
    return float(rows.foreign[numbers].any(axis=0).mean()) if numbers else 0.0


def _points(pair: Clique, rows: Rows) -> Points:
    """Where the rows lie; those with a null instead of a number lie nowhere."""
    axes = []
    for name in pair:
        place = rows.schema.domain.names.index(name)
        column = rows.schema.columns[place]
        if is_numeric(column):
            low, high = span(column)
            axes.append((rows.values[place] - low) / max(high - low, np.finfo(float).tiny))
        else:
            axes.append(rows.fine.codes[place].astype(np.float64))
    points = np.stack(axes, axis=1)
    points = points[~np.isnan(points).any(axis=1)]
    places, counts = np.unique(points, axis=0, return_counts=True)
    return places, counts


def _earth_moved(here: Points, there: Points, categories: list[bool]) -> float:
    ot = need("ot", "transport distances")
    # Masses and costs are whole numbers: with fractions the solver was seen to turn in circles.
    many, others = int(here[1].sum()), int(there[1].sum())
    common = math.gcd(many, others)
    first, second = _only_different(
        (here[0], here[1] * (others // common)), (there[0], there[1] * (many // common))
    )
    if not len(first[0]):
        return 0.0
    # It is some times quicker with the larger side first and in no particular order.
    if len(first[0]) < len(second[0]):
        first, second = second, first
    rng = stream(0, "order of points")
    first, second = _shuffled(first, rng), _shuffled(second, rng)
    cost = np.zeros((len(first[0]), len(second[0])))
    for axis, category in enumerate(categories):
        apart = np.subtract.outer(*(np.rint(side[0][:, axis] * UNIT) for side in (first, second)))
        cost += (apart != 0) * UNIT if category else np.abs(apart)
    masses = [side[1].astype(np.float64) for side in (first, second)]
    moved, log = ot.emd2(*masses, cost, numItermax=MOST_STEPS, log=True)
    if log["warning"] is not None:
        raise HeterofedsynError("exact transport did not end; compare fewer rows")
    return float(moved) / UNIT / (many // common * others)


def _only_different(here: Points, there: Points) -> tuple[Points, Points]:
    """Both without the mass they share: a cost that is a metric never moves it."""
    places, which = np.unique(np.concatenate([here[0], there[0]]), axis=0, return_inverse=True)
    surplus: Integers = np.zeros(len(places), np.int64)
    np.add.at(surplus, which.reshape(-1), np.concatenate([here[1], -there[1]]))
    more, less = surplus > 0, surplus < 0
    return (places[more], surplus[more]), (places[less], -surplus[less])


def _shuffled(points: Points, rng: np.random.Generator) -> Points:
    order = rng.permutation(len(points[0]))
    return points[0][order], points[1][order]
