"""What a question is answered with: a row per cell, and what is not known."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from heterofedsyn.errors import UsageError, plain
from heterofedsyn.schema import Clique

if TYPE_CHECKING:
    import pyarrow as pa

Basis = Literal["measured", "follows"]
"""Whether the columns of a cell were measured together, or its value follows from other tables."""


@dataclass(frozen=True)
class Cell:
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
class Answer:
    """An answer in cells.

    Attributes:
        keys: names of the key columns.
        pairs: of the question's columns, and whether each was measured.
        notes: sentences on how far to trust the answer.
        replicates: how many the intervals come from.
    """

    sql: str
    keys: tuple[str, ...]
    cells: tuple[Cell, ...]
    pairs: dict[Clique, bool]
    notes: tuple[str, ...]
    replicates: int

    @property
    def head(self) -> tuple[str, ...]:
        """The names of the table's columns."""
        return (*self.keys, *(("what",) if self._several else ()), *_FIGURES)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The table, a row for each cell."""
        return [
            (
                *cell.keys,
                *((cell.what,) if self._several else ()),
                *(cell.estimate, cell.low, cell.high, cell.basis),
            )
            for cell in self.cells
        ]

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
        """The table for people."""
        return [[plain(shown(value)) for value in row] for row in self.rows]

    def __str__(self) -> str:
        lines = [[plain(name) for name in self.head], *self.shown()]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        numbers = {self.head.index(name) for name in _FIGURES[:3]}
        table = [
            "  ".join(
                text.rjust(width) if place in numbers else text.ljust(width)
                for place, (text, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        return "\n".join([*table, *map(plain, self.notes)])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(plain(name))}</th>" for name in self.head)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in row) + "</tr>"
            for row in self.shown()
        )
        notes = "".join(f"<p>{html.escape(plain(note))}</p>" for note in self.notes)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"


_FIGURES = ("estimate", "low", "high", "basis")


def shown(value: Any) -> str:
    """A value for people: numbers with five figures that count.

    >>> shown(1234567.8), shown(0.0123456), shown(None)
    ('1,234,568', '0.012346', '')
    """
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.5g}"
    return str(value)


def _json(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else str(value)
