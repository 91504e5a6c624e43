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

COPY = "codes binary, mark long, fit binary"
"""An encoded copy: blocks of codes, and how the rows of each partition fitted, as integers.

The mark of a block is the sum of its rows' ranks: another one, if one of them is another row.
"""

RECORDS = "person string, rank long, codes binary, fit binary"
"""Codes of rows one by one, on their way to the worker that sees all rows of their person."""

COUNTS = "slot int, counts binary"
"""Counts in slots of so many cells; the first of all cells is the mark of what was counted."""

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

    def fit(self, encoder: Encoder, mark: int, lost: int = 0) -> bytes:
        """How the rows of a partition fitted, when all of them are encoded."""
        if self.read is not None:
            self.read.add(encoder.fit.rows_read)
        return Part(encoder.fit, mark, lost).packed()


@dataclass(frozen=True)
class Part:
    """What is known of a partition's rows.

    Attributes:
        mark: that of the codes which are kept.
        lost: the mark of rows sent to other workers, less that of rows which came from them.
    """

    fit: Fit
    mark: int = 0
    lost: int = 0

    def packed(self) -> bytes:
        """What `total_of` adds up; rows of a partition have no numbers that mean anything."""
        return msgspec.msgpack.encode(replace(self, fit=replace(self.fit, places={})))


@dataclass(frozen=True)
class Encode:
    """Rows to blocks of codes."""

    task: Task

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        encoder = self.task.encoder()
        blocks = _Blocks()
        for batch in _larger(batches, encoder.columns):
            codes, _ = encoder.fitting(batch)
            yield from blocks.add(codes, _units.ranks(codes, np.zeros(codes.shape[1], np.int64)))
        yield from blocks.rest()
        yield _batch(fit=self.task.fit(encoder, blocks.mark))


@dataclass(frozen=True)
class EncodeRecords:
    """Rows to codes, one by one and with the person of each."""

    task: Task

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        encoder = self.task.encoder()
        sent = 0
        for batch in _larger(batches, encoder.columns):
            codes, people = encoder.fitting(batch)
            assert people is not None
            salts = _units.salts(people.dictionary.to_pylist())[people.indices.to_numpy()]
            ranks = _units.ranks(codes, salts)
            sent = _in_64(sent + int(ranks.sum()))
            yield pa.record_batch(
                {
                    "person": people.dictionary_decode().cast(pa.string()),
                    "rank": ranks,
                    "codes": _values(np.ascontiguousarray(codes.T)),
                    "fit": pa.nulls(codes.shape[1], pa.binary()),
                }
            )
        yield pa.record_batch(
            {
                "person": pa.nulls(1, pa.string()),
                "rank": pa.nulls(1, pa.int64()),
                "codes": pa.nulls(1, pa.binary()),
                "fit": pa.array([self.task.fit(encoder, mark=0, lost=sent)], pa.binary()),
            }
        )


@dataclass(frozen=True)
class Limit:
    """Of rows that are numbered within each person, the first few, as blocks of codes."""

    domain: Domain
    most: int

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        blocks, over, came = _Blocks(), 0, 0
        for batch in batches:
            for earlier in batch.column("fit").drop_null():
                yield _batch(fit=earlier.as_py())
            records = batch.filter(batch.column("codes").is_valid())
            ranks = records.column("rank").to_numpy()
            came += int(ranks.sum())
            few = records.column("number").to_numpy() <= self.most
            over += int(np.count_nonzero(~few))
            kept = records.column("codes").filter(pa.array(few))
            rows = np.frombuffer(b"".join(kept.to_pylist()), code_type(self.domain))
            yield from blocks.add(rows.reshape(-1, len(self.domain)).T, ranks[few])
        yield from blocks.rest()
        own = Part(Fit(rows_read=0, rows_over=over), blocks.mark, _in_64(-came))
        yield _batch(fit=own.packed())


@dataclass(frozen=True)
class Count:
    """Blocks of codes to counts of views."""

    domain: Domain
    views: Sequence[View]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        marks: list[int] = []
        # One thread: Spark gives each core a worker of its own.
        counts = count_views(self._tables(batches, marks), self.views, self.domain, 1)
        mark, cells = np.array([_in_64(sum(marks))]), np.concatenate(counts)
        for slot, begin in enumerate(range(0, cells.size, SLOT_CELLS)):
            # Slots are fetched one by one, and each may be counted again: all say of which rows.
            yield _slot(slot, np.concatenate([mark, cells[begin : begin + SLOT_CELLS]]))

    def _tables(self, batches: Batches, marks: list[int]) -> Iterator[Block]:
        kind = code_type(self.domain)
        size = 2 * _BLOCK_BYTES // (len(self.domain) * kind.itemsize)
        for batch in batches:
            marks += batch.column("mark").to_pylist()
            for block in batch.column("codes"):
                codes = np.frombuffer(block.as_buffer(), kind).reshape(len(self.domain), -1)
                rows = codes.shape[1]
                # Work follows the room of a block, not its rows: see `marginals.counting`.
                yield Block(self.domain, codes, rows, max(size, rounded_up(rows)))


def add_up(slots: pa.Table) -> pa.Table:
    """The counts of one slot from all workers, added up."""
    total: Integers = np.sum(list(_vectors(slots.column("counts"))), axis=0)
    return pa.Table.from_batches([_slot(slots.column("slot")[0].as_py(), total)])


def total_of(parts: Iterable[bytes]) -> Part:
    """What is known of the rows of all partitions."""
    total = Part(Fit(rows_read=0))
    for packed in parts:
        part = msgspec.msgpack.decode(packed, type=Part)
        total = Part(
            total.fit.plus(part.fit), _in_64(total.mark + part.mark), _in_64(total.lost + part.lost)
        )
    return total


def _in_64(number: int) -> int:
    """What is left of a sum of marks in 64 bits, as where arrays are added up."""
    return (number + 2**63) % 2**64 - 2**63


@dataclass(eq=False)
class _Blocks:
    """Gathers codes until a block of them is worth it."""

    waiting: list[Codes] = field(default_factory=list)
    part: int = 0
    """The mark of those that wait."""
    mark: int = 0

    def add(self, codes: Codes, ranks: Integers) -> Iterator[pa.RecordBatch]:
        self.waiting.append(codes)
        self.part = _in_64(self.part + int(ranks.sum()))
        if sum(part.nbytes for part in self.waiting) >= _BLOCK_BYTES:
            yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        waiting, self.waiting = self.waiting, []
        mark, self.part = self.part, 0
        self.mark = _in_64(self.mark + mark)
        if any(part.size for part in waiting):
            yield _batch(np.concatenate(waiting, axis=1), mark)


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


def _batch(
    codes: Codes | None = None, mark: int | None = None, fit: bytes | None = None
) -> pa.RecordBatch:
    """One row of an encoded copy."""
    return pa.record_batch(
        {
            "codes": pa.array([None if codes is None else codes.tobytes()], pa.binary()),
            "mark": pa.array([mark], pa.int64()),
            "fit": pa.array([fit], pa.binary()),
        }
    )


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
