"""`heterofedsyn schema new`."""

from __future__ import annotations

from typing import Annotated

import typer

from heterofedsyn.cli._options import OverwriteFile, check_file
from heterofedsyn.cli._show import note
from heterofedsyn.cli.schema._outlines import Ranges, SchemaOut, Values, fill, listed, write
from heterofedsyn.errors import UsageError


def new(
    columns: Annotated[
        list[str],
        typer.Option(metavar="NAMES", help="The columns, as in age,sex,ward; repeat for more."),
    ],
    out: SchemaOut,
    ranges: Ranges = None,
    values: Values = None,
    overwrite: OverwriteFile = False,
) -> None:
    """Write a skeleton to be filled in.

    For where there are no public rows. It loads once every column has a type and what that needs;
    until then an error names the first that has not. Ranges and values given here are filled in.
    """
    from heterofedsyn._words import count
    from heterofedsyn.schema.outline import skeleton

    names = listed(columns)
    if not names:
        raise UsageError("--columns names none; write them with commas, as in age,sex,ward")
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--columns names {name!r} twice; keep one")
    check_file(out, overwrite=overwrite)
    outline = fill(skeleton(names), ranges, values)
    write(outline, out)
    lacking = outline.lacking
    note(f"skeleton of {count(len(names), 'column')} in {out}")
    if lacking:
        note(f"fill in the type and its keys for: {', '.join(lacking)}")
        note(f"then look at it with: heterofedsyn schema check --schema {out}")
