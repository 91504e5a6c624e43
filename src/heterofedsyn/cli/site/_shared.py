"""What the steward's commands share: options, whose site it is, which study is meant."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heterofedsyn.cli._fit import show_fit
from heterofedsyn.cli._show import note, pace, say
from heterofedsyn.errors import HeterofedsynError

if TYPE_CHECKING:
    from heterofedsyn.schema import Schema
    from heterofedsyn.site.misfits import Checked
    from heterofedsyn.site.settings import SiteSettings
    from heterofedsyn.sources import Source

Folder = Annotated[
    Path, typer.Option("--folder", metavar="DIR", help="The site's folder; `site` unless given.")
]
StudyName = Annotated[
    str,
    typer.Argument(metavar="STUDY", help="The study's file, or the start of its fingerprint."),
]
Who = Annotated[
    str | None, typer.Option(metavar="NAME", help="Who decides; the user's name unless given.")
]
HERE = Path("site")
MOST_LINES = 40
"""Of a table on the terminal."""


def check_rows(source: Source, schema: Schema, unit: str | None, most: int) -> Checked:
    """The site's rows held against a schema."""
    from heterofedsyn.site.counting import check

    return check(
        [source], schema, unit=unit, max_rows_per_unit=most, watch=pace(f"reading {source.name}")
    )


def show_misfits(checked: Checked, schema: Schema) -> None:
    """What the schema check found, for the steward's eyes."""
    from heterofedsyn.site.misfits import ROWS_TITLE, counted_said

    show_fit(checked, schema, ROWS_TITLE, all_columns=False)
    say(counted_said(checked))


def keep_details(settings: SiteSettings, checked: Checked, schema: Schema) -> None:
    """Which rows do not fit, in the site's folder, which nobody else may enter."""
    from heterofedsyn.site.misfits import DETAILS, write_details

    try:
        note(write_details(settings.folder / DETAILS, checked, schema))
    except HeterofedsynError as error:
        note(f"remark: {error}")
