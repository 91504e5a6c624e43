"""`heterofedsyn schema check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heterofedsyn.cli._show import pace, say, say_json, show_table
from heterofedsyn.errors import DataError


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
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check a schema, and rows against it.

    Rows that do not fit are counted by column. For the owner of the data: the counts are
    exact and must not be published.
    """
    from heterofedsyn._words import count
    from heterofedsyn.schema import Schema
    from heterofedsyn.site.counting import check as check_rows
    from heterofedsyn.sources import check_apart, open_source

    public = Schema.load(schema)
    check_apart(data or [])
    sources = [open_source(location) for location in data or []]
    fit = check_rows(sources, public, unit=unit, watch=pace("reading"))
    ignored = {name for source in sources for name in source.columns}
    ignored -= {*public.domain.names, unit}
    if as_json:
        report = {
            "columns": dict(zip(public.domain.names, public.domain.sizes, strict=True)),
            "rows_read": fit.rows_read,
            "rows_that_do_not_fit": fit.rows_dropped,
            "misfits": fit.misfits,
            "ignored_columns": sorted(ignored),
        }
        say_json(report)
    else:
        show_table(
            str(schema),
            ["column", "type", "values", "rows that do not fit"],
            [
                [column.name, column.kind, str(column.size), _count(fit.misfits, column.name)]
                for column in public.columns
            ],
        )
        if ignored:
            say(f"not in the schema and never read: {', '.join(sorted(ignored))}")
    if fit.rows_dropped:
        fits = "does" if fit.rows_dropped == 1 else "do"
        raise DataError(
            f"{fit.rows_dropped:,} of {count(fit.rows_read, 'row')} {fits} not fit "
            f"({fit.reasons}); mend the rows, or widen the schema: `other`, `nullable`, the type"
        )
    if sources and not as_json:
        say(f"{_all(fit.rows_read)}; this count is exact: do not publish it")


def _all(rows: int) -> str:
    if rows < 2:
        return "the one row fits" if rows else "there are no rows"
    return f"all {rows:,} rows fit"


def _count(misfits: dict[str, dict[str, int]], name: str) -> str:
    return f"{sum(misfits[name].values()):,}" if misfits.get(name) else "-"
