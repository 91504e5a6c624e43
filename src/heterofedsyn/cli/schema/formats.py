"""`heterofedsyn schema import` and `schema export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heterofedsyn.cli._options import OverwriteFile, check_file
from heterofedsyn.cli._show import note
from heterofedsyn.cli.schema._outlines import (
    Ranges,
    SchemaOut,
    Values,
    fill,
    options_of,
    tell,
    write,
)
from heterofedsyn.errors import SchemaError, UsageError

_FORMATS = "frictionless (Table Schema), sdv (metadata) or dpsynth (domain)"


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to read: JSON or YAML.")],
    out: SchemaOut,
    form: Annotated[
        str | None,
        typer.Option("--format", metavar="NAME", help=f"{_FORMATS}; guessed if it is clear."),
    ] = None,
    table: Annotated[
        str | None, typer.Option(help="Which table, where the file describes several.")
    ] = None,
    ranges: Ranges = None,
    values: Values = None,
    overwrite: OverwriteFile = False,
) -> None:
    """Make a schema of a file in another format.

    What the file does not say is listed, and stands in the schema as a comment to be filled in;
    --range and --values fill it in at once.
    """
    from heterofedsyn._files import read_whole
    from heterofedsyn._words import count
    from heterofedsyn.schema.formats import MOST_BYTES, format_of, guessed, parsed

    check_file(out, overwrite=overwrite)
    if form is not None:
        format_of(form)
    try:
        text = read_whole(file, MOST_BYTES).decode("utf-8")
        source = parsed(text)
        outline = format_of(form or guessed(source)).read(source, table)
        outline = fill(outline, ranges, values)
        if not outline.lacking:
            outline.schema()
    except UnicodeDecodeError:
        raise SchemaError(f"{file}: not UTF-8 text; save it as UTF-8") from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UsageError(f"cannot read {file}: {reason}; check the path") from None
    except UsageError as error:
        raise type(error)(f"{file}: {error}") from None
    write(outline, out)
    kept = len(outline.entries) - len(outline.left_out)
    note(f"schema of {count(kept, 'column')} in {out}")
    tell(outline)
    if outline.dialect:
        note(_location_of_rows(options_of(outline.dialect)))


def _location_of_rows(options: str) -> str:
    """What it must say, or why nothing that it says would do."""
    from heterofedsyn.sources import Dialect

    try:
        Dialect.parse("its rows cannot be read as they are", options)
    except UsageError as error:
        return str(error)
    return f"the location of its rows needs ?{options}"


def export(
    schema: Annotated[Path, typer.Argument(metavar="SCHEMA", help="The schema (TOML).")],
    form: Annotated[str, typer.Option("--format", metavar="NAME", help=f"{_FORMATS}.")],
    out: Annotated[Path, typer.Option(help="Where the file goes.")],
    overwrite: OverwriteFile = False,
) -> None:
    """Write a schema in another format.

    Frictionless keeps all of it, and `schema import` gives it back; of the others it is said what
    they cannot hold.
    """
    from heterofedsyn._files import file_written_whole
    from heterofedsyn._words import count
    from heterofedsyn.schema import Schema
    from heterofedsyn.schema.formats import format_of

    writer = format_of(form)
    check_file(out, overwrite=overwrite)
    public = Schema.load(schema)
    with file_written_whole(out) as partial:
        partial.write_text(writer.text(public), encoding="utf-8", newline="\n")
    note(f"{count(len(public.columns), 'column')} of {schema} in {out}")
    for line in writer.lost(public):
        note(f"  {line}")
