"""Which pairs to measure together with the label, and how finely; MATH section 5.7."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from heterofedsyn._arrays import Floats, Integers
from heterofedsyn.hub.methods.base import Setting
from heterofedsyn.hub.methods.grouping import most_groups
from heterofedsyn.hub.methods.stages import once_more
from heterofedsyn.hub.methods.tiers import hierarchy
from heterofedsyn.hub.replies import Ask, Round
from heterofedsyn.marginals.statistics import Grouped, Statistic
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.schema import Clique, Schema
from heterofedsyn.synthesis.denoise import MOST_CELLS, SMALLEST_TOTAL
from heterofedsyn.synthesis.estimates import Estimates
from heterofedsyn.synthesis.forest import spanning_forest
from heterofedsyn.synthesis.grid import coarser, group_categories, group_ordered
from heterofedsyn.synthesis.targets import Targets
from heterofedsyn.synthesis.triples import laid_out, summed

MOST_LOOKED_AT = 300
"""Pairs that are looked at together with the label."""

LOOK_CELLS = 64.0
"""What a look must tell apart, for which fewer pairs are looked at: four groups each."""

SCORED_GROUPS = 6
"""Groups of a column then, at most."""

MOST_INTEGERS = 2**18
"""Of one table of three columns."""

FEWEST_CELLS = 8
"""Of a table that is worth a look: two groups each."""

SURELY = 2.0
"""Standard errors beyond what pairs tell from which a table of three is worth measuring."""

HARDLY = 4.0
"""Noise on a count, in rows, up to which it is measured whatever the look said."""


@dataclass(frozen=True)
class Together:
    """A pair, as a look at it with the label shows it.

    Attributes:
        bound: how much each tells of the other given the label: their mutual information, in nats.
        beyond: standard errors by which the look differs from what pairs tell.
    """

    bound: float
    beyond: float


def ask_together(
    setting: Setting,
    targets: Targets,
    budgets: tuple[Budget, Budget],
    beside: Sequence[Clique],
    before: Sequence[tuple[Statistic, Budget]],
    *,
    finest: int,
) -> Generator[Ask, Round, Targets]:
    """Tables of the label and two others where these tell more than pairs.

    What they leave of their share goes back to where it was taken from.

    Args:
        budgets: for a look at three columns, and for tables of them.
        beside: pairs that could be measured together with the label.
        before: single columns and pairs that were measured, with their prices.
        finest: most groups of a column.
    """
    known, n = targets.estimates, max(SMALLEST_TOTAL, targets.total)
    look, tables = budgets
    seen_first = worth_a_look(known, beside, n, setting.noise_of(look))
    cells = cells_scored(n, setting.noise_of(look, len(seen_first)))
    rough = on_grid(known, seen_first, cells, SCORED_GROUPS)
    found: dict[Clique, Together] = {}
    if rough:
        round_ = yield Ask.evenly("triple-scores", rough, look)
        looks = zip(rough, round_.totals(), strict=True)
        found = dict(seen(known, statistic, noisy) for statistic, noisy in looks)
    edges = len(setting.domain) - 2
    worth = worth_measuring(found, setting.noise_of(tables, edges))
    for_worth = tables.part(math.sqrt(len(worth) / edges))
    cells = cells_measured(n, setting.noise_of(for_worth, max(1, len(worth))))
    fine = on_grid(known, worth, cells, finest)
    share = math.sqrt(len(fine) / edges)
    for_fine, left = tables.split(share, 1 - share)
    parts = Ask.evenly("triples", fine, for_fine).parts if fine else ()
    if share < 1:
        parts += once_more(before, left)
    round_ = yield Ask("triples", parts)
    return targets.with_measured(round_.measurements())


def cells_scored(n: float, sigma: float) -> float:
    """Cells of a look: what is told of a whole table may be noisy cell by cell."""
    return n / sigma if sigma > 0 else math.inf


def cells_measured(n: float, sigma: float) -> float:
    """Cells of a table that stand out of the noise one by one."""
    return n / (4 * sigma) if sigma > 0 else math.inf


def groups_of(cells: float, label: int | None = None) -> float:
    """Groups of the label, or of each of the two others beside so many of its groups."""
    own = min(max(cells, FEWEST_CELLS), MOST_INTEGERS)
    return own ** (1 / 3) if label is None else max(2.0, math.sqrt(own / label))


def worth_a_look(known: Estimates, pairs: Sequence[Clique], n: float, sigma: float) -> list[Clique]:
    """Pairs that are looked at together with the label: all, or as many as a look allows.

    Likeliest are those whose columns depend most on the label and on each other.

    Args:
        pairs: those without the label.
        sigma: noise on a count if a single pair was looked at.
    """
    many = MOST_LOOKED_AT
    if sigma > 0:
        many = min(many, math.floor((n / (LOOK_CELLS * sigma)) ** 2))
    told = known.residuals

    def likely(pair: Clique) -> float:
        sides = (known.domain.clique(known.label or "", name) for name in pair)
        return sum(told.get(clique, 0.0) for clique in (pair, *sides))

    most = {*sorted(pairs, key=likely, reverse=True)[: max(1, many)]}
    return [pair for pair in pairs if pair in most]


def on_grid(
    known: Estimates, pairs: Sequence[Clique], cells: float, most: float = math.inf
) -> list[Grouped]:
    """Tables of the label and each pair, of about so many cells, on the grid of pairs or coarser.

    Only those of which a model could say what pairs tell; see `denoise.MOST_CELLS`.

    Args:
        most: groups of a column.
    """
    if known.label is None:
        return []
    of_label = _coarsened(known, known.label, min(most, groups_of(cells)))
    groups = min(most, groups_of(cells, int(of_label.max()) + 1))
    maps = {name: _coarsened(known, name, groups) for pair in pairs for name in pair}
    maps[known.label] = of_label
    cliques = [known.domain.clique(known.label, *pair) for pair in pairs]
    return [
        Grouped(clique, tuple(tuple(maps[name].tolist()) for name in clique))
        for clique in cliques
        if all(maps[name].max() > 0 for name in clique)
        and math.prod(map(known.grid.size, clique)) <= MOST_CELLS
    ]


def _coarsened(known: Estimates, name: str, groups: float) -> Integers:
    """For every value a group that is made of whole groups of pairs."""
    finer, counts = known.groups[name], known.singles[name]
    column = known.schema.column(name)
    threshold = known.total / groups
    if column.ordered:
        apart = column.nullable and counts.size > 1 and bool(finer[-1] != finer[-2])
        merged = group_ordered(counts, threshold, last_apart=apart)
    else:
        held = (coarser(finer, level) for level in hierarchy(known.schema, column))
        levels = [level for level in held if level is not None]
        merged = group_categories(counts, threshold, levels=levels)
    return merged[finer]


def most_integers(schema: Schema, pairs: Sequence[Clique], cells: float, most: float) -> list[int]:
    """The most integers of each of these tables; see `on_grid`."""
    label = schema.label or ""
    column = schema.column
    of_label = most_groups(schema, column(label), min(most, groups_of(cells)))
    # The fewer groups the label turns out to have, the more the others may have.
    groups = min(most, groups_of(cells, 2))
    sizes = {name: most_groups(schema, column(name), groups) for pair in pairs for name in pair}
    return [of_label * sizes[first] * sizes[second] for first, second in pairs]


def seen(known: Estimates, statistic: Grouped, noisy: Noisy) -> tuple[Clique, Together]:
    """What a noisy look tells of a pair and the label, beside what pairs tell of them."""
    pair, table, maps = laid_out(known.label or "", known.groups, statistic, noisy)
    believed = summed(known.joint(*pair), maps)
    apart = table.values - believed
    # Rows are a sample too: a cell differs from its chance by about the root of its count.
    chance = noisy.variance + believed
    energy, by_chance = float((apart**2).sum()), float(chance.sum())
    share = max(0.0, 1 - by_chance / energy) if energy > 0 else 0.0
    error = math.sqrt(2 * float((chance**2).sum()))
    blend = np.maximum(believed + share * apart, 0.0)
    return pair, Together(_bound(blend), (energy - by_chance) / error)


def _bound(table: Floats) -> float:
    """The mutual information of the two last sides, given the first."""
    shares = table / table.sum()
    ends = shares.sum(axis=(1, 2), keepdims=True)
    apart = shares.sum(axis=2, keepdims=True) * shares.sum(axis=1, keepdims=True)
    there = shares > 0
    ratio = np.divide(shares * ends, apart, out=np.ones_like(shares), where=there & (apart > 0))
    return float((shares[there] * np.log(ratio[there])).sum())


def worth_measuring(found: Mapping[Clique, Together], sigma: float) -> list[Clique]:
    """Edges of the tree that tell most given the label, where pairs do not tell all of it.

    Args:
        sigma: noise on a count of a table if all edges were measured.
    """
    edges = spanning_forest({pair: each.bound for pair, each in found.items()})
    return [pair for pair in edges if sigma <= HARDLY or found[pair].beyond >= SURELY]
