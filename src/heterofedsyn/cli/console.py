"""`heterofedsyn console`: pages in the browser, on this machine alone."""

from __future__ import annotations

import os
import signal
import sys
import webbrowser
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heterofedsyn.cli._show import note, say
from heterofedsyn.cli._signals import endings
from heterofedsyn.cli.site._shared import HERE, Folder
from heterofedsyn.console import PACKAGES
from heterofedsyn.errors import UsageError

if TYPE_CHECKING:
    from heterofedsyn.console.pages import Role


def console(
    folder: Folder = HERE,
    study_folder: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="A folder of studies and releases, for their coordinator."
        ),
    ] = None,
    kit: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The coordinator's startup kit, to see what runs."),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="On 127.0.0.1; a free one unless given.")
    ] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address; open nothing.")
    ] = False,
) -> None:
    """Look and decide in the browser.

    At a site it is the steward's: studies, consent, ledger, receipts. It is the coordinator's if a
    folder of studies or a kit is named. The address that is printed opens it once, within 15
    minutes; Ctrl-C ends it.
    """
    for name in PACKAGES:
        if find_spec(name) is None:
            raise UsageError(
                f"the console needs {name}; install it with: pip install 'heterofedsyn[console]'"
            )
    from heterofedsyn.console.serving import RENEWAL, Console, opener

    role = _role(folder, study_folder, kit)
    with ExitStack() as stack:
        stack.callback(os.umask, os.umask(0o077))
        served = stack.enter_context(Console(role, port=port, tell=_tell, log=_log))
        for number in (signal.SIGINT, *endings()):
            signal.signal(number, lambda *_: served.stop())
        if RENEWAL is not None:
            signal.signal(RENEWAL, lambda *_: served.renew())
        address = served.invite()
        _tell(address)
        if not no_browser and _has_screen():
            webbrowser.open(stack.enter_context(opener(address)).as_uri())
        served.run()
    note("the console is closed")


def _role(folder: Path, study_folder: Path | None, kit: Path | None) -> Role:
    """Whose pages are shown: the folder says it, and only its owner may ask."""
    if study_folder is not None or kit is not None:
        from heterofedsyn.console.coordinator import coordinator

        return coordinator(study_folder or Path(), kit)
    from heterofedsyn.console.steward import steward
    from heterofedsyn.site.owner import own_settings

    return steward(own_settings(folder))


def _tell(address: str) -> None:
    """The address, where whoever started the console sees it."""
    say("open this in a browser on this machine; it works once, within 15 minutes:")
    say(address)
    sys.stdout.flush()


def _log(text: str) -> None:
    when = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    note(f"{when} {text}")


def _has_screen() -> bool:
    """Whether a browser would have a window; without one it might take over the terminal."""
    return sys.platform == "darwin" or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
