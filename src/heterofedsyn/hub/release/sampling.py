"""Rows of a model in chunks: memory does not grow with how many are drawn or written."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from threading import Event
from typing import IO, TYPE_CHECKING

import numpy as np

from heterofedsyn._arrays import arrow_of, cores, stream
from heterofedsyn.errors import UsageError
from heterofedsyn.hub.methods.base import Model
from heterofedsyn.hub.release.where import Where
from heterofedsyn.schema import EncodedTable, KeyColumn, Schema, decode
from heterofedsyn.synthesis import Targets
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

FIRST = 2**14
"""Rows of the model that are drawn before anything is known of a condition, and the fewest later.
Fewer would be hardly less work, and further from the targets."""

JUDGED = 2**16
"""Rows of the model after which a condition is judged."""

RAREST = 1_000
"""Of so many rows of the model one must meet a condition."""

MOST_DRAWN = 1_000_000_000
"""Rows of the model that are drawn for those that meet a condition: some hours of work."""

AT_ONCE = 2
"""Chunks drawn at the same time; more would be faster on some machines, and fill any memory."""


def draw(schema: Schema, model: Model, rows: int, seed: int) -> Generator[pa.Table]:
    """So many rows, a chunk at a time; the same seed gives the same, whatever the machine.

    A chunk takes many seconds. Whoever closes the generator does not wait for those under way: they
    end at their next step.
    """
    return _drawn(schema, model, [*shares(_totals(model), rows)], seed, 0)


def draw_where(
    schema: Schema, model: Model, rows: int, seed: int, where: Where
) -> Generator[pa.Table]:
    """So many rows that meet a condition, a part at a time, some perhaps empty.

    Chunks of the model's rows are drawn until enough of them qualify: few first, then as many as
    the share of those that did so far tells. Of the last chunk some are taken at random, since its
    rows may stand in an order.

    Raises:
        UsageError: almost none qualify, with their share, or too many would have to be drawn.
    """
    keys = [column for column in schema.columns if isinstance(column, KeyColumn)]
    drawn, kept, chunks = 0, 0, 0
    held: list[pa.Table] = []  # nothing is handed out that may be refused in the end
    while kept < rows:
        sizes = [*shares(_totals(model), _still_to_draw(rows, drawn, kept))]
        judged = _is_judged(drawn, kept)
        with closing(_drawn(schema, model, sizes, seed, chunks)) as tables:
            for table in tables:
                chunks += 1
                drawn += table.num_rows
                found = where.keep(table)
                if found.num_rows > rows - kept:
                    rng = stream(seed, "sample where")
                    some = rng.choice(found.num_rows, rows - kept, replace=False)
                    found = found.take(arrow_of(np.sort(some)))
                held.append(_with_keys(found, keys, kept + 1))
                kept += found.num_rows
                if judged or kept >= rows:
                    yield from held
                    held.clear()
                if kept >= rows:
                    return
        if not kept and schema.rules and _is_judged(drawn, kept):
            _check_rules(schema, where)
        _check_share(rows, drawn, kept)


def _with_keys(table: pa.Table, keys: Sequence[KeyColumn], first: int) -> pa.Table:
    """The rows with keys that have no gaps."""
    for key in keys:
        place = table.column_names.index(key.name)
        table = table.set_column(place, key.name, key.invent(first, table.num_rows))
    return table


def _is_judged(drawn: int, kept: int) -> bool:
    """Whether so many rows tell which share of them meets a condition."""
    return drawn >= JUDGED or (drawn > 0 and kept * RAREST >= 4 * drawn)


def _still_to_draw(rows: int, drawn: int, kept: int) -> int:
    """How many of the model's rows to draw next, given how many of those so far qualified."""
    if drawn == 0:
        return max(FIRST, min(rows, JUDGED))
    if not _is_judged(drawn, kept):
        return JUDGED - drawn
    wanted = (rows - kept) * drawn / kept
    # A little more than expected, since a small last chunk would be nearly as much work.
    return max(FIRST, math.ceil(wanted + 2 * math.sqrt(wanted * drawn / kept)))


def _check_rules(schema: Schema, where: Where) -> None:
    """Refuse a condition that rules are against."""
    rules = where.forbidding(schema)
    if rules:
        raise UsageError(
            f"no row of the release meets the condition: {' and '.join(rules)} "
            f"{'is' if len(rules) == 1 else 'are'} against it; ask for rows that can be"
        )


