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
from heterofedsyn.cli._show import note, pace, protected, say, say_json, show_table
from heterofedsyn.cli.site._promise import show_promise
from heterofedsyn.cli.site._shared import (
    HERE,
    MOST_LINES,
    Folder,
    StudyName,
    Who,
    keep_details,
    show_misfits,
    who_decides,
)
from heterofedsyn.errors import NotApproved, PrivacyRefusal, UsageError

if TYPE_CHECKING:
    from heterofedsyn.hub.planning.preview import Preview
    from heterofedsyn.protocol.study import Study
    from heterofedsyn.site.ledger.entries import Account
    from heterofedsyn.site.misfits import Checked
    from heterofedsyn.site.settings import SiteSettings

Summary = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.html",
        help="Also write a sheet to print, for your file; nothing in it comes from rows.",
    ),
]


def preview(
    study: StudyFile,
    folder: Folder = HERE,
    most_misfit: MostMisfit = MOST_MISFIT,
    most_clamped: MostClamped = MOST_CLAMPED,
    summary: Summary = None,
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
    from heterofedsyn.site.fitting import fit_rows
    from heterofedsyn.site.ledger.books import Books
    from heterofedsyn.site.misfits import Tolerance
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
    source = open_source(settings.source)
    watch = pace(f"reading {source.name}")
    fitted = fit_rows(settings, source, asked.encoding, asked.plan, watch)
    if as_json:
        say_json(preview_json(shown, asked, settings, account, fitted.checked, refusal))
    else:
        show_preview(shown, asked, settings, account, fitted.checked, refusal)
    keep_details(settings, fitted.checked, asked.encoding)
    fitted.check(tolerance)
    if fitted.hint is not None:
        note(f"remark: {fitted.hint}")


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
    from heterofedsyn.site.consent import check_study
    from heterofedsyn.site.deciding import compare, decide, standing_consent
    from heterofedsyn.site.owner import own_settings

    settings = own_settings(folder)
    person = who_decides(who)
    asked = Study.load(study)
    if fingerprint is not None:
        compare(fingerprint, asked)
    check_study(settings, asked)
    asked.plan.said_about.check_open(datetime.now(UTC))
    look_ahead(asked, settings.name)
    _note_consent(asked, settings)
    sure = yes or fingerprint is not None
    if not sure and standing_consent(settings, asked, datetime.now(UTC)) is None:
        _ask()
    decision = decide(settings, asked, who=person, now=datetime.now(UTC))
    say(decision.words(asked.fingerprint))


def withdraw(study: StudyName, folder: Folder = HERE, who: Who = None) -> None:
    """Take consent back; what was spent stays spent.

    Under secure aggregation that is final: the study's private key is removed, and the study cannot
    be approved again.
    """
    _end(study, folder, who, final=False)


def close(study: StudyName, folder: Folder = HERE, who: Who = None) -> None:
    """End a study that is over, for good.

    Nothing more is answered, its private key is removed, and it cannot be approved again.
    """
    _end(study, folder, who, final=True)


def _end(study: str, folder: Path, who: str | None, *, final: bool) -> None:
    from heterofedsyn.site.deciding import end
    from heterofedsyn.site.owner import FINAL_DIGITS, find_study, own_settings

    settings = own_settings(folder)
    person = who_decides(who)
    name = find_study(settings, study, FINAL_DIGITS)
    now = datetime.now(UTC)
    say(end(settings, name, name, who=person, now=now, final=final))


def _note_consent(study: Study, settings: SiteSettings) -> None:
    """What consent to a study means."""
    from heterofedsyn.protocol.promised import asked_words, promise
    from heterofedsyn.site.ledger.books import Books
    from heterofedsyn.site.promise import remarks

    plan = study.plan
    account = Books.read(settings.folder, settings.anchor)
    note(
        f"study {study.fingerprint}: {plan.method}, epsilon {plan.epsilon:g}, delta {plan.delta:g} "
        f"(rho {plan.budget.rho:.4g}) for every {protected(plan.unit)}"
    )
    for line in (
        *plan.said_about.lines,
        f"to compare: {aloud(study.fingerprint)}",
        *promise(plan),
        *(f"remark: {remark}" for remark in remarks(plan, settings, account)),
        "consent is to this budget: `site preview` shows what the method will ask, but "
        + asked_words(plan),
    ):
        note(line)


def _ask() -> None:
    """Refuse unless somebody at a terminal consents."""
    if not sys.stdin.isatty():
        raise UsageError("consent needs a terminal to confirm it, --fingerprint, or --yes")
    if not typer.confirm("Consent?", err=True):
        raise PrivacyRefusal("not confirmed: the study is not approved, and nothing was changed")


def show_preview(
    shown: Preview,
    study: Study,
    settings: SiteSettings,
    account: Account,
    checked: Checked,
    refusal: str | None,
) -> None:
    """What would leave, what is promised, and how the rows fit."""
    from heterofedsyn.site.promise import remarks

    _show_leaving(shown, study, settings, account)
    show_promise(study.plan, settings, account)
    show_misfits(checked, study.encoding)
    for remark in remarks(study.plan, settings, account):
        say(f"remark: {remark}")
    if refusal is not None:
        say(f"it would be refused: {refusal}")


def _show_leaving(shown: Preview, study: Study, settings: SiteSettings, account: Account) -> None:
    """What would leave, by release and by round, and against the caps."""
    from heterofedsyn.hub.planning.preview import (
        COLUMN_HEAD,
        ROUND_HEAD,
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
    show_table("Fixed in advance", release_head(plan), releases[:MOST_LINES])
    if len(releases) > MOST_LINES:
        say(f"and {len(releases) - MOST_LINES:,} more; --json has all")
    show_table("All rounds", ROUND_HEAD, round_lines(shown))
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
    checked: Checked,
    refusal: str | None,
) -> dict[str, Any]:
    """The same for programs."""
    from heterofedsyn.hub.planning.preview import own_sigma
    from heterofedsyn.site.misfits import fit_json
    from heterofedsyn.site.promise import promise_json, remarks

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
        **promise_json(study.plan, settings, account),
    }
