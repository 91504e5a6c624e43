"""How far the noise can have moved a released marginal: exact, since all noise is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import TYPE_CHECKING, Any

import numpy as np

from heterofedsyn._arrays import Floats, Integers, frozen
from heterofedsyn._words import count
from heterofedsyn.errors import UsageError
from heterofedsyn.hub.release.lines import html_of, text_of
from heterofedsyn.schema import Clique, Domain, KeyColumn, Schema
from heterofedsyn.schema.labels import labels_of
from heterofedsyn.synthesis import Targets
from heterofedsyn.synthesis.grid import grouped
from heterofedsyn.synthesis.precision import variance_of

if TYPE_CHECKING:
    import pyarrow as pa


CONFIDENCE = 1.96
"""Standard errors of an interval that holds the truth 19 times in 20."""

MOST_SHOWN = 40
"""Cells that are printed."""

MOST_NAMED = 6
"""Pairs that are named instead of one that was not measured."""

_NOTE = (
    "estimate: fitted, so never negative; standard error: of the unbiased measurement, from noise "
    "alone; low and high: 95 %"
)


@dataclass(frozen=True, eq=False)
class Accuracy:
    """A released marginal, and how far the noise can have moved it.

    The estimate is that of the release, after everything measured was fitted together, from which
    rows are drawn. The standard error is that of the unbiased measurement, due to noise alone,
    before anything is smoothed or clipped; the estimate usually comes closer to the truth, unless
    something was smoothed away. About two in three cells are within one standard error of the
    truth, 19 in 20 within two.

    Attributes:
        attributes: in the order of the schema.
        labels: for every attribute, what its cells stand for: values, bins, or groups of them.
        estimate: in counts, one for every cell; a pair that was released on a grid of groups has
            one for every cell of that grid.
        standard_error: in counts likewise.
        fraction: the standard error divided by the noisy total.
    """

    attributes: Clique
    labels: tuple[tuple[str, ...], ...]
    estimate: Floats
    standard_error: Floats
    fraction: Floats

    @property
    def low(self) -> Floats:
        """Where the 95 % interval begins; no count is below 0."""
        return np.maximum(self.estimate - CONFIDENCE * self.standard_error, 0.0)

    @property
    def high(self) -> Floats:
        """Where the 95 % interval ends."""
        return self.estimate + CONFIDENCE * self.standard_error

    def to_arrow(self) -> pa.Table:
        """A line for every cell: what it stands for, estimate, standard error, low, high."""
        import pyarrow as pa

        cells = [*product(*self.labels)]
        columns = {
            **{
                name: pa.array([cell[place] for cell in cells], pa.string())
                for place, name in enumerate(self.attributes)
            },
            **{name: pa.array(figures.ravel()) for name, figures in self._figures.items()},
        }
        return pa.table([*columns.values()], names=[*columns])

    def to_pandas(self) -> Any:
        """The same as a data frame.

        Raises:
            UsageError: pandas is not installed.
        """
        try:
            return self.to_arrow().to_pandas()
        except ImportError:
            raise UsageError(
                "a data frame needs pandas: pip install pandas, or use to_arrow()"
            ) from None

    def __str__(self) -> str:
        return "\n".join([text_of(self._head, self._lines, self._words), *self._below])

    def __repr__(self) -> str:
        of = " and ".join(map(repr, self.attributes)) or "the number of records"
        return f"<Accuracy of {of}: {count(self.estimate.size, 'cell')}>"

    def _repr_html_(self) -> str:
        return html_of(self._head, self._lines, self._words, "; ".join(self._below))

    @property
    def _figures(self) -> dict[str, Floats]:
        return {
            "estimate": self.estimate,
            "standard_error": self.standard_error,
            "low": self.low,
            "high": self.high,
        }

    @property
    def _words(self) -> int:
        return len(self.attributes)

    @property
    def _head(self) -> tuple[str, ...]:
        return (*self.attributes, *(name.replace("_", " ") for name in self._figures))

    @property
    def _lines(self) -> list[tuple[str, ...]]:
        figures = [*zip(*(own.ravel() for own in self._figures.values()), strict=True)]
        cells = zip(product(*self.labels), figures, strict=True)
        return [
            (*words, *(f"{figure:,.0f}" for figure in own))
            for words, own in islice(cells, MOST_SHOWN)
        ]

    @property
    def _below(self) -> list[str]:
        more = self.estimate.size - MOST_SHOWN
        rest = [f"... and {more:,} more cells: to_pandas() has all of them"] if more > 0 else []
        return [*rest, _NOTE]


def accuracy_of(
    populations: Sequence[Targets],
    attributes: str | Sequence[str],
    groups: Sequence[int] | None,
    total: float,
) -> Accuracy:
    """The accuracy of a marginal summed over populations; see `Release.accuracy`.

    Args:
        total: the noisy number of records in all populations.
    """
    schema, domain = populations[0].schema, populations[0].domain
    names = (attributes,) if isinstance(attributes, str) else tuple(attributes)
    _check_measured(schema, names)
    clique = domain.clique(*names)
    if len(clique) > 2:
        raise UsageError(f"marginals are of at most two columns, not {len(clique)}: {clique}")
    maps = None if groups is None else _checked(groups, clique, domain)
    variances = [_variance(targets, clique, maps) for targets in populations]
    grids = [_grid(targets, clique, maps) for targets in populations]
    if any(
        not np.array_equal(one, other)
        for grid in grids
        for one, other in zip(grid, grids[0], strict=True)
    ):
        raise UsageError(
            f"pair {clique} was released on different grids; ask for its columns singly"
        )
    error = frozen(np.sqrt(np.sum(variances, axis=0)))
    return Accuracy(
        clique,
        tuple(
            labels_of(schema.column(name), own) for name, own in zip(clique, grids[0], strict=True)
        ),
        frozen(np.sum([_estimate(targets, clique, maps) for targets in populations], axis=0))
        if clique
        else frozen(np.array([float(total)])),
        error,
        frozen(error / total),
    )


def _check_measured(schema: Schema, names: Sequence[str]) -> None:
    """Refuse columns of the table that are not measured at all, and say what they follow from."""
    for name in names:
        source = schema.rulebook.source_of(name)
        if source != name:
            raise UsageError(
                f"column {name!r} follows from {source!r} by a rule and was not measured; ask for "
                f"{source!r}"
            )
        if isinstance(schema.column(name), KeyColumn):
            raise UsageError(f"column {name!r} is a key, invented for every row; ask for another")


def _grid(targets: Targets, clique: Clique, groups: Integers | None) -> list[Integers]:
    """For every attribute the group of each value, as the marginal tells it."""
    if groups is not None:
        return [groups]
    if len(clique) == 2 and clique not in targets.marginals:
        *_, grid = (own for own in targets.grids if own.attributes == clique)
        return [np.array(own) for own in grid.groups]
    return [np.arange(targets.domain.size(name)) for name in clique]


def _estimate(targets: Targets, clique: Clique, groups: Integers | None) -> Floats:
    """What is believed of every cell of one population."""
    if len(clique) == 2:
        return targets.estimates.pairs[clique]
    values = targets.estimates.fitted(clique[0])
    return values if groups is None else grouped(values, groups)


def _variance(targets: Targets, clique: Clique, groups: Integers | None) -> Floats:
    """The variance of every cell, or of every group of values, in one population."""
    if not clique:
        return np.array([targets.total_variance])
    if len(clique) == 2:
        return _pair_variance(targets, clique)
    size = targets.domain.size(clique[0])
    return variance_of(targets, clique[0], np.arange(size) if groups is None else groups)


def _pair_variance(targets: Targets, pair: Clique) -> Floats:
    if pair in targets.marginals:
        return np.full(targets.domain.shape(pair), targets.marginals[pair].variance)
    tables = [noisy for grid, noisy in targets.grids.items() if grid.attributes == pair]
    if not tables:
        raise UsageError(_not_measured(targets, pair))
    return np.full(tables[-1].values.shape, tables[-1].variance)


def _not_measured(targets: Targets, pair: Clique) -> str:
    """What to do about a pair that was not measured."""
    beside = [other for other in targets.pairs if {*other} & {*pair}]
    named = "; ".join(" and ".join(other) for other in beside[:MOST_NAMED])
    more = ", ..." if len(beside) > MOST_NAMED else ""
    were = f"measured with one of them: {named}{more}" if beside else "none with one of them was"
    return (
        f"pair {pair} was not measured (at every site, if sites were asked separately), so its "
        f"error is not known; {were}; ask for those or for its columns singly, or name it in a new "
        f"study: --measure {','.join(pair)}"
    )


def _checked(groups: Sequence[int], clique: Clique, domain: Domain) -> Integers:
    """The group numbers, if they are a map of one attribute's values."""
    if len(clique) != 1:
        raise UsageError(f"groups are of one column's values; {clique} has {len(clique)} columns")
    size = domain.size(clique[0])
    maps = np.asarray(groups)
    if maps.shape != (size,) or not np.issubdtype(maps.dtype, np.integer):
        raise UsageError(
            f"groups of {clique[0]!r} must be {size} whole numbers, one for each of its values"
        )
    if not 0 <= maps.min() <= maps.max() < size:
        raise UsageError(f"group numbers of {clique[0]!r} must be in 0..{size - 1}")
    return maps.astype(np.int64)
