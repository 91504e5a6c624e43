"""`heterofedsyn schema draft`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heterofedsyn.cli._options import OverwriteFile, check_file
from heterofedsyn.cli._show import note
from heterofedsyn.errors import PrivacyRefusal, SchemaError

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
    out: Annotated[Path, typer.Option(help="Where the schema goes.")],
    public: Annotated[
        bool, typer.Option("--public", help="Declares that no row of it is private.")
    ] = False,
    label: Annotated[str | None, typer.Option(help="The column a model would predict.")] = None,
    overwrite: OverwriteFile = False,
) -> None:
    """Draft a schema from PUBLIC rows, to be edited by hand.

    Never from private ones: a schema is published, and a range or category taken from private
    rows tells everyone about the person it came from.
    """
    from dataclasses import replace

    from heterofedsyn._files import file_written_whole
    from heterofedsyn._words import count
    from heterofedsyn.schema import draft as draft_schema
    from heterofedsyn.sources import name_of, open_source

    name = name_of(data)
    if not public:
        raise PrivacyRefusal(f"{WHY_PUBLIC}; if {name} is public, say so with --public")
    check_file(out, overwrite=overwrite)
    try:
        schema = draft_schema(open_source(data).batches(None))
    except SchemaError as error:
        raise SchemaError(f"{name}: {error}") from None
    if label is not None:
        schema = replace(schema, label=label)
    with file_written_whole(out) as partial:
        partial.write_text(schema.to_toml(), encoding="utf-8")
    columns = count(len(schema.columns), "column")
    note(f"draft of {columns} in {out}; look at every range and category:")
    note(f"{WHY_PUBLIC}.")
