"""`heterofedsyn site serve`: the agent that answers."""

from __future__ import annotations

import os
import signal
import stat
from contextlib import closing, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from heterofedsyn.cli._show import note
from heterofedsyn.cli._signals import endings
from heterofedsyn.cli.site._shared import HERE, Folder
from heterofedsyn.errors import UsageError

if TYPE_CHECKING:
    from heterofedsyn.site.ledger.entries import Account
    from heterofedsyn.site.settings import SiteSettings


def serve(folder: Folder = HERE) -> None:
    """Answer approved studies until told to stop.

    First checks its own software and ledger. SIGTERM or Ctrl-C stops it.
    """
    from heterofedsyn.site.agent import Agent
    from heterofedsyn.site.ledger.anchor import check_anchor_folder
    from heterofedsyn.site.ledger.books import Books
    from heterofedsyn.site.ledger_unit import check_unit
    from heterofedsyn.site.log import PacedLog
    from heterofedsyn.site.owner import own_settings
    from heterofedsyn.site.selfcheck import keep_checked, self_check
    from heterofedsyn.site.server import Service

    settings = own_settings(folder)
    mode = stat.S_IMODE(settings.folder.stat().st_mode)
    if mode & 0o077:
        raise UsageError(
            f"{settings.folder} has mode {mode:04o}; nobody but the agent's user may look into it: "
            f"chmod 700 {settings.folder}"
        )
    check_anchor_folder(settings.anchor)
    with (
        closing(PacedLog(log_line)) as log,
        Books.open(settings.folder, settings.anchor) as books,
    ):
        check_unit(settings, books.account)
        for remark in settings.remarks():
            log_line(remark)
        os.umask(0o077)
        agent = Agent(settings, books, log=log)
        agent.prepare()
        lines = []
        for line in self_check(settings, books, agent.noise):
            log_line(line)
            lines.append(line)
        keep_checked(settings.folder, lines, now=datetime.now(UTC))
        with Service(agent, settings, log=log) as service:
            for number in (signal.SIGINT, *endings()):
                signal.signal(number, lambda *_: service.stop())
            log_line(f"site {settings.name!r}: {_spent(settings, books.account)}")
            log_line(f"answering on {settings.socket}")
            service.run()
    log_line("stopped; the ledger is closed and the socket is gone")
    if service.busy:
        # Whoever still reads after the time to stop would be waited for: Arrow calls Python there.
        os._exit(0)


def _spent(settings: SiteSettings, account: Account) -> str:
    """What is spent of either cap."""
    words = f"rho {account.spent.rho:.6g} of {settings.cap.rho:.6g} is spent"
    if (cap := settings.alone_cap) is not None:
        words += (
            f", rho {account.spent_alone.rho:.6g} of {cap.rho:.6g} if each answer is seen by itself"
        )
    return words


def log_line(text: str) -> None:
    """A line of the agent's log; a hub may have chosen some of its letters."""
    when = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    with suppress(OSError):  # nobody reads the log any more
        note(f"{when} {text}")
