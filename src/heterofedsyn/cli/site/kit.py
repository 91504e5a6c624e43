"""`heterofedsyn site kit`: the hub's answer becomes a hardened kit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heterofedsyn._defaults import PREFIX
from heterofedsyn.cli._show import note, say
from heterofedsyn.cli.federation.new import Prefix, Programs
from heterofedsyn.cli.site.join import HERE, Place
from heterofedsyn.errors import UsageError

if TYPE_CHECKING:
    from heterofedsyn.federation.party import Party

Anchor = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="For the ledger's anchor, best on another disk; /var/lib/PREFIX-anchor unless given.",
    ),
]


def kit(
    signed: Annotated[
        Path | None,
        typer.Argument(metavar="SIGNED", help="What the hub sent back: NAME.signed.zip."),
    ] = None,
    fingerprint: Annotated[
        str | None,
        typer.Option(help="Of the federation's root, as the hub told it by telephone."),
    ] = None,
    folder: Place = HERE,
    anchor: Anchor = None,
    prefix: Prefix = PREFIX,
    programs: Programs = None,
    harden: Annotated[
        bool, typer.Option("--harden", help="Write the settings of the kit that is here anew.")
    ] = False,
) -> None:
    """Make a hardened kit of the hub's answer, which takes no code.

    Writes units and a script that makes two users, too. With a kit in use it is a renewal.
    """
    from heterofedsyn.federation import joining, party

    if harden == (signed is not None):
        raise UsageError("name either the hub's answer, NAME.signed.zip, or --harden")
    place = None if programs is None else programs.absolute()
    if place is not None:
        party.check_programs(place)
    if signed is None:
        if anchor is not None or prefix != PREFIX:
            raise UsageError("--anchor and --prefix are chosen with the first kit; leave them out")
        made = joining.harden_again(folder, programs=place)
        say(f"{made.kit} refuses code, and units and scripts are as version {made.version} says")
        note(f"next, as root: sh {made.folder}/start.sh")
        return
    renewal = (folder / party.KIT).exists()
    if renewal and place is not None:
        raise UsageError("a renewal changes no programs; `site kit --harden --programs DIR` does")
    if not renewal:
        party.check_free(prefix)
    if not renewal and place is None and (remark := party.remark_on_programs()):
        note(f"{remark}, then: heterofedsyn site kit --harden --programs DIR")
    made = joining.unpack_kit(
        signed,
        folder,
        fingerprint=fingerprint,
        prefix=prefix,
        anchor=anchor,
        programs=place,
    )
    say(f"kit of {made.name} in {made.kit}: refuses code and shell commands, sends no log")
    if renewal:
        note(f"next: systemctl restart {made.prefix}-engine; then remove {joining.BEFORE}")
        return
    say_next(made)


def say_next(made: Party) -> None:
    """What is left to do at a new site."""
    from heterofedsyn.federation.party import ROWS

    run = f"runuser -u {made.agent} -- {made.programs / 'heterofedsyn'}"
    note(f"next, as root in {made.folder}: sh users.sh; put schema and rows in {ROWS}")
    note(
        f"then: {run} site init --schema {ROWS}/schema.toml --data {ROWS}/rows.parquet "
        "--epsilon 5 --study-epsilon 2 --delta 1e-9, with caps of your own"
    )
    note("then: sh start.sh; heterofedsyn site doctor")
