"""The steward's pages: what waits, what may leave, what was spent, and who was told."""

from __future__ import annotations

from pathlib import Path

from starlette.responses import Response

from heterofedsyn.console import steward_ledger, steward_receipts, steward_studies
from heterofedsyn.console.noticing import looks
from heterofedsyn.console.pages import Form, Role, Visit
from heterofedsyn.console.steward_lists import Lists
from heterofedsyn.console.steward_site import OwnSite
from heterofedsyn.errors import HeterofedsynError
from heterofedsyn.site.ledger.agreement import LEDGER
from heterofedsyn.site.ledger.locked import LOCKED
from heterofedsyn.site.settings import SiteSettings

MOST_WATCHED = 500
"""Consents that are looked at for something new, every second."""


def steward(settings: SiteSettings) -> Role:
    """The pages of the steward of one site."""
    site = OwnSite(settings)

    def first(visit: Visit) -> Response:
        return _overview(visit, site)

    def rows(visit: Visit) -> Response:
        check = site.row_check
        section = check.found.section if check.found else None
        return visit.page("steward_rows.html", "Rows", check=check, section=section)

    def check_rows(visit: Visit, form: Form) -> Response:
        settings = site.settings()
        site.row_check.start(settings, settings.load_schema(), "the site's own schema")
        visit.say("A check of the rows was started; what it finds stands on this page.")
        return visit.go("rows")

    return Role(
        name=f"Steward of {settings.name}",
        links=(
            ("", "Now"),
            ("studies", "Studies"),
            ("ledger", "Ledger"),
            ("receipts", "Receipts"),
            ("rows", "Rows"),
        ),
        views={
            "": first,
            "rows": rows,
            **steward_studies.views(site),
            **steward_ledger.views(site),
            **steward_receipts.views(site),
        },
        actions={
            "rows/check": check_rows,
            **steward_studies.actions(site),
            **steward_receipts.actions(site),
        },
        state=lambda _: _state(site),
    )


def _overview(visit: Visit, site: OwnSite) -> Response:
    """What goes on now, and what waits for the steward."""
    settings = site.settings()
    problem, gauges, lines = "", [], []
    waiting = site.inbox.waiting()
    tally = f"{len(waiting):,} in the inbox"
    try:
        account = site.account()
        gauges = steward_ledger.gauges(settings, account)
        lines = steward_ledger.running(site, account)
        tally = Lists(site, account).tally(waiting)
    except HeterofedsynError as error:
        problem = str(error)
    return visit.page(
        "steward_now.html",
        "Now",
        settings=settings,
        agent=site.agent_said(),
        problem=problem,
        gauges=gauges,
        studies=lines,
        waiting=len(waiting),
        tally=tally,
    )


def _state(site: OwnSite) -> str:
    """Changes with ledger, consents, inbox, receipts, agent and the check of rows."""
    settings = site.known
    places = (
        settings.folder / LEDGER,
        settings.anchor,
        settings.studies,
        settings.receipts,
        site.inbox.folder,
        settings.folder / LOCKED,
        *_below(settings.studies),
    )
    return "|".join([*map(looks, places), str(site.listens()), site.row_check.state])


def _below(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())[:MOST_WATCHED]
    except OSError:
        return []
