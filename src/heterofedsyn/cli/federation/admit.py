"""`heterofedsyn federation admit` and `remove`: who is in."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from heterofedsyn._defaults import CERTIFICATE_DAYS
from heterofedsyn.cli._show import note, say
from heterofedsyn.errors import PrivacyRefusal, UsageError

Root = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="The folder of the root key; FEDERATION/root or root unless given."
    ),
]
ServerKit = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="The server's kit; beside the root's folder unless given."),
]


def admit(
    request: Annotated[
        Path, typer.Argument(metavar="REQUEST", help="What `site join` made: NAME.request.zip.")
    ],
    root: Root = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The answer; NAME.signed.zip here unless given."),
    ] = None,
    fingerprint: Annotated[
        str | None,
        typer.Option(help="Of the site's key, as it was told: no other is signed, and none asked."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="The fingerprint was compared; do not ask.")
    ] = False,
    renew: Annotated[
        bool, typer.Option("--renew", help="A new certificate for a site that is or was in.")
    ] = False,
    days: Annotated[
        int, typer.Option(help="How long the certificate is valid.")
    ] = CERTIFICATE_DAYS,
    kit: ServerKit = None,
) -> None:
    """Show who asks to take part, and sign it.

    The answer goes back to the site; it holds no secret. Signing needs the root key.
    """
    from heterofedsyn import __version__
    from heterofedsyn.engines.nvflare.provisioning import normal_fingerprint, nvflare_version
    from heterofedsyn.federation import admission

    told = None if fingerprint is None else normal_fingerprint(fingerprint)
    asking = admission.read_asking(request, root, renew=renew)
    name = asking.request.name
    for line in asking.lines():
        note(line)
    if told is None and not yes:
        if not sys.stdin.isatty():
            raise UsageError("a request needs a terminal to confirm it, --fingerprint, or --yes")
        if not typer.confirm(f"Did {name} read out the same fingerprint?", err=True):
            raise PrivacyRefusal(f"not confirmed: this may not be {name}; ask it by telephone")
    answer = out or Path(f"{name}.signed.zip")
    admission.admit(asking, answer, days=days, fingerprint=told)
    say(f"{name} is admitted for {days} days; send {answer} back to it")
    note(f"tell it the versions here: heterofedsyn {__version__}, NVFlare {nvflare_version()}")
    if asking.before is not None and asking.before.removed:
        place = kit or _server_kit(asking.root)
        if place is None:
            note(f"take {name} out of {admission.DISABLED} in the server's kit, and start it again")
        else:
            admission.refuse_name(place, name, refused=False)
            note("start the server again: it let that name in no longer")


def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The site, as studies call it.")],
    root: Root = None,
    kit: ServerKit = None,
) -> None:
    """Take a site out of the federation.

    Its certificate cannot be called back: the server refuses the name, from its next start on.
    """
    from heterofedsyn.federation import admission

    place = root or admission.only_root()
    server = kit or _server_kit(place)
    record = admission.remove(name, place, server)
    say(f"{name} is removed since {record.removed}")
    if server is None:
        say(
            f"the server's kit is not here: run this there with --kit, or write "
            f'{{"disabled_clients": ["{name}"]}} to {admission.DISABLED} in it'
        )
    say("start the server again, and it lets that name in no more")
    say(
        "what that does not do: the certificate stays valid until it runs out, so it still opens a "
        "connection; if its key is in wrong hands, make a new federation; leave the site out of "
        "new studies"
    )


def _server_kit(root: Path) -> Path | None:
    from heterofedsyn.federation.founding import HUB
    from heterofedsyn.federation.party import KIT

    place = root.parent / HUB / KIT
    return place if place.is_dir() else None
