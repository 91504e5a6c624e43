"""`heterofedsyn schema draft`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heterofedsyn.cli._options import OverwriteFile, check_file
from heterofedsyn.cli._show import note, pace
from heterofedsyn.cli.schema._outlines import SchemaOut, listed, options_of, tell, write
from heterofedsyn.errors import PrivacyRefusal, SchemaError, UsageError, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

    from heterofedsyn.schema._seen import Way
    from heterofedsyn.schema.outline import Outline
    from heterofedsyn.sources import Source

WHY_PUBLIC = (
    "a schema is published with the release: a range or category taken from private rows tells "
    "everyone about the person it came from (a maximum is somebody's value)"
)


def draft(
    data: Annotated[
        str,
        typer.Option(
            metavar="LOCATION", help="Public rows of the same shape: CSV, Parquet or a database."
        ),
    ],
    out: SchemaOut,
    public: Annotated[
        bool, typer.Option("--public", help="Declares that no row of it is private.")
    ] = False,
    label: Annotated[str | None, typer.Option(help="The column a model would predict.")] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="Columns to leave out, as in id,name; repeat."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="The only columns to look at; repeat."),
    ] = None,
    tables: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Where tables of perhaps determined columns go, as CSV files."
        ),
    ] = None,
    overwrite: OverwriteFile = False,
) -> None:
    """Draft a schema from PUBLIC rows, to be edited by hand.

    Never from private ones: a schema is published, and a range or category taken from private
    rows tells everyone about the person it came from. A column that cannot be drafted is left out,
    with a comment that says why and what to write; rules that the rows suggest are comments too.
    """
    from heterofedsyn._words import count
    from heterofedsyn.schema import draft as draft_schema
    from heterofedsyn.sources import name_of

    name = name_of(data)
    if not public:
        raise PrivacyRefusal(f"{WHY_PUBLIC}; if {name} is public, say so with --public")
    check_file(out, overwrite=overwrite)
    source, location, ways = _opened(data)
    columns = _chosen(source, listed(skip), listed(only))
    if label is not None and label in source.columns and label not in columns:
        option = "--skip" if label in listed(skip) else "--only"
        raise UsageError(f"label {label!r} is left out by {option}; keep it, or name another label")
    try:
        rows = _watched(source.batches(columns))
        outline = draft_schema(rows, label=label, ways=ways)
    except SchemaError as error:
        raise SchemaError(f"{name}: {error}") from None
    outline = _with_location(outline, data, location)
    if tables is not None:
        outline = _write_tables(outline, tables, out.parent, overwrite=overwrite)
    write(outline, out)
    kept = len(outline.entries) - len(outline.left_out)
    note(f"draft of {count(kept, 'column')} in {out}; look at every range and category:")
    note(f"{WHY_PUBLIC}.")
    tell(outline)
    if outline.candidates:
        note(f"  {count(len(outline.candidates), 'rule')} to be confirmed: see the end of {out}")


def _watched(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    watch, rows = pace("drafting"), 0
    for batch in batches:
        yield batch
        rows += batch.num_rows
        watch(rows)


def _opened(data: str) -> tuple[Source, str, tuple[Way, ...]]:
    """The rows, the location that reads them, and how its cells may be written."""
    from heterofedsyn.cli.schema._ways import guessed_file, ways_of
    from heterofedsyn.sources import open_source, with_options
    from heterofedsyn.sources.location import parse

    told = parse(data)
    place = Path(told.place)
    location = data
    is_csv = told.kind == "file" and place.name.lower().endswith((".csv", ".csv.gz"))
    if is_csv and told.dialect.plain_file and place.is_file():
        location = with_options(data, options_of(guessed_file(place)))
    source = open_source(location)
    return source, location, ways_of(source)


def _with_location(outline: Outline, given: str, opened: str) -> Outline:
    """The outline with a remark where the rows need another location than was given."""
    from heterofedsyn.sources import with_options

    needed = with_options(opened, options_of(outline.dialect))
    if needed == given:
        return outline
    location = shlex.quote(needed)
    remark = f"These rows are written in another way; where they are read, write {location}"
    return replace(outline, remarks=(*outline.remarks, remark))


def _chosen(source: Source, skip: list[str], only: list[str]) -> list[str]:
    """The columns to look at."""
    for name in (*skip, *only):
        if name not in source.columns:
            hint = did_you_mean(name, source.columns)
            raise UsageError(f"{source.name}: there is no column {name!r} to skip or keep; {hint}")
    wanted = only or source.columns
    columns = [name for name in source.columns if name in wanted and name not in skip]
    if not columns:
        raise UsageError("--skip and --only leave no column; name fewer to skip")
    return columns


def _write_tables(outline: Outline, folder: Path, beside: Path, *, overwrite: bool) -> Outline:
    """The outline with its tables in files, whose names are those seen from the schema."""
    import csv
    import os

    from heterofedsyn._files import file_written_whole
    from heterofedsyn.schema._candidates import with_tables

    seen_from = os.path.relpath(folder, beside)
    named, tables = with_tables(outline.candidates, seen_from)
    if tables and not folder.is_dir():
        folder.mkdir()
    for name in tables:
        check_file(folder / name, overwrite=overwrite, option="--tables")
    for name, (head, table) in tables.items():
        with (
            file_written_whole(folder / name) as partial,
            partial.open("w", encoding="utf-8", newline="") as file,
        ):
            csv.writer(file, lineterminator="\n").writerows([head, *table.items()])
    return replace(outline, candidates=named)
