"""Tables that rows are weighed by: what drawn rows say, leaning to what was measured.

Rows that are drawn along a tree have a table for every pair. A measured one that differs by no
more than its noise says nothing against it, and independence would be no better guess. But real
rows are a sample: their counts differ from any law by about the root of a count, so that of every
difference c / (c + v) is believed, c the count of the cell and v the variance of its noise; and all
of it where it stands out of the noise.
"""

from __future__ import annotations

import math

import numpy as np

from heterofedsyn._arrays import Codes, Floats
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.schema import Clique
from heterofedsyn.synthesis.denoise import FITTING_ROUNDS, FLOOR, double_centred
from heterofedsyn.synthesis.estimates import Estimates, missing_apart
from heterofedsyn.synthesis.raking import MOST_TABLES
from heterofedsyn.synthesis.shrinkage import shrink
from heterofedsyn.synthesis.targets import Targets
from heterofedsyn.synthesis.zeros import fitted, possible_cells

LEAST_BELIEVED = 0.05
"""Of the differences of a pair that was only looked at; below, they are left alone."""


def leaned(targets: Targets, codes: Codes) -> dict[Clique, Floats]:
    """A table for every measured pair, and for those looked at that tell enough.

    Two ordered columns, and pairs with impossible cells, have the estimate itself: a normal copula
    says of them what drawn rows do not, and zeros stay zeros.

    Args:
        codes: drawn rows, as groups.
    """
    estimates = targets.estimates
    tables = dict(estimates.pairs)
    if not targets.rebuild.leans:
        return tables
    ordered = missing_apart(targets.schema, estimates.groups)
    beside = targets.looks
    cells = possible_cells(targets.schema, estimates.groups, [*tables, *beside])
    for grid, noisy in targets.grids.items():
        pair = grid.attributes
        if not (ordered.keys() >= {*pair} or pair in cells):
            tables[pair] = _leaned(estimates, codes, pair, noisy, whole=True)
    believed = {
        pair: share
        for pair, noisy in beside.items()
        if (share := _believed(estimates.total, noisy)) >= LEAST_BELIEVED and pair not in cells
    }
    best = sorted(believed, key=lambda pair: -believed[pair])
    for pair in best[: max(0, MOST_TABLES - len(tables))]:
        tables[pair] = _leaned(estimates, codes, pair, beside[pair], whole=False)
    return tables


def _believed(total: float, noisy: Noisy) -> float:
    """Of the difference of an average cell."""
    count = total / noisy.values.size
    return count / (count + noisy.variance)


def _leaned(
    estimates: Estimates, codes: Codes, pair: Clique, noisy: Noisy, *, whole: bool
) -> Floats:
    """The table of drawn rows, with what the noisy one tells beyond it.

    Args:
        whole: whether what stands out of the noise is believed as it is.
    """
    rows, columns = (estimates.singles[name] for name in pair)
    first, second = (codes[estimates.domain.index(name)] for name in pair)
    places = first.astype(np.int64) * columns.size + second
    drawn = np.bincount(places, minlength=rows.size * columns.size).reshape(rows.size, -1)
    base: Floats = drawn * (estimates.total / max(1, places.size))
    apart = double_centred(noisy.values - base)
    kept = shrink(apart, math.sqrt(noisy.variance)) if whole else np.zeros_like(apart)
    table = base + kept + base / (base + noisy.variance) * (apart - kept)
    return fitted(np.maximum(table, 0.0) + FLOOR, rows, columns, FITTING_ROUNDS)
