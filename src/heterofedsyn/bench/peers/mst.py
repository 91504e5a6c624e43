"""MST: a spanning tree of pairs, chosen privately (McKenna, Miklau and Sheldon 2021)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from heterofedsyn._arrays import Floats, Integers
from heterofedsyn.bench.peers.central import Made, choose, measure, pairs_of, singles_of
from heterofedsyn.bench.peers.field import Field, Measured, fit
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.schema import Clique, Domain, EncodedTable

CLEAR = 3.0
"""Standard deviations of noise below which a value is put together with others."""


@dataclass(frozen=True)
class Mst:
    """A third of rho for all attributes, a third to choose a tree, a third for its edges.

    Values that are rarer than noise shows are one value until the rows are drawn.

    Attributes:
        iterations: steps of the last fit at most.
    """

    iterations: int = 5000

    @property
    def settings(self) -> Mapping[str, float]:
        """What limits it, beyond what its authors say."""
        usual = Mst()
        return {} if self == usual else {"iterations": self.iterations}

    def run(self, table: EncodedTable, budget: Budget, rng: np.random.Generator) -> Made:
        """Synthetic codes for a table."""
        third = budget.rho / 3
        many = len(table.domain)
        sigma = math.sqrt(many / (2 * third))
        singles = [measure(clique, own, sigma, rng) for clique, own in singles_of(table).items()]
        merged = [_merged(own) for own in singles]
        short, measured = _compressed(table, merged), [*map(_summed, singles, merged)]
        field = fit(short.domain, measured, min(1000, self.iterations))
        if many > 1:
            exact = pairs_of(short)
            tree = _spanning(field, exact, third, rng)
            sigma = math.sqrt(len(tree) / (2 * third))
            measured += [measure(pair, exact[pair], sigma, rng) for pair in tree]
            field = fit(short.domain, measured, self.iterations)
        drawn = field.draw(max(1, round(field.total)), rng)
        return Made(_restored(drawn, table.domain, merged, rng), many - 1)


def _spanning(
    field: Field, exact: Mapping[Clique, Floats], rho: float, rng: np.random.Generator
) -> list[Clique]:
    """Edges that join all attributes, those that independence explains worst more likely."""
    expected = field.pairs()
    scores = {pair: float(np.abs(own - expected[pair]).sum()) for pair, own in exact.items()}
    part = {name: name for name in field.domain.names}
    many = len(part) - 1
    epsilon = math.sqrt(8 * rho / many)
    tree: list[Clique] = []
    for _ in range(many):
        left = [pair for pair in scores if part[pair[0]] != part[pair[1]]]
        first, second = left[choose([scores[pair] for pair in left], epsilon, 1.0, rng)]
        tree.append((first, second))
        gone = part[second]
        part = {name: part[first] if own == gone else own for name, own in part.items()}
    return tree


def _merged(measured: Measured) -> Integers:
    """For every value its new code; those of rare ones are the same, the last."""
    seen = measured.values >= CLEAR * measured.sigma
    codes: Integers = np.where(seen, np.cumsum(seen) - 1, seen.sum()).astype(np.int64)
    return codes


def _summed(measured: Measured, merged: Integers) -> Measured:
    """A noisy table with its rare values put together, weighted so that all noise is alike."""
    many = np.bincount(merged).astype(np.float64)
    weights = 1 / np.sqrt(many)
    values = np.bincount(merged, measured.values) * weights
    return Measured(measured.clique, values, measured.sigma, weights)


def _compressed(table: EncodedTable, merged: list[Integers]) -> EncodedTable:
    domain = Domain(table.domain.names, tuple(int(own.max()) + 1 for own in merged))
    codes = [own[column] for own, column in zip(merged, table.codes, strict=True)]
    return EncodedTable.from_codes(domain, np.stack(codes))


def _restored(
    drawn: EncodedTable, domain: Domain, merged: list[Integers], rng: np.random.Generator
) -> EncodedTable:
    """Codes of the whole domain again; of values that were put together any, all alike."""
    columns = []
    for column, own in zip(drawn.codes, merged, strict=True):
        order = np.argsort(own, kind="stable")
        many = np.bincount(own)
        starts = np.cumsum(many) - many
        columns.append(order[starts[column] + rng.integers(0, many[column])])
    return EncodedTable.from_codes(domain, np.stack(columns))
