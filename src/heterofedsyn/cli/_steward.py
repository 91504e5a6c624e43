"""What the steward's commands show."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from heterofedsyn._words import aloud, short
from heterofedsyn.cli._show import protected, say, show_table, size

if TYPE_CHECKING:
    from heterofedsyn.hub.planning.preview import ForeseenRound, Preview
    from heterofedsyn.protocol.study import Study
    from heterofedsyn.schema import Fit
    from heterofedsyn.site.ledger.entries import Account
    from heterofedsyn.site.settings import SiteSettings

MOST_LINES = 40
_BAR = 40


def show_misfits(checked: Fit) -> None:
    """What the schema check found, for the steward's eyes."""
    from heterofedsyn._words import count

    if checked.rows_dropped:
        show_table(
            "Rows that do not fit the schema and are left out",
            ["column", "rows"],
            [[name, f"{many:,}"] for name, many in checked.misfits.items()],
        )
    found = f"{count(checked.rows_read, 'row')} read, {checked.rows_dropped:,} do not fit"
    if checked.rows_over:
        found += f", {checked.rows_over:,} are more than one unit may contribute"
    say(f"{found}; these counts are exact: do not publish them")


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
        **asdict(shown),
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


def left(settings: SiteSettings, account: Account) -> float:
    """The rho that the table may still spend."""
    return max(0.0, settings.cap.rho - account.spent.rho)


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
