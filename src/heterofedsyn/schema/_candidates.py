"""Rules that public rows suggest: a sample of them breaks none, though chance alone would."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from heterofedsyn._arrays import Integers
from heterofedsyn._words import count
from heterofedsyn.schema.outline import Candidate

if TYPE_CHECKING:
    import pyarrow as pa

MOST_SAMPLED = 200_000
"""Rows that are kept to look for rules."""

MOST_COLUMNS = 60
"""Columns between which they are looked for."""

EXPECTED = 30
"""Rows that chance alone would have brought against a rule before it is worth a word."""

_MOST_CANDIDATES = 20
_MOST_OF_PAIR = 3
_MOST_NEVER_VALUES = 50


class Sample:
    """Every row up to a number, then every second, every fourth, and so on."""

    def __init__(self) -> None:
        self.stride = 1
        self._seen = 0
        self._batches: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Keep some rows of a batch."""
        first = -self._seen % self.stride
        self._batches.append(batch.take(np.arange(first, batch.num_rows, self.stride)))
        self._seen += batch.num_rows
        while sum(kept.num_rows for kept in self._batches) > MOST_SAMPLED:
            self.stride *= 2
            place, thinned = 0, []
            for kept in self._batches:
                thinned.append(kept.take(np.arange(place % 2, kept.num_rows, 2)))
                place += kept.num_rows
            self._batches = thinned

    def column(self, name: str) -> pa.ChunkedArray:
        """The values of a column, in the order of rows."""
        import pyarrow as pa

        return pa.chunked_array([batch.column(name) for batch in self._batches])


@dataclass(frozen=True, eq=False)
class Coded:
    """A categorical column of a sample; a missing value is the last code."""

    name: str
    values: tuple[Any, ...]
    codes: Integers

    @property
    def known(self) -> NDArray[np.bool_]:
        """Where a value is not missing."""
        return self.codes < len(self.values)


def candidates(columns: Sequence[Coded], complete: bool) -> tuple[Candidate, ...]:
    """The rules that a sample suggests, those about the most values first.

    Args:
        complete: whether the sample is all rows, so that a table holds all there is.
    """
    looked = columns[:MOST_COLUMNS]
    found = list(_determined(looked, complete))
    related = {frozenset((c.rule["determines"]["from"], c.rule["determines"]["to"])) for c in found}
    small = [column for column in looked if 2 <= len(column.values) <= _MOST_NEVER_VALUES]
    for place, first in enumerate(small):
        for second in small[place + 1 :]:
            if frozenset((first.name, second.name)) not in related:
                found += _never(first, second)
    return tuple(found[:_MOST_CANDIDATES])


def _determined(columns: Sequence[Coded], complete: bool) -> Iterator[Candidate]:
    for source, target in permutations(columns, 2):
        if len(source.values) <= len(target.values) or len(target.values) < 2:
            continue
        follows = np.full(len(source.values) + 1, -1)
        follows[source.codes] = target.codes
        if not (follows[source.codes] == target.codes).all():
            continue
        # A missing value must follow from a missing one, and a known one from a known one.
        if (source.known != target.known).any():
            continue
        shares = np.bincount(target.codes) / len(target.codes)
        seen = np.bincount(source.codes)
        conflicts = (seen.sum() - np.count_nonzero(seen)) * (1 - (shares**2).sum())
        if conflicts < EXPECTED:
            continue
        table = {
            str(value): str(target.values[follows[code]])
            for code, value in enumerate(source.values)
            if follows[code] >= 0
        }
        rule = {"from": source.name, "to": target.name, "table": table}
        whole = complete or len(table) == len(source.values)
        lacks = "" if whole else "; the table lacks values that a sample of rows did not hold"
        yield Candidate(
            {"determines": rule},
            f"every value of {source.name} goes with one of {target.name}, by chance about "
            f"{count(round(conflicts), 'row')} would not{lacks}",
        )


def _never(first: Coded, second: Coded) -> list[Candidate]:
    both = first.known & second.known
    shape = len(first.values), len(second.values)
    cells = np.bincount(
        first.codes[both] * shape[1] + second.codes[both], minlength=shape[0] * shape[1]
    )
    counts = cells.reshape(shape)
    rows = max(int(counts.sum()), 1)
    chance = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0, keepdims=True) / rows
    empty = (counts == 0) & (chance >= EXPECTED)
    if not empty.any():
        return []
    found = [_merged(first, second, empty, chance), _merged(second, first, empty.T, chance.T)]
    return min(found, key=len)[:_MOST_OF_PAIR]


def _merged(
    first: Coded, second: Coded, empty: NDArray[np.bool_], chance: NDArray[np.float64]
) -> list[Candidate]:
    """One rule for all values of the first column that never meet the same of the second."""
    alike: dict[bytes, list[int]] = {}
    for code in np.flatnonzero(empty.any(axis=1)):
        alike.setdefault(empty[code].tobytes(), []).append(int(code))
    found = []
    for codes in alike.values():
        others = np.flatnonzero(empty[codes[0]])
        rows = chance[np.ix_(np.array(codes), others)].sum()
        conditions = {first.name: _some(first, codes), second.name: _some(second, others)}
        why = f"no row has this, by chance about {count(round(rows), 'row')} would"
        found.append((rows, Candidate({"never": conditions}, why)))
    return [candidate for _, candidate in sorted(found, key=lambda pair: -pair[0])]


def _some(column: Coded, codes: Sequence[int] | Integers) -> Any:
    values = [column.values[code] for code in codes]
    return values if len(values) > 1 else values[0]


def with_tables(
    found: Sequence[Candidate], folder: str
) -> tuple[tuple[Candidate, ...], dict[str, tuple[tuple[str, str], Mapping[str, str]]]]:
    """The same candidates with their tables in files of a folder, and head and rows of these."""
    named: list[Candidate] = []
    tables: dict[str, tuple[tuple[str, str], Mapping[str, str]]] = {}
    for candidate in found:
        rule = candidate.rule.get("determines")
        if rule is None:
            named.append(candidate)
            continue
        name = "".join(c if c.isalnum() else "-" for c in f"{rule['from']}-{rule['to']}") + ".csv"
        while name in tables:
            name = f"{len(tables)}-{name}"
        tables[name] = (rule["from"], rule["to"]), rule["table"]
        place = f"{folder}/{name}" if folder not in ("", ".") else name
        named.append(Candidate({"determines": {**rule, "table": place}}, candidate.why))
    return tuple(named), tables
