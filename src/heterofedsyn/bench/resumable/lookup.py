"""Means over repetitions, looked up by cell and metric."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass
from pathlib import Path

from heterofedsyn.bench.resumable.cells import Cell
from heterofedsyn.bench.resumable.results import REFUSED, Figure, kind_of, read_figures


@dataclass(frozen=True)
class Mean:
    """A mean over repetitions."""

    value: float
    deviation: float | None
    """None after a single repetition."""
    repetitions: int

    def __str__(self) -> str:
        if self.deviation is None:
            return number(self.value)
        return f"{number(self.value)} ± {number(self.deviation, 2)}"

    @property
    def error(self) -> float | None:
        """The standard error; None after a single repetition."""
        return None if self.deviation is None else self.deviation / math.sqrt(self.repetitions)

    @property
    def with_error(self) -> str:
        """Mean and standard error, small ones with four places."""
        shown = "{:.4f}".format if self.value < 10 else number
        return shown(self.value) + ("" if self.error is None else f" ± {shown(self.error)}")

    def as_dict(self) -> dict[str, float | None]:
        """For programs."""
        return {
            "mean": self.value,
            "standard_error": self.error,
            "repetitions": self.repetitions,
        }


@dataclass(frozen=True)
class Lookup:
    """All figures of a folder."""

    figures: tuple[Figure, ...]
    _values: dict[tuple[tuple[str, ...], str], list[float]]
    _refusals: dict[tuple[tuple[str, ...], str], str]

    @classmethod
    def read(cls, folder: Path) -> Lookup:
        """The figures that a folder holds."""
        return cls.of(read_figures(folder))

    @classmethod
    def of(cls, figures: Iterable[Figure]) -> Lookup:
        """These figures."""
        kept = tuple(figures)
        values: dict[tuple[tuple[str, ...], str], list[float]] = defaultdict(list)
        refusals = {}
        for figure in kept:
            if figure.metric.startswith(f"{REFUSED}."):
                refusals[figure.cell, kind_of(figure.metric)] = figure.value
            else:
                values[figure.cell, figure.metric].append(float(figure.value))
        return cls(kept, dict(values), refusals)

    def of_seeds(self, seeds: Container[int]) -> Lookup:
        """Those figures alone that were drawn with these noise seeds."""
        return Lookup.of(figure for figure in self.figures if figure.seed in seeds)

    def mean(self, cell: Cell, metric: str) -> Mean | None:
        """The mean of a metric, or None if it was not measured."""
        values = self._values.get((cell.key, metric))
        if not values:
            return None
        spread = statistics.stdev(values) if len(values) > 1 else None
        return Mean(statistics.fmean(values), spread, len(values))

    def refusal(self, cell: Cell, metric: str) -> str | None:
        """Why a metric was declined, in one word."""
        return self._refusals.get((cell.key, kind_of(metric)))

    def shown(self, cell: Cell, metric: str) -> str:
        """A metric for people: its mean, the reason why there is none, or a dash."""
        mean = self.mean(cell, metric)
        if mean is not None:
            return str(mean)
        word = self.refusal(cell, metric)
        return f"refused ({word})" if word else "–"

    def metrics(self, cell: Cell) -> list[str]:
        """All that was measured on a cell, in order."""
        return sorted(metric for own, metric in self._values if own == cell.key)

    def repetitions(self, cells: Iterable[Cell], metric: str) -> str:
        """How many repetitions stand behind the figures of a column."""
        means = [self.mean(cell, metric) for cell in cells]
        many = sorted({mean.repetitions for mean in means if mean})
        if not many:
            return "none yet"
        return str(many[0]) if len(many) == 1 else f"{many[0]} to {many[-1]}"

    @property
    def versions(self) -> list[str]:
        """The versions of the software that measured."""
        return sorted({figure.version for figure in self.figures})

    @property
    def seeds(self) -> list[int]:
        """The noise seeds that were used."""
        return sorted({figure.seed for figure in self.figures})


def number(value: float, digits: int = 3) -> str:
    """A figure with so many digits that mean something.

    >>> number(0.01234), number(13050.9), number(3.0)
    ('0.0123', '13,051', '3')
    """
    if value == int(value):
        return f"{value:,.0f}"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{value:,.{max(0, places)}f}"
