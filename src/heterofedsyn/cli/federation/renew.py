"""`heterofedsyn federation renew`: a new certificate for the server or the coordinator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heterofedsyn.cli._show import note, say
from heterofedsyn.cli.federation.admit import Root


def renew(
    kit: Annotated[
        Path,
        typer.Argument(metavar="KIT", help="The server's kit or the coordinator's, in use."),
    ],
    root: Root = None,
) -> None:
    """Put a new key and certificate into the hub's own kit.

    Sites renew theirs with `site join --renew`. Signing needs the root key.
    """
    from heterofedsyn.federation.admission import only_root
    from heterofedsyn.federation.renewing import renew_own

    made = renew_own(kit, root or only_root())
    say(f"{made.name} has a new key and certificate in {kit}")
    if made.server:
        note("next: start the server again, and ask every site to start its engine again")
