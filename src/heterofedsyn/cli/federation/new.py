"""`heterofedsyn federation new`: the root key, the server and the coordinator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heterofedsyn._defaults import PORT, PREFIX
from heterofedsyn._words import aloud
from heterofedsyn.cli._show import note, say

Prefix = Annotated[
    str,
    typer.Option(
        metavar="WORD",
        help="Begins the names of users, group and units; others where a machine has several.",
    ),
]
Programs = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Where the programs are installed; where this one is unless given."
    ),
]


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the federation.")],
    hub: Annotated[str, typer.Option(metavar="HOST", help="How sites reach the hub's server.")],
    port: Annotated[int, typer.Option(help="The one port that the server opens.")] = PORT,
    folder: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A new folder; as the federation is called unless given."),
    ] = None,
    at: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where the hub's folder will lie on its server, if it is made elsewhere.",
        ),
    ] = None,
    coordinator: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Who runs studies, like an e-mail address; coordinator@HOST unless given.",
        ),
    ] = None,
    prefix: Prefix = PREFIX,
    programs: Programs = None,
) -> None:
    """Make a federation: root key, hardened server, coordinator's kit.

    Nothing is started. The root key signs everything; keep it off the server.
    """
    from heterofedsyn.federation.founding import new_federation
    from heterofedsyn.federation.party import check_programs, remark_on_programs

    if at is None:  # else they are on another machine
        if programs is not None:
            check_programs(programs.absolute())
        elif remark := remark_on_programs():
            note(f"{remark}, and name that with --programs DIR")

    note("making keys and certificates")
    made = new_federation(
        name,
        hub,
        folder or Path(name),
        port=port,
        prefix=prefix,
        at=None if at is None else at.absolute(),
        programs=None if programs is None else programs.absolute(),
        coordinator=coordinator,
    )
    say(f"federation {name}, hub {hub}:{port}, in {made.folder}")
    say(f"fingerprint of the root, to tell every site by telephone: {aloud(made.hub.fingerprint)}")
    say(f"root key: {made.root}; it signs everything: move it to a disk that is not the server's")
    say(f"kit of {made.coordinator}, for `study run --kit`: {made.coordinator_kit}")
    note(f"give {made.coordinator_kit.parent} to the coordinator's user: chown -R")
    at_server = made.hub.folder
    if at_server != made.hub_folder:
        note(f"next: move {made.hub_folder} to {at_server} on the server")
    note(f"next, as root on the server: sh {at_server}/users.sh && sh {at_server}/start.sh")
    note("then, for each request that a site sends: heterofedsyn federation admit NAME.request.zip")
