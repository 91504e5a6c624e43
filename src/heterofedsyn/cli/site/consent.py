"""`heterofedsyn site preview`, `approve`, `withdraw` and `close`: what a study may have."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from heterofedsyn._words import MOST_CLAMPED, MOST_MISFIT, aloud
from heterofedsyn.cli._fit import MostClamped, MostMisfit
from heterofedsyn.cli._options import Json, OverwriteFile, StudyFile, check_file
from heterofedsyn.cli._show import note, protected, say, say_json, show_table
from heterofedsyn.cli.site._promise import show_promise
from heterofedsyn.cli.site._shared import (
    HERE,
    MOST_LINES,
    Folder,
    StudyName,
    Who,
    check_rows,
    keep_details,
    show_misfits,
)
from heterofedsyn.errors import NotApproved, PrivacyRefusal, UsageError

if TYPE_CHECKING:
    from heterofedsyn.hub.planning.preview import Preview
    from heterofedsyn.protocol.study import Study
    from heterofedsyn.schema import Fit
    from heterofedsyn.site.ledger.entries import Account
    from heterofedsyn.site.settings import SiteSettings


def preview(
    study: StudyFile,
    folder: Folder = HERE,
    most_misfit: MostMisfit = MOST_MISFIT,
    most_clamped: MostClamped = MOST_CLAMPED,
    summary: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html",
            help="Also write a sheet to print, for your file; nothing in it comes from rows.",
        ),
    ] = None,
    overwrite: OverwriteFile = False,
    as_json: Json = False,
) -> None:
    """What would leave for a study, before anything does.

    For the steward: it tells what the schema check found by column, reason and count, which must
    not be published, and fails at its end if too many rows are wrong.
    """
    from heterofedsyn.hub.planning.preview import preview as look_ahead
    from heterofedsyn.protocol.study import Study
    from heterofedsyn.site.consent import check_approvable, check_schema
    from heterofedsyn.site.ledger.books import Books
    from heterofedsyn.site.misfits import Tolerance, dialect_hint
    from heterofedsyn.site.promise import promise_json, remarks
    from heterofedsyn.site.settings import SiteSettings
    from heterofedsyn.sources import open_source

    now = datetime.now(UTC)
    if summary is not None:
        check_file(summary, ".html", overwrite=overwrite, option="--summary")
    tolerance = Tolerance(most_misfit, most_clamped)
    settings = SiteSettings.load(folder)
    asked = Study.load(study)
    check_schema(settings, asked)
    shown = look_ahead(asked, settings.name)
    account = Books.read(settings.folder, settings.anchor)
    refusal = None
    try:
        check_approvable(settings, asked, account, now)
    except NotApproved as error:
        refusal = str(error)
    if summary is not None:
        from heterofedsyn.report.build import write_page
        from heterofedsyn.report.study_summary import study_summary

        text = study_summary(shown, asked, settings, account, now=now, refusal=refusal)
        write_page(summary, text, private=False)
        note(f"summary in {summary}")
    plan = asked.plan
    most = plan.rows_per_unit if plan.unit == settings.unit else 1
    source = open_source(settings.source)
    checked = check_rows(source, asked.encoding, settings.unit, most)
    if as_json:
        found = preview_json(shown, asked, settings, account, checked, refusal)
        say_json({**found, **promise_json(plan, settings, account)})
    else:
        show_preview(shown, asked, settings, account)
        show_promise(plan, settings, account)
        show_misfits(checked, asked.encoding)
        for line in remarks(plan, settings, account):
            say(line)
        if refusal is not None:
            say(f"it would be refused: {refusal}")
    keep_details(settings, checked, asked.encoding)
    hint = dialect_hint(checked, [source], asked.encoding)
    tolerance.check(checked, asked.encoding, hint)
    if hint is not None:
        note(f"remark: {hint}")


def approve(
    study: StudyFile,
    folder: Folder = HERE,
    who: Who = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    fingerprint: Annotated[
        str | None,
        typer.Option(help="Of the study that was previewed: no other is approved, and none asked."),
    ] = None,
) -> None:
    """Consent to a study, up to its own budget.

    Consent is a ceiling, not a reservation; a study that is changed afterwards is another one. A
    preview shows what the study's method will ask, but consent is to the budget: the agent answers
    any statistic within it.
    """
    from heterofedsyn.hub.planning.preview import preview as look_ahead
    from heterofedsyn.protocol.study import Study
    from heterofedsyn.site.consent import approve as consent_to
    from heterofedsyn.site.consent import check_study
    from heterofedsyn.site.ledger.books import Books
    from heterofedsyn.site.owner import compare, own_settings, standing_consent, user_name
    from heterofedsyn.site.promise import promise, remarks

    now = datetime.now(UTC)
    settings = own_settings(folder)
    asked = Study.load(study)
    if fingerprint is not None:
        compare(fingerprint, asked)
    check_study(settings, asked)
    asked.plan.said_about.check_open(now)
    look_ahead(asked, settings.name)
    plan = asked.plan
    account = Books.read(settings.folder, settings.anchor)
    note(
        f"study {asked.fingerprint}: {plan.method}, epsilon {plan.epsilon:g}, delta {plan.delta:g} "
        f"(rho {plan.budget.rho:.4g}) for every {protected(plan.unit)}"
    )
    for line in plan.said_about.lines:
        note(line)
    note(f"to compare: {aloud(asked.fingerprint)}")
    for line in (*promise(plan), *remarks(plan, settings, account)):
        note(line)
    if account.repairs:
        known = account.spent_on(asked.fingerprint)
        note(
            f"remark: the ledger was repaired (entry {account.repairs[-1].number:,}), so entries "
            f"may be missing; of this study it knows rho {known.rho:.4g}"
        )
    note(
        "consent is to this budget: `site preview` shows what the method will ask, but the agent "
        "answers any statistic that the hub asks for within it"
    )
    if (given := standing_consent(settings, asked, account, now)) is not None:
        day = given.when.partition("T")[0]
        say(f"already approved {given.study} by {given.who} on {day}; nothing to do")
        return
    if not yes and fingerprint is None:
        _ask()
    consent = consent_to(settings, asked, who=who or user_name(), now=datetime.now(UTC))
    say(f"approved {consent.study} by {consent.who} at {consent.when}")


def withdraw(study: StudyName, folder: Folder = HERE, who: Who = None) -> None:
    """Take consent back; what was spent stays spent.

    Under secure aggregation that is final: the study's private key is removed, and the study cannot
    be approved again.
    """
    from heterofedsyn.site.consent import withdraw as take_back
    from heterofedsyn.site.owner import FINAL_DIGITS, find_study, own_settings, user_name

    settings = own_settings(folder)
    fingerprint = find_study(settings, study, FINAL_DIGITS)
    take_back(settings, fingerprint, who=who or user_name(), now=datetime.now(UTC))
    final = _key_removed(settings, fingerprint)
    end = f"; {final}, and it cannot be approved again" if final else ""
    say(f"consent to {fingerprint} is withdrawn{end}")


def close(study: StudyName, folder: Folder = HERE, who: Who = None) -> None:
    """End a study that is over, for good.

    Nothing more is answered, its private key is removed, and it cannot be approved again.
    """
    from heterofedsyn.site.consent import close as end
    from heterofedsyn.site.owner import FINAL_DIGITS, find_study, own_settings, user_name

    settings = own_settings(folder)
    fingerprint = find_study(settings, study, FINAL_DIGITS)
    end(settings, fingerprint, who=who or user_name(), now=datetime.now(UTC))
    words = ["is closed", _key_removed(settings, fingerprint)]
    say(f"study {fingerprint} {'; '.join(filter(None, words))}, and it cannot be approved again")


def _ask() -> None:
    """Refuse unless somebody at a terminal consents."""
    if not sys.stdin.isatty():
        raise UsageError("consent needs a terminal to confirm it, --fingerprint, or --yes")
    if not typer.confirm("Consent?", err=True):
        raise PrivacyRefusal("not confirmed: the study is not approved, and nothing was changed")


def _key_removed(settings: SiteSettings, fingerprint: str) -> str:
    """What became of the private key of a study that ended; nothing if it never has one."""
    from heterofedsyn.site.ledger.private import is_forgotten

    return "its key is removed here" if is_forgotten(settings.folder, fingerprint) else ""


def show_preview(shown: Preview, study: Study, settings: SiteSettings, account: Account) -> None:
    """What would leave, by release and by round, and against the caps."""
    from heterofedsyn.hub.planning.preview import (
        COLUMN_HEAD,
        column_lines,
        most_words,
        release_head,
        release_lines,
        round_lines,
    )
    from heterofedsyn.site.promise import cap_lines

    plan = study.plan
    say(
        f"study {shown.study}: {shown.method}, epsilon {plan.epsilon:g}, delta "
        f"{plan.delta:g} (rho {shown.rho:.4g}) for every {protected(plan.unit)}, trust {plan.trust}"
    )
    for line in plan.said_about.lines:
        say(line)
    say(f"to compare: {aloud(shown.study)}")
    show_table("About each column, at most", COLUMN_HEAD, column_lines(shown)[:MOST_LINES])
    if len(shown.columns) > MOST_LINES:
        say(f"and {len(shown.columns) - MOST_LINES:,} columns more; --json has all")
    say(most_words(shown))
    releases = release_lines(shown, plan)
    show_table(
        "Fixed in advance",
        release_head(plan),
        releases[:MOST_LINES],
    )
    if len(releases) > MOST_LINES:
        say(f"and {len(releases) - MOST_LINES:,} more; --json has all")
    show_table(
        "All rounds",
        ["round", "kinds", "releases", "integers", "rho", "sent"],
        round_lines(shown),
    )
    show_table(
        "Against the caps",
        ["", "rho", f"epsilon at delta {settings.delta:g}"],
        cap_lines(plan, settings, account),
    )


def preview_json(
    shown: Preview,
    study: Study,
    settings: SiteSettings,
    account: Account,
    checked: Fit,
    refusal: str | None,
) -> dict[str, Any]:
    """The same for programs."""
    from heterofedsyn.hub.planning.preview import own_sigma
    from heterofedsyn.site.misfits import fit_json
    from heterofedsyn.site.promise import remarks

    figures = msgspec.to_builtins(shown)
    for part in (part for round_ in figures["rounds"] for part in round_["parts"]):
        part["own_sigma"] = own_sigma(part["sigma"], study.plan)
    return {
        **figures,
        "about": dict(study.plan.said_about.said),
        "remarks": remarks(study.plan, settings, account),
        "integers": shown.integers,
        "bytes": shown.bytes,
        "study_cap_rho": settings.study_cap.rho,
        "cap_rho": settings.cap.rho,
        "spent_rho": account.spent.rho,
        "spent_on_study_rho": account.spent_on(shown.study).rho,
        **fit_json(checked),
        "rows_over": checked.rows_over,
        "refused": refusal,
    }
