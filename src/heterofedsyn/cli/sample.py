"""`heterofedsyn sample`: more rows from a release."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from heterofedsyn.errors import UsageError


def sample(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A release folder.")],
    rows: Annotated[
        int | None, typer.Option(help="How many rows; the noisy total unless given.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="The same seed gives the same rows; harmless.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A .csv or .parquet file; CSV on stdout unless given.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file if it exists.")
    ] = False,
) -> None:
    """Draw synthetic rows from a release; costs no privacy."""
    from heterofedsyn._files import check_place, file_written_whole
    from heterofedsyn._words import count
    from heterofedsyn.cli._show import note, pace
    from heterofedsyn.hub.release import load
    from heterofedsyn.hub.sampling import write

    if out is not None:
        if out.suffix not in (".csv", ".parquet"):
            raise UsageError(f"--out {out} must end in .csv or .parquet")
        if out.is_dir():
            raise UsageError(f"--out {out} is a folder; name a file in it")
        if out.exists() and not overwrite:
            raise UsageError(f"{out} exists already; pass --overwrite or name another file")
        if not out.parent.is_dir():
            raise UsageError(f"--out {out}: there is no folder {out.parent}; make it first")
        check_place(out)
    release = load(folder)
    drawn = release.batches(rows, seed)
    watch = pace("drawing")
    if out is None:
        sys.stdout.flush()
        write(drawn, csv=sys.stdout.buffer, watch=watch)
        return
    with file_written_whole(out) as partial:
        if out.suffix == ".csv":
            written = write(drawn, csv=partial, watch=watch)
        else:
            written = write(drawn, parquet=partial, watch=watch)
    note(f"{count(written, 'row')} in {out}")
