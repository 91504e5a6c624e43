"""What a question is answered with: a row per cell, and what is not known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

from heterofedsyn.errors import UsageError, plain
from heterofedsyn.hub.release.lines import html_of, text_of
from heterofedsyn.schema import Clique

if TYPE_CHECKING:
    import pyarrow as pa

Basis = Literal["measured", "follows"]
"""Whether the columns of a cell were measured together, or its value follows from other tables."""


@dataclass(frozen=True)
class Interval:
    """One number of an answer; nothing stands for what is not known.

    Attributes:
        keys: values of the key columns, in their order.
        what: the aggregate.
        low, high: the ends of the 95 % interval.
    """

    keys: tuple[Any, ...]
    what: str
    estimate: float | None
    low: float | None
    high: float | None
    basis: Basis


@dataclass(frozen=True)
class Intervals:
    """An answer in cells.

    Attributes:
        keys: names of the key columns.
        pairs: of the question's columns, and whether each was measured.
        notes: sentences on how far to trust the answer.
        replicates: how many the intervals come from.
    """

    sql: str
    keys: tuple[str, ...]
    cells: tuple[Interval, ...]
    pairs: dict[Clique, bool]
    notes: tuple[str, ...]
    replicates: int

    @property
    def head(self) -> tuple[str, ...]:
        """The names of the table's columns."""
        return (*self.keys, "what", *_FIGURES)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The table, a row for each cell."""
        return [
            (*cell.keys, cell.what, cell.estimate, cell.low, cell.high, cell.basis)
            for cell in self.cells
        ]

    @property
    def title(self) -> str:
        """What stands above the table for people; it names the aggregate if there is only one."""
        names = {cell.what for cell in self.cells}
        return f"{names.pop() if len(names) == 1 else 'Estimates'}, with intervals of 95 %"

    @property
    def shown_head(self) -> tuple[str, ...]:
        """The names of the columns of the table for people."""
        return (*self.keys, *(("what",) if self._several else ()), *_FIGURES)

    @property
    def _several(self) -> bool:
        return len({cell.what for cell in self.cells}) > 1

    def as_dict(self) -> dict[str, Any]:
        """The answer as JSON has it."""
        return {
            "sql": self.sql,
            "cells": [dict(zip(self.head, map(_json, row), strict=True)) for row in self.rows],
            "pairs": [
                {"columns": [*pair], "measured": measured} for pair, measured in self.pairs.items()
            ],
            "notes": [*self.notes],
            "replicates": self.replicates,
        }

    def to_arrow(self) -> pa.Table:
        """The table."""
        import pyarrow as pa

        columns = [*zip(*self.rows, strict=True)] or [()] * len(self.head)
        return pa.table([pa.array(own) for own in columns], names=[*self.head])

    def to_pandas(self) -> Any:
        """The table as a data frame, with notes and pairs in its `attrs`.

        Raises:
            UsageError: pandas is not installed.
        """
        try:
            frame = self.to_arrow().to_pandas()
        except ImportError:
            raise UsageError(
                "release.ask gives a data frame and needs pandas: pip install pandas, or use "
                "release.answer"
            ) from None
        frame.attrs["notes"] = [*self.notes]
        frame.attrs["pairs"] = [
            {"columns": [*pair], "measured": measured} for pair, measured in self.pairs.items()
        ]
        return frame

    def shown(self) -> list[list[str]]:
        """The table for people: one form of numbers for each aggregate."""
        decimals = {
            what: _decimals([cell for cell in self.cells if cell.what == what])
            for what in {cell.what for cell in self.cells}
        }
        return [
            [
                *map(_word, cell.keys),
                *((cell.what,) if self._several else ()),
                *(
                    "" if number is None else f"{number:,.{decimals[cell.what]}f}"
                    for number in (cell.estimate, cell.low, cell.high)
                ),
                cell.basis,
            ]
            for cell in self.cells
        ]

    @property
    def _words(self) -> int:
        return len(self.keys) + self._several

    def __str__(self) -> str:
        table = [
            plain(self.title),
            text_of(self.shown_head, self.shown(), self._words),
        ]
        return "\n".join([*(table if self.cells else ()), *map(plain, self.notes)])

    def _repr_html_(self) -> str:
        note = "; ".join((self.title, *self.notes))
        return html_of(self.shown_head, self.shown(), self._words, note)


_FIGURES = ("estimate", "low", "high", "basis")
_MOST_DECIMALS = 8


def _decimals(cells: Sequence[Interval]) -> int:
    """How many decimals tell the ends of intervals apart in two figures.

    >>> _decimals([Interval((), "share", 0.51234, 0.50119, 0.52349, "measured")])
    3
    """
    known = [cell for cell in cells if cell.estimate is not None]
    widths = [
        cell.high - cell.low for cell in known if cell.low is not None and cell.high is not None
    ]
    size = median([width for width in widths if width > 0] or [0.0])
    if not size:
        numbers = [abs(cell.estimate) for cell in known if cell.estimate]
        if all(number == round(number) for number in numbers):
            return 0
        size = min(numbers) / 100
    return min(max(1 - math.floor(math.log10(size)), 0), _MOST_DECIMALS)


def _word(value: Any) -> str:
    return "" if value is None else str(value)


def _json(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else str(value)
