"""The coordinator's pages: plan, study, sites and rounds, release, questions and exports."""

from __future__ import annotations

from pathlib import Path

from heterofedsyn.console import (
    coordinator_plan,
    coordinator_releases,
    coordinator_studies,
)
from heterofedsyn.console.coordinator_desk import CoordinatorDesk, changed
from heterofedsyn.console.pages import Role
from heterofedsyn.site.owner import check_owner


def coordinator(folder: Path, kit: Path | None) -> Role:
    """The pages of a coordinator.

    Raises:
        UsageError: if the folder or the kit is another user's.
    """
    for place in filter(None, (folder, kit)):
        check_owner(place)
    desk = CoordinatorDesk(folder.resolve(), kit)
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
        state=lambda: _state(desk),
    )


def _state(desk: CoordinatorDesk) -> str:
    """Changes with the folder, with what is worked out, and with what the federation says."""
    follower = desk.follower
    if follower is not None:
        follower.still_here()
    running = 0 if follower is None else follower.turn
    return f"{changed(desk.folder)}|{desk.planner.turn}|{running}"
