"""How much an audit does."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """Sizes of the layers.

    Attributes:
        every_study: whether coupling goes through all studies, or only a few that differ most.
        draws: integers of noise for each sigma.
        runs: of a game with noise from a seed.
        secure_runs: of a game with the noise that sites draw.
        adaptive_runs: of a game in which each run is a whole study.
        lives: histories of a ledger.
        steps: of one history.
        prices: random budgets whose arithmetic is checked.
        people: of one table: more than anybody would remember by accident.
        sizes: rows of tables that an agent answers, the largest last.
    """

    name: str
    every_study: bool
    draws: int
    runs: int
    secure_runs: int
    adaptive_runs: int
    lives: int
    steps: int
    prices: int
    people: int = 300_000
    sizes: tuple[int, ...] = (0, 1, 999, 10_001, 100_001, 300_000, 2**20 + 1)


QUICK = Effort("quick", False, 20_000, 1_000, 300, 0, 12, 15, 500)
USUAL = Effort("usual", True, 60_000, 1_000, 500, 300, 30, 20, 3_000)
THOROUGH = Effort(
    *("thorough", True, 600_000, 10_000, 4_000, 2_000, 250, 30, 50_000),
    people=3_000_000,
    sizes=(*USUAL.sizes, 3_000_000, 10_000_000),
)
