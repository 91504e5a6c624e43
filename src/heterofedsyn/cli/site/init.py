"""`heterofedsyn site init`: a site is set up once."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heterofedsyn._defaults import PARTY, SITE_OF_KIT
from heterofedsyn._words import MOST_CLAMPED, MOST_MISFIT
from heterofedsyn.cli._fit import MostClamped, MostMisfit
from heterofedsyn.cli._show import note
from heterofedsyn.cli.site._shared import HERE, Folder, check_rows, keep_details, show_misfits
from heterofedsyn.cli.site.peer import own_key
from heterofedsyn.errors import DataError, UsageError

if TYPE_CHECKING:
    from heterofedsyn.federation.party import Party


def init(
    folder: Folder = HERE,
    schema: Annotated[Path | None, typer.Option(help="The public schema (TOML).")] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="LOCATION", help="The private rows: a file, or a database's query."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The site's name, as studies say it.")] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="The most the table may ever spend, at --delta.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Below 1 / (all rows); 1e-9 is usual.")
    ] = None,
    study_epsilon: Annotated[
        float | None, typer.Option(help="The most one study may spend, at the same delta.")
    ] = None,
    alone_epsilon: Annotated[
        float | None,
        typer.Option(
            help="Opts in to secure aggregation: the most all answers may cost if each is seen by "
            "itself, at the same delta."
        ),
    ] = None,
    anchor: Annotated[
        Path | None,
        typer.Option(help="A file, best on another disk, that repeats the end of the ledger."),
    ] = None,
    socket: Annotated[
        Path | None, typer.Option(help="Where the agent will answer; in a folder of its own.")
    ] = None,
    engine: Annotated[
        str | None, typer.Option(metavar="USER", help="Who carries messages: another user.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(help="The group of both users; that of --engine unless given."),
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column that identifies a person, if rows do not; the ledger keeps it for life.",
        ),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(
            help="More rows than the table has or will have; over twice as many unless given."
        ),
    ] = None,
    most_misfit: MostMisfit = MOST_MISFIT,
    most_clamped: MostClamped = MOST_CLAMPED,
) -> None:
    """Set up a site: settings, an empty ledger and a key.

    Asks on a terminal for what is not given. The caps are kept in site.toml and nowhere else. In a
    folder that `site kit` made, name, anchor, socket and users are those of its units.
    """
    from heterofedsyn._files import check_place
    from heterofedsyn.privacy.budget import large_delta
    from heterofedsyn.site.create import create_site
    from heterofedsyn.site.misfits import Tolerance, dialect_hint
    from heterofedsyn.site.settings import SiteSettings, group_of, propose
    from heterofedsyn.sources import anchored, open_source

    tolerance = Tolerance(most_misfit, most_clamped)
    asked = _Answers()
    place = Path(os.path.realpath(folder))
    party = _party(place)
    if party is not None and party.anchor is not None:
        name, anchor = name or party.name, anchor or party.anchor / party.name
        socket, engine = socket or party.socket, engine or party.engine
        group = group or party.group
        if engine == party.engine:
            _check_agent(party)
    check_place(folder)
    if os.path.lexists(folder):
        raise UsageError(f"{folder} exists already; a site is never replaced: name another folder")
    schema = asked.path("--schema", "public schema", schema)
    data = asked.text("--data", "private rows (a file, or a database's query)", data)
    name = asked.text("--name", "the site's name in studies", name)
    epsilon = asked.number("--epsilon", "most epsilon of the table, ever", epsilon)
    delta = asked.number("--delta", "at which delta", delta, "1e-9")
    study_epsilon = asked.number("--study-epsilon", "most epsilon of one study", study_epsilon)
    anchor = asked.path("--anchor", "anchor of the ledger, on another disk", anchor)
    socket = asked.path("--socket", "socket of the agent", socket)
    engine = asked.text("--engine", "user that carries messages", engine)
    asked.check()
    settings = SiteSettings(
        folder=place,
        name=name,
        schema=schema,
        source=anchored(data),
        epsilon=epsilon,
        delta=delta,
        study_epsilon=study_epsilon,
        alone_epsilon=alone_epsilon,
        anchor=anchor,
        socket=socket,
        engine=engine,
        group=group_of(engine) if group is None else group,
        unit=unit,
        rows=rows,
    )
    _ = settings.askers(), settings.group_id()  # refuse what they refuse
    public, source = settings.load_schema(), open_source(settings.source)
    checked = check_rows(source, public, unit, 1)
    hint = dialect_hint(checked, [source], public)
    try:
        tolerance.check(checked, public, hint)
    except DataError:
        show_misfits(checked, public)
        note("no site was made; `heterofedsyn schema check --details FILE` tells which rows it is")
        raise
    if settings.rows is None:
        settings = replace(settings, rows=propose(checked.rows_read))
    key = create_site(settings)
    show_misfits(checked, public)
    keep_details(settings, checked, public)
    if hint is not None:
        note(f"remark: {hint}")
    note(f"site {name!r} in {place}")
    for line in own_key(settings, key):
        note(line)
    note(
        f"cap: epsilon {epsilon:g} in all, {study_epsilon:g} for one study, at delta {delta:g} "
        f"(rho {settings.cap.rho:.4g} and {settings.study_cap.rho:.4g})"
    )
    if settings.alone_cap is not None:
        note(
            f"under secure aggregation, if answers are seen by themselves: epsilon "
            f"{alone_epsilon:g} in all (rho {settings.alone_cap.rho:.4g})"
        )
    for remark in settings.remarks():
        note(remark)
    for remark in large_delta(delta, checked.rows_read):
        note(f"remark: {remark}")
    if settings.shares_disk():
        note(
            f"remark: the anchor {anchor} is on the same disk as the ledger; whoever restores that "
            "disk restores both, and nobody notices"
        )


def _party(folder: Path) -> Party | None:
    """The party of a federation whose site a folder will be, if it is one's."""
    from heterofedsyn.federation.party import Party

    above = folder.parent.parent
    if folder != above / SITE_OF_KIT or not (above / PARTY).is_file():
        return None
    party = Party.load(above)
    return party if party.site == folder else None


