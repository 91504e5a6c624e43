"""What Spark's workers do: rows become codes, codes become counts; only integers leave them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol
from uuid import uuid4

import msgspec
import numpy as np
import pyarrow as pa

from heterofedsyn._arrays import Codes, Integers
from heterofedsyn._version import __version__
from heterofedsyn.errors import DataError
from heterofedsyn.marginals.counting import Block, rounded_up
from heterofedsyn.marginals.counts import View, count_views
from heterofedsyn.schema import Domain, Encoder, Fit, Schema, _units
from heterofedsyn.schema.table import code_type
from heterofedsyn.sources.source import BATCH_ROWS

COPY = "codes binary, fit binary"
"""An encoded copy: blocks of codes, and how the rows of each partition fitted, as integers."""

RECORDS = f"person string, rank long, {COPY}"
"""Codes of rows one by one, on their way to the worker that sees all rows of their person."""

COUNTS = "slot int, counts binary"
"""Counts in slots of so many cells."""

SLOT_CELLS = 2**17

_BLOCK_BYTES = 2**22

Batches = Iterable[pa.RecordBatch]


class Adder(Protocol):
    """A number that workers add to when they are done; only the process that asks can see it."""

    def add(self, term: int, /) -> None:
        """Adds to the number."""


@dataclass(frozen=True)
class Task:
    """What every worker is told: the public schema and whose rows to tell apart, no more."""

    schema: str
    unit: str | None = None
    read: Adder | None = None
    version: str = __version__
    name: str = field(default_factory=lambda: uuid4().hex)
    """Tells the task from any other: Spark keeps one copy for tasks that are equal."""

    def encoder(self) -> Encoder:
        """An encoder by the schema.

        Raises:
            DataError: if the worker runs another version than the one that asks.
        """
        if self.version != __version__:
            raise DataError(
                f"the workers have heterofedsyn {__version__}, this is {self.version}; "
                "install the same version in the cluster's Python environment"
            )
        return Encoder(Schema.from_toml(self.schema), self.unit)

    def fit(self, encoder: Encoder) -> pa.RecordBatch:
        """How the rows of a partition fitted, when all of them are encoded."""
        if self.read is not None:
            self.read.add(encoder.fit.rows_read)
        return _batch(fit=_packed(encoder.fit))


@dataclass(frozen=True)
class Encode:
    """Rows to blocks of codes."""

    task: Task

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        encoder = self.task.encoder()
        blocks = _Blocks()
        for batch in _larger(batches, encoder.columns):
            yield from blocks.add(encoder.fitting(batch)[0])
        yield from blocks.rest()
        yield self.task.fit(encoder)


@dataclass(frozen=True)
class EncodeRecords:
    """Rows to codes, one by one and with the person of each."""

    task: Task

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        encoder = self.task.encoder()
        for batch in _larger(batches, encoder.columns):
            codes, people = encoder.fitting(batch)
            assert people is not None
            salts = _units.salts(people.dictionary.to_pylist())[people.indices.to_numpy()]
            yield pa.record_batch(
                {
                    "person": people.dictionary_decode().cast(pa.string()),
                    "rank": _units.ranks(codes, salts),
                    "codes": _values(np.ascontiguousarray(codes.T)),
                    "fit": pa.nulls(codes.shape[1], pa.binary()),
                }
            )
        fit = self.task.fit(encoder)
        yield pa.record_batch(
            [pa.nulls(1, pa.string()), pa.nulls(1, pa.int64()), *fit.columns],
            ["person", "rank", *fit.schema.names],
        )


@dataclass(frozen=True)
class Limit:
    """Of rows that are numbered within each person, the first few, as blocks of codes."""

    domain: Domain
    most: int

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        blocks, over = _Blocks(), 0
        for batch in batches:
            for earlier in batch.column("fit").drop_null():
                yield _batch(fit=earlier.as_py())
            codes = batch.column("codes").drop_null()
            numbers = batch.column("number").filter(batch.column("codes").is_valid()).to_numpy()
            kept = codes.filter(pa.array(numbers <= self.most))
            over += len(codes) - len(kept)
            rows = np.frombuffer(b"".join(kept.to_pylist()), code_type(self.domain))
            yield from blocks.add(rows.reshape(-1, len(self.domain)).T)
        yield from blocks.rest()
        yield _batch(fit=_packed(Fit(rows_read=0, rows_over=over)))


@dataclass(frozen=True)
class Count:
    """Blocks of codes to counts of views."""

    domain: Domain
    views: Sequence[View]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        # One thread: Spark gives each core a worker of its own.
        cells = np.concatenate(count_views(self._tables(batches), self.views, self.domain, 1))
        for slot, begin in enumerate(range(0, cells.size, SLOT_CELLS)):
            yield _slot(slot, cells[begin : begin + SLOT_CELLS])

    def _tables(self, batches: Batches) -> Iterator[Block]:
        kind = code_type(self.domain)
        size = 2 * _BLOCK_BYTES // (len(self.domain) * kind.itemsize)
        for batch in batches:
            for block in batch.column("codes"):
                codes = np.frombuffer(block.as_buffer(), kind).reshape(len(self.domain), -1)
                rows = codes.shape[1]
                # Work follows the room of a block, not its rows: see `marginals.counting`.
                yield Block(self.domain, codes, rows, max(size, rounded_up(rows)))


def add_up(slots: pa.Table) -> pa.Table:
    """The counts of one slot from all workers, added up."""
    total: Integers = np.sum(list(_vectors(slots.column("counts"))), axis=0)
    return pa.Table.from_batches([_slot(slots.column("slot")[0].as_py(), total)])


def fit_of(parts: Iterable[bytes]) -> Fit:
    """How the rows of all partitions fitted."""
    total = Fit(rows_read=0)
    for part in parts:
        total = total.plus(msgspec.msgpack.decode(part, type=Fit))
    return total


def _packed(fit: Fit) -> bytes:
    """What `fit_of` adds up; rows of a partition have no numbers that mean anything."""
    return msgspec.msgpack.encode(replace(fit, places={}))


@dataclass(eq=False)
class _Blocks:
    """Gathers codes until a block of them is worth it."""

    waiting: list[Codes] = field(default_factory=list)

    def add(self, codes: Codes) -> Iterator[pa.RecordBatch]:
        self.waiting.append(codes)
        if sum(part.nbytes for part in self.waiting) >= _BLOCK_BYTES:
            yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        waiting, self.waiting = self.waiting, []
        if any(part.size for part in waiting):
            yield _batch(codes=np.concatenate(waiting, axis=1))


def _larger(batches: Batches, columns: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """Batches put together: Spark's are too small for the work on each to be worth it."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch.rename_columns(list(columns)))
        if sum(part.num_rows for part in waiting) >= BATCH_ROWS:
            yield from pa.Table.from_batches(waiting).combine_chunks().to_batches(BATCH_ROWS)
            waiting = []
    if waiting:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches(BATCH_ROWS)


def _batch(codes: Codes | None = None, fit: bytes | None = None) -> pa.RecordBatch:
    """One row of an encoded copy."""
    both = {"codes": None if codes is None else codes.tobytes(), "fit": fit}
    return pa.record_batch({name: pa.array([own], pa.binary()) for name, own in both.items()})


def _slot(slot: int, counts: Integers) -> pa.RecordBatch:
    return pa.record_batch(
        {"slot": pa.array([slot], pa.int32()), "counts": pa.array([counts.tobytes()], pa.binary())}
    )


def _values(rows: Codes) -> pa.Array:
    """Each row of an array as one value."""
    width = rows.shape[1] * rows.itemsize
    offsets = np.arange(len(rows) + 1, dtype=np.int32) * np.int32(width)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(rows)]
    return pa.Array.from_buffers(pa.binary(), len(rows), buffers)


def _vectors(column: pa.Array | pa.ChunkedArray) -> Iterator[Integers]:
    for value in column.drop_null():
        yield np.frombuffer(value.as_buffer(), np.int64)
