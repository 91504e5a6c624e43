"""`heterofedsyn sample`: more rows from a release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heterofedsyn.cli._options import OverwriteFile, SafeCsv, check_file
from heterofedsyn.errors import UsageError


def sample(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A release folder.")],
    rows: Annotated[
        int | None,
        typer.Option(
            help="How many rows; the noisy total unless given, if that is at most 10 million."
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="The same seed gives the same rows; harmless.")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITION",
            help="Rows that meet a condition in SQL only, such as \"sex = 'female' AND age > 60\"; "
            "--rows then counts these. Needs the extra duckdb.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A .csv or .parquet file; CSV on stdout unless given.")
    ] = None,
    overwrite: OverwriteFile = False,
    safe_csv: SafeCsv = False,
) -> None:
    """Draw synthetic rows from a release; costs no privacy.

    Under a condition (--where) rows show what the model believes of such records: columns that were
    not measured together are guesses. One that almost no row meets is refused.
    """
    from heterofedsyn._files import file_written_whole
    from heterofedsyn._words import count
    from heterofedsyn.cli._show import bytes_out, note, pace
    from heterofedsyn.hub.release import MOST_UNASKED, load
    from heterofedsyn.hub.release.sampling import write

    if out is not None:
        check_file(out, ".csv", ".parquet", overwrite=overwrite)
    if safe_csv and out is not None and out.suffix != ".csv":
        raise UsageError(f"--safe-csv is for CSV, and {out} is none; leave it out")
    release = load(folder)
    if rows is None and release.run.noisy_total > MOST_UNASKED:
        raise UsageError(
            f"the release tells of {release.run.noisy_total:,} records; say how many rows to draw "
            "with --rows"
        )
    drawn = release.batches(rows, seed, where=where)
    watch = pace("drawing")
    if out is None:
        write(drawn, csv=bytes_out(), safe_csv=safe_csv, watch=watch)
        return
    with file_written_whole(out) as partial:
        if out.suffix == ".csv":
            written = write(drawn, csv=partial, safe_csv=safe_csv, watch=watch)
        else:
            written = write(drawn, parquet=partial, watch=watch)
    note(f"{count(written, 'row')} in {out}")