def _check_agent(party: Party) -> None:
    """Refuse to make a site that the agent of its kit's units could not read."""
    from heterofedsyn._files import user_name

    if user_name() != party.agent:
        raise UsageError(
            f"the site of this kit belongs to its agent's user, and you are {user_name()}; run as "
            f"root: sh users.sh, then: runuser -u {party.agent} -- "
            f"{party.programs / 'heterofedsyn'} site init, with the same options"
        )


class _Answers:
    """Settings from options, or from a person at a terminal."""

    def __init__(self) -> None:
        self._person = sys.stdin.isatty()
        self._missing: list[str] = []

    def text(self, option: str, words: str, given: str | None, usual: str | None = None) -> str:
        """What was given, or what the person says."""
        if given is not None:
            return given
        if not self._person:
            self._missing.append(option)
            return ""
        return str(typer.prompt(words, default=usual, err=True)).strip()

    def path(self, option: str, words: str, given: Path | None) -> Path:
        """A path from the root."""
        said = self.text(option, words, None if given is None else str(given))
        return Path(os.path.abspath(Path(said).expanduser()))  # noqa: PTH100

    def number(
        self, option: str, words: str, given: float | None, usual: str | None = None
    ) -> float:
        """A number."""
        if given is not None:
            return given
        said = self.text(option, words, None, usual)
        try:
            return float(said or "nan")
        except ValueError:
            raise UsageError(f"{words}: {said!r} is no number; see {option}") from None

    def check(self) -> None:
        """Refuse to go on if something is missing and there is nobody to ask."""
        if self._missing:
            raise UsageError(
                f"{', '.join(self._missing)} must be given, since there is no terminal to ask on"
            )
