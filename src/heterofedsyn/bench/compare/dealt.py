"""How a split dealt rows to sites: how many, and which labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heterofedsyn._arrays import Integers
from heterofedsyn.schema import EncodedTable, Schema
from heterofedsyn.schema.labels import labels_of
from heterofedsyn.synthesis.grid import grouped

MOST_LABELS = 4
"""Groups of the label's values that are told apart."""


@dataclass(frozen=True)
class Dealt:
    """The rows of every site, and the share of each label among them.

    Attributes:
        label: the column; None if the schema names none, and then there are no shares.
    """

    rows: tuple[int, ...]
    label: str | None
    values: tuple[str, ...]
    shares: tuple[tuple[float, ...], ...]

    @classmethod
    def of(cls, schema: Schema, tables: Sequence[EncodedTable]) -> Dealt:
        """How one table was dealt."""
        rows = tuple(table.rows for table in tables)
        if schema.label is None:
            return cls(rows, None, (), ())
        place = schema.domain.index(schema.label)
        column = schema.column(schema.label)
        every = [np.bincount(table.codes[place], minlength=column.size) for table in tables]
        groups = _groups(np.sum(every, axis=0), ordered=column.ordered)
        shares = tuple(
            tuple((grouped(own.astype(np.float64), groups) / max(1, own.sum())).tolist())
            for own in every
        )
        return cls(rows, schema.label, labels_of(column, groups), shares)


def _groups(counts: Integers, *, ordered: bool) -> Integers:
    """Few groups of values: stretches of about as many rows, or frequent ones and the rest."""
    if counts.size <= MOST_LABELS:
        return np.arange(counts.size)
    if ordered:
        middle = (np.cumsum(counts) - counts / 2) / max(1, counts.sum())
        groups = np.minimum((middle * MOST_LABELS).astype(np.int64), MOST_LABELS - 1)
    else:
        rank = np.empty(counts.size, np.int64)
        rank[np.argsort(-counts, kind="stable")] = np.arange(counts.size)
        groups = np.minimum(rank, MOST_LABELS - 1)
    return np.unique(groups, return_inverse=True)[1].astype(np.int64)
