"""Rows as they arrive: kept as codes on disk, or as counts of all pairs, whichever is smaller.

Where three columns may be asked for together, they are kept as codes, however many there are.

Which it is, and in how many pieces, follows from a size that is not the number of rows: what is
declared of it, or a first guess, doubled until all rows fit. See `marginals.counting` for why.
"""

from __future__ import annotations

import math
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from heterofedsyn._arrays import Codes, frozen
from heterofedsyn.errors import DataError
from heterofedsyn.marginals.counting import Block, PairTables, rounded_up
from heterofedsyn.marginals.counts import PAIRS, Counts, PairCounts, TableCounts
from heterofedsyn.schema import Domain
from heterofedsyn.schema.table import code_type

BLOCK_BYTES = 2**24
"""Codes that are gathered before they are counted, so that each pass is worth it; as many may stay
in memory."""

MOST_CELLS = 2**26
"""Of all pairs together, kept as counts instead of codes: half a gigabyte."""


def most_codes(domain: Domain, together: int = PAIRS) -> float:
    """Bytes of codes above which the counts of all pairs are kept instead.

    Args:
        together: how many columns may be asked for at once; three can be counted from codes alone.
    """
    if together > PAIRS:
        return math.inf
    cells = sum(domain.cells(pair) for pair in domain.pairs())
    return 8 * cells if 0 < cells <= MOST_CELLS else math.inf


class Tally:
    """Takes rows block by block and gives their exact counts; memory does not grow with rows.

    Used in a `with` statement; the counts outlive it.

    Codes go to a file without a name, which no other process can open by a path and which is gone
    when this process is, whatever ends it. If the codes of as many rows as are expected would be
    larger than the counts of all pairs, rows are counted as they come, and only counts are kept.
    """

    def __init__(
        self,
        domain: Domain,
        folder: Path | None = None,
        rows: int | None = None,
        together: int = PAIRS,
    ) -> None:
        """An empty tally.

        Args:
            folder: of the file; the system's folder for temporary files unless given.
            rows: how many rows there are at most, rounded up, by the word of their owner. More
                are counted as well.
            together: how many columns may be asked for at once. For three, all codes are kept.
        """
        self._domain = domain
        self._row_bytes = len(domain) * code_type(domain).itemsize
        self._block_rows = max(1, BLOCK_BYTES // max(1, self._row_bytes))
        self._declared = rows is not None
        self._first = self._block_rows if rows is None else max(1, rows)
        self._most_copied = max(most_codes(domain, together), BLOCK_BYTES)
        self._rows = self._size = 0
        self._copy = _Copy(domain, folder)
        self._counted: _Counted | None = None
        self._grow()

    def __enter__(self) -> Tally:
        return self

    def __exit__(self, *_: object) -> None:
        self._copy.close()

    def add(self, codes: Codes) -> None:
        """More rows: one row of codes per attribute.

        Raises:
            DataError: if there is no room on the disk.
        """
        while many := codes.shape[1]:
            if self._rows == self._size:
                self._grow()
            many = min(many, self._size - self._rows)
            (self._copy.write if self._counted is None else self._counted.add)(codes[:, :many])
            self._rows += many
            codes = codes[:, many:]

    def counts(self) -> Counts:
        """The exact marginals of all rows; no more can be added."""
        if self._counted is None:
            return TableCounts(*self._copy.tables(exact=not self._declared))
        tables = self._counted.close(self._size)
        return PairCounts(self._domain, self._rows, tables.close(), self._size)

    def _grow(self) -> None:
        """Room for as many rows as are expected, or else for as many again."""
        more = self._size or self._first
        self._size += more
        if self._counted is None and self._size * self._row_bytes > self._most_copied:
            self._counted = _Counted(self._domain, self._block_rows)
            for earlier in self._copy.tables():
                self._counted.tables.add(earlier)
            self._copy.close()
        if self._counted is None:
            self._copy.extend(more)


class _Counted:
    """Rows that are counted once there are enough of them, in a buffer of fixed size."""

    def __init__(self, domain: Domain, rows: int) -> None:
        self.tables = PairTables(domain)
        self._domain = domain
        self._room = rows
        self._buffer: Codes = np.empty((len(domain), rows), code_type(domain))
        self._filled = self._passes = 0

    def add(self, codes: Codes) -> None:
        while many := min(codes.shape[1], self._room - self._filled):
            self._buffer[:, self._filled : self._filled + many] = codes[:, :many]
            self._filled += many
            codes = codes[:, many:]
            if self._filled == self._room:
                self._count()

    def close(self, size: int) -> PairTables:
        """The tables of all rows, after as many passes as this many rows would take at most."""
        while self._passes <= size // self._room:
            self._count()
        return self.tables

    def _count(self) -> None:
        codes = frozen(self._buffer.view())
        self.tables.add(Block(self._domain, codes, self._filled, 2 * self._room))
        self._filled = 0
        self._passes += 1


@dataclass
class _Piece:
    """Room for the codes of so many rows: in memory, or from a place in the file on."""

    room: int
    memory: Codes | None
    offset: int = 0
    rows: int = 0


class _Copy:
    """Codes, the first few in memory and the rest in a file that has no name."""

    def __init__(self, domain: Domain, folder: Path | None) -> None:
        self._domain = domain
        self._kind = code_type(domain)
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._length = 0
        self._pieces: list[_Piece] = []

    def extend(self, rows: int) -> None:
        """Room for more rows; what is never written takes neither memory nor disk."""
        length = len(self._domain) * rows * self._kind.itemsize
        if not self._pieces and length <= BLOCK_BYTES:
            memory: Codes = np.empty((len(self._domain), rows), self._kind)
            self._pieces.append(_Piece(rows, memory))
            return
        self._pieces.append(_Piece(rows, None, self._length))
        self._length += length

    def write(self, codes: Codes) -> None:
        """More rows, into the last piece."""
        piece = self._pieces[-1]
        start, piece.rows = piece.rows, piece.rows + codes.shape[1]
        if piece.memory is not None:
            piece.memory[:, start : piece.rows] = codes
            return
        try:
            if self._file is None:
                # Mode 0600, and unlinked at once where the system cannot make it without a name.
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
            for place, own in enumerate(codes):
                before = (place * piece.room + start) * self._kind.itemsize
                self._file.seek(piece.offset + before)
                self._file.write(np.ascontiguousarray(own).data)
            self._file.flush()
        except OSError as error:
            folder = self._folder or tempfile.gettempdir()
            raise DataError(
                f"cannot keep the encoded rows in {folder}: {error.strerror}; make room there, or "
                "name another folder in TMPDIR"
            ) from None

    def tables(self, *, exact: bool = False) -> list[Block]:
        """The pieces, mapped into memory; they outlive the file.

        Args:
            exact: whether work on them may follow their rows, rounded up, instead of their room.
        """
        whole = None
        if self._file is not None:
            os.ftruncate(self._file.fileno(), self._length)
            whole = np.memmap(self._file, mode="r", dtype=np.uint8)
        return [self._block(piece, whole, exact) for piece in self._pieces]

    def _block(self, piece: _Piece, whole: NDArray[np.uint8] | None, exact: bool) -> Block:
        shape = len(self._domain), piece.room
        codes = piece.memory
        if codes is None:
            codes = np.ndarray(shape, self._kind, whole, piece.offset)
        size = min(piece.room, rounded_up(piece.rows)) if exact else piece.room
        return Block(self._domain, frozen(codes), piece.rows, size)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
