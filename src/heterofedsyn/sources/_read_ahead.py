"""Batches read by a thread, so that Ctrl-C and SIGTERM are heard while a database works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

import pyarrow as pa

_PULSE = 0.2
"""Seconds between two looks for a signal: a driver's signal handler wakes no waiting thread."""

_T = TypeVar("_T")


def read_ahead(
    start: Callable[[], pa.RecordBatchReader], stop: Callable[[], None]
) -> Iterator[pa.RecordBatch]:
    """The batches of a query, the next one being read meanwhile.

    Args:
        start: runs the query.
        stop: makes the database give up; called when nobody wants the rest.
    """
    with ThreadPoolExecutor(1) as pool:
        try:
            reader = _result(pool.submit(start))
            coming = pool.submit(next, reader, None)
            while (batch := _result(coming)) is not None:
                coming = pool.submit(next, reader, None)
                yield batch
        except BaseException:
            stop()
            raise


def _result(future: Future[_T]) -> _T:
    while not wait([future], _PULSE).done:
        pass
    return future.result()
