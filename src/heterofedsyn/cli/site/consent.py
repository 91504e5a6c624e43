"""`heterofedsyn site preview`, `approve`, `withdraw` and `close`: what a study may have."""

from __future__ import annotations

import math
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from heterofedsyn._words import aloud
from heterofedsyn.cli._fit import MOST_CLAMPED, MOST_MISFIT, MostClamped, MostMisfit, fit_json
from heterofedsyn.cli._options import Json, StudyFile
from heterofedsyn.cli._show import note, protected, say, say_json, show_table, size
from heterofedsyn.cli.site._promise import promise, promise_json, remarks, show_promise
from heterofedsyn.cli.site._shared import (
    FINAL_DIGITS,
    HERE,
    MOST_LINES,
    Folder,
    StudyName,
    Who,
    check_rows,
    find_study,
    keep_details,
    own_settings,
    show_misfits,
    user_name,
)
from heterofedsyn.errors import HeterofedsynError, NotApproved, PrivacyRefusal, UsageError

if TYPE_CHECKING:
    from heterofedsyn.hub.planning.preview import ForeseenRound, Preview
    from heterofedsyn.protocol.plan import Plan
    from heterofedsyn.protocol.study import Study
    from heterofedsyn.schema import Fit
    from heterofedsyn.site.consent import Consent
    from heterofedsyn.site.ledger.entries import Account
    from heterofedsyn.site.settings import SiteSettings


def preview(
    study: StudyFile,
    folder: Folder = HERE,
    most_misfit: MostMisfit = MOST_MISFIT,
    most_clamped: MostClamped = MOST_CLAMPED,
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
    from heterofedsyn.site.settings import SiteSettings
    from heterofedsyn.sources import open_source

    tolerance = Tolerance(most_misfit, most_clamped)
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
    if (given := _given(settings, asked, account)) is not None:
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

    settings = own_settings(folder)
    fingerprint = find_study(settings, study, FINAL_DIGITS)
    end(settings, fingerprint, who=who or user_name(), now=datetime.now(UTC))
    words = ["is closed", _key_removed(settings, fingerprint)]
    say(f"study {fingerprint} {'; '.join(filter(None, words))}, and it cannot be approved again")


def _given(settings: SiteSettings, study: Study, account: Account) -> Consent | None:
    """The consent to a study, if it stands: who gave it is not written over."""
    from heterofedsyn.site.consent import approved
    from heterofedsyn.site.ledger.locked import check_unlocked

    check_unlocked(settings.folder)
    try:
        return approved(settings, study.fingerprint, account)[1]
    except HeterofedsynError:
        return None


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
    summed = plan.trust_model.alone_factor != 1
    sigmas = ["sigma added here", "sigma that protects"] if summed else ["sigma"]
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
            *([f"{own_sigma(part.sigma, plan):,.1f}"] if summed else []),
            f"{part.sigma:,.1f}",
            f"{part.rho:.3g}",
        ]
        for round_ in shown.rounds
        for part in round_.parts
    ]
    show_table(
        "Fixed in advance",
        ["release", "kind", "integers", *sigmas, "rho"],
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


def own_sigma(sigma: float, plan: Plan) -> float:
    """The noise that one site adds, where so much protects for sure."""
    return sigma / math.sqrt(plan.trust_model.alone_factor)


def preview_json(
    shown: Preview,
    study: Study,
    settings: SiteSettings,
    account: Account,
    checked: Fit,
    refusal: str | None,
) -> dict[str, Any]:
    """The same for programs."""
    figures = msgspec.to_builtins(shown)
    for part in (part for round_ in figures["rounds"] for part in round_["parts"]):
        part["own_sigma"] = own_sigma(part["sigma"], study.plan)
    return {
        **figures,
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
