"""The synthetic rows that lie in a release folder, which anybody may have put there.

Only the file itself is read, never one that a link leads to, and only if the model vouches for it.
A few bytes of Parquet can stand for billions of cells, so the footer is looked at first, and what
its own size does not justify is refused.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from heterofedsyn._files import digest_of, open_inside
from heterofedsyn.errors import ReleaseError
from heterofedsyn.hub.release import MOST_RELEASED, Release
from heterofedsyn.hub.release._footer import Footer, NoFooter, read_footer
from heterofedsyn.schema import EncodedTable, Schema, decode

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

ROWS = "synthetic.parquet"

MOST_BYTES = 2**40
"""Of one file; what it stands for is bounded by its size."""

CELLS_PER_BYTE = 64
"""Eight values of two fit into a byte, and they may be packed once more."""

FREE_CELLS = 2**25
"""However small the file: rows that are all alike take next to no room."""

BATCH_ROWS = 2**16
"""Rows that are in memory at once."""

_PACKED = frozenset({0, 1})  # not at all, Snappy
_CODED = frozenset({0, 2, 3, 4, 8})  # plain, dictionaries of two versions, runs, bits
"""What releases are written with; others can unfold to far more than their size."""

_MOST_UNFOLDED = 32
"""Bytes that one byte of either can stand for."""

_OTHER_COLUMNS = (
    "its columns or their types are not those of the release's schema; fetch the release again"
)
_DAMAGED = "the file is damaged; fetch the release again"


@dataclass(frozen=True, eq=False)
class SyntheticRows:
    """An open file of synthetic rows that is fit to be read.

    Attributes:
        vouched: whether the model names this very file; releases of old versions name none.
        right: whether columns and types are those that rows are drawn in; no others are read, for
            a long value that repeats would be held once for each row.
    """

    file: ParquetFile
    vouched: bool
    right: bool

    @property
    def number(self) -> int:
        """How many rows there are."""
        return int(self.file.metadata.num_rows)

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types; text may come as dictionaries."""
        return self.file.schema_arrow

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, some at a time.

        Raises:
            ReleaseError: if the columns are not those of the schema, in its types.
        """
        if not self.right:
            raise ReleaseError(f"{ROWS}: {_OTHER_COLUMNS}")
        yield from self.file.iter_batches(BATCH_ROWS)

    def table(self) -> pa.Table:
        """All rows; text as dictionaries, so that a long one that repeats is held once."""
        import pyarrow as pa

        return pa.Table.from_batches(self.batches(), self.schema).unify_dictionaries()


@contextmanager
def synthetic_rows(release: Release, folder: Path) -> Iterator[SyntheticRows | None]:
    """The rows of a release folder, or None if it holds none.

    Raises:
        ReleaseError: if the file is a link, not the one that the model vouches for, stands for more
            than its size justifies, or is damaged, also when that is found while it is read.
    """
    import pyarrow as pa

    path = folder / ROWS
    try:
        file = open_inside(folder, ROWS, MOST_BYTES)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINVAL):  # nor is a pipe, say, a file of rows
            yield None
            return
        reason = error.strerror or "cannot be read"
        raise ReleaseError(f"{path}: {reason}; fetch the release again") from None
    with file:
        digest = release.files.get(ROWS)
        if digest is not None and digest != digest_of(file):
            raise ReleaseError(
                f"{path}: this is not the file that the release was made with; fetch the release "
                "again"
            )
        try:
            _check_footer(path, read_footer(file), os.fstat(file.fileno()).st_size)
            with _parquet(file) as rows:
                right = _is_drawn(release.schema, rows.schema_arrow)
                yield SyntheticRows(rows, vouched=digest is not None, right=right)
        except (pa.ArrowException, OSError, NoFooter, UnicodeDecodeError):
            raise ReleaseError(f"{path}: {_DAMAGED}") from None


def released_table(release: Release, folder: Path) -> pa.Table:
    """All synthetic rows of a release folder.

    Raises:
        ReleaseError: as `synthetic_rows`, or if there are none.
    """
    with synthetic_rows(release, folder) as rows:
        if rows is None:
            raise ReleaseError(f"{folder} holds no {ROWS} to compare; fetch the release again")
        return rows.table()


def _parquet(file: BufferedReader) -> ParquetFile:
    """The file with its text as dictionaries, as far as it has text."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile, read_schema

    kinds = {field.name: field.type for field in read_schema(file)}
    file.seek(0)
    texts = [name for name, kind in kinds.items() if pa.types.is_string(kind)]
    return ParquetFile(file, read_dictionary=texts, pre_buffer=False, buffer_size=2**20)


def _is_drawn(schema: Schema, stored: pa.Schema) -> bool:
    """Whether a file has the columns that `decode` gives, with text as dictionaries."""
    import pyarrow as pa

    none = EncodedTable(schema.domain, np.zeros((len(schema.domain), 0), np.uint8))
    drawn = decode(schema, none, np.random.default_rng(0)).schema
    return drawn.names == stored.names and all(
        pa.types.is_dictionary(there) and there.value_type == wanted
        if pa.types.is_string(wanted)
        else there == wanted or (there, wanted) == (pa.timestamp("ms"), pa.timestamp("s"))
        for there, wanted in zip(stored.types, drawn.types, strict=True)
    )


def _check_footer(path: Path, footer: Footer, size: int) -> None:
    """Refuse what unfolds to more than a file of this size can hold."""
    chunks = [chunk for _, own in footer.groups for chunk in own]
    columns = max((len(own) for _, own in footer.groups), default=0)
    if footer.rows > MOST_RELEASED or footer.rows * columns > FREE_CELLS + CELLS_PER_BYTE * size:
        raise ReleaseError(
            f"{path}: {footer.rows:,} rows of {columns:,} columns are more than {size:,} bytes can "
            "be believed to hold; fetch the release again"
        )
    if any(
        chunk.elsewhere or chunk.codec not in _PACKED or not _CODED.issuperset(chunk.encodings)
        for chunk in chunks
    ):
        raise ReleaseError(f"{path}: releases are not written like this; fetch the release again")
    if (
        footer.rows != sum(rows for rows, _ in footer.groups)
        or any(chunk.values != rows for rows, own in footer.groups for chunk in own)
        or sum(chunk.unfolded for chunk in chunks) > _MOST_UNFOLDED * size
    ):
        raise ReleaseError(f"{path}: {_DAMAGED}")
