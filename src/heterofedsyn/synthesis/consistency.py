"""Noisy marginals that contradict each other become tables that agree; MATH section 4."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from heterofedsyn._arrays import Floats
from heterofedsyn.errors import ReleaseError
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.schema import Clique
from heterofedsyn.synthesis.estimates import Estimates
from heterofedsyn.synthesis.targets import Targets
from heterofedsyn.synthesis.zeros import Mask, possible_cells, possible_groups

ROUNDS = 10
"""Agreement and non-negativity disturb each other; after this many turns little is left to gain."""


@dataclass(frozen=True)
class Consistency:
    """Weighted consistency across marginals that share an attribute, then norm-sub, in turns."""

    name: ClassVar[str] = "consistency"
    leans: ClassVar[bool] = False

    def check(self, targets: Targets) -> None:
        """Every attribute needs flat counts, and nothing but flat counts is understood."""
        if targets.levels or targets.grids or targets.tiers:
            raise ReleaseError("the model holds something else than totals and flat counts")
        if any(single not in targets.marginals for single in targets.domain.singles()):
            raise ReleaseError("the model does not count every column by itself")

    def estimate(self, targets: Targets) -> Estimates:
        """Flat marginals that agree, on the values themselves."""
        total = targets.total
        possible = _possible(targets)
        tables = {}
        for clique, noisy in targets.marginals.items():
            can = possible.get(clique)
            if can is None:
                tables[clique] = noisy.values + (total - noisy.values.sum()) / noisy.values.size
            else:
                known = noisy.values * can
                tables[clique] = known + can * ((total - known.sum()) / can.sum())
        for _ in range(ROUNDS):
            for name in targets.domain.names:
                _agree(name, tables, targets.marginals, possible)
            settled = min(float(table.min()) for table in tables.values()) >= -1e-9 * total
            for clique, table in tables.items():
                can = possible.get(clique)
                if can is None:
                    tables[clique] = norm_sub(table, total)
                else:
                    tables[clique] = np.zeros_like(table)
                    tables[clique][can] = norm_sub(table[can], total)
            if settled:
                break
        singles = {name: tables[(name,)] for name in targets.domain.names}
        return Estimates(
            schema=targets.schema,
            total=total,
            values=singles,
            groups={name: np.arange(single.size) for name, single in singles.items()},
            singles=singles,
            pairs={pair: tables[pair] for pair in targets.pairs},
        )


def norm_sub(values: Floats, total: float) -> Floats:
    """Shift and clip so that nothing is negative and the sum is the total.

    >>> norm_sub(np.array([5.0, 1.0, -2.0]), 4.0).tolist()
    [4.0, 0.0, 0.0]
    """
    falling = np.sort(values, axis=None)[::-1]
    shifts = (np.cumsum(falling) - total) / np.arange(1, falling.size + 1)
    # With the k largest kept, all are shifted by shifts[k - 1]: keep as many as stay above 0.
    above = np.flatnonzero(falling > shifts)
    kept = int(above[-1]) if total > 0 and above.size else 0
    clipped: Floats = np.maximum(values - shifts[kept], 0.0)
    mass = float(clipped.sum())
    return clipped * (total / mass) if mass > 0 else clipped


def _possible(targets: Targets) -> dict[Clique, Mask]:
    """The cells that a row can be in, of those tables that have others."""
    whole = {name: np.arange(targets.domain.size(name)) for name in targets.domain.names}
    pairs = possible_cells(targets.schema, whole, targets.pairs)
    singles = possible_groups(targets.schema, whole, pairs)
    found: dict[Clique, Mask] = {(name,): can for name, can in singles.items()}
    for pair in targets.pairs:
        can = pairs.get(pair, np.True_)
        for axis, name in enumerate(pair):
            if name in singles:
                can = can & np.expand_dims(singles[name], 1 - axis)
        if can is not np.True_ and can.any():
            found[pair] = np.broadcast_to(can, targets.domain.shape(pair))
    return found


def _agree(
    name: str,
    tables: dict[Clique, Floats],
    marginals: dict[Clique, Noisy],
    possible: dict[Clique, Mask],
) -> None:
    """Replace every table's sums over one attribute by their inverse-variance mean.

    A table's sums are changed by changing its possible cells alike.
    """
    involved = [clique for clique in tables if name in clique]
    if len(involved) < 2:
        return
    sums, weights = [], []
    for clique in involved:
        table = tables[clique]
        own = table.sum(axis=_others(clique, name))
        sums.append(own)
        weights.append(own.size / (marginals[clique].variance * table.size))
    if not any(clique in possible for clique in involved):
        mean = np.average(np.stack(sums), axis=0, weights=weights)
        for clique, own in zip(involved, sums, strict=True):
            table = tables[clique]
            spread = (mean - own) * (own.size / table.size)
            tables[clique] = table + np.expand_dims(spread, _others(clique, name))
        return
    cells = [
        np.broadcast_to(possible.get(clique, np.True_), tables[clique].shape).sum(
            axis=_others(clique, name)
        )
        for clique in involved
    ]
    precision = [
        1 / (marginals[clique].variance * np.maximum(many, 1))
        for clique, many in zip(involved, cells, strict=True)
    ]
    mean = np.average(np.stack(sums), axis=0, weights=np.stack(precision))
    for clique, own, many in zip(involved, sums, cells, strict=True):
        spread = np.expand_dims((mean - own) / np.maximum(many, 1), _others(clique, name))
        tables[clique] = tables[clique] + spread * possible.get(clique, np.True_)


def _others(clique: Clique, name: str) -> tuple[int, ...]:
    return tuple(axis for axis, other in enumerate(clique) if other != name)
