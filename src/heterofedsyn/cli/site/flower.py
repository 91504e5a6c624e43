"""`heterofedsyn site flower|relay`: a site of a federation that Flower carries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heterofedsyn._defaults import PREFIX
from heterofedsyn._words import aloud
from heterofedsyn.cli._show import note, say
from heterofedsyn.cli.federation.new import Prefix, Programs
from heterofedsyn.cli.site.join import HERE, FederationName, Place, SiteName
from heterofedsyn.cli.site.kit import Anchor, say_next
from heterofedsyn.errors import UsageError


def flower(
    federation: FederationName = None,
    name: SiteName = None,
    superlink: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where the SuperLink is reached.")
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The certificate that signed the SuperLink's."),
    ] = None,
    fingerprint: Annotated[
        str | None, typer.Option(help="Of that certificate, as the hub told it by telephone.")
    ] = None,
    runtime_port: Annotated[
        int, typer.Option(help="Of the SuperNode, on this machine alone.")
    ] = 9094,
    runs_apps: Annotated[
        bool,
        typer.Option(
            "--runs-apps",
            help="Let the SuperNode run what submitters ship; not needed for studies.",
        ),
    ] = False,
    folder: Place = HERE,
    anchor: Anchor = None,
    prefix: Prefix = PREFIX,
    programs: Programs = None,
    harden: Annotated[
        bool, typer.Option("--harden", help="Write units and scripts of the site here anew.")
    ] = False,
) -> None:
    """Make a key for Flower's SuperNode, and all units of a site.

    These are agent, SuperNode and relay. The relay answers for the SuperNode, so that no code which
    a submitter ships is run here.
    """
    import hashlib

    from heterofedsyn.federation import flower_site, party

    place = None if programs is None else programs.absolute()
    if place is not None:
        party.check_programs(place)
    if harden:
        made = flower_site.harden_flower(folder, runs_apps=runs_apps, programs=place)
        say(f"units and scripts of {made.name} are as version {made.version} says")
        note(f"next, as root: sh {made.folder}/start.sh")
        return
    if not (federation and name and superlink and root and fingerprint):
        raise UsageError(
            "a site joins with --federation, --name, --superlink, --root and --fingerprint"
        )
    party.check_free(prefix)
    if place is None and (remark := party.remark_on_programs()):
        note(f"{remark}, then: heterofedsyn site flower --harden --programs DIR")
    made, public = flower_site.join_flower(
        federation,
        name,
        folder,
        superlink=superlink,
        root=root,
        fingerprint=fingerprint,
        runtime_port=runtime_port,
        runs_apps=runs_apps,
        prefix=prefix,
        anchor=anchor,
        programs=place,
    )
    say(f"send {public} to the hub of {federation}, which registers it as {name!r}")
    digest = hashlib.sha256(public.read_bytes()).hexdigest()
    say(f"sha256 of that file, to read out by telephone: {aloud(digest)}")
    say_next(made)


def relay(
    supernode: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Its runtime API, on this machine.")
    ] = "127.0.0.1:9094",
    secret: Annotated[
        Path, typer.Option(metavar="FILE", help="That the SuperNode was started with.")
    ] = Path("kit/secret"),
    certificate: Annotated[
        Path, typer.Option(metavar="FILE", help="That the SuperNode shows on that address.")
    ] = Path("kit/runtime.pem"),
) -> None:
    """Answer for a SuperNode by asking the agent, until ended.

    Takes the place of Flower's SuperExec, which starts a process for every message and runs what
    submitters ship; this one stays, and runs nothing. HETEROFEDSYN_SOCKET names the agent's socket.
    """
    import logging

    from heterofedsyn._files import read_whole, reason
    from heterofedsyn.engines.flower.bundle import flower_version

    flower_version()
    from heterofedsyn.engines.flower.resident import Resident

    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    contents = []
    for path in (secret, certificate):
        try:
            contents.append(read_whole(path, 2**14))
        except OSError as error:
            raise UsageError(f"cannot read {path}: {reason(error)}") from None
    resident = Resident(supernode, *contents)
    note(f"answering for the SuperNode at {supernode}")
    resident.serve()
