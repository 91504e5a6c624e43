"""`heterofedsyn report`: one page about a release, to publish or to keep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heterofedsyn.cli._options import OverwriteFile, check_file
from heterofedsyn.errors import UsageError


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A release folder.")],
    out: Annotated[Path, typer.Option(help="The page, an .html file.")],
    real: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LOCATION",
            help="PRIVATE rows to compare with, a file or a database's query; repeat to pool. "
            "Makes the internal form, which must not be published.",
        ),
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LOCATION",
            help="PRIVATE rows the study did not see; repeat to pool. Needs --real.",
        ),
    ] = None,
    overwrite: OverwriteFile = False,
) -> None:
    """Describe a release in one HTML page.

    The public form needs the release alone and may be published with it. Real rows (--real) make
    an internal form, with comparisons to them and readable by its owner only.
    """
    from heterofedsyn.cli._show import note
    from heterofedsyn.drawing import check_drawing
    from heterofedsyn.report import REPORT, internal_report, public_report, strangers, write_page

    if test and not real:
        raise UsageError("--test needs --real, the rows that the study saw")
    inside = release_around(out)
    if inside is not None and real:
        raise UsageError(
            f"--out {out} lies in a release, which is published as a whole; keep the internal form "
            "somewhere else"
        )
    if inside is not None and inside != folder.resolve():
        raise UsageError(
            f"--out {out} lies in another release than {folder}; name a place outside of it"
        )
    if inside is not None and out.resolve() != inside / REPORT:
        raise UsageError(f"--out {out} lies in a release, where a page is called {REPORT}")
    check_file(out, ".html", overwrite=overwrite)
    check_drawing()
    if real:
        note("comparing with private rows; this takes a while")
        text = internal_report(folder, real, test or None)
    else:
        text = public_report(folder)
    write_page(out, text, private=bool(real))
    others = strangers(folder)
    if others:
        named = ", ".join(others[:5]) + (" and others" if len(others) > 5 else "")
        note(
            f"not of the release, so not on the page: {named}; look at {folder} before it is "
            "published"
        )
    form = "internal form, with private rows: do not publish" if real else "public form"
    note(f"{form}, in {out}")


def write_report(folder: Path) -> bool:
    """The public form into a new release; without the extra, a line that says how to get it."""
    from heterofedsyn.cli._show import note
    from heterofedsyn.drawing import can_draw
    from heterofedsyn.report import REPORT, public_report, write_page

    if not can_draw():
        note(f"no {REPORT}: it needs the extra `report`: pip install 'heterofedsyn[report]'")
        return False
    write_page(folder / REPORT, public_report(folder), private=False)
    return True


def release_around(path: Path) -> Path | None:
    """The release folder that a file would lie in, at whatever depth."""
    parts = ("model", "privacy.json", "run.json")
    for folder in path.resolve().parents:
        if all((folder / part).is_file() for part in parts):
            return folder
    return None
