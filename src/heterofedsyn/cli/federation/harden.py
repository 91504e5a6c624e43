"""`heterofedsyn federation harden`: the server's settings as the installed version wants them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heterofedsyn.cli._show import note, say

HERE = Path()


def harden(
    folder: Annotated[
        Path,
        typer.Option(
            "--folder", metavar="DIR", help="The hub's, which has its kit; this one unless given."
        ),
    ] = HERE,
) -> None:
    """Write the settings of the server's kit anew.

    And unit and scripts: after an update, or when somebody changed them.
    """
    from heterofedsyn.federation.joining import harden_again

    made = harden_again(folder, "hub")
    say(f"{made.kit} refuses code, and unit and scripts are as version {made.version} says")
    note(f"next, as root: sh {made.folder}/start.sh; systemctl restart {made.prefix}-hub")
