"""GUM: start from the 1-ways, then move records until the pairs fit; MATH section 4."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from heterofedsyn._arrays import Codes, Floats
from heterofedsyn.errors import UsageError
from heterofedsyn.marginals.counting import count_pairs
from heterofedsyn.schema import Clique, Domain, EncodedTable
from heterofedsyn.synthesis.allocation import allocate
from heterofedsyn.synthesis.stopping import step
from heterofedsyn.synthesis.targets import Targets

MOST_PASSES = 1_000
"""Alpha is 0.0002 by then. Whoever loads a release of somebody else's waits for all of them."""

DECAY = 0.84
DECAY_EVERY = 20
"""Alpha starts at 1 and shrinks by the factor after so many passes (PrivSyn's schedule)."""


@dataclass(frozen=True)
class Gum:
    """The gradual update method of PrivSyn.

    Attributes:
        passes: how often every measured pair is visited.
    """

    name: ClassVar[str] = "gum"

    passes: int = 50

    def __post_init__(self) -> None:
        if not 0 <= self.passes <= MOST_PASSES:
            raise UsageError(f"passes ({self.passes}) must be in 0..{MOST_PASSES}")

    def synthesize(self, targets: Targets, rows: int, rng: np.random.Generator) -> EncodedTable:
        """Rows whose pairs are close to the reconciled targets."""
        estimates = targets.estimates
        domain = estimates.grid
        columns = [allocate(estimates.singles[name], rows, rng) for name in domain.names]
        codes = EncodedTable.from_codes(domain, np.stack(columns)).codes.copy()
        wanted = {pair: table * (rows / estimates.total) for pair, table in estimates.pairs.items()}
        if wanted:
            # Attributes without a pair keep the column drawn from their own marginal.
            names = domain.clique(*(name for pair in wanted for name in pair))
            inner = Domain(names, domain.shape(names))
            moved = codes[[domain.index(name) for name in names]]
            for turn in range(self.passes):
                run_pass(inner, moved, wanted, turn, rng)
            codes[[domain.index(name) for name in names]] = moved
        return estimates.refine(codes, rng)


def run_pass(
    domain: Domain,
    codes: Codes,
    wanted: dict[Clique, Floats],
    turn: int,
    rng: np.random.Generator,
) -> None:
    """Visit every pair once, the worst first, changing `codes` in place."""
    from heterofedsyn.synthesis._gum_kernel import Work, move_records

    alpha = DECAY ** (turn // DECAY_EVERY)
    copying = 0.5 if turn % 2 == 0 else 1.0
    pairs = list(wanted)
    marginals = count_pairs(EncodedTable(domain, codes.view()), pairs)
    work = Work.of(codes.shape[1], max(map(domain.cells, pairs), default=1))
    errors = [np.abs(wanted[m.clique].ravel() - m.counts).sum() for m in marginals]
    for place in np.argsort(-np.array(errors), kind="stable"):
        step()
        first, second = pairs[place]
        target = np.ascontiguousarray(wanted[pairs[place]]).ravel()
        move_records(
            codes,
            domain.index(first),
            domain.index(second),
            domain.size(second),
            target,
            alpha,
            copying,
            work,
            rng,
        )
