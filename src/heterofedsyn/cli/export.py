"""`heterofedsyn export`: a release described for catalogues, registries and other software."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heterofedsyn.cli._options import OverwriteFile, check_file


def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A release folder.")],
    to: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="croissant, deployments-registry, sdv-metadata, frictionless, r or dictionary.",
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="A file; stdout unless given.")] = None,
    overwrite: OverwriteFile = False,
) -> None:
    """Describe a release in the formats of others.

    Croissant (with RAI fields), an entry of the OpenDP deployments registry, metadata of SDV, a
    Frictionless data package, a script of R that reads the table with its types, or a data
    dictionary in Markdown. What a person must add is said.
    """
    from heterofedsyn._files import file_written_whole
    from heterofedsyn._words import count
    from heterofedsyn.cli._show import bytes_out, note
    from heterofedsyn.exports import export_named
    from heterofedsyn.hub.release import load

    form = export_named(to)
    if out is not None:
        check_file(out, form.ending, overwrite=overwrite)
    release = load(folder)
    text = form.text(release)
    if out is None:
        bytes_out().write(text.encode())
    else:
        with file_written_whole(out) as partial:
            partial.write_text(text, encoding="utf-8", newline="\n")
        note(f"{count(len(release.schema.columns), 'column')} of {folder} in {out}")
    for line in form.lacks(release):
        note(f"  {line}")
