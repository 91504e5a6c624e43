"""`heterofedsyn site ledger` and `ledger repair`: what the table has spent."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heterofedsyn._words import short
from heterofedsyn.cli._options import Json
from heterofedsyn.cli._show import note, say, say_json, show_table
from heterofedsyn.cli.site._shared import HERE, MOST_LINES, Folder
from heterofedsyn.cli.site.peer import own_key
from heterofedsyn.errors import LedgerDisputed

if TYPE_CHECKING:
    from heterofedsyn.site.ledger.entries import Account
    from heterofedsyn.site.settings import SiteSettings

app = typer.Typer(help="What the table has spent.", invoke_without_command=True)

_BAR = 40


@app.callback()
def ledger(context: typer.Context, folder: Folder = HERE, as_json: Json = False) -> None:
    """What the table has spent, and what is left; also while the agent serves."""
    from heterofedsyn.site.balance import ledger_json
    from heterofedsyn.site.ledger.books import Books
    from heterofedsyn.site.ledger.locked import check_unlocked
    from heterofedsyn.site.settings import SiteSettings

    if context.invoked_subcommand is not None:
        context.obj = folder
        return
    settings = SiteSettings.load(folder)
    account = Books.read(settings.folder, settings.anchor)
    if as_json:
        say_json(ledger_json(settings, account))
    else:
        show_ledger(settings, account)
    try:
        check_unlocked(settings.folder)
    except LedgerDisputed as locked:
        note(f"remark: {locked}")


@app.command()
def repair(
    context: typer.Context,
    folder: Annotated[
        Path | None,
        typer.Option("--folder", metavar="DIR", help="The site's folder; `site` unless given."),
    ] = None,
    restored: Annotated[
        bool,
        typer.Option(
            "--restored", help="Ledger and anchor agree, but both are from an older copy."
        ),
    ] = False,
) -> None:
    """Make a damaged or restored ledger usable.

    Books what ledger or anchor says is spent, whichever is more, and one full study on top. No
    consent that was given before holds any longer, and the site signs with a new key.
    """
    from heterofedsyn.site.ledger.books import Books
    from heterofedsyn.site.owner import own_settings

    settings = own_settings(folder or context.obj)
    account = Books.repair(
        settings.folder,
        settings.anchor,
        settings.study_cap,
        restored=restored,
        alone_cap=settings.alone_cap,
    )
    booked = account.repairs[-1]
    say(f"rho {booked.rho:.6g} was booked for what may be missing")
    if booked.budget_alone != booked.budget:
        say(f"rho {booked.budget_alone.rho:.6g} in case that answers are seen by themselves")
    say("no study is approved any longer; `heterofedsyn site approve` those that may go on")
    if booked.key:
        say("the signing key is a new one; studies under secure aggregation must be made anew")
        for line in own_key(settings, booked.key):
            say(line)
    show_balance(settings, account)


def show_ledger(settings: SiteSettings, account: Account) -> None:
    """The last entries, and what is left."""
    from heterofedsyn.site.balance import abouts_of, ledger_head, ledger_lines, schemas_of

    lines = ledger_lines(settings, account)
    shown = lines[-MOST_LINES:]
    if len(shown) < len(lines):
        say(f"the last {len(shown):,} of {len(lines):,} entries; --json has all")
    show_table(
        f"Ledger of {settings.name}",
        ledger_head(settings, account),
        shown,
        whole="" if sys.stdout.isatty() else "study",
    )
    for study, about in abouts_of(settings, account).items():
        if about.lines:
            say(f"study {short(study)}: {'; '.join(about.lines)}")
    by_schema: dict[str, list[str]] = {}
    for study, schema in schemas_of(settings, account).items():
        by_schema.setdefault(schema or "not recorded", []).append(short(study))
    for schema, studies in by_schema.items():
        say(f"public schema of {', '.join(studies)}: {schema}")
    show_balance(settings, account)


def show_balance(settings: SiteSettings, account: Account) -> None:
    """What is left under either cap."""
    from heterofedsyn.site.balance import balances

    for share, words in balances(settings, account):
        full = int(_BAR * (share or 0.0))
        bar = "" if share is None else f"[{'#' * full}{'.' * (_BAR - full)}] "
        say(f"{bar}{words}")
