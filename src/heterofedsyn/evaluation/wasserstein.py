"""Wasserstein distance between two-way histograms: the cost of moving one onto the other.

With the L1 (Manhattan) cost, mass that moves between two cells may as well walk over neighbouring
cells, so optimal transport on a grid is the cheapest flow on its few edges, not a matching of all
cells with all. Masses and costs are made integers, and the result is exact.

The flow is ours: this measure is there without the extra `eval`, whose POT would match all cells
with all (as `evaluation.transport` has it do for points).
"""

from __future__ import annotations

import heapq
import math

import numpy as np
from numba import njit

from heterofedsyn._arrays import Integers
from heterofedsyn.evaluation.binning import coarse, is_numeric
from heterofedsyn.evaluation.rows import Rows, read_real, read_synthetic
from heterofedsyn.evaluation.transport import strangers
from heterofedsyn.marginals.counting import Marginal, count_pairs
from heterofedsyn.schema import Schema


def histogram_wasserstein(schema: Schema, real: object, synthetic: object) -> float | None:
    """Mean exact distance over all pairs of numeric columns, or None if there is no such pair.

    Every range becomes [0, 1] in at most 20 equal cells, whose mass lies in their centres.
    """
    return mean_over_pairs(read_real(schema, real), read_synthetic(schema, synthetic))


def mean_over_pairs(real: Rows, synthetic: Rows) -> float | None:
    """The mean over all pairs of numeric columns."""
    grid = coarse(real.schema)
    numeric = {column.name: column.bins for column in grid.columns if is_numeric(column)}
    pairs = [pair for pair in grid.domain.pairs() if set(pair) <= set(numeric)]

    def histogram(pair: Marginal) -> Integers:
        first, second = pair.clique
        # The codes past the bins are nulls, which lie nowhere, and what the schema does not know.
        return pair.counts.reshape(real.wide.domain.shape(pair.clique))[
            : numeric[first], : numeric[second]
        ]

    counts = zip(count_pairs(real.wide, pairs), count_pairs(synthetic.wide, pairs), strict=True)
    apart = []
    for first, second in counts:
        cells, others = histogram(first), histogram(second)
        foreign = strangers(first.clique, synthetic)
        near, far = grid_distance(cells, others), farthest(cells)
        apart.append((1 - foreign) * near + foreign * far)
    return float(np.mean(apart)) if apart else None


def farthest(cells: Integers) -> float:
    """Between opposite corners of a grid."""
    rows, columns = cells.shape
    return float(2 - 1 / rows - 1 / columns)


def grid_distance(first: Integers, second: Integers) -> float:
    """The exact distance between two tables of counts over the cells of the unit square.

    Each is scaled to mass 1. If only one holds anything, they are as far apart as cells can be.

    >>> grid_distance(np.array([[3, 0], [0, 0]]), np.array([[0, 0], [0, 1]]))
    1.0
    """
    rows, columns = first.shape
    here, there = int(first.sum()), int(second.sum())
    if not here or not there:
        return 0.0 if here == there else farthest(first)
    # A step is 1 / rows or 1 / columns long: times their least common multiple, an integer.
    unit = math.lcm(rows, columns)
    common = math.gcd(here, there)
    supply = first * (there // common) - second * (here // common)
    moved = _cheapest_flow(supply, unit // rows, unit // columns)
    return float(moved / unit / (here // common * there))


@njit(cache=True, nogil=True)
def _neighbour(cell: int, way: int, rows: int, columns: int) -> tuple[int, int, int]:
    """The next cell on a way (-1: none), the edge to it, and 1 or -1: along the edge or against it.

    Edge `cell` leads down from it, edge `rows * columns + cell` to the right.
    """
    if way == 0:
        return (cell + columns if cell < (rows - 1) * columns else -1), cell, 1
    if way == 1:
        return cell - columns, cell - columns, -1
    if way == 2:
        return (cell + 1 if (cell + 1) % columns else -1), rows * columns + cell, 1
    return (cell - 1 if cell % columns else -1), rows * columns + cell - 1, -1


@njit(cache=True, nogil=True)
def _cheapest_flow(supply: Integers, down: int, right: int) -> float:
    """The least cost of a flow that takes every positive supply of a grid to the negative ones.

    Successive shortest paths: each round finds, by Dijkstra from all cells with mass left, the
    nearest cell that lacks some, and sends along the path what it can. A path may take back
    earlier flow, which earns its cost; potentials keep all lengths non-negative.
    """
    rows, columns = supply.shape
    cells = rows * columns
    left = supply.copy().reshape(cells)
    flow = np.zeros(2 * cells, np.int64)
    potential = np.zeros(cells, np.int64)
    distance = np.empty(cells, np.int64)
    came = np.empty(cells, np.int64)
    while True:
        # An entry is distance * cells + cell; sources are at distance 0, so in order already.
        heap = [np.int64(cell) for cell in range(cells) if left[cell] > 0]
        if len(heap) == 0:
            break
        for cell in range(cells):
            distance[cell] = 0 if left[cell] > 0 else 2**62
            came[cell] = -1
        target = -1
        while target < 0:
            entry = heapq.heappop(heap)
            so_far, cell = entry // cells, entry % cells
            if so_far > distance[cell]:
                continue
            if left[cell] < 0:
                target = cell
                break
            for way in range(4):
                to, edge, sign = _neighbour(cell, way, rows, columns)
                if to < 0:
                    continue
                cost = down if way < 2 else right
                if sign * flow[edge] < 0:
                    cost = -cost
                length = so_far + cost + potential[cell] - potential[to]
                if length < distance[to]:
                    distance[to] = length
                    came[to] = way
                    heapq.heappush(heap, length * cells + to)
        for cell in range(cells):
            potential[cell] += min(distance[cell], distance[target])

        amount = -left[target]
        source = target
        while came[source] >= 0:
            # Ways come in opposite pairs, so way ^ 1 leads back, against what was sent.
            source, edge, back = _neighbour(source, came[source] ^ 1, rows, columns)
            if back * flow[edge] > 0:
                amount = min(amount, back * flow[edge])
        amount = min(amount, left[source])
        left[source] -= amount
        left[target] += amount
        cell = target
        while came[cell] >= 0:
            cell, edge, back = _neighbour(cell, came[cell] ^ 1, rows, columns)
            flow[edge] -= back * amount
    total = 0.0
    for cell in range(cells):
        total += down * float(abs(flow[cell])) + right * float(abs(flow[cells + cell]))
    return total
