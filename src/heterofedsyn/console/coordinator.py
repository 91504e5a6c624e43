"""The coordinator's pages: plan, study, sites and rounds, release, questions and exports."""

from __future__ import annotations

from pathlib import Path

from heterofedsyn._files import check_owner
from heterofedsyn.console import (
    coordinator_plan,
    coordinator_releases,
    coordinator_studies,
)
from heterofedsyn.console.coordinator_desk import CoordinatorDesk
from heterofedsyn.console.follower import Follower, Session, of_kit
from heterofedsyn.console.noticing import looks
from heterofedsyn.console.pages import Role


def coordinator(folder: Path, kit: Path | None, session: Session | None = None) -> Role:
    """The pages of a coordinator.

    Args:
        session: how the federation is asked; by the kit, if there is one, unless given.

    Raises:
        UsageError: if the folder or the kit is another user's.
    """
    for place in filter(None, (folder, kit)):
        check_owner(place)
    asks = of_kit(kit) if session is None and kit is not None else session
    desk = CoordinatorDesk(folder.resolve(), kit, None if asks is None else Follower(asks))
    return Role(
        name="Coordinator",
        links=(("", "Studies"), ("plan", "Plan"), ("new", "New study"), ("releases", "Releases")),
        views={
            **coordinator_studies.views(desk),
            **coordinator_plan.views(desk),
            **coordinator_releases.views(desk),
        },
        actions={
            **coordinator_studies.actions(desk),
            **coordinator_plan.actions(desk),
            **coordinator_releases.actions(desk),
        },
        state=lambda page: _state(desk, page),
    )


def _state(desk: CoordinatorDesk, page: str) -> str:
    """Changes with the folder, with what is worked out, and with what the federation says.

    The federation is asked as long as the page of a study is open.
    """
    running = 0
    if desk.follower is not None:
        if page.startswith("studies/"):
            desk.follower.still_here()
        running = desk.follower.turn
    return f"{looks(desk.folder)}|{desk.planner.turn}|{running}"
