"""`heterofedsyn schema check` and `schema fingerprint`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heterofedsyn._words import MOST_CLAMPED, MOST_MISFIT
from heterofedsyn.cli._fit import MostClamped, MostMisfit, show_fit
from heterofedsyn.cli._show import note, pace, say, say_json


def check(
    schema: Annotated[Path, typer.Option(help="The schema (TOML).")],
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LOCATION", help="CSV, Parquet or a database to check against it; repeat."
        ),
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(help="Column that identifies a person; a row without it does not fit."),
    ] = None,
    most_misfit: MostMisfit = MOST_MISFIT,
    most_clamped: MostClamped = MOST_CLAMPED,
    details: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="For the numbers of the first rows that do not fit or are clamped; yours alone.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check a schema, and rows against it.

    Rows that do not fit are counted by column and reason, and so are values outside of a column's
    range, which are clamped to it. Fails if these are too many. For the owner of the data: the
    counts are exact and must not be published.
    """
    from heterofedsyn.schema import Schema
    from heterofedsyn.site.counting import check as check_rows
    from heterofedsyn.site.misfits import (
        Tolerance,
        check_details,
        dialect_hint,
        fit_json,
        write_details,
    )
    from heterofedsyn.sources import check_apart, open_source

    tolerance = Tolerance(most_misfit, most_clamped)
    public = Schema.load(schema)
    if details is not None:
        check_details(details)
    check_apart(data or [])
    sources = [open_source(location) for location in data or []]
    fit = check_rows(sources, public, unit=unit, watch=pace("reading"))
    ignored = {name for source in sources for name in source.columns}
    ignored -= {*(column.name for column in public.columns), unit}
    if as_json:
        sizes = {column.name: column.size for column in public.columns if column.size}
        say_json({"columns": sizes, **fit_json(fit), "ignored_columns": sorted(ignored)})
    else:
        show_fit(fit, public, str(schema), all_columns=True)
        if ignored:
            say(f"not in the schema and never read: {', '.join(sorted(ignored))}")
    if details is not None:
        note(write_details(details, fit, public))
    hint = dialect_hint(fit, sources, public)
    tolerance.check(fit, public, hint)
    if sources and not as_json:
        say(f"{_counted(fit.rows_read, fit.rows_dropped)} is exact: do not publish it")
    if hint is not None:
        note(f"remark: {hint}")


def fingerprint(
    schema: Annotated[Path, typer.Argument(metavar="FILE", help="The schema (TOML).")],
) -> None:
    """Tell a schema's fingerprint.

    It is a SHA-256 of what the schema says, and not of how it is written. Study, ledger, receipts,
    run.json and report state the same one, to be compared.
    """
    from heterofedsyn.schema import Schema

    say(Schema.load(schema).fingerprint)


def _counted(rows: int, dropped: int) -> str:
    if dropped:
        fits = "does" if dropped == 1 else "do"
        return f"{dropped:,} of {rows:,} rows {fits} not fit and are left out; this count"
    if rows < 2:
        return f"{'the one row fits' if rows else 'there are no rows'}; this count"
    return f"all {rows:,} rows fit; this count"
