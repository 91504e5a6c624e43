"""`adafedprivsyn`: the paper's adaptive method, with honest noise; MATH section 4."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from heterofedsyn.errors import UsageError
from heterofedsyn.hub.methods.base import Later, Setting
from heterofedsyn.hub.methods.fedprivsyn import FedPrivSyn, noise_unit
from heterofedsyn.hub.methods.scores import Glimpse, root
from heterofedsyn.hub.methods.stages import check_share, fitting, later_pairs, measured
from heterofedsyn.hub.replies import Ask, Round
from heterofedsyn.marginals.counting import count_pairs
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.schema import Clique
from heterofedsyn.synthesis import Targets

MOST_TRIAL_ROWS = 100_000
"""Rows of a table that is only looked at to rescore pairs: more would not change a choice."""


@dataclass(frozen=True)
class AdaFedPrivSyn(FedPrivSyn):
    """Choose a few pairs, measure them, synthesize, and look again at what is still missing.

    Attributes:
        bound: at most this share of all pairs is chosen.
        refresh: scores are renewed after so many picks (1 is the paper's text).
    """

    name: ClassVar[str] = "adafedprivsyn"

    bound: float = 1 / 3
    refresh: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("bound", self.bound, most=1.0)
        if self.refresh < 1:
            raise UsageError(f"refresh ({self.refresh}) must be at least 1")

    def most(self, setting: Setting) -> int:
        """How many pairs may be chosen: the bound, unless more of them must be measured."""
        bound = math.floor(self.bound * len(setting.domain.pairs()))
        return max(1, bound, len(self.forced(setting)))

    def later(self, setting: Setting, left: Budget) -> tuple[Later, ...]:
        """One pair a round at the slowest, and then the fewer there are, the more is left."""
        most = self.most(setting)
        picks = later_pairs("pairs", setting.domain, most, left, rounds=most)
        if most == 1:
            return (picks,)
        _, unspent = left.split(1, most - 1)
        return picks, later_pairs("again", setting.domain, most - 1, unspent)

    def choose(
        self,
        setting: Setting,
        targets: Targets,
        seen: dict[Clique, Glimpse],
        scores: dict[Clique, float],
        budget: Budget,
    ) -> Generator[Ask, Round, Targets]:
        """Pick, measure and rescore in turns; what the bound leaves unspent sharpens the chosen."""
        most = self.most(setting)
        slots = budget.evenly(most)
        missing = dict(scores)
        picks = [*self.forced(setting)] or self._picks(setting, targets, missing, slots)
        while picks:
            # MEASURE
            price = slots[len(targets.pairs) :][: len(picks)]
            targets = yield from measured("pairs", targets, picks, price)
            missing = {pair: score for pair, score in missing.items() if pair not in picks}
            if not missing or len(targets.pairs) == most:
                break
            missing = self._rescore(setting, targets, seen, missing)
            picks = self._picks(setting, targets, missing, slots)
        chosen = fitting(setting.domain, targets.pairs)
        if not chosen or len(targets.pairs) == most:
            return targets
        _, unspent = budget.split(len(targets.pairs), most - len(targets.pairs))
        return (yield from measured("again", targets, chosen, unspent.evenly(len(chosen))))

    def _picks(
        self,
        setting: Setting,
        targets: Targets,
        missing: dict[Clique, float],
        slots: Sequence[Budget],
    ) -> list[Clique]:
        """The next pairs: those of which most would be missed, if the noise is less than that."""
        # SELECT
        unit = noise_unit(setting, targets, slots[0])
        gains = {
            pair: score - unit * math.sqrt(setting.domain.cells(pair))
            for pair, score in missing.items()
        }
        best = sorted((pair for pair in gains if gains[pair] > 0), key=lambda p: -gains[p])
        room = min(self.refresh, len(slots) - len(targets.pairs))
        return fitting(setting.domain, best)[:room]

    def _rescore(
        self,
        setting: Setting,
        targets: Targets,
        seen: dict[Clique, Glimpse],
        missing: dict[Clique, float],
    ) -> dict[Clique, float]:
        """Lower the scores of pairs that the chosen ones already explain."""
        # GENERATE
        touched = {name for pair in targets.pairs for name in pair}
        near = [pair for pair in missing if touched.intersection(pair)]
        rows = min(MOST_TRIAL_ROWS, max(1, round(targets.total)))
        trial = self.synthesizer.synthesize(
            targets, rows, setting.rng(f"trial {len(targets.pairs)}")
        )
        explained = {
            pair.clique: root(seen[pair.clique].distance2(pair.counts / rows))
            for pair in count_pairs(trial, near)
        }
        return {pair: min(score, explained.get(pair, score)) for pair, score in missing.items()}
