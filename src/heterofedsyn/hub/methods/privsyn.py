"""`privsyn`: the central method the paper builds on, all rows in one place; MATH section 4."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from heterofedsyn.hub.methods.base import Later, Method, Model, Outcome, Setting
from heterofedsyn.hub.methods.fedprivsyn import NO_PAIR, ONE_ATTRIBUTE
from heterofedsyn.hub.methods.forced import forced_flat, read_pairs
from heterofedsyn.hub.methods.stages import (
    check_share,
    fitting,
    later_pairs,
    measured,
    one_ways,
)
from heterofedsyn.hub.replies import Ask, Round
from heterofedsyn.marginals.statistics import UNITS_PER_COUNT, Dependence
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.schema import Clique, Domain


@dataclass(frozen=True)
class PrivSyn(Method):
    """Score all pairs exactly at the holder of the rows, choose greedily, measure.

    Attributes:
        q: share of the budget for 1-ways, and again for the scores.
        measure: pairs that must be measured, such as `sex,diagnosis;ward,age`; not scored.
    """

    name: ClassVar[str] = "privsyn"
    pools: ClassVar[bool] = True

    q: float = 0.1
    measure: str = ""

    def __post_init__(self) -> None:
        check_share("q", self.q, most=0.49)
        read_pairs(self.measure)

    def later(self, setting: Setting, left: Budget) -> tuple[Later, ...]:
        """The most pairs that can be chosen."""
        return (later_pairs("pairs", setting.domain, len(setting.domain.pairs()), left),)

    def conduct(self, setting: Setting) -> Generator[Ask, Round, Outcome]:
        forced = forced_flat(setting.schema, self.measure)
        pairs = [pair for pair in setting.domain.pairs() if pair not in forced]
        if not pairs and not forced:
            targets = yield from one_ways(setting, setting.budget)
            return Outcome(Model(self.synthesizer, (targets,)), remarks=(ONE_ATTRIBUTE,))
        first, second, third = setting.budget.split(self.q, self.q, 1 - 2 * self.q)
        targets = yield from one_ways(setting, first)
        chosen, frequencies = [*forced], {}
        if pairs:
            round_ = yield Ask.evenly("dependence", [Dependence(pair) for pair in pairs], second)
            scores = {
                pair: max(0.0, float(noisy.values[0]) / UNITS_PER_COUNT)
                for pair, noisy in zip(pairs, round_.totals(), strict=True)
            }
            alone = Budget(third.rho / setting.rows_per_unit**2)
            chosen = fitting(setting.domain, greedy(scores, setting.domain, alone, forced))
            frequencies = {pair: score / targets.total for pair, score in scores.items()}
        else:
            _, third = setting.budget.split(self.q, 1 - self.q)
        if not chosen:
            return Outcome(Model(self.synthesizer, (targets,)), frequencies, (NO_PAIR,))
        prices = third.split(*(weight(setting.domain, pair) for pair in chosen))
        targets = yield from measured("pairs", targets, chosen, prices)
        return Outcome(Model(self.synthesizer, (targets,)), frequencies)


def weight(domain: Domain, pair: Clique) -> float:
    """Shares in proportion to cells^(2/3) make the sum of L1 noise errors smallest."""
    return float(domain.cells(pair) ** (2 / 3))


def greedy(
    scores: dict[Clique, float], domain: Domain, budget: Budget, forced: Sequence[Clique] = ()
) -> list[Clique]:
    """Pairs that lower L1 noise plus what is missed, best first.

    With those shares a pair of s cells at price rho_s has L1 noise s / sqrt(pi rho_s), and all
    chosen ones together (sum of weights)^(3/2) / sqrt(pi rho).
    """
    chosen: list[Clique] = [*forced]
    left = {pair: weight(domain, pair) for pair in scores}
    unit = math.sqrt(math.pi * budget.rho)
    weights = math.fsum(weight(domain, pair) for pair in forced)
    missed = math.fsum(scores.values())
    error = weights**1.5 / unit + missed
    while left:
        trials = {
            pair: (weights + own) ** 1.5 / unit + missed - scores[pair]
            for pair, own in left.items()
        }
        best = min(trials, key=trials.__getitem__)
        if trials[best] >= error:
            break
        error = trials[best]
        chosen.append(best)
        weights += left.pop(best)
        missed -= scores[best]
    return chosen
