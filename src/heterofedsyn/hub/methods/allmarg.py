"""`allmarg`: every pair, in equal shares; a baseline of the paper."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from heterofedsyn.hub.methods.base import Method, Model, Outcome, Setting
from heterofedsyn.hub.methods.forced import forced_flat, read_pairs
from heterofedsyn.hub.methods.stages import check_share, measured, one_ways
from heterofedsyn.hub.replies import Ask, Round
from heterofedsyn.schema import Clique


@dataclass(frozen=True)
class AllMarg(Method):
    """1-ways from a share q, the rest equally on the pairs.

    Attributes:
        q: share of the budget for 1-ways.
        measure: pairs that must be measured, such as `sex,diagnosis;ward,age`.
    """

    name: ClassVar[str] = "allmarg"

    q: float = 0.1
    measure: str = ""

    def __post_init__(self) -> None:
        check_share("q", self.q, most=0.99)
        read_pairs(self.measure)

    def conduct(self, setting: Setting) -> Generator[Ask, Round, Outcome]:
        pairs = self.choose(setting)
        first, rest = setting.budget.split(self.q, 1 - self.q)
        targets = yield from one_ways(setting, first if pairs else setting.budget)
        if pairs:
            targets = yield from measured("pairs", targets, pairs, rest.evenly(len(pairs)))
        return Outcome(Model(self.synthesizer, (targets,)))

    def choose(self, setting: Setting) -> Sequence[Clique]:
        """Which pairs to measure: all, so that asking for one changes nothing."""
        forced_flat(setting.schema, self.measure)
        return setting.domain.pairs()
