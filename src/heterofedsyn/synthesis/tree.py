"""Sampling along a tree of dependences, given the label; MATH section 5.6."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from heterofedsyn._arrays import Codes
from heterofedsyn.errors import UsageError
from heterofedsyn.schema import EncodedTable
from heterofedsyn.synthesis.allocation import allocate, allocate_within
from heterofedsyn.synthesis.estimates import Estimates
from heterofedsyn.synthesis.forest import spanning_forest
from heterofedsyn.synthesis.gum import MOST_PASSES
from heterofedsyn.synthesis.leaning import leaned
from heterofedsyn.synthesis.raking import Coarse, spare_rows, taken
from heterofedsyn.synthesis.targets import Targets
from heterofedsyn.synthesis.triples import fitted, joint_of


@dataclass(frozen=True)
class Tree:
    """The label first, then every attribute given the label and one other attribute.

    Attributes:
        polish: how often every measured pair is visited when the rows are weighed at the end.
    """

    name: ClassVar[str] = "tree"

    polish: int = 5

    def __post_init__(self) -> None:
        if not 0 <= self.polish <= MOST_PASSES:
            raise UsageError(f"polish ({self.polish}) must be in 0..{MOST_PASSES}")

    def synthesize(self, targets: Targets, rows: int, rng: np.random.Generator) -> EncodedTable:
        """Rows drawn stratum by stratum and chosen, so that nothing varies more than it must."""
        estimates = targets.estimates
        columns = _sample(estimates, spare_rows(rows), rng)
        codes = np.stack([columns[name] for name in estimates.domain.names])
        drawn = EncodedTable.from_codes(estimates.grid, codes).codes
        triples = [
            Coarse((estimates.label or "", *pair), triple.maps, triple.table)
            for pair, triple in estimates.triples.items()
        ]
        singles = [estimates.singles[name] for name in estimates.domain.names]
        wanted = leaned(targets, drawn)
        own = taken(estimates.grid, drawn, wanted, rows, self.polish, rng, singles, triples)
        return estimates.refine(own, rng)


@dataclass(frozen=True)
class Step:
    """How one attribute is drawn: given its parent, the label, both, or by itself."""

    name: str
    parent: str | None
    given_label: bool


def steps(estimates: Estimates) -> tuple[Step, ...]:
    """Every attribute in the order of drawing: the label, then one tree after the other."""
    label, residuals = estimates.label, estimates.residuals
    with_label = {
        (pair[0] if pair[1] == label else pair[1]): weight
        for pair, weight in residuals.items()
        if label in pair
    }
    others = {pair: weight for pair, weight in residuals.items() if label not in pair}
    others |= dict.fromkeys(estimates.triples, math.inf)
    beside: dict[str, list[str]] = {name: [] for name in estimates.domain.names}
    for first, second in spanning_forest(others):
        beside[first].append(second)
        beside[second].append(first)
    order: dict[str, Step] = {}
    if label is not None:
        order[label] = Step(label, None, False)
    roots = sorted(estimates.domain.names, key=lambda name: -with_label.get(name, 0.0))
    for root in roots:
        if root in order:
            continue
        order[root] = Step(root, None, root in with_label)
        waiting = [root]
        while waiting:
            parent = waiting.pop(0)
            for child in beside[parent]:
                if child not in order:
                    told = estimates.domain.clique(parent, child) in estimates.triples
                    order[child] = Step(child, parent, told or child in with_label)
                    waiting.append(child)
    return tuple(order.values())


def _sample(estimates: Estimates, rows: int, rng: np.random.Generator) -> dict[str, Codes]:
    """Group codes of every attribute."""
    columns: dict[str, Codes] = {}
    for step in steps(estimates):
        if step.parent is None:
            columns[step.name] = _root(estimates, step.name, step.given_label, columns, rows, rng)
        else:
            columns[step.name] = _child(
                estimates, step.parent, step.name, step.given_label, columns, rng
            )
    return columns


def _root(
    estimates: Estimates,
    name: str,
    leans_on_label: bool,
    columns: dict[str, Codes],
    rows: int,
    rng: np.random.Generator,
) -> Codes:
    """An attribute without a parent: given the label if they depend, else by itself."""
    label = estimates.label
    if label is None or not leans_on_label:
        return allocate(estimates.singles[name], rows, rng)
    return allocate_within(columns[label], estimates.table(label, name), rng)


def _child(
    estimates: Estimates,
    parent: str,
    name: str,
    leans_on_label: bool,
    columns: dict[str, Codes],
    rng: np.random.Generator,
) -> Codes:
    """An attribute given its parent, and given the label if they depend."""
    label = estimates.label
    pair = estimates.believed(parent, name)
    if label is None or not leans_on_label:
        return allocate_within(columns[parent], pair, rng)
    labels, parents = estimates.singles[label].size, pair.shape[0]
    strata = columns[label].astype(np.int64) * parents + columns[parent]
    drawn = np.bincount(strata, minlength=labels * parents).reshape(labels, parents)
    label_parent = drawn.astype(np.float64) + 1e-6
    label_parent *= pair.sum() / label_parent.sum()
    label_child = estimates.believed(label, name)
    told = estimates.told(parent, name)
    if told is None:
        joint = joint_of(label_parent, label_child, pair)
    else:
        joint = fitted(told, label_parent, label_child, pair)
    return allocate_within(strata, joint.reshape(labels * parents, -1), rng)
