"""Rows as they arrive: kept as codes on disk, or as counts of all pairs, whichever is smaller."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import IO, Any

import numpy as np

from heterofedsyn._arrays import Codes
from heterofedsyn.errors import DataError
from heterofedsyn.marginals.counting import PairTables
from heterofedsyn.marginals.counts import Counts, PairCounts, TableCounts
from heterofedsyn.schema import Domain, EncodedTable
from heterofedsyn.schema.table import code_type

BLOCK_BYTES = 2**24
"""Codes that are gathered before they are counted or written, so that each pass is worth it."""

MOST_CELLS = 2**26
"""Of all pairs together, kept as counts instead of codes: half a gigabyte."""


def most_codes(domain: Domain) -> float:
    """Bytes of codes above which the counts of all pairs are kept instead."""
    cells = sum(domain.cells(pair) for pair in domain.pairs())
    return 8 * cells if 0 < cells <= MOST_CELLS else math.inf


class Tally:
    """Takes rows block by block and gives their exact counts; memory does not grow with rows.

    Used in a `with` statement; the counts outlive it.

    Codes go to a file without a name, which no other process can open by a path and which is gone
    when this process is, whatever ends it. Once the codes would be larger than the counts of all
    pairs, they are counted, and from then on only counts are kept.
    """

    def __init__(self, domain: Domain, folder: Path | None = None) -> None:
        """An empty tally.

        Args:
            folder: of the file; the system's folder for temporary files unless given.
        """
        self._domain = domain
        self._rows = 0
        self._waiting: list[Codes] = []
        self._waiting_bytes = 0
        self._copy = _Copy(domain, folder)
        self._tables: PairTables | None = None
        self._most_copied = most_codes(domain)

    def __enter__(self) -> Tally:
        return self

    def __exit__(self, *_: object) -> None:
        self._copy.close()

    def add(self, codes: Codes) -> None:
        """More rows: one row of codes per attribute.

        Raises:
            DataError: if there is no room on the disk.
        """
        self._rows += codes.shape[1]
        self._waiting.append(codes)
        self._waiting_bytes += codes.nbytes
        if self._waiting_bytes >= BLOCK_BYTES:
            self._settle()

    def counts(self) -> Counts:
        """The exact marginals of all rows; no more can be added."""
        if self._tables is None:
            return TableCounts(*self._copy.tables(), self._take())
        self._tables.add(self._take())
        return PairCounts(self._domain, self._rows, self._tables.close())

    def _settle(self) -> None:
        """Count or write what waits."""
        table = self._take()
        size = self._copy.size + table.codes.nbytes
        if self._tables is None and size > self._most_copied:
            self._tables = PairTables(self._domain)
            for earlier in self._copy.tables():
                self._tables.add(earlier)
            self._copy.close()
        if self._tables is None:
            self._copy.write(table)
        else:
            self._tables.add(table)

    def _take(self) -> EncodedTable:
        waiting = self._waiting or [np.empty((len(self._domain), 0), code_type(self._domain))]
        self._waiting, self._waiting_bytes = [], 0
        return EncodedTable(self._domain, np.concatenate(waiting, axis=1))


class _Copy:
    """Blocks of codes in a file that has no name, made when it is first needed."""

    def __init__(self, domain: Domain, folder: Path | None) -> None:
        self.size = 0
        self._domain = domain
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._blocks: list[tuple[int, np.dtype[Any], tuple[int, ...]]] = []

    def write(self, table: EncodedTable) -> None:
        codes = table.codes
        try:
            if self._file is None:
                # Mode 0600, and unlinked at once where the system cannot make it without a name.
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
            self._file.write(np.ascontiguousarray(codes).data)
            self._file.flush()
        except OSError as error:
            place = self._folder or tempfile.gettempdir()
            raise DataError(
                f"cannot keep the encoded rows in {place}: {error.strerror}; make room there, or "
                "name another folder in TMPDIR"
            ) from None
        self._blocks.append((self.size, codes.dtype, codes.shape))
        self.size += codes.nbytes

    def tables(self) -> list[EncodedTable]:
        """The blocks, mapped into memory; they outlive the file."""
        if self._file is None:
            return []
        whole = np.memmap(self._file, mode="r", dtype=np.uint8)
        return [
            EncodedTable(self._domain, np.ndarray(shape, kind, whole, offset))
            for offset, kind, shape in self._blocks
        ]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
