"""`fedprivsyn`: the paper's first method, with honest noise; MATH section 4."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from heterofedsyn.errors import UsageError
from heterofedsyn.hub.methods.base import Later, Method, Model, Outcome, Setting
from heterofedsyn.hub.methods.forced import forced_flat, read_pairs
from heterofedsyn.hub.methods.scores import Glimpse, root
from heterofedsyn.hub.methods.stages import (
    check_share,
    fitting,
    glimpses,
    later_pairs,
    measured,
    one_ways,
)
from heterofedsyn.hub.replies import Ask, Round
from heterofedsyn.marginals.sketch import SketchKind
from heterofedsyn.marginals.statistics import MOST_WIDTH
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.schema import Clique
from heterofedsyn.synthesis import Targets


@dataclass(frozen=True)
class FedPrivSyn(Method):
    """Sketch all pairs, choose greedily, measure the chosen ones once.

    Attributes:
        q: share of the budget for 1-ways, and again for the sketches.
        k: how many integers a sketch has.
        sketch: `signs`, or the paper's `gaussian`.
        measure: pairs that must be measured, such as `sex,diagnosis;ward,age`; not scored.
    """

    name: ClassVar[str] = "fedprivsyn"

    q: float = 0.1
    k: int = 10
    sketch: SketchKind = SketchKind.SIGNS
    measure: str = ""

    def __post_init__(self) -> None:
        check_share("q", self.q, most=0.49)
        if not 1 <= self.k <= MOST_WIDTH:
            raise UsageError(f"k ({self.k}) must be in 1..{MOST_WIDTH}")
        read_pairs(self.measure)

    @property
    def width(self) -> int | None:
        """The sketches' width; None sends whole pairs."""
        return self.k

    def later(self, setting: Setting, left: Budget) -> tuple[Later, ...]:
        """The most that `choose` may ask."""
        return (later_pairs("pairs", setting.domain, len(setting.domain.pairs()), left),)

    def forced(self, setting: Setting) -> tuple[Clique, ...]:
        """Pairs that are measured whatever the scores say."""
        return forced_flat(setting.schema, self.measure)

    def conduct(self, setting: Setting) -> Generator[Ask, Round, Outcome]:
        forced = self.forced(setting)
        if len(setting.domain) < 2:
            targets = yield from one_ways(setting, setting.budget)
            return Outcome(Model(self.synthesizer, (targets,)), remarks=(ONE_ATTRIBUTE,))
        first, second, third = setting.budget.split(self.q, self.q, 1 - 2 * self.q)
        targets = yield from one_ways(setting, first)
        others = [pair for pair in setting.domain.pairs() if pair not in forced]
        seen: dict[Clique, Glimpse] = {}
        if others:
            seen = yield from glimpses(setting, targets, second, self.width, self.sketch, others)
        else:
            _, third = setting.budget.split(self.q, 1 - self.q)
        scores = dependence(targets, seen) if seen else {}
        targets = yield from self.choose(setting, targets, seen, scores, third)
        remarks = () if targets.pairs else (NO_PAIR,)
        return Outcome(Model(self.synthesizer, (targets,)), scores, remarks)

    def choose(
        self,
        setting: Setting,
        targets: Targets,
        seen: dict[Clique, Glimpse],
        scores: dict[Clique, float],
        budget: Budget,
    ) -> Generator[Ask, Round, Targets]:
        """Choose pairs by their scores and measure them with what is left."""
        chosen = [*self.forced(setting)]
        if scores:
            unit = noise_unit(setting, targets, budget)
            roots = {p: unit * math.sqrt(setting.domain.cells(p)) for p in [*chosen, *scores]}
            chosen = fitting(setting.domain, greedy(scores, roots, chosen))
        if not chosen:
            return targets
        return (yield from measured("pairs", targets, chosen, budget.evenly(len(chosen))))


@dataclass(frozen=True)
class FedPrivSynNoProjection(FedPrivSyn):
    """As `fedprivsyn`, but every pair is sent whole to be scored."""

    name: ClassVar[str] = "fedprivsyn-noprojection"

    @property
    def width(self) -> int | None:
        return None


ONE_ATTRIBUTE = "there is only one attribute, so all of the budget went to it"
NO_PAIR = (
    "no pair was worth its noise: attributes are drawn independently, from their 1-ways, and the "
    "budget for pairs stays unspent"
)


def dependence(targets: Targets, seen: dict[Clique, Glimpse]) -> dict[Clique, float]:
    """The InDif2 of every pair, from raw 1-ways."""
    raw = {
        clique[0]: noisy.scaled(1 / targets.total)
        for clique, noisy in targets.marginals.items()
        if len(clique) == 1
    }
    return {pair: root(seen[pair].indif2(raw[pair[0]], raw[pair[1]])) for pair in seen}


def noise_unit(setting: Setting, targets: Targets, budget: Budget) -> float:
    """The L2 noise, in frequencies, on a pair of one cell measured with this budget."""
    return setting.noise_of(budget) / targets.total


def greedy(
    scores: dict[Clique, float], roots: dict[Clique, float], forced: Sequence[Clique] = ()
) -> list[Clique]:
    """Pairs that lower sum psi x + phi (1 - x), best first; psi = root * sqrt(number chosen).

    Args:
        forced: pairs that are chosen in any case, first of all; they have no score.

    >>> greedy({("a", "b"): 1.0, ("a", "c"): 0.1}, {("a", "b"): 0.2, ("a", "c"): 0.2})
    [('a', 'b')]
    """
    pairs = list(scores)
    phi, root = np.array([*scores.values()]), np.array([roots[pair] for pair in pairs])
    left = np.ones(len(pairs), dtype=bool)
    chosen: list[int] = []
    given = [roots[pair] for pair in forced]
    error = math.sqrt(len(given)) * math.fsum(given) + math.fsum(phi)
    while left.any():
        share = math.sqrt(len(given) + len(chosen) + 1)
        best = int(np.argmax(np.where(left, phi - share * root, -np.inf)))
        left[best] = False
        new = share * math.fsum([*given, *root[[*chosen, best]]]) + math.fsum(phi[left])
        if new >= error:
            break
        chosen, error = [*chosen, best], new
    return [*forced, *(pairs[place] for place in chosen)]
