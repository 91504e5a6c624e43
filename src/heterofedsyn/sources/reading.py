"""Reading several sources one after the other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from heterofedsyn.sources.source import Source

if TYPE_CHECKING:
    import pyarrow as pa

Watch: TypeAlias = Callable[[int], None]
"""Hears how many rows were read so far."""


def unwatched(rows: int) -> None:
    """Nobody wants to know."""


def read(
    sources: Iterable[Source], columns: Collection[str], watch: Watch = unwatched
) -> Iterator[pa.RecordBatch]:
    """The named columns of all rows, batch by batch.

    Args:
        columns: names, or the kind of each by name, as `Source.batches` takes them.

    Raises:
        DataError: if a column is missing, or rows cannot be read to their end.
    """
    rows = 0
    for source in sources:
        for batch in source.batches(columns):
            yield batch
            rows += batch.num_rows
            watch(rows)
