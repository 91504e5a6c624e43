"""`heterofedsyn site ledger` and `ledger repair`: what the table has spent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from heterofedsyn._words import short
from heterofedsyn.cli._options import Json
from heterofedsyn.cli._show import say, say_json, show_table
from heterofedsyn.cli.site._shared import HERE, MOST_LINES, Folder, left, own_settings

if TYPE_CHECKING:
    from heterofedsyn.site.ledger.entries import Account
    from heterofedsyn.site.settings import SiteSettings

app = typer.Typer(help="What the table has spent.", invoke_without_command=True)

_BAR = 40


@app.callback()
def ledger(context: typer.Context, folder: Folder = HERE, as_json: Json = False) -> None:
    """What the table has spent, and what is left; also while the agent serves."""
    from heterofedsyn.site.ledger.books import Books
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
    consent that was given before holds any longer.
    """
    from heterofedsyn.site.ledger.books import Books

    settings = own_settings(folder or context.obj)
    account = Books.repair(settings.folder, settings.anchor, settings.study_cap, restored=restored)
    say(f"rho {account.repairs[-1].rho:.6g} was booked for what may be missing")
    say("no study is approved any longer; `heterofedsyn site approve` those that may go on")
    say(balance(settings, account))


def show_ledger(settings: SiteSettings, account: Account) -> None:
    """The last entries, and what is left."""
    lines = [
        (charged.number, charged.when, short(charged.study), charged.label, charged.rho)
        for charged in account.charges
    ]
    lines += [(booked.number, booked.when, "", "repair", booked.rho) for booked in account.repairs]
    lines.sort()
    shown = lines[-MOST_LINES:]
    if len(shown) < len(lines):
        say(f"the last {len(shown):,} of {len(lines):,} entries; --json has all")
    show_table(
        f"Ledger of {settings.name}",
        ["when", "entry", "study", "for", "rho"],
        [
            [when, f"{number:,}", study, label, f"{rho:.4g}"]
            for number, when, study, label, rho in shown
        ],
    )
    say(balance(settings, account))


def ledger_json(settings: SiteSettings, account: Account) -> dict[str, Any]:
    """The same for programs."""
    return {
        "site": settings.name,
        "spent_rho": account.spent.rho,
        "cap_rho": settings.cap.rho,
        "left_rho": left(settings, account),
        "spent_epsilon": account.spent.epsilon(settings.delta),
        "cap_epsilon": settings.epsilon,
        "delta": settings.delta,
        "number": account.number,
        "head": account.head,
        "charges": [
            {
                "number": charged.number,
                "when": charged.when,
                "study": charged.study,
                "query": charged.query,
                "label": charged.label,
                "integers": charged.integers,
                "rho": charged.rho,
            }
            for charged in account.charges
        ],
        "repairs": [
            {"number": booked.number, "when": booked.when, "rho": booked.rho}
            for booked in account.repairs
        ],
    }


def balance(settings: SiteSettings, account: Account) -> str:
    """What is left, as a bar and in figures."""
    rest, cap = left(settings, account), settings.cap.rho
    full = int(_BAR * rest / cap)
    spent = account.spent
    return (
        f"[{'#' * full}{'.' * (_BAR - full)}] {rest / cap:.1%} left: rho {spent.rho:.4g} of "
        f"{cap:.4g} is spent, epsilon {spent.epsilon(settings.delta):.4g} of "
        f"{settings.epsilon:g} at delta {settings.delta:g}"
    )
