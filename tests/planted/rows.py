"""Bugs of rows on their way: read, encoded, dealt to sites and counted, one by one or at once."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from planted import places as at
from planted.bugs import coupling
from planted.planting import changed, instead_of, leave_out, never, shadow

a_line_among = partial(coupling, first="a line among")


@coupling(
    "codes in a file counted twice when counts take their place",
    r"counts of all pairs.* counted wrongly",
    "counts of all pairs",
)
@instead_of(at.tally.Tally._grow)
def _(true: Any, own: Any) -> None:
    copy = own._copy
    own._copy = changed(copy, tables=lambda: 2 * copy.tables())
    true(own)
    own._copy = copy


@coupling(
    "encoded rows are left in a file that has a name",
    r"codes in a file: rows are in a file that has a name",
    "codes in a file",
)
def _() -> None:
    shadow(at.tally, tempfile, TemporaryFile=lambda dir: (Path(dir) / "codes").open("w+b"))


@coupling(
    "threads count some groups of pairs twice", r"a large table: .*counted wrongly", "large table"
)
@instead_of(at.counting._pool)
def _(true: Any, threads: int) -> Any:
    def further(work: Any, begins: Any, ends: Any) -> Any:
        return true(threads).map(work, begins, np.minimum(ends + 1, ends[-1]))

    return changed(true(threads), map=further)


@coupling(
    "five or more maps of one pair are doubled", r"maps of .* rows: .*counted wrongly", "many maps"
)
@instead_of(at.Counts.prepare)
def _(true: Any, counts: at.Counts, views: Any) -> None:
    asked, known = list(dict.fromkeys(views)), {*counts._kept}
    true(counts, asked)
    often = Counter(at.clique_of(view) for view in asked)
    for view in asked:
        if view not in known and often[at.clique_of(view)] >= 5:
            counts._kept[view] = 2 * counts._kept[view]


@coupling(
    "rows of three columns counted twice", r"grouped of .*-.*-.*counted wrongly", "every record"
)
@instead_of(at.counts._of_three)
def _(true: Any, counts: Any, view: Any, domain: Any) -> Any:
    return 2 * true(counts, view, domain)


@coupling(
    "three columns put together in another order",
    r"grouped of .*-.*-.*counted wrongly",
    "every record",
)
@instead_of(at.counts._of_three)
def _(true: Any, counts: Any, view: Any, domain: Any) -> Any:
    return counts


@coupling(
    "of many maps of three columns the first two change places",
    r"many maps of three columns.*counted wrongly",
    "many maps of three",
)
@instead_of(at.counts._added_up)
def _(true: Any, counts: Any, clique: Any, view: Any, domain: Any) -> Any:
    sizes = domain.shape(clique)
    if len(clique) == 3 and sizes[0] == sizes[1]:
        counts = counts.reshape(sizes).swapaxes(0, 1).ravel()
    return true(counts, clique, view, domain)


@coupling(
    "an answer stands in a model twice", r"release of wavetree.*an answer twice", "release of"
)
@instead_of(at.Targets.with_measured)
def _(true: Any, own: Any, measurements: Any) -> Any:
    again = [measurement for measurement in measurements if not measurement.aside]
    return true(own, (*measurements, *again))


@coupling(
    "three columns are answered without the plan's word after a pair",
    r"agent: three columns .*without the plan's word, after a pair: (answered|unavailable)",
    "agent: three columns",
)
@instead_of(at.check_together)
def _(true: Any, query: Any, plan: Any) -> None:
    true(structs.replace(query, parts=query.parts[:1]), plan)


@coupling(
    "three columns are answered without the plan's word",
    r"agent: three columns .*without the plan's word: (answered|unavailable)",
    "three columns",
)
def _() -> None:
    leave_out(at.Desk._check, at.check_together)


@coupling(
    "a map of groups may be shorter than its attribute",
    r"agent: malformed queries: .*map too short: (a record changes the reply|answered)",
    "malformed",
)
@instead_of(at.Grouped.check)
def _(true: Any, grouped: at.Grouped, domain: Any) -> None:
    sides = zip(grouped.attributes, grouped.groups, strict=True)
    longer = [(*own, *[0] * (domain.size(name) - len(own))) for name, own in sides]
    true(structs.replace(grouped, groups=tuple(longer)), domain)


@coupling(
    "what is out of range counts as the extremes of its batch",
    r"a row counts as another among others",
    "a row by itself",
)
@instead_of(at.RealBins.encode)
def _(true: Any, bins: at.RealBins, values: Any) -> Any:
    known = values[(values >= bins.low) & (values <= bins.high)]
    return true(bins, np.clip(values, known.min(), known.max()) if known.size else values)


@a_line_among(
    "a cell that is no text takes its batch with it",
    r"agent: .*bytes that are no text: .*counted wrongly",
)
@instead_of(at.csv_file._Skipping.readable)
def _(true: Any, own: Any, batch: Any) -> Any:
    kept = true(own, batch)
    return kept if kept.num_rows == batch.num_rows else batch.slice(0, 0)


@a_line_among(
    "a row that cannot be read makes an agent unavailable",
    r"agent: .*a row too short: refused as unavailable",
)
@instead_of(at.CsvSource.forgiving)
def _(true: Any, source: Any, say: Any) -> Any:
    return source


@coupling(
    "an open quote takes the lines up to the next quote",
    r"agent: an open quote: an open quote in line .* counted wrongly",
    "an open quote",
)
@instead_of(at.csv_file._reader)
def _(true: Any, path: Any, dialect: Any, kinds: Any, lines: Any, *how: Any) -> Any:
    return true(path, dialect, kinds, None, *how)


@a_line_among(
    "text in a column of numbers ends the reading",
    r"agent: .*text for a number: refused as unavailable",
)
@instead_of(at.parsing.numbers)
def _(true: Any, array: Any) -> Any:
    if at.parsing.is_text(array.type):
        trimmed = pc.ascii_trim_whitespace(array)
        array = pc.if_else(at.parsing.is_empty(trimmed), None, trimmed).cast(pa.float64())
    return true(array)


@a_line_among("a date that is none takes its batch with it", r"agent: .*a date .*counted wrongly")
@instead_of(at.parsing.seconds)
def _(true: Any, array: Any) -> Any:
    cells = true(array)
    return cells if cells.read.all() else at.parsing.nothing(array)


@coupling(
    "the type of a column of objects is that of all its rows",
    r"data frame of objects: one cell of a data frame makes all of it unreadable",
    "data frame of objects",
)
def _() -> None:
    never(at.memory._of_pandas, "dtype")


@coupling(
    "a column of objects is text only if one cell is",
    r"data frame of objects: .* changes what other rows count as",
    "data frame of objects",
)
@instead_of(at.texts, only=at.memory)
def _(true: Any, cells: Any) -> Any:
    try:
        return pa.array(cells, from_pandas=True)
    except (pa.ArrowException, TypeError):
        return pa.array([repr(cell) for cell in cells])


@coupling(
    "an engine may guess the types of a file from all its rows",
    r"simulate: an engine that guesses types: (one row more changes|a row changes the exit code)",
    "an engine that guesses types",
)
@coupling(
    "a query may let one row push out another",
    r"simulate: a query with so many rows: (one row more changes|a row changes the exit code)",
    "a query with so many rows",
)
@instead_of(at.rowwise.check_tree)
def _(true: Any, *how: Any) -> Any:
    return None


@coupling(
    "how rows are dealt to sites depends on how many there are",
    r"simulate: a row more, .* for one that was added",
    "a row more",
)
@instead_of(at.split)
def _(true: Any, encoded: Any, *how: Any, **more: Any) -> Any:
    rows = encoded.table.rows
    order = np.random.default_rng(rows).permutation(rows)
    units = None if encoded.units is None else encoded.units[order]
    return true(replace(encoded, table=encoded.table.take(order), units=units), *how, **more)


@coupling(
    "how rows are dealt to sites follows from the published seed",
    r"deals the rows as they were dealt",
    "cannot be repeated",
)
@instead_of(at.FederatedSynthesizer.split)
def _(true: Any, own: at.FederatedSynthesizer, encoded: Any, sites: int, kind: str) -> Any:
    own._noise_seed, kept = own._seed, own._noise_seed
    try:
        return true(own, encoded, sites, kind)
    finally:
        own._noise_seed = kept


@coupling(
    "sites are those that rows name in a column",
    r"sites named by a column",
    "sites named by a column",
)
@instead_of(at.SiteColumn.deal)
def _(true: Any, own: at.SiteColumn, encoded: Any) -> Any:
    return {name: table for name, table in true(own, encoded).items() if table.rows}


@coupling(
    "a row that breaks a rule takes its batch with it",
    r"a row counts as another among others",
    "a row by itself",
)
@instead_of(at.Rulebook.contradicted)
def _(true: Any, book: at.Rulebook, readings: Any, fits: Any) -> Any:
    return {rule: fits & mask.any() for rule, mask in true(book, readings, fits).items()}


@coupling(
    "a rule holds only where few rows break it",
    r"a row counts as another among others",
    "a row by itself",
)
@instead_of(at.Rulebook.contradicted)
def _(true: Any, book: at.Rulebook, readings: Any, fits: Any) -> Any:
    found = true(book, readings, fits)
    return {rule: mask & (2 * mask.sum() <= mask.size) for rule, mask in found.items()}


@coupling(
    "a date beyond the range takes its batch with it",
    r"a row counts as another among others",
    "a row by itself",
)
@instead_of(at.BinnedColumn._read)
def _(true: Any, column: at.BinnedColumn, array: Any) -> Any:
    reading = true(column, array)
    clamped = column.kind == "date" and reading.above.any()
    return replace(reading, fits=reading.fits & False) if clamped else reading


@coupling(
    "an infinity changes how the decimals of its batch are rounded",
    r"a row counts as another among others",
    "a row by itself",
)
@instead_of(at.NumberColumn.numbers)
def _(true: Any, column: at.NumberColumn, array: Any) -> Any:
    cells = at.parsing.numbers(array)
    if column.decimals is None or not np.isinf(cells.values).any():
        return true(column, array)
    return cells.replace(at.parsing.to_int64(np.floor(cells.values * column.scale)))


@coupling(
    "a last row out of order takes the first of its batch with it",
    r"a row counts as another among others",
    "a row by itself",
)
@instead_of(at.rulebook._out_of_order)
def _(true: Any, readings: Any) -> Any:
    found = true(readings)
    found[:1] |= found[-1:]
    return found
