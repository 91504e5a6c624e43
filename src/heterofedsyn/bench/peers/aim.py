"""AIM: round by round the pair that the model explains worst (McKenna and others, VLDB 2022)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from heterofedsyn._arrays import Floats
from heterofedsyn.bench.peers.central import Made, choose, measure, pairs_of, singles_of
from heterofedsyn.bench.peers.field import Field, Measured, bias, fit, forget_compiled, megabytes
from heterofedsyn.errors import UsageError
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.schema import Clique, EncodedTable

ROUNDS = 16
"""For each attribute, if the noise never were lowered."""

MOST_COMPILED = 25
"""Models that were compiled, after which they are forgotten."""

MEASURING = 0.9
"""Share of a round that pays for its table; the rest pays for choosing it."""


@dataclass(frozen=True)
class Aim:
    """The workload are all pairs, all alike; noise is halved when a round taught nothing.

    Attributes:
        megabytes: of the largest model; while rho is left, in proportion to what was spent.
        rounds: for each attribute; the authors' 16 unless given. Fewer begin with less noise.
        iterations: steps of each fit at most.
    """

    megabytes: float = 80.0
    rounds: int = ROUNDS
    iterations: int = 1000

    def __post_init__(self) -> None:
        if not 0 < self.megabytes <= 1_000:
            raise UsageError(f"megabytes ({self.megabytes:g}) must be above 0 and at most 1000")
        if not 1 <= self.rounds <= 1_000:
            raise UsageError(f"rounds ({self.rounds}) must be in 1..1000")

    @property
    def settings(self) -> Mapping[str, float]:
        """What limits it, beyond what its authors say."""
        usual = Aim()
        return {name: value for name, value in vars(self).items() if getattr(usual, name) != value}

    def run(self, table: EncodedTable, budget: Budget, rng: np.random.Generator) -> Made:
        """Synthetic codes for a table."""
        domain = table.domain
        exact = {**singles_of(table), **pairs_of(table)}
        worth = _worth([*exact])
        rounds = self.rounds * len(domain)
        sigma = math.sqrt(rounds / (2 * MEASURING * budget.rho))
        epsilon = math.sqrt(8 * (1 - MEASURING) * budget.rho / rounds)
        measured = [measure(single, exact[single], sigma, rng) for single in domain.singles()]
        spent = len(measured) / (2 * sigma**2)
        field = fit(domain, measured, self.iterations)
        last = False
        while not last:
            price = 1 / (2 * sigma**2) + epsilon**2 / 8
            if budget.rho - spent < 2 * price:
                left = max(budget.rho - spent, 0.0)
                sigma = math.sqrt(1 / (2 * MEASURING * left))
                epsilon = math.sqrt(8 * (1 - MEASURING) * left)
                price, last = left, True
            spent += price
            # SELECT
            room = self.megabytes * spent / budget.rho
            expected = _expected(field)
            candidates = _small_enough(field, measured, [*exact], room)
            scores = [
                worth[own]
                * (np.abs(exact[own] - expected[own]).sum() - bias(sigma, domain.cells(own)))
                for own in candidates
            ]
            most = max(worth[own] for own in candidates)
            chosen = candidates[choose(scores, epsilon, most, rng)]
            # MEASURE
            measured.append(measure(chosen, exact[chosen], sigma, rng))
            if len(measured) % MOST_COMPILED == 0:
                forget_compiled()
            field = fit(domain, measured, self.iterations, field)
            moved = np.abs(_expected(field)[chosen] - expected[chosen]).sum()
            if moved <= bias(sigma, domain.cells(chosen)):
                sigma, epsilon = sigma / 2, epsilon * 2
        # GENERATE
        drawn = field.draw(max(1, round(field.total)), rng)
        return Made(drawn, len({own.clique for own in measured if len(own.clique) == 2}))


def _worth(cliques: list[Clique]) -> dict[Clique, int]:
    """How much all pairs have in common with each clique."""
    pairs = [{*clique} for clique in cliques if len(clique) == 2]
    return {clique: sum(len(pair & {*clique}) for pair in pairs) for clique in cliques}


def _expected(field: Field) -> dict[Clique, Floats]:
    return {**field.singles(), **field.pairs()}


def _small_enough(
    field: Field, measured: list[Measured], cliques: list[Clique], room: float
) -> list[Clique]:
    """Those that the model holds already, and those with which it stays within its room."""
    held = [own.clique for own in measured]
    within = [{*clique} for clique in field.tables]
    return [
        clique
        for clique in cliques
        if any({*clique} <= own for own in within)
        or megabytes(field.domain, [*held, clique]) <= room
    ]
