"""`heterofedsyn site preview`, `approve`, `withdraw` and `close`: what a study may have."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from heterofedsyn._words import aloud
from heterofedsyn.cli._options import Json, StudyFile
from heterofedsyn.cli._show import note, protected, say, say_json, show_table, size
from heterofedsyn.cli.site._promise import promise, promise_json, show_promise
from heterofedsyn.cli.site._shared import (
    HERE,
    MOST_LINES,
    Folder,
    StudyName,
    Who,
    check_rows,
    find_study,
    left,
    own_settings,
    show_misfits,
    user_name,
)
from heterofedsyn.errors import NotApproved, PrivacyRefusal, UsageError

if TYPE_CHECKING:
    from heterofedsyn.hub.planning.preview import ForeseenRound, Preview
    from heterofedsyn.protocol.study import Study
    from heterofedsyn.schema import Fit
    from heterofedsyn.site.ledger.entries import Account
    from heterofedsyn.site.settings import SiteSettings


def preview(
    study: StudyFile,
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """What would leave for a study, before anything does.

    For the steward: it tells what the schema check found by column and count, which must not be
    published.
    """
    from heterofedsyn.hub.planning.preview import preview as look_ahead
    from heterofedsyn.protocol.study import Study
    from heterofedsyn.site.consent import check_approvable, check_schema
    from heterofedsyn.site.ledger.books import Books
    from heterofedsyn.site.settings import SiteSettings

    settings = SiteSettings.load(folder)
    asked = Study.load(study)
    check_schema(settings, asked)
    shown = look_ahead(asked, settings.name)
    account = Books.read(settings.folder, settings.anchor)
    refusal = None
    try:
        check_approvable(settings, asked, account)
    except NotApproved as error:
        refusal = str(error)
    plan = asked.plan
    most = plan.rows_per_unit if plan.unit == settings.unit else 1
    checked = check_rows(settings, asked.encoding, settings.unit, most)
    if as_json:
        found = preview_json(shown, settings, account, checked, refusal)
        say_json({**found, **promise_json(asked.plan, settings, account)})
        return
    show_preview(shown, asked, settings, account)
    show_promise(asked.plan, settings, account)
    show_misfits(checked)
    if refusal is not None:
        say(f"it would be refused: {refusal}")


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

    settings = own_settings(folder)
    asked = Study.load(study)
    if fingerprint is not None:
        _compare(fingerprint, asked)
    check_study(settings, asked)
    look_ahead(asked, settings.name)
    plan = asked.plan
    account = Books.read(settings.folder, settings.anchor)
    note(
        f"study {asked.fingerprint}: {plan.method}, epsilon {plan.epsilon:g}, delta {plan.delta:g} "
        f"(rho {plan.budget.rho:.4g}) for every {protected(plan.unit)}"
    )
    note(f"to compare: {aloud(asked.fingerprint)}")
    if account.spent.rho + plan.budget.rho > settings.cap.rho:
        note(
            f"remark: of the table's rho {settings.cap.rho:.4g} only "
            f"{left(settings, account):.4g} is left, so the study will be refused before "
            "its end"
        )
    for line in promise(plan):
        note(line)
    alone, cap = account.spent_alone.rho, settings.alone_cap
    if cap is not None and alone + plan.budget_alone.rho > cap.rho:
        note(
            f"remark: of the rho {cap.rho:.4g} for answers seen by themselves only "
            f"{max(0.0, cap.rho - alone):.4g} is left, so the study will be refused before its end"
        )
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
    if not yes and fingerprint is None:
        if not sys.stdin.isatty():
            raise UsageError("consent needs a terminal to confirm it, --fingerprint, or --yes")
        typer.confirm("Consent?", abort=True, err=True)
    consent = consent_to(settings, asked, who=who or user_name(), now=datetime.now(UTC))
    say(f"approved {consent.study} by {consent.who} at {consent.when}")


def withdraw(study: StudyName, folder: Folder = HERE, who: Who = None) -> None:
    """Take consent back; what was spent stays spent."""
    from heterofedsyn.site.consent import withdraw as take_back

    settings = own_settings(folder)
    fingerprint = find_study(settings, study)
    take_back(settings, fingerprint, who=who or user_name(), now=datetime.now(UTC))
    say(f"consent to {fingerprint} is withdrawn")


def close(study: StudyName, folder: Folder = HERE, who: Who = None) -> None:
    """End a study that is over, for good.

    Nothing more is answered, its private key is removed, and it cannot be approved again.
    """
    from heterofedsyn.site.consent import close as end

    settings = own_settings(folder)
    fingerprint = find_study(settings, study)
    end(settings, fingerprint, who=who or user_name(), now=datetime.now(UTC))
    say(f"study {fingerprint} is closed")


def _compare(told: str, study: Study) -> None:
    """Refuse another study than the one whose fingerprint was told."""
    if "".join(told.split()).lower() != study.fingerprint:
        raise PrivacyRefusal(
            f"this is study {study.fingerprint}, not {told!r}; preview it again, and ask the "
            "coordinator for the whole fingerprint"
        )


def show_preview(shown: Preview, study: Study, settings: SiteSettings, account: Account) -> None:
    """What would leave, by release and by round, and against the caps."""
    plan = study.plan
    sent = "any" if shown.bytes is None else size(shown.bytes)
    say(
        f"study {shown.study}: {shown.method}, epsilon {plan.epsilon:g}, delta "
        f"{plan.delta:g} (rho {shown.rho:.4g}) for every {protected(plan.unit)}, trust {plan.trust}"
    )
    say(f"to compare: {aloud(shown.study)}")
    releases = [
        [
            f"{round_.label}: {' x '.join(part.attributes) or 'rows'}",
            part.kind,
            f"{part.integers:,}",
            f"{part.sigma:,.1f}",
            f"{part.rho:.3g}",
        ]
        for round_ in shown.rounds
        for part in round_.parts
    ]
    show_table(
        "Fixed in advance",
        ["release", "kind", "integers", "sigma", "rho"],
        releases[:MOST_LINES],
    )
    if len(releases) > MOST_LINES:
        say(f"and {len(releases) - MOST_LINES:,} more; --json has all")
    show_table(
        "All rounds",
        ["round", "kinds", "releases", "integers", "rho", "sent"],
        [
            *(_round_line(round_) for round_ in shown.rounds),
            ["together (at most)", "", "", _most(shown.integers), f"{shown.rho:.3g}", sent],
        ],
    )
    cap, study_cap, spent = settings.cap, settings.study_cap, account.spent
    show_table(
        "Against the caps",
        ["", "rho", f"epsilon at delta {settings.delta:g}"],
        [
            [words, f"{amount.rho:.4g}", f"{amount.epsilon(settings.delta):.4g}"]
            for words, amount in (
                ("this study, at most", plan.budget),
                ("cap per study", study_cap),
                ("spent on this study so far", account.spent_on(shown.study)),
                ("spent in all so far", spent),
                ("cap of the table", cap),
            )
        ],
    )


def preview_json(
    shown: Preview,
    settings: SiteSettings,
    account: Account,
    checked: Fit,
    refusal: str | None,
) -> dict[str, Any]:
    """The same for programs."""

    return {
        **msgspec.to_builtins(shown),
        "integers": shown.integers,
        "bytes": shown.bytes,
        "study_cap_rho": settings.study_cap.rho,
        "cap_rho": settings.cap.rho,
        "spent_rho": account.spent.rho,
        "spent_on_study_rho": account.spent_on(shown.study).rho,
        "rows_read": checked.rows_read,
        "rows_that_do_not_fit": checked.rows_dropped,
        "rows_over": checked.rows_over,
        "misfits": checked.misfits,
        "refused": refusal,
    }


def _round_line(round_: ForeseenRound) -> list[str]:
    return [
        round_.label if round_.fixed else f"{round_.label} (at most)",
        ", ".join(round_.kinds) or "any",
        _most(round_.releases),
        _most(round_.integers),
        f"{round_.rho:.3g}",
        "any" if round_.bytes is None else size(round_.bytes),
    ]


def _most(figure: int | None) -> str:
    return "any" if figure is None else f"{figure:,}"
