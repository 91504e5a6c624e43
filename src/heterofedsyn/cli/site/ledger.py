"""`heterofedsyn site ledger` and `ledger repair`: what the table has spent."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from heterofedsyn._words import short
from heterofedsyn.cli._options import Json
from heterofedsyn.cli._show import note, say, say_json, show_table
from heterofedsyn.cli.site._shared import HERE, MOST_LINES, Folder, left, own_settings
from heterofedsyn.cli.site.peer import own_key
from heterofedsyn.errors import HeterofedsynError, LedgerDisputed

if TYPE_CHECKING:
    from heterofedsyn.privacy.budget import Budget
    from heterofedsyn.site.ledger.entries import Account, Charged, Repaired
    from heterofedsyn.site.settings import SiteSettings

app = typer.Typer(help="What the table has spent.", invoke_without_command=True)

_BAR = 40


@app.callback()
def ledger(context: typer.Context, folder: Folder = HERE, as_json: Json = False) -> None:
    """What the table has spent, and what is left; also while the agent serves."""
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
    alone = _tells_alone(settings, account)
    lines: list[tuple[int, str, str, str, Charged | Repaired]] = [
        (charged.number, charged.when, short(charged.study), charged.label, charged)
        for charged in account.charges
    ]
    lines += [(booked.number, booked.when, "", "repair", booked) for booked in account.repairs]
    lines.sort(key=lambda line: line[0])
    shown = lines[-MOST_LINES:]
    if len(shown) < len(lines):
        say(f"the last {len(shown):,} of {len(lines):,} entries; --json has all")
    show_table(
        f"Ledger of {settings.name}",
        ["when", "entry", "study", "for", "rho", *(["rho alone"] if alone else [])],
        [
            [
                when,
                f"{number:,}",
                study,
                label,
                f"{booked.rho:.4g}",
                *([f"{booked.budget_alone.rho:.4g}"] if alone else []),
            ]
            for number, when, study, label, booked in shown
        ],
        whole="" if sys.stdout.isatty() else "study",
    )
    by_schema: dict[str, list[str]] = {}
    for study, schema in schemas_of(settings, account).items():
        by_schema.setdefault(schema or "not recorded", []).append(short(study))
    for schema, studies in by_schema.items():
        say(f"public schema of {', '.join(studies)}: {schema}")
    show_balance(settings, account)


def schemas_of(settings: SiteSettings, account: Account) -> dict[str, str]:
    """The fingerprint of the public schema of every study with a charge, as its consent has it."""
    from heterofedsyn.site.consent import CONSENT, consent_folder, read_consent

    found = {}
    for study in dict.fromkeys(charged.study for charged in account.charges):
        found[study] = ""
        with suppress(HeterofedsynError):  # what is damaged is told of where it matters
            found[study] = read_consent(consent_folder(settings, study) / CONSENT).schema
    return found


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
        "spent_alone_rho": account.spent_alone.rho,
        "spent_alone_epsilon": account.spent_alone.epsilon(settings.delta),
        "alone_cap_rho": None if settings.alone_cap is None else settings.alone_cap.rho,
        "alone_cap_epsilon": settings.alone_epsilon,
        "number": account.number,
        "head": account.head,
        "schemas": schemas_of(settings, account),
        "charges": [
            {
                "number": charged.number,
                "when": charged.when,
                "study": charged.study,
                "query": charged.query,
                "label": charged.label,
                "integers": charged.integers,
                "rho": charged.rho,
                "rho_alone": charged.budget_alone.rho,
            }
            for charged in account.charges
        ],
        "repairs": [
            {
                "number": booked.number,
                "when": booked.when,
                "rho": booked.rho,
                "rho_alone": booked.budget_alone.rho,
            }
            for booked in account.repairs
        ],
    }


def show_balance(settings: SiteSettings, account: Account) -> None:
    """What is left under either cap."""
    delta = settings.delta
    say(balance(account.spent, settings.cap, settings.epsilon, delta))
    if (cap := settings.alone_cap) is not None:
        words = balance(account.spent_alone, cap, settings.alone_epsilon or 0.0, delta)
        say(f"{words}, if each answer is seen by itself")
    elif _tells_alone(settings, account):
        alone = account.spent_alone
        say(
            f"if each answer is seen by itself: rho {alone.rho:.4g} is spent, epsilon "
            f"{alone.epsilon(delta):.4g} at delta {delta:g}; no cap is set on that"
        )


def balance(spent: Budget, cap: Budget, epsilon: float, delta: float) -> str:
    """What is left of a cap of this epsilon, as a bar and in figures."""
    share = max(0.0, cap.rho - spent.rho) / cap.rho
    full = int(_BAR * share)
    return (
        f"[{'#' * full}{'.' * (_BAR - full)}] {share:.1%} left: rho {spent.rho:.4g} of "
        f"{cap.rho:.4g} is spent, epsilon {spent.epsilon(delta):.4g} of {epsilon:g} at delta "
        f"{delta:g}"
    )


def _tells_alone(settings: SiteSettings, account: Account) -> bool:
    """Whether answers seen by themselves have a price of their own here, or a cap."""
    return settings.alone_cap is not None or account.booked_alone != account.booked
