"""Which groups an answer has: also those of the schema that no synthetic row is in, in order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heterofedsyn._arrays import Integers
from heterofedsyn.errors import UsageError
from heterofedsyn.hub.methods.base import Model
from heterofedsyn.hub.questions.question import Question
from heterofedsyn.hub.questions.written_out import Sort
from heterofedsyn.hub.release.accuracy import CONFIDENCE, accuracy_of
from heterofedsyn.schema import BooleanColumn, CategoricalColumn, Schema

MOST_LISTED = 1_000
"""Groups of the schema, beyond which those without synthetic rows are not listed."""

Keys = tuple[Any, ...]


@dataclass(frozen=True)
class Listing:
    """The groups of a question that the schema knows.

    Attributes:
        groups: with the codes of the measured columns behind their keys.
        columns: these columns.
        too_many: whether they are not told since there are too many.
    """

    groups: Mapping[Keys, Keys]
    columns: tuple[str, ...]
    too_many: bool = False

    @classmethod
    def of(cls, question: Question, schema: Schema) -> Listing:
        """The groups, none if the question does not ask for all of them."""
        names = [output.of_column for output in question.keys]
        known = [name for name in names if name is not None]
        columns = [schema.column(name) for name in known]
        kinds = all(isinstance(own, CategoricalColumn | BooleanColumn) for own in columns)
        sources = [*dict.fromkeys(map(schema.rulebook.source_of, known))]
        limited = {schema.rulebook.source_of(name) for name in question.where or ()} & {*sources}
        if not question.lists_all or len(known) != len(names) or not kinds or limited or not names:
            return cls({}, ())
        sizes = [schema.column(name).size for name in sources]
        if math.prod(sizes) > MOST_LISTED:
            return cls({}, (), too_many=True)
        codes = _possible(schema, sources, sizes)
        rng = np.random.default_rng(0)  # a category's code has one value
        values = [
            column.decode(_followed(schema, column.name)[codes[sources.index(source)]], rng)
            for column, source in zip(columns, map(schema.rulebook.source_of, known), strict=True)
        ]
        keys = zip(*(own.to_pylist() for own in values), strict=True)
        return cls(dict(zip(keys, map(tuple, codes.T.tolist()), strict=True)), tuple(sources))

    def most(self, model: Model) -> dict[Keys, float]:
        """How many records each group may have, if no synthetic row is in it, by its noise."""
        domain, known = model.targets[0].domain, model.targets[0].estimates.groups
        clique = domain.clique(*self.columns)
        try:
            error = accuracy_of(model.targets, clique, None, 1.0).standard_error
        except UsageError:  # it was not measured
            return {}
        places = [self.columns.index(name) for name in clique]
        maps = [
            np.arange(size) if size == domain.size(name) else known[name]
            for name, size in zip(clique, error.shape, strict=True)
        ]
        return {
            keys: CONFIDENCE
            * float(error[tuple(own[codes[at]] for own, at in zip(maps, places, strict=True))])
            for keys, codes in self.groups.items()
        }


def _possible(schema: Schema, names: Sequence[str], sizes: Sequence[int]) -> Integers:
    """Codes of columns together, but for those that a rule forbids; a row for each column."""
    codes = np.stack([own.ravel() for own in np.indices(sizes)])
    places = [schema.domain.index(name) for name in names]
    rows = dict(zip(places, codes, strict=True))
    fits = np.ones(codes.shape[1], np.bool_)
    for law in schema.rulebook.nevers:
        if {*law.places} <= {*places}:
            fits &= ~law.broken(rows)
    return codes[:, fits]


def _followed(schema: Schema, name: str) -> Integers:
    """The code of a column for each code of the one that it follows from."""
    source = schema.rulebook.source_of(name)
    maps = {source: np.arange(schema.column(source).size)}
    for rule, codes in schema.rulebook.derived:
        if rule.source in maps:
            maps[rule.target] = codes[maps[rule.source]]
    return maps[name]


def in_order(rows: list[tuple[Any, ...]], sorts: Sequence[Sort]) -> list[tuple[Any, ...]]:
    """Rows of outputs as ORDER BY has them.

    >>> in_order([(1, None), (2, 5.0), (3, 7.0)], [Sort(1, falling=True, empty_first=False)])
    [(3, 7.0), (2, 5.0), (1, None)]
    """
    for sort in reversed(sorts):
        empty = [row for row in rows if row[sort.place] is None]
        known = sorted(
            (row for row in rows if row[sort.place] is not None),
            key=lambda row: row[sort.place],
            reverse=sort.falling,
        )
        rows = [*empty, *known] if sort.empty_first else [*known, *empty]
    return rows
