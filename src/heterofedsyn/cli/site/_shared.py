"""What the steward's commands share: options, whose site it is, which study is meant."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heterofedsyn._defaults import PARTY, SITE_OF_KIT
from heterofedsyn.cli._fit import show_fit
from heterofedsyn.cli._show import note, pace, say
from heterofedsyn.errors import HeterofedsynError, UsageError

if TYPE_CHECKING:
    from heterofedsyn.schema import Schema
    from heterofedsyn.site.misfits import Checked
    from heterofedsyn.site.settings import SiteSettings
    from heterofedsyn.sources import Source

HERE = Path("site")


def _site_here(folder: Path) -> Path:
    """The site that is meant if none is named: that of the kit that is here, or `site`."""
    of_kit = folder == HERE and Path(PARTY).is_file() and not HERE.exists()
    return Path(SITE_OF_KIT) if of_kit else folder


Folder = Annotated[
    Path,
    typer.Option(
        "--folder",
        metavar="DIR",
        callback=_site_here,
        help=f"The site's folder; `site` unless given, or {SITE_OF_KIT} beside a kit.",
    ),
]
StudyName = Annotated[
    str,
    typer.Argument(metavar="STUDY", help="The study's file, or the start of its fingerprint."),
]
Who = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Who decides; the user's name unless given, if that is a person's."
    ),
]
MOST_LINES = 40
"""Of a table on the terminal."""


def who_decides(given: str | None) -> str:
    """The person that consents: who was named, or the user if that is one who logs in.

    Raises:
        UsageError: if nobody was named and the user is nobody, as that of an agent.
    """
    from heterofedsyn._files import logs_in, user_name

    if given:
        return given
    if not logs_in():
        raise UsageError(
            f"say who decides with --who NAME: {user_name()} is the user of a process, and says "
            "nothing about the person"
        )
    return user_name()


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
