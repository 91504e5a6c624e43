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
from heterofedsyn.schema import _parsing
from heterofedsyn.schema._seen import MOST_VALUES, Seen, Way, flat, without_nulls
from heterofedsyn.schema._thresholds import thresholds
from heterofedsyn.schema.outline import Candidate, Entry

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


@dataclass(frozen=True, eq=False)
class Dated:
    """A column of dates or moments of a sample, as seconds; a missing one is NaN."""

    name: str
    kind: str
    seconds: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Numbered:
    """A column of numbers of a sample; a missing one is NaN."""

    name: str
    kind: str
    numbers: NDArray[np.float64]


class Sample:
    """Every row up to a number, then every second, every fourth, and so on."""

    def __init__(self) -> None:
        self.stride = 1
        self._seen = 0
        self._batches: list[pa.RecordBatch] = []

    @property
    def rows(self) -> int:
        """How many are kept."""
        return sum(batch.num_rows for batch in self._batches)

    def add(self, batch: pa.RecordBatch, columns: Mapping[str, Seen]) -> None:
        """Keep some rows of a batch, given what its columns have held so far."""
        first = -self._seen % self.stride
        rows = np.arange(first, batch.num_rows, self.stride)
        self._batches.append(_words_only(batch, columns, rows))
        self._seen += batch.num_rows
        while self.rows > MOST_SAMPLED:
            self.stride *= 2
            place, thinned = 0, []
            for kept in self._batches:
                thinned.append(kept.take(np.arange(place % 2, kept.num_rows, 2)))
                place += kept.num_rows
            self._batches = thinned

    def coded(self, entries: Sequence[Entry]) -> list[Coded]:
        """The categorical columns."""
        coded = []
        for entry in entries:
            kind = entry.settings["type"]
            if kind == "categorical":
                values = tuple(entry.settings["values"])
                places = _parsing.positions(self._column(entry.name), values)
                codes = np.where(places < 0, len(values), places)
                coded.append(Coded(entry.name, values, codes))
            elif kind == "boolean":
                cells = _parsing.booleans(self._column(entry.name))
                codes = np.where(cells.read, cells.values, 2).astype(np.int64)
                coded.append(Coded(entry.name, (False, True), codes))
        return coded

    def dated(self, entries: Sequence[Entry], ways: Mapping[str, Way]) -> list[Dated]:
        """The columns of dates and moments, given how each is written."""
        dated = []
        for entry in entries:
            name, kind = entry.name, entry.settings["type"]
            if kind not in ("date", "datetime"):
                continue
            text, _ = without_nulls(self._column(name))
            cells = _parsing.seconds(ways[name].read(text, kind, name))
            seconds = np.where(cells.read, cells.values, np.nan)
            if not np.isnan(seconds).all():
                dated.append(Dated(name, kind, seconds))
        return dated

    def numbered(self, entries: Sequence[Entry], ways: Mapping[str, Way]) -> list[Numbered]:
        """The columns of numbers, given how each is written."""
        numbered = []
        for entry in entries:
            name, kind = entry.name, entry.settings["type"]
            if kind in ("integer", "number"):
                text, _ = without_nulls(self._column(name))
                cells = _parsing.numbers(ways[name].read(text, kind, name))
                numbered.append(Numbered(name, kind, np.where(cells.read, cells.values, np.nan)))
        return numbered

    def _column(self, name: str) -> pa.Array:
        """The words of a column, in the order of rows."""
        import pyarrow as pa

        batches = [batch.column(name) for batch in self._batches]
        return pa.chunked_array(batches).combine_chunks().cast(pa.string())


def candidates(
    columns: Sequence[Coded],
    dated: Sequence[Dated],
    numbered: Sequence[Numbered] = (),
    *,
    complete: bool,
) -> tuple[Candidate, ...]:
    """The rules that a sample suggests, those about the most values first.

    Args:
        complete: whether the sample is all rows, so that a table holds all there is.
    """
    looked = columns[:MOST_COLUMNS]
    found = list(_determined(looked, complete))
    related = {frozenset((c.rule["determines"]["from"], c.rule["determines"]["to"])) for c in found}
    found += _ordered(dated[:MOST_COLUMNS])
    small = [column for column in looked if 2 <= len(column.values) <= _MOST_NEVER_VALUES]
    for place, first in enumerate(small):
        for second in small[place + 1 :]:
            if frozenset((first.name, second.name)) not in related:
                found += _never(first, second)
    for first in small:
        for other in numbered[:MOST_COLUMNS]:
            found += _beyond(first, other)
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


def _ordered(columns: Sequence[Dated]) -> Iterator[Candidate]:
    """Chains of dates that never decrease, though by chance they would."""
    rng = np.random.default_rng(0)
    later: dict[str, dict[str, int]] = {column.name: {} for column in columns}
    for first, second in permutations(columns, 2):
        if first.kind != second.kind or (first.seconds > second.seconds).any():
            continue
        if np.count_nonzero(first.seconds < second.seconds) < EXPECTED:
            continue
        conflicts = int((first.seconds > rng.permutation(second.seconds)).sum())
        apart = np.nanmedian(first.seconds) < np.nanmin(second.seconds)
        if conflicts >= EXPECTED or apart:
            later[first.name][second.name] = conflicts
    starts = [name for name in later if not any(name in after for after in later.values())]
    for name in starts:
        chain, conflicts = [name], 0
        # The next one is that which most others follow.
        while after := {one: many for one, many in later[chain[-1]].items() if one not in chain}:
            chain.append(max(after, key=lambda one: len(later[one])))
            conflicts += after[chain[-1]]
        if len(chain) > 1:
            rows = f"by chance about {count(conflicts, 'row')} would"
            yield Candidate(
                {"order": chain},
                f"never decreasing, {rows if conflicts >= EXPECTED else 'as by their ranges'}",
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


def _beyond(first: Coded, second: Numbered) -> list[Candidate]:
    """Values that go with one end of a column of numbers only."""
    found = thresholds(first.codes, len(first.values), second.numbers, EXPECTED)
    candidates = []
    for codes, side, limit, rows in found[:_MOST_OF_PAIR]:
        end = int(limit) if second.kind == "integer" else limit
        conditions = {first.name: _some(first, codes), second.name: {side: end}}
        why = f"no row has this, by chance about {count(round(rows), 'row')} would"
        candidates.append(Candidate({"never": conditions}, why))
    return candidates


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


def _words_only(
    batch: pa.RecordBatch, columns: Mapping[str, Seen], rows: Integers
) -> pa.RecordBatch:
    """What may turn out to be categories, dates or numbers, as codes of words; else nothing."""
    import pyarrow as pa

    arrays = {}
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        seen, values = columns[name], flat(array)
        few = seen.values is not None and len(seen.values) <= MOST_VALUES
        moments = pa.types.is_date(values.type) or pa.types.is_timestamp(values.type)
        number = any(seen.of(kind) for kind in ("integer", "number"))
        if (
            moments
            or number
            or (few and (pa.types.is_boolean(values.type) or _parsing.is_text(values.type)))
        ):
            words = _parsing.words(values.take(pa.array(rows))).cast(pa.string())
        else:
            words = pa.nulls(len(rows), pa.string())
        arrays[name] = words.dictionary_encode()
    return pa.record_batch(arrays)
