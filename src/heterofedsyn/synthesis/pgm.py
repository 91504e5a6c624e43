"""The distribution of greatest entropy with the measured pairs, by private-pgm (`mbi`)."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from threading import Lock
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from heterofedsyn._arrays import Codes, Floats
from heterofedsyn.errors import HeterofedsynWarning, UsageError
from heterofedsyn.schema import Clique, Domain, EncodedTable
from heterofedsyn.synthesis.allocation import allocate, allocate_within
from heterofedsyn.synthesis.estimates import Estimates
from heterofedsyn.synthesis.stopping import step
from heterofedsyn.synthesis.targets import Targets
from heterofedsyn.synthesis.zeros import possible_cells

MOST_ITERATIONS = 10_000
MOST_CLIQUE = 2**20
MOST_CELLS = 2**25
"""Of one clique and of all together, since whoever loads a release of somebody else's does the
work."""


@dataclass(frozen=True)
class Pgm:
    """A Markov random field fitted to the pairs (McKenna, Sheldon and Miklau, ICML 2019).

    Its memory and time are those of its largest clique, so pairs join it from the strongest to
    the weakest, and one that would need a larger clique than allowed is left out.

    Attributes:
        iterations: steps of mirror descent, in blocks of 50; 3000 gave rows no better than 1000
            at epsilon 1 and 5.
        largest: cells of the largest clique; adult with all 105 pairs then takes 52 s and 1.4 GB.
    """

    name: ClassVar[str] = "pgm"

    iterations: int = 1000
    largest: int = 100_000

    def __post_init__(self) -> None:
        if not 1 <= self.iterations <= MOST_ITERATIONS:
            raise UsageError(f"iterations ({self.iterations}) must be in 1..{MOST_ITERATIONS}")
        if not 4 <= self.largest <= MOST_CLIQUE:
            raise UsageError(f"largest ({self.largest}) must be in 4..{MOST_CLIQUE}")
        # Here, not when rows are drawn: by then a study would have spent its budget.
        if find_spec("mbi") is None:
            raise UsageError(
                "synthesizer pgm needs the package mbi; pip install 'heterofedsyn[pgm]'"
            )

    def synthesize(self, targets: Targets, rows: int, rng: np.random.Generator) -> EncodedTable:
        """Rows drawn attribute by attribute, given all that the model ties them to."""
        estimates = targets.estimates
        structure, tables = self._fitted(estimates)
        columns = _draw(tables, structure, rows, rng)
        for name in estimates.grid.names:
            if name not in columns:
                columns[name] = allocate(estimates.singles[name], rows, rng)
        codes = np.stack([columns[name] for name in estimates.grid.names])
        return estimates.refine(EncodedTable.from_codes(estimates.grid, codes).codes, rng)

    def _fitted(self, estimates: Estimates) -> tuple[Structure, dict[Clique, Floats]]:
        """The model, fitted once however many chunks of rows are drawn from it."""
        with _FITTING:
            known = _FITTED.setdefault(estimates, {})
            if self not in known:
                structure = self.structure(estimates)
                cells = sum(map(structure.grid.cells, structure.maximal))
                if cells > MOST_CELLS:
                    raise UsageError(
                        f"synthesizer pgm would need {cells:,} cells, more than {MOST_CELLS:,}; "
                        "lower largest, or use synthesizer=tree"
                    )
                if structure.left_out:
                    said = structure.describe(self.largest)
                    warnings.warn(said, HeterofedsynWarning, stacklevel=3)
                tables = _fit(estimates, structure, self.iterations) if structure.pairs else {}
                _empty(tables, estimates)
                known[self] = structure, tables
            return known[self]

    def check_pairs(self, domain: Domain) -> None:
        """Refuse columns of which it could hold no pair with all its cells.

        Raises:
            UsageError: naming the smallest.
        """
        least = min(domain.pairs(), key=domain.cells, default=())
        if domain.cells(least) > self.largest:
            raise UsageError(
                f"synthesizer pgm cannot hold any pair: even {least} has {domain.cells(least):,} "
                f"cells, largest is {self.largest:,}; raise largest, use fewer bins, or "
                "synthesizer=tree"
            )

    def structure(self, estimates: Estimates) -> Structure:
        """Which pairs the model holds, perhaps none; known before anything is fitted."""
        grid, weights = estimates.grid, estimates.residuals
        everything = eliminate(weights, grid)
        widest = max(everything, key=grid.cells, default=())
        if grid.cells(widest) <= self.largest:
            return Structure(grid, tuple(weights), everything)
        held: list[Clique] = []
        for pair in sorted(weights, key=lambda pair: -weights[pair]):
            if max(map(grid.cells, eliminate([*held, pair], grid))) <= self.largest:
                held.append(pair)
        left_out = tuple(pair for pair in weights if pair not in held)
        return Structure(grid, tuple(held), eliminate(held, grid), left_out, widest)


@dataclass(frozen=True)
class Structure:
    """The shape of a model.

    Attributes:
        grid: the attributes with groups for values.
        pairs: those that the model holds.
        cliques: in the order of elimination: an attribute, then what it still depended on.
        left_out: pairs with which a clique would have been too large.
        widest: the largest clique if none were left out.
    """

    grid: Domain
    pairs: tuple[Clique, ...]
    cliques: tuple[Clique, ...]
    left_out: tuple[Clique, ...] = ()
    widest: Clique = ()

    @property
    def maximal(self) -> tuple[Clique, ...]:
        """The cliques of the junction tree: those within no other, in domain order."""
        scopes = [frozenset(clique) for clique in self.cliques]
        return tuple(
            self.grid.clique(*clique)
            for clique, scope in zip(self.cliques, scopes, strict=True)
            if not any(scope < other for other in scopes)
        )

    def describe(self, largest: int) -> str:
        """What was left out, why, and what to do."""
        few = ", ".join(self.widest[:6]) + (", ..." if len(self.widest) > 6 else "")
        return (
            f"synthesizer pgm leaves out {len(self.left_out)} of "
            f"{len(self.pairs) + len(self.left_out)} pairs, the weaker ones: all of them need a "
            f"clique of {self.grid.cells(self.widest):.3g} cells ({few}), largest is {largest}; "
            "raise largest, ask for fewer pairs or bins, or use synthesizer=tree"
        )


_FITTED: WeakKeyDictionary[Estimates, dict[Pgm, tuple[Structure, dict[Clique, Floats]]]] = (
    WeakKeyDictionary()
)
_FITTING = Lock()


def eliminate(pairs: Iterable[Clique], grid: Domain) -> tuple[Clique, ...]:
    """The cliques that arise when attributes go one by one, always the one of fewest cells.

    >>> grid = Domain(("a", "b", "c"), (2, 3, 4))
    >>> eliminate([("a", "b"), ("b", "c")], grid)
    (('a', 'b'), ('b', 'c'), ('c',))
    """
    pairs = list(pairs)
    beside: dict[str, set[str]] = {n: set() for n in grid.clique(*(n for p in pairs for n in p))}
    for first, second in pairs:
        beside[first].add(second)
        beside[second].add(first)
    cells = {name: grid.cells((name, *around)) for name, around in beside.items()}
    cliques = []
    while beside:
        name = min(beside, key=cells.__getitem__)
        around = beside.pop(name)
        cliques.append((name, *grid.clique(*around)))
        for other in around:
            beside[other] |= around
            beside[other] -= {name, other}
            cells[other] = grid.cells((other, *beside[other]))
    return tuple(cliques)


def _fit(estimates: Estimates, structure: Structure, iterations: int) -> dict[Clique, Floats]:
    """The model's probabilities on its maximal cliques.

    A triangulated graph stays within its largest clique however mbi eliminates it (always the
    attribute of fewest cells), so `largest` holds there too.
    """
    import jax

    if not jax.config.jax_platforms:
        jax.config.update("jax_platforms", "cpu")
    # In single precision mirror descent stalls; this way other users of jax keep theirs.
    with jax.enable_x64(True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # advice on jax's caches
            import mbi

        def numbered(clique: Sequence[str]) -> tuple[int, ...]:
            # mbi walks through sets: of names the order is another in every process.
            return tuple(structure.grid.index(name) for name in clique)

        names = structure.grid.clique(*(name for clique in structure.cliques for name in clique))
        domain = mbi.Domain(numbered(names), structure.grid.shape(names))
        wanted = [
            mbi.LinearMeasurement(estimates.pairs[pair].ravel() / estimates.total, numbered(pair))
            for pair in structure.pairs
        ]
        loss = mbi.marginal_loss.from_linear_measurements(wanted, domain)
        loss = dataclasses.replace(loss, cliques=tuple(map(numbered, structure.maximal)))
        model = mbi.estimation.MirrorDescent().estimate(
            domain, loss, known_total=1.0, iters=iterations, callback_fn=lambda _: step()
        )
        return {
            clique: np.asarray(model.marginals[numbered(clique)].values, dtype=np.float64)
            for clique in structure.maximal
        }


def _empty(tables: dict[Clique, Floats], estimates: Estimates) -> None:
    """Take out of the model what mirror descent left in cells that rules forbid."""
    cells = possible_cells(estimates.schema, estimates.groups, estimates.pairs)
    for clique, table in tables.items():
        kept = table
        for pair, can in cells.items():
            if {*pair} <= {*clique}:
                others = [axis for axis, name in enumerate(clique) if name not in pair]
                kept = kept * np.expand_dims(can, others)
        tables[clique] = kept


def _draw(
    tables: dict[Clique, Floats], structure: Structure, rows: int, rng: np.random.Generator
) -> dict[str, Codes]:
    """Every attribute given those eliminated after it, which no other could tell more about."""
    columns: dict[str, Codes] = {}
    for name, *given in reversed(structure.cliques):
        clique = next(clique for clique in tables if {name, *given} <= {*clique})
        shown = [clique.index(other) for other in (*given, name)]
        summed = [place for place in range(len(clique)) if place not in shown]
        shape = (structure.grid.cells(given), structure.grid.size(name), -1)
        weights = tables[clique].transpose(*shown, *summed).reshape(shape).sum(axis=2)
        strata = np.zeros(rows, dtype=np.int64)
        for other in given:
            strata = strata * structure.grid.size(other) + columns[other]
        columns[name] = allocate_within(strata, weights, rng)
    return columns
