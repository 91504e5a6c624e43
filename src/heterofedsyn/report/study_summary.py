"""One sheet of paper about a study, for a steward's file, before anything left."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from heterofedsyn import drawing
from heterofedsyn._words import aloud, sentence
from heterofedsyn.hub.planning.preview import (
    Preview,
    column_lines,
    most_words,
    round_lines,
)
from heterofedsyn.protocol.plan import protected
from heterofedsyn.protocol.promised import promise
from heterofedsyn.protocol.study import Study
from heterofedsyn.report.blocks import Block, Halves, Points, Section, Table, Text, Warn
from heterofedsyn.report.chances import guess_words
from heterofedsyn.report.page import Page, render
from heterofedsyn.site.ledger.entries import Account
from heterofedsyn.site.promise import alone_lines, cap_lines, remarks
from heterofedsyn.site.settings import SiteSettings

MOST_COLUMNS = 60
"""Columns asked about alike that are named; more are counted."""


def study_summary(
    shown: Preview,
    study: Study,
    settings: SiteSettings,
    account: Account,
    *,
    now: datetime,
    refusal: str | None,
    fingerprint: str | None = None,
) -> str:
    """The sheet as HTML; nothing in it comes from a row.

    Args:
        refusal: why the site would not approve of it, if it would not.
        fingerprint: as it is to be shown, where a part of it must be heard from the coordinator.
    """
    plan = study.plan
    title = plan.said_about.title
    warning = (Warn(f"This site would refuse the study: {refusal}."),) if refusal else ()
    page = Page(
        title=f"A study: {drawing.short(title, 120)}" if title else "A study",
        lead=(
            f"For the file of the steward of {settings.name}: who asks, what is promised to whom, "
            "and the most that may leave this site."
        ),
        private=False,
        facts=(
            ("Epsilon", f"{plan.epsilon:g}"),
            ("Delta", f"{plan.delta:g}"),
            ("Protects every", drawing.short(protected(plan.unit), 40)),
            ("Trust", plan.trust),
            ("Sites", f"{len(plan.sites):,}"),
            ("Method", plan.method),
            ("Columns", f"{len(shown.columns):,}"),
        ),
        sections=(
            Section("asks", "Who asks", (*warning, _asks(study, fingerprint))),
            Section("promise", "What is promised", (_promised(study),)),
            Section("leaves", "What may leave", _leaves(shown)),
            Section(
                "caps", "By round, and against the caps", _caps(shown, study, settings, account)
            ),
        ),
        brief=True,
        foot=(
            f"Made on {now.astimezone(UTC):%Y-%m-%d} (UTC) from the study, and from the caps and "
            "the ledger of the site; no row was read for it."
        ),
    )
    return render(page)


def _asks(study: Study, fingerprint: str | None) -> Points:
    plan = study.plan
    items = [*plan.said_about.rest]
    items += [
        ("Sites", ", ".join(plan.sites)),
        ("Fingerprint", fingerprint or aloud(study.fingerprint)),
    ]
    return Points(tuple(items))


def _promised(study: Study) -> Points:
    plan = study.plan
    words = [sentence(line) for line in promise(plan)]
    chance = sentence(guess_words(plan.budget.rho, protected(plan.unit)))
    return Points((("Against whom", " ".join(words)), ("As a chance", chance)))


def _leaves(shown: Preview) -> tuple[Block, ...]:
    words = most_words(shown)
    alike: dict[str, list[str]] = {}
    for column, (told, alone, partners, together) in zip(
        shown.columns, column_lines(shown), strict=True
    ):
        noise = [f"Alone {alone}"] if alone else []
        noise += [f"with {partners} {together}"] if together else []
        named = told.replace(f"{column.name}: ", f"{column.name} (", 1) + ")"
        alike.setdefault("; ".join(noise) or "Not counted", []).append(named)
    items = tuple((noise, _listed(columns)) for noise, columns in alike.items())
    return (Text(sentence(words)), Points(items))


def _listed(columns: Sequence[str]) -> str:
    rest = len(columns) - MOST_COLUMNS
    more = f" and {rest:,} more, in the preview" if rest > 0 else ""
    return f"{', '.join(drawing.short(column, 120) for column in columns[:MOST_COLUMNS])}{more}."


def _caps(
    shown: Preview, study: Study, settings: SiteSettings, account: Account
) -> tuple[Block, ...]:
    plan = study.plan
    head = ["", "rho", f"epsilon at delta {settings.delta:g}"]
    rounds = ["round", "releases", "integers", "rho", "sent"]
    lines = [[label, *figures] for label, _, *figures in round_lines(shown)]
    beside = Halves(
        (
            _table("All rounds", rounds, lines),
            _table("What is spent, and what may be", head, cap_lines(plan, settings, account)),
        )
    )
    alone = alone_lines(plan, settings, account)
    told = [Text(sentence(f"remark: {line}")) for line in remarks(plan, settings, account)]
    seen = (_table("If each answer is seen by itself", head, alone),) if alone else ()
    return (beside, *seen, *told)


def _table(caption: str, head: Sequence[str], lines: Sequence[Sequence[str]]) -> Table:
    return Table(caption, tuple(head), tuple(tuple(line) for line in lines))
