"""Rows of a model in chunks: memory does not grow with how many are drawn or written."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Event
from typing import IO, TYPE_CHECKING

import numpy as np

from heterofedsyn._arrays import cores, stream
from heterofedsyn.hub.methods.base import Model
from heterofedsyn.schema import EncodedTable, Schema, decode
from heterofedsyn.synthesis.obey import obey
from heterofedsyn.synthesis.stopping import heed, step

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK = 2**18
"""Rows that are drawn together. Each chunk is as near the targets as so many rows can be."""

STEP = 2**14
"""Rows that are written as text in one go; in between Ctrl-C is heard."""

_BLANK = "".join(filter(str.isspace, map(chr, range(2**16)))) + "\u200b\ufeff"
_SIGNS = r"=+\-@" + "\uff1d\uff0b\uff0d\uff20"  # full-width ones too
_FORMULA = rf"\A([{_BLANK}]*[{_SIGNS}]|[\t\r\n])"
"""How text begins that a spreadsheet computes instead of showing it (OWASP, CSV injection)."""

AT_ONCE = 2
"""Chunks drawn at the same time; more would be faster on some machines, and fill any memory."""


def draw(schema: Schema, model: Model, rows: int, seed: int) -> Generator[pa.Table]:
    """So many rows, a chunk at a time; the same seed gives the same, whatever the machine.

    A chunk takes many seconds. Whoever closes the generator does not wait for those under way: they
    end at their next step.
    """
    chunks = enumerate(shares(model, rows))
    first = 1
    if rows <= CHUNK:
        for number, counts in chunks:
            yield _chunk(schema, model, counts, seed, number, first)
        return
    for targets in model.targets:
        _ = targets.estimates  # once, before several threads ask for them
    waiting: deque[Future[pa.Table]] = deque()
    stop = Event()
    pool = ThreadPoolExecutor(min(AT_ONCE, cores()), "drawing", heed, (stop,))
    try:
        for number, counts in chunks:
            waiting.append(pool.submit(_chunk, schema, model, counts, seed, number, first))
            first += sum(counts)
            if len(waiting) > AT_ONCE:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


def shares(model: Model, rows: int) -> Iterator[list[int]]:
    """How many rows of each population every chunk has: all of the first, then of the second, ...

    Chunks are equally large, so that none is so small that chance governs it.
    """
    totals = np.cumsum([0.0, *(targets.total for targets in model.targets)])
    edges = np.rint(totals / totals[-1] * rows).astype(np.int64)
    chunks = -(-rows // CHUNK)
    for number in range(chunks):
        begin, end = rows * number // chunks, rows * (number + 1) // chunks
        yield np.diff(np.clip(edges, begin, end)).tolist()


def _chunk(
    schema: Schema, model: Model, counts: list[int], seed: int, number: int, first: int
) -> pa.Table:
    rng = stream(seed, f"sample {number}" if number else "sample")
    tables = [
        obey(targets, model.synthesizer.synthesize(targets, many, rng), rng)
        for targets, many in zip(model.targets, counts, strict=True)
        if many > 0
    ]
    step()
    return decode(schema, EncodedTable.concatenate(tables), rng, first)


def write(
    tables: Generator[pa.Table],
    *,
    csv: Path | IO[bytes] | None = None,
    parquet: Path | None = None,
    safe_csv: bool = False,
    watch: Callable[[int], None] | None = None,
) -> int:
    """Write rows as they are drawn, a row group for each chunk; how many there were.

    Args:
        safe_csv: put an apostrophe before text that a spreadsheet would take for a formula.
        watch: is told after each chunk how many rows are written.
    """
    rows = 0
    with ExitStack() as stack:
        stack.callback(tables.close)
        writers: list[Callable[[pa.Table], None]] = []
        for table in tables:
            if not rows and csv is not None:
                shown = _defused(table.slice(0, 0)) if safe_csv else table
                writer = stack.enter_context(_csv(csv, shown.schema))
                writers.append(partial(_in_steps, writer, safe=safe_csv))
            if not rows and parquet is not None:
                writers.append(stack.enter_context(_parquet(parquet, table.schema)).write_table)
            for put in writers:
                put(table)
            rows += table.num_rows
            if watch is not None:
                watch(rows)
    return rows


def _in_steps(writer: pa.csv.CSVWriter, table: pa.Table, *, safe: bool) -> None:
    for start in range(0, table.num_rows, STEP):
        part = table.slice(start, STEP)
        writer.write_table(_defused(part) if safe else part)


def _csv(target: Path | IO[bytes], schema: pa.Schema) -> pa.csv.CSVWriter:
    import pyarrow.csv

    return pyarrow.csv.CSVWriter(target, schema)


def _defused(table: pa.Table) -> pa.Table:
    """The same rows with an apostrophe before text, and names, that would open as formulas."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            safe = pc.replace_substring_regex(table.column(place), _FORMULA, r"'\1")
            table = table.set_column(place, field, safe)
    return table.rename_columns([re.sub(_FORMULA, r"'\1", name) for name in table.column_names])


def _parquet(target: Path, schema: pa.Schema) -> pa.parquet.ParquetWriter:
    import pyarrow as pa
    import pyarrow.parquet

    # Only words repeat: a dictionary of drawn numbers is given up half-way, after much work.
    words = [field.name for field in schema if pa.types.is_string(field.type)]
    return pyarrow.parquet.ParquetWriter(target, schema, use_dictionary=words or False)
