"""How much a study of `wavetree` attempts; MATH section 5.0."""

from __future__ import annotations

import math
from dataclasses import dataclass

from heterofedsyn.privacy.budget import Budget
from heterofedsyn.schema import Clique

INDEPENDENT = "independent"
"""The least that is attempted: no pair is worth measuring."""

TRIPLES = "triples"
"""The most: some pairs are measured together with the label as well."""

TILTS = {INDEPENDENT: -0.5, "star": 0.2, "full": 0.3, TRIPLES: 0.3}
"""How much more, as a power of two, a level of halving gets than the one before if the noise is far
larger than what values differ by. Where it is so large that no pair is worth measuring, fine levels
say nothing and the first ones decide."""

SHARPEST_TILT = 0.85
"""The same without noise: single values are known nearly as well then as by counts of each, and
stretches of them better."""

TILT_STEPS = 4
"""From one to the other: with about as many rows, levels cost the same."""


def groups_at(n: float, sigma: float) -> float:
    """r: groups per attribute at which a pair's cells still stand out of the noise."""
    return math.sqrt(n / (4 * sigma)) if sigma > 0 else 0.0


@dataclass(frozen=True)
class Mode:
    """How much a study attempts.

    Attributes:
        planned: about how many pairs will be measured.
        shares: of the budget, for 1-ways, scores and pairs.
        sigma: noise on the sum over sites of one count of a pair.
        needed: groups per attribute from which it is chosen.
        forced: pairs that are measured whatever the scores say, those with the label aside.
        beyond: of the budget, for a look at three columns together and for tables of them.
        thrifty: whether fewer pairs than planned get less, and single columns the rest: not where
            models shall learn from pairs.
    """

    name: str
    planned: float
    shares: tuple[float, float, float]
    sigma: float
    needed: float
    forced: tuple[Clique, ...] = ()
    beyond: tuple[float, float] = (0.0, 0.0)
    thrifty: bool = False

    @property
    def triples(self) -> bool:
        """Whether the label and two other columns are counted together."""
        return self.name == TRIPLES

    @property
    def independent(self) -> bool:
        """Whether no pair is worth measuring, though some may be asked for."""
        return self.name == INDEPENDENT

    @property
    def scored(self) -> bool:
        """Whether pairs are chosen by a score."""
        return self.shares[1] > 0

    def level_weights(self, levels: int, seen: float) -> list[float]:
        """How the budget of a column is dealt to its levels of halving.

        Args:
            seen: how much of the difference between one value and its neighbours the noise leaves.
        """
        told = round(seen * TILT_STEPS) / TILT_STEPS
        tilt = TILTS[self.name] + (SHARPEST_TILT - TILTS[self.name]) * told
        return [2.0 ** (tilt * level) for level in range(levels)]

    def groups(self, n: float) -> float:
        """r: groups per attribute at which a pair's cells still stand out of the noise."""
        return groups_at(n, self.sigma)

    def worth(self, pairs: int) -> float:
        """Of the budget for pairs, what so many need; the rest measures single columns again."""
        few = self.thrifty and pairs < self.planned
        return math.sqrt(pairs / self.planned) if few else 1.0

    def noise_of(self, pairs: int) -> float:
        """On a count of a pair, on average, if so many share what they need."""
        many = max(1, pairs)
        return self.sigma * math.sqrt(many / (self.planned * self.worth(many)))

    def resolution_of(self, pairs: int, n: float) -> float:
        """Groups per attribute, at least 2, if so many pairs share the budget."""
        return max(2.0, groups_at(n, self.noise_of(pairs)))

    def split(self, budget: Budget) -> tuple[Budget, Budget, Budget]:
        """Budgets for 1-ways, scores and pairs."""
        ones, scores, pairs, *_ = budget.split(*self.shares, *self.beyond)
        return ones, scores, pairs

    def split_beyond(self, budget: Budget) -> tuple[Budget, Budget]:
        """Budgets for a look at three columns together and for tables of them."""
        *_, look, tables = budget.split(*self.shares, *self.beyond)
        return look, tables

    def all_pairs(self, budget: Budget) -> Budget:
        """The budget for pairs when nothing needs to be scored."""
        ones, scores, pairs = self.shares
        return budget.split(ones, scores + pairs, *self.beyond)[1]
