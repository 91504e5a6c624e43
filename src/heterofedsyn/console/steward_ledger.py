"""The steward's ledger: what is left, every charge, and whether ledger and anchor agree."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from starlette.responses import Response

from heterofedsyn._words import count
from heterofedsyn.console.inbox import key_of
from heterofedsyn.console.pages import Show, Visit
from heterofedsyn.console.steward_lists import part_words, share_words, used
from heterofedsyn.console.steward_site import OwnSite
from heterofedsyn.errors import HeterofedsynError
from heterofedsyn.report.blocks import Facts, Table
from heterofedsyn.site.balance import balances, ledger_head, ledger_lines
from heterofedsyn.site.consent import recorded
from heterofedsyn.site.ledger.entries import Account
from heterofedsyn.site.ledger.locked import check_unlocked
from heterofedsyn.site.selfcheck import read_checked
from heterofedsyn.site.settings import SiteSettings

PAGE = 200
"""Entries on one page."""

MOST_RUNNING = 20


@dataclass(frozen=True)
class Gauge:
    """What is left under a cap: the share, in words, and in figures for who knows what they mean.

    Attributes:
        share: None where there is no cap.
    """

    share: float | None
    words: str
    figures: str


def gauges(settings: SiteSettings, account: Account) -> list[Gauge]:
    """What is left under the cap of the table, and under that for answers seen by themselves."""
    (share, figures), *alone = balances(settings, account)
    words = "of what this table may ever spend is left"
    found = [Gauge(share, f"{part_words(share or 0.0)} {words}", figures)]
    for share, figures in alone:
        words = (
            "there is no cap on what answers tell if each is seen by itself"
            if share is None
            else f"{part_words(share)} is left of what answers may tell if each is seen by itself"
        )
        found.append(Gauge(share, words, figures))
    return found


def views(site: OwnSite) -> Mapping[str, Show]:
    """The page of the ledger."""
    return {"ledger": lambda visit: _ledger(visit, site)}


def running(site: OwnSite, account: Account) -> list[dict[str, object]]:
    """The studies with a charge, the last charged first: how far each is."""
    answered = {one.query for one in account.answers}
    last = {one.study: one for one in account.charges}
    found: list[dict[str, object]] = []
    latest = sorted(last.values(), key=lambda one: -one.number)[:MOST_RUNNING]
    for charged in latest:
        charges = [one for one in account.charges if one.study == charged.study]
        title, cap = charged.study[:16], 0.0
        with suppress(HeterofedsynError):  # what is damaged is told of where it matters
            study, consent = recorded(site.known, charged.study)
            title, cap = study.plan.said_about.shown_title, consent.rho
        share = used(account, charged.study, cap)
        found.append(
            {
                "place": f"studies/decided/{key_of(charged.study)}",
                "title": title,
                "share": share,
                "words": share_words(share),
                "last": f"{charged.label}, {charged.when}",
                "answers": f"{sum(one.query in answered for one in charges):,} of "
                f"{count(len(charges), 'charged query', 'charged queries')} answered",
            }
        )
    return found


def _ledger(visit: Visit, site: OwnSite) -> Response:
    settings, problem = site.settings(), ""
    try:
        check_unlocked(settings.folder)
    except HeterofedsynError as error:
        problem = str(error)
    try:
        account = site.account()
    except HeterofedsynError as error:
        return visit.page("steward_disputed.html", "Ledger", problem=str(error))
    lines = ledger_lines(settings, account)[::-1]
    pages = max(1, -(-len(lines) // PAGE))
    page = visit.number(pages)
    table = Table(
        f"Every charge, the last first: {count(len(lines), 'line')}",
        tuple(ledger_head(settings, account)),
        tuple(map(tuple, lines[(page - 1) * PAGE : page * PAGE])),
        words=4,
    )
    return visit.page(
        "steward_ledger.html",
        "Ledger",
        gauges=gauges(settings, account),
        table=table if lines else None,
        anchor=_anchor(settings, account),
        problem=problem,
        checked=read_checked(settings.folder),
        agent=site.agent_said(),
        page=page,
        pages=pages,
    )


def _anchor(settings: SiteSettings, account: Account) -> Facts:
    """Whether ledger and anchor agree, which reading the account has checked."""
    disk = (
        "the same as the ledger: who restores that disk restores both"
        if settings.shares_disk()
        else "another"
    )
    return Facts(
        (
            ("Ledger and anchor", f"agree: entry {account.number:,} is the last"),
            ("Anchor", str(settings.anchor)),
            ("Disk of the anchor", disk),
            ("Protects", f"every {account.unit}" if account.unit else "not said yet"),
            ("Repairs", f"{len(account.repairs):,}"),
            ("Hash of the last entry", account.head),
        )
    )
