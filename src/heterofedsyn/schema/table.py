"""Tables of codes: rows of any source encoded by a schema, and codes written out again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heterofedsyn._arrays import Codes, Integers, frozen
from heterofedsyn.errors import DataError, UsageError, did_you_mean
from heterofedsyn.schema.columns import KeyColumn
from heterofedsyn.schema.domain import Domain
from heterofedsyn.schema.drawing_order import in_order
from heterofedsyn.schema.fit import Fit, FitCount
from heterofedsyn.schema.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

_PART_ROWS = 2**17
"""Rows that are handed on at once, where all of them are known."""


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """One code per attribute and row, a read-only row of codes for each attribute."""

    domain: Domain
    codes: Codes

    def __post_init__(self) -> None:
        frozen(self.codes)

    @classmethod
    def from_codes(cls, domain: Domain, codes: NDArray[Any]) -> EncodedTable:
        """A table from any integer array of attributes by rows, after checking every code."""
        if codes.ndim != 2 or len(codes) != len(domain):
            raise UsageError(
                f"codes have shape {codes.shape} but the domain has {len(domain)} attributes; "
                "pass one row of codes per attribute"
            )
        if not np.issubdtype(codes.dtype, np.integer):
            raise UsageError(f"codes are {codes.dtype}; pass integers")
        for name, size, row in zip(domain.names, domain.sizes, codes, strict=True):
            if row.size and (row.min() < 0 or row.max() >= size):
                raise UsageError(f"attribute {name!r} has codes outside 0 to {size - 1}")
        return cls(domain, codes.astype(code_type(domain), order="C"))

    @classmethod
    def concatenate(cls, tables: Sequence[EncodedTable]) -> EncodedTable:
        """The rows of all tables, one after the other."""
        if not tables:
            raise UsageError("there is no table to concatenate; pass at least one")
        domain = tables[0].domain
        if any(table.domain != domain for table in tables):
            raise UsageError("the tables differ in their domains; encode them by one schema")
        return cls(domain, np.concatenate([table.codes for table in tables], axis=1))

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.codes.shape[1])

    def take(self, indices: NDArray[Any]) -> EncodedTable:
        """The rows at these places, in their order."""
        codes: NDArray[Any] = np.take(self.codes, indices, axis=1)
        return EncodedTable(self.domain, codes)


@dataclass(frozen=True, eq=False)
class Encoded(Fit):
    """An encoded table, and what was left out of it.

    Attributes:
        units: for every kept row the number of its unit, or None without a unit column.
    """

    table: EncodedTable
    units: Integers | None = None


class Part(NamedTuple):
    """Codes of some rows, and the number of each one's unit if there is a unit column."""

    codes: Codes
    units: Integers | None = None


class Encoder:
    """Codes of the rows that fit a schema, batch by batch; with a unit column, a few of each unit.

    Whether a row stays depends on the row and, with a unit column, on its unit's own rows alone:
    of those that fit a hash of unit and codes chooses `max_rows_per_unit`, whatever their order. A
    row without a unit does not fit. Memory grows with the rows that are kept of units, and not at
    all without a unit column.
    """

    def __init__(
        self,
        schema: Schema,
        unit: str | None = None,
        max_rows_per_unit: int = 1,
        declared: int | None = None,
    ) -> None:
        """An encoder that has read nothing.

        Args:
            unit: the column that says whose a row is.
            declared: how many rows there are at most, rounded up, by the word of their owner; it
                steers how often those of units are sorted.
        """
        if max_rows_per_unit < 1:
            raise UsageError(f"max_rows_per_unit is {max_rows_per_unit}; it must be at least 1")
        self.columns = columns_of(schema, unit)
        self._schema = schema
        self._kind = code_type(schema.domain)
        self._unit = unit
        self._most = max_rows_per_unit
        self._declared = declared
        self._count = FitCount()

    @property
    def fit(self) -> Fit:
        """How the rows so far fitted."""
        return self._count.fit

    def encode(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Part]:
        """The rows that are kept; with a unit column, after all batches were read."""
        from heterofedsyn.schema import _units

        if self._unit is None:
            for batch in batches:
                yield Part(self.fitting(batch)[0])
            return
        none = np.empty((len(self._schema.domain), 0), self._kind)
        people = _units.People(self._most, none, self._declared)
        fitted = 0
        for batch in batches:
            codes, identities = self.fitting(batch)
            assert identities is not None
            people.admit(codes, identities)
            fitted += codes.shape[1]
        numbers, codes = people.kept()
        self._count.rows_over += fitted - len(numbers)
        for start in range(0, len(numbers), _PART_ROWS):
            rows = slice(start, start + _PART_ROWS)
            yield Part(codes[:, rows], numbers[rows])

    def fitting(self, batch: pa.RecordBatch) -> tuple[Codes, pa.DictionaryArray | None]:
        """Codes of the rows of one batch that fit, and whose each is, however many a unit has."""
        from heterofedsyn.schema import _units

        readings = {
            column.name: column.read(_column(batch, column.name))
            for column in self._schema.columns
            if not isinstance(column, KeyColumn)
        }
        codes: Codes = np.empty((len(self._schema.domain), batch.num_rows), self._kind)
        for place, name in enumerate(self._schema.domain.names):
            codes[place] = readings[name].codes
        fits = np.logical_and.reduce([reading.fits for reading in readings.values()])
        identities, known = None, None
        if self._unit is not None:
            identities, known = _units.identify(_column(batch, self._unit), self._unit)
            fits = fits & known
        broken = self._schema.rulebook.contradicted(readings, fits)
        for mask in broken.values():
            fits = fits & ~mask
        self._count.add(self._schema, readings, fits, broken, self._unit, known)
        # Also where all fit: a hub that waits for the rows to be read must not see whether they do.
        codes = np.compress(fits, codes, axis=1)
        return codes, None if identities is None else identities.filter(fits)


