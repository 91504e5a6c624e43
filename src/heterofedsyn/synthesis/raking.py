"""From rows that come close to rows that fit: many are drawn, weighed, and some of them taken.

Rows drawn along a tree agree with the tables of its edges, up to chance, and with other measured
tables by transitivity alone. Raking weighs them so that all measured tables fit together: of all
weights that do, those nearest to equal ones, so that nothing is invented about what was not
measured. Then rows are taken in turn, each as often as its weight says, rounded so that errors of
tables cancel instead of adding up: a table of taken rows is closer to its expectation than that of
rows drawn by lot. No row is changed, so that what three columns have in common stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from heterofedsyn._arrays import Codes, Floats, Integers
from heterofedsyn.schema import Clique, Domain
from heterofedsyn.synthesis.stopping import step

POWER = 0.5
"""Of a correction: targets are noisy and contradict each other, so none is followed at once."""

MOST = 4.0
"""The largest correction of a cell in one turn."""

SINGLE_SWEEPS = 2
"""Turns of fitting columns at the end, when pairs that contradict each other have pulled them."""

SPARE = 4
"""Rows to choose from for each that is wanted."""

SPARE_ROWS = 200_000
"""Rows beyond what is wanted are drawn up to so many in all: of many rows, few are too many by
chance, so that a choice helps little."""

MOST_TABLES = 600
MOST_CELLS = 2**16
"""Tables that are watched while rows are taken, and cells of each; the time for a row grows with
the first, memory with both."""


@dataclass(frozen=True, eq=False)
class Coarse:
    """A wanted table of three columns.

    Attributes:
        maps: for each column the coarser group of each of its codes.
        table: of the coarser groups, of any total.
    """

    columns: Clique
    maps: tuple[Integers, Integers, Integers]
    table: Floats


def spare_rows(rows: int) -> int:
    """How many rows to draw if so many are wanted."""
    return rows * max(1, min(SPARE, SPARE_ROWS // max(1, rows)))


def taken(
    domain: Domain,
    codes: Codes,
    wanted: Mapping[Clique, Floats],
    rows: int,
    sweeps: int,
    rng: np.random.Generator,
    singles: Sequence[Floats] = (),
    triples: Sequence[Coarse] = (),
) -> Codes:
    """So many of the rows, in random order, whose tables come close to the wanted ones.

    Args:
        wanted: tables of pairs, of any total.
        sweeps: how often every wanted table is visited.
        singles: the counts of every column, of any total.
        triples: wanted tables of three columns.
    """
    from heterofedsyn.synthesis._raking_kernel import round_in_turn

    many = codes.shape[1]
    if rows == 0:
        return codes[:, :0]
    weights = raked(domain, codes, wanted, sweeps, triples)
    _fit_singles(codes, singles, weights)
    weights *= rows / weights.sum()
    step()
    firsts, seconds, widths, ends = _watched(domain, wanted)
    times = round_in_turn(
        codes, weights, rng.permutation(many), firsts, seconds, widths, ends[:-1], int(ends[-1])
    )
    chosen = rng.permutation(np.repeat(np.arange(many), times))
    if chosen.size < rows:  # by a few: what is rounded adds up to about the whole
        chosen = np.concatenate([chosen, rng.integers(0, many, rows - chosen.size)])
    return np.ascontiguousarray(codes[:, chosen[:rows]])


def raked(
    domain: Domain,
    codes: Codes,
    wanted: Mapping[Clique, Floats],
    sweeps: int,
    triples: Sequence[Coarse] = (),
) -> Floats:
    """A weight for every row, with which the tables of all rows come close to the wanted ones."""
    from heterofedsyn.synthesis._raking_kernel import rake, rake_three

    weights = np.ones(codes.shape[1])
    # Where rules forbid all that noisy columns leave, a pair holds nothing.
    tables = {pair: table for pair, table in wanted.items() if table.sum() > 0}
    for _ in range(sweeps):
        for triple in triples:
            step()
            target = np.ascontiguousarray(triple.table * (weights.sum() / triple.table.sum()))
            one, two, three = map(domain.index, triple.columns)
            rake_three(codes, (one, two, three), triple.maps, target, POWER, MOST, weights)
        for pair, table in tables.items():
            step()
            target = np.ascontiguousarray(table * (weights.sum() / table.sum()))
            first, second = map(domain.index, pair)
            rake(codes, first, second, target, POWER, MOST, weights)
    return weights


def _fit_singles(codes: Codes, singles: Sequence[Floats], weights: Floats) -> None:
    """Make every column come out as it is known, which is better than any pair is."""
    for _ in range(SINGLE_SWEEPS if singles else 0):
        for own, single in zip(codes, singles, strict=True):
            there = np.bincount(own, weights, single.size)
            if not (there @ single > 0):  # no row has a value that is known to be there
                continue
            wanted = single * (weights.sum() / single.sum())
            weights *= np.divide(wanted, there, out=np.ones_like(there), where=there > 0)[own]


def _watched(
    domain: Domain, wanted: Mapping[Clique, Floats]
) -> tuple[Integers, Integers, Integers, Integers]:
    """Every column, the wanted pairs and as many others as there is room for, as tables.

    Returns:
        places of the first and of the second column of each, what a first code counts for (nothing
        where a table is of one column), and where the cells of each begin and the last ones end.
    """
    pairs = [pair for pair in domain.pairs() if domain.cells(pair) <= MOST_CELLS]
    first = [pair for pair in pairs if pair in wanted]
    rest = [pair for pair in pairs if pair not in wanted]
    room = max(1, MOST_TABLES - len(first))
    watched = [*first, *rest[:: max(1, -(-len(rest) // room))]][:MOST_TABLES]
    places = [(place, place) for place in range(len(domain.names))]
    places += [(domain.index(one), domain.index(other)) for one, other in watched]
    firsts, seconds = np.array(places).T.copy()
    widths = np.array([*(0 for _ in domain.names), *(domain.size(own[1]) for own in watched)])
    cells = [*domain.sizes, *(domain.cells(pair) for pair in watched)]
    return firsts, seconds, widths, np.cumsum([0, *cells])
