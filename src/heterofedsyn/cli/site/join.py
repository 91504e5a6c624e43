"""`heterofedsyn site join`: a key, and a request that the hub signs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heterofedsyn._words import aloud
from heterofedsyn.cli._show import note, say
from heterofedsyn.errors import UsageError

Place = Annotated[
    Path,
    typer.Option("--folder", metavar="DIR", help="Of the whole site; this one unless given."),
]
HERE = Path()
FederationName = Annotated[str | None, typer.Option(metavar="NAME", help="Which one to join.")]
SiteName = Annotated[
    str | None, typer.Option(metavar="NAME", help="Of this site, as studies call it.")
]


def join(
    federation: FederationName = None,
    name: SiteName = None,
    organisation: Annotated[
        str | None,
        typer.Option(metavar="WORD", help="Whose site it is; as the site is called unless given."),
    ] = None,
    folder: Place = HERE,
    renew: Annotated[
        bool,
        typer.Option(
            "--renew",
            help="A new key and certificate for the kit that is here, which has both names.",
        ),
    ] = False,
) -> None:
    """Make a private key, which stays, and a request for the hub."""
    from heterofedsyn.federation.joining import join as make_request
    from heterofedsyn.federation.party import Party

    if renew:
        here = Party.load(folder)
        federation, name = federation or here.federation, name or here.name
    if federation is None or name is None:
        raise UsageError(
            "a site joins with both names, --federation and --name; with --renew the kit has them"
        )
    made = make_request(federation, name, folder, organisation=organisation, renew=renew)
    say(f"send {made.request} to the hub of {federation}")
    say(f"fingerprint of the key, to read out by telephone: {aloud(made.key)}")
    more = "" if renew else " --fingerprint, and the root's fingerprint that the hub tells you"
    note(f"next, with its answer: heterofedsyn site kit {name}.signed.zip{more}")