def encode(
    schema: Schema,
    batches: Iterable[pa.RecordBatch],
    unit: str | None = None,
    max_rows_per_unit: int = 1,
) -> Encoded:
    """All rows that an `Encoder` keeps, as one table in memory."""
    encoder = Encoder(schema, unit, max_rows_per_unit)
    parts = list(encoder.encode(batches))
    none = np.empty((len(schema.domain), 0), code_type(schema.domain))
    codes = np.concatenate([none, *(part.codes for part in parts)], axis=1)
    units = [part.units for part in parts if part.units is not None]
    return Encoded(
        table=EncodedTable(schema.domain, codes),
        units=None if unit is None else frozen(np.concatenate([np.empty(0, np.int64), *units])),
        **vars(encoder.fit),
    )


def decode(
    schema: Schema, table: EncodedTable, rng: np.random.Generator, first: int = 1
) -> pa.Table:
    """A table with the schema's columns, order and types; each code becomes one of its values.

    Args:
        first: the number of the first row, from which keys are invented.
    """
    import pyarrow as pa

    if table.domain != schema.domain:
        raise UsageError("the table was not encoded by this schema; pass the schema it came from")
    codes = dict(zip(schema.domain.names, table.codes, strict=True))
    for rule, follows in schema.rulebook.derived:
        codes[rule.target] = follows[codes[rule.source]]
    drawn = in_order(schema, codes, rng)
    columns = {}
    for column in schema.columns:
        if isinstance(column, KeyColumn):
            columns[column.name] = column.invent(first, table.rows)
        elif column.name in drawn:
            columns[column.name] = drawn[column.name]
        else:
            columns[column.name] = column.decode(codes[column.name], rng)
    return pa.table(columns)


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    names = batch.schema.names
    if names.count(name) != 1:
        problem = f"{names.count(name)} columns named" if name in names else "no column"
        hint = did_you_mean(name, names) if name not in names else "rename all but one"
        raise DataError(f"the table has {problem} {name!r} among its {len(names)}; {hint}")
    return batch.column(name)


def columns_of(schema: Schema, unit: str | None) -> dict[str, str]:
    """What is read of a table, and as what kind: columns of its schema and, if any, of its units.

    Keys are not, and a column that is also the unit is read as the schema says.
    """
    kinds = {c.name: c.kind for c in schema.columns if not isinstance(c, KeyColumn)}
    return {**kinds, unit: kinds.get(unit, "unit")} if unit else kinds


def code_type(domain: Domain) -> np.dtype[Any]:
    """The smallest type that holds every code."""
    largest = max(domain.sizes, default=1)
    return np.dtype(np.uint8 if largest <= 2**8 else np.uint16 if largest <= 2**16 else np.uint32)
