"""The coordinator's pages: the studies of one folder, in the words that stewards see."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from starlette.responses import Response

from heterofedsyn._words import aloud
from heterofedsyn.console.pages import Role, Visit
from heterofedsyn.errors import HeterofedsynError
from heterofedsyn.protocol.study import Study
from heterofedsyn.site.owner import check_owner

MOST_STUDIES = 200


@dataclass(frozen=True)
class Hub:
    """What the coordinator of one folder looks at."""

    folder: Path
    kit: Path | None


def coordinator(folder: Path, kit: Path | None) -> Role:
    """The pages of a coordinator.

    Raises:
        UsageError: if the folder or the kit is another user's.
    """
    for place in filter(None, (folder, kit)):
        check_owner(place)
    hub = Hub(folder.resolve(), kit)
    return Role(
        name="Coordinator",
        links=(("", "Studies"),),
        views={"": lambda visit: _studies(visit, hub)},
        actions={},
        state=lambda: _looks(hub.folder),
    )


def _studies(visit: Visit, hub: Hub) -> Response:
    """Every study file of the folder, with the fingerprint to read out to stewards."""
    found = []
    for path in sorted(hub.folder.glob("*.toml"))[:MOST_STUDIES]:
        try:
            study = Study.load(path)
        except HeterofedsynError:
            continue  # a schema, or something else
        about = study.plan.said_about.worded
        found.append((path.name, study.plan, about, aloud(study.fingerprint).split()))
    return visit.page("coordinator_studies.html", "Studies", studies=found, folder=hub.folder)


def _looks(folder: Path) -> str:
    return str(os.stat(folder).st_mtime_ns)  # noqa: PTH116
