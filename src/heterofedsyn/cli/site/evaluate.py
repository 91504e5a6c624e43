"""`heterofedsyn site evaluate`: a release held against the site's own rows."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from heterofedsyn._words import PRIVATE_ROWS
from heterofedsyn.cli._options import OverwriteFile, check_file
from heterofedsyn.cli._show import note, say
from heterofedsyn.cli.site._shared import HERE, Folder
from heterofedsyn.errors import UsageError


def evaluate(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release folder.")],
    folder: Folder = HERE,
    out: Annotated[
        Path | None,
        typer.Option(help="The scores (JSON); a file of the site's folder unless given."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MEASURE",
            help="tvd, query, histogram, num_num, cat_num, cat_cat; repeat; tvd, query and "
            "histogram unless given.",
        ),
    ] = None,
    overwrite: OverwriteFile = False,
) -> None:
    """Score a release against the site's own rows.

    The scores are computed from private rows and have no guarantee; no command sends them.
    """
    from heterofedsyn.cli.report import release_around
    from heterofedsyn.evaluation import QUICK, Evaluator
    from heterofedsyn.hub import load
    from heterofedsyn.hub.release.synthetic import synthetic_rows
    from heterofedsyn.site.owner import own_settings

    settings = own_settings(folder)
    published = load(release)
    public = settings.load_schema()
    if published.schema.domain.names != public.domain.names:
        raise UsageError(f"{release} has other columns than {settings.schema}")
    own = settings.folder / "evaluations"
    target = own / f"{release.resolve().name}.json" if out is None else out
    if release_around(target) is not None:
        raise UsageError(
            f"--out {target} lies in a release, which is published as a whole; keep the scores "
            "somewhere else"
        )
    if out is None:
        own.mkdir(mode=0o700, exist_ok=True)
    check_file(target, overwrite=overwrite)
    with synthetic_rows(published, release) as there:
        rows = published.sample(seed=0) if there is None else there.table()
    evaluator = Evaluator(public, settings.source)
    measures = only or QUICK
    scores = evaluator.score(rows, measures)
    floor = evaluator.floor(measures)
    report = {
        "warning": PRIVATE_ROWS,
        "site": settings.name,
        "release": str(release.resolve()),
        **scores.to_dict(),
        "floor": {name: value for name, value in floor.to_dict().items() if name != "remarks"},
    }
    _write_private(target, json.dumps(report, indent=1) + "\n")
    for remark in scores.remarks:
        note(f"remark: {remark}")
    say(f"scores in {target}")
    note(PRIVATE_ROWS)


def _write_private(target: Path, text: str) -> None:
    """A file that appears whole and that only its owner can read."""
    from heterofedsyn._files import file_written_whole

    with file_written_whole(target) as partial:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(partial, flags, 0o600), "wb") as file:
            file.write(text.encode())