def _check_share(rows: int, drawn: int, kept: int) -> None:
    """Refuse to go on where the work has no end worth waiting for."""
    if not _is_judged(drawn, kept):
        return
    if kept * RAREST < drawn:
        share = f"{kept / drawn:.3%} ({kept:,} of {drawn:,})" if kept else f"none of {drawn:,}"
        raise UsageError(
            f"almost no rows of the model meet the condition: {share}, and at least 1 in "
            f"{RAREST:,} must; widen the condition"
            + ("" if kept else ", and look at how its values are spelt")
        )
    needed = math.ceil(rows * drawn / kept)
    if needed > MOST_DRAWN:
        raise UsageError(
            f"{rows:,} rows that meet the condition need about {needed:,} to be drawn, since "
            f"{kept / drawn:.2%} do, and at most {MOST_DRAWN:,} are; ask for fewer rows, or widen "
            "the condition"
        )


def _drawn(
    schema: Schema, model: Model, sizes: Sequence[list[int]], seed: int, number: int
) -> Generator[pa.Table]:
    """Chunks of so many rows of each population; the first is called by this number."""
    first = 1
    if len(sizes) == 1:
        yield _chunk(schema, model, sizes[0], seed, number, first)
        return
    for targets in model.targets:
        _ = targets.estimates  # once, before several threads ask for them
    waiting: deque[Future[pa.Table]] = deque()
    stop = Event()
    pool = ThreadPoolExecutor(min(AT_ONCE, cores()), "drawing", heed, (stop,))
    try:
        for own, counts in enumerate(sizes, start=number):
            waiting.append(pool.submit(_chunk, schema, model, counts, seed, own, first))
            first += sum(counts)
            if len(waiting) > AT_ONCE:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


def _totals(model: Model) -> list[float]:
    return [targets.total for targets in model.targets]


def shares(totals: Sequence[float], rows: int) -> Iterator[list[int]]:
    """How many rows of each population every chunk has: all of the first, then of the second, ...

    Chunks are equally large, so that none is so small that chance governs it.

    Args:
        totals: how many records each population has.
    """
    ends = np.cumsum([0.0, *totals])
    edges = np.rint(ends / ends[-1] * rows).astype(np.int64)
    chunks = -(-rows // CHUNK)
    for number in range(chunks):
        begin, end = rows * number // chunks, rows * (number + 1) // chunks
        yield np.diff(np.clip(edges, begin, end)).tolist()


Change = Callable[[Targets, EncodedTable, np.random.Generator], EncodedTable]
"""Rows of a population with something done to them."""


def _as_they_are(_: Targets, table: EncodedTable, __: np.random.Generator) -> EncodedTable:
    return table


def _chunk(
    schema: Schema, model: Model, counts: list[int], seed: int, number: int, first: int
) -> pa.Table:
    rng = stream(seed, f"sample {number}" if number else "sample")
    return decode(schema, rows_of(model, counts, rng), rng, first)


def rows_of(
    model: Model, counts: Sequence[int], rng: np.random.Generator, change: Change = _as_they_are
) -> EncodedTable:
    """So many rows of each population, as its rules allow.

    Args:
        change: is done to them before rules are looked at.
    """
    tables = [
        obey(targets, change(targets, model.synthesizer.synthesize(targets, many, rng), rng), rng)
        for targets, many in zip(model.targets, counts, strict=True)
        if many > 0
    ]
    step()
    return EncodedTable.concatenate(tables)


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
        for number, table in enumerate(tables):
            if not number and csv is not None:
                shown = _defused(table.slice(0, 0)) if safe_csv else table
                writer = stack.enter_context(_csv(csv, shown.schema))
                writers.append(partial(_in_steps, writer, safe=safe_csv))
            if not number and parquet is not None:
                writers.append(stack.enter_context(_parquet(parquet, table.schema)).write_table)
            for put in writers if table.num_rows else ():
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


def is_formula(text: str) -> bool:
    """Whether a spreadsheet would take this text for a formula.

    >>> is_formula("=1+1"), is_formula("a = 1")
    (True, False)
    """
    return re.match(_FORMULA, text) is not None


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
