"""What the steward's commands share: options, whose site it is, which study is meant."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heterofedsyn._words import count, short
from heterofedsyn.cli._fit import show_fit
from heterofedsyn.cli._show import note, pace, say
from heterofedsyn.errors import HeterofedsynError, UsageError

if TYPE_CHECKING:
    from heterofedsyn.schema import Schema
    from heterofedsyn.site.ledger.entries import Account
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
FINAL_DIGITS = 8
"""Of a fingerprint, where what is done cannot be undone."""

DETAILS = "misfits.txt"
"""In the site's folder: which rows do not fit, as the last check found them."""

MOST_LINES = 40
"""Of a table on the terminal."""


def own_settings(folder: Path) -> SiteSettings:
    """The settings of a site of this very user: what another writes the agent could not read."""
    from heterofedsyn.site.settings import SiteSettings

    settings = SiteSettings.load(folder)
    owner = settings.folder.stat().st_uid
    if owner != os.geteuid():
        raise UsageError(
            f"{settings.folder} belongs to {_name(owner)}; run this as that user, not as "
            f"{user_name()}"
        )
    return settings


def find_study(settings: SiteSettings, text: str, least: int = 4) -> str:
    """The fingerprint of a study given by its file or by at least so many digits of it."""
    from heterofedsyn.protocol.study import Study

    path = Path(text)
    if path.is_file():
        return Study.load(path).fingerprint
    known = sorted(path.name for path in settings.studies.iterdir() if path.name[0] != ".")
    fitting = [name for name in known if name.startswith(text)]
    if len(text) < least or len(fitting) != 1:
        shown = ", ".join(map(short, known)) or "none"
        raise UsageError(
            f"there is no file {text!r}, and no one study starts so (at least {least} digits are "
            f"needed); known: {shown}"
        )
    return fitting[0]


def check_rows(source: Source, schema: Schema, unit: str | None, most: int) -> Checked:
    """The site's rows held against a schema."""
    from heterofedsyn.site.counting import check

    return check(
        [source], schema, unit=unit, max_rows_per_unit=most, watch=pace(f"reading {source.name}")
    )


def show_misfits(checked: Checked, schema: Schema) -> None:
    """What the schema check found, for the steward's eyes."""
    title = "Rows that do not fit the schema and are left out, and values outside of a range"
    show_fit(checked, schema, title, all_columns=False)
    line = f"{count(checked.rows_read, 'row')} read, {checked.rows_dropped:,} do not fit"
    if checked.rows_over:
        line += f", {checked.rows_over:,} are more than one unit may contribute"
    say(f"{line}; these counts are exact: do not publish them")


def keep_details(settings: SiteSettings, checked: Checked, schema: Schema) -> None:
    """Which rows do not fit, in the site's folder, which nobody else may enter."""
    from heterofedsyn.site.misfits import write_details

    place = settings.folder / DETAILS
    try:
        note(write_details(place, checked, schema))
    except HeterofedsynError as error:
        note(f"remark: {error}")


def left(settings: SiteSettings, account: Account) -> float:
    """The rho that the table may still spend."""
    return max(0.0, settings.cap.rho - account.spent.rho)


def user_name() -> str:
    """The user's name by the operating system, which no environment variable can change."""
    return _name(os.geteuid())


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"
