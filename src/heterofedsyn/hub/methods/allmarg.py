"""`allmarg`: every pair, in equal shares; a baseline of the paper."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from heterofedsyn.hub.methods.base import Federated, Later, Model, Outcome, Setting
from heterofedsyn.hub.methods.stages import ask_one_ways, ask_pairs, check_share, measured, one_ways
from heterofedsyn.hub.replies import Ask, Round
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.schema import Clique
from heterofedsyn.synthesis import Gum, Synthesizer


@dataclass(frozen=True)
class AllMarg(Federated):
    """1-ways from a share q, the rest equally on the pairs.

    Attributes:
        q: share of the budget for 1-ways.
    """

    name: ClassVar[str] = "allmarg"

    q: float = 0.1
    synthesizer: Synthesizer = Gum()

    def __post_init__(self) -> None:
        check_share("q", self.q, most=0.99)

    def ahead(self, setting: Setting) -> tuple[Ask | Later, ...]:
        pairs, first, rest = self._shares(setting)
        ones = ask_one_ways(setting, first)
        return (ones, ask_pairs("pairs", pairs, rest.evenly(len(pairs)))) if pairs else (ones,)

    def conduct(self, setting: Setting) -> Generator[Ask, Round, Outcome]:
        pairs, first, rest = self._shares(setting)
        targets = yield from one_ways(setting, first)
        if pairs:
            targets = yield from measured("pairs", targets, pairs, rest.evenly(len(pairs)))
        return Outcome(Model(self.synthesizer, (targets,)))

    def _shares(self, setting: Setting) -> tuple[Sequence[Clique], Budget, Budget]:
        """The pairs, and the budgets of 1-ways and of pairs."""
        pairs = self.choose(setting)
        first, rest = setting.budget.split(self.q, 1 - self.q)
        return pairs, first if pairs else setting.budget, rest

    def choose(self, setting: Setting) -> Sequence[Clique]:
        """Which pairs to measure."""
        return setting.domain.pairs()
