"""The coordinator's releases: what each is worth, its report, questions, exports and files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.responses import Response

from heterofedsyn._files import cache_of, open_inside, reason
from heterofedsyn._words import size
from heterofedsyn.console.coordinator_desk import CoordinatorDesk
from heterofedsyn.console.pages import NEW_LINE, Do, Form, Show, Visit, download
from heterofedsyn.errors import HeterofedsynError, UsageError
from heterofedsyn.exports import EXPORTS, export_named
from heterofedsyn.hub.release.facts import facts_of
from heterofedsyn.hub.release.folder import FILES
from heterofedsyn.report import board_report, public_report
from heterofedsyn.report.blocks import Points, Section, Table
from heterofedsyn.report.page import policy

MOST_FILE_BYTES = 2**28
"""Of a file that a page gives; larger ones are taken from the folder."""

REPORTS = {"report": public_report, "board": board_report}
_ASKED = "what was asked of"


@dataclass(frozen=True)
class Asked:
    """A question and what came of it."""

    question: str
    answer: Section | None = None
    problem: str = ""


def views(desk: CoordinatorDesk) -> Mapping[str, Show]:
    """The pages about releases."""
    return {
        "releases": lambda visit: _releases(visit, desk),
        "releases/{name}": lambda visit: _release(visit, desk),
        "releases/{name}/page/{kind}": lambda visit: _report(visit, desk),
        "releases/{name}/export/{kind}": lambda visit: _export(visit, desk),
        "releases/{name}/file/{file}": lambda visit: _file(visit, desk),
    }


def actions(desk: CoordinatorDesk) -> Mapping[str, Do]:
    """Questions."""
    return {"releases/ask": lambda visit, form: _ask(visit, form, desk)}


def _releases(visit: Visit, desk: CoordinatorDesk) -> Response:
    found = []
    for name in desk.releases():
        try:
            release = desk.release(name)
            title = release.run.said_about.title or name
            found.append((name, title, release.privacy.guarantee, True))
        except HeterofedsynError as error:
            found.append((name, name, str(error), False))
    return visit.page("coordinator_releases.html", "Releases", releases=found, folder=desk.folder)


def _release(visit: Visit, desk: CoordinatorDesk) -> Response:
    """One release, with the question that was asked of it last."""
    name = visit.part("name")
    release = desk.release(name)
    kept = visit.session.kept.get(f"{_ASKED} {name}")
    asked = kept if isinstance(kept, Asked) else Asked("")
    facts = Points(tuple((word.capitalize(), text) for word, text in facts_of(release)[:-1]))
    column = release.schema.label or release.schema.domain.names[0]
    usual = f"SELECT {_quoted(column)}, count(*) FROM release GROUP BY {_quoted(column)}"
    return visit.page(
        "coordinator_release.html",
        release.run.said_about.title or name,
        name=name,
        about=Section("release", "The release", (facts,)),
        asked=asked.question or usual,
        answer=asked.answer,
        problem=asked.problem,
        newline=NEW_LINE,
        exports=list(EXPORTS),
        files=_files(desk.place(name)),
        columns=[each.name for each in release.schema.columns],
    )


def _quoted(name: str) -> str:
    plain = re.fullmatch(r"[a-z_][a-z0-9_]*", name)
    return name if plain else '"' + name.replace('"', '""') + '"'


def _files(folder: Path) -> list[tuple[str, str]]:
    there = [folder / name for name in FILES]
    return [(path.name, size(path.stat().st_size)) for path in there if path.is_file()]


def _report(visit: Visit, desk: CoordinatorDesk) -> Response:
    """The report, made anew from the release: what a file in it says is not trusted to be ours.

    It keeps its own policy, by which nothing runs, and is shown as a page of nobody.
    """
    make = REPORTS.get(visit.part("kind"))
    if make is None:
        raise HTTPException(404)
    with desk.turn:
        text = make(desk.place(visit.part("name")))
    headers = {"content-security-policy": f"{policy()}; frame-ancestors 'none'; sandbox"}
    return Response(text, media_type="text/html", headers=headers)


def _export(visit: Visit, desk: CoordinatorDesk) -> Response:
    kind = visit.part("kind")
    form = export_named(kind)
    text = form.text(desk.release(visit.part("name")))
    return download(text.encode(), f"{visit.part('name')}-{kind}{form.ending}")


def _file(visit: Visit, desk: CoordinatorDesk) -> Response:
    """A file of the release, by no link that leads out of it."""
    file = visit.part("file")
    folder = desk.place(visit.part("name"))
    if file not in FILES or visit.part("name") not in desk.releases():
        raise HTTPException(404)
    try:
        with open_inside(folder, file, MOST_FILE_BYTES) as opened:
            return download(opened.read(), f"{visit.part('name')}-{file}")
    except FileNotFoundError:
        raise HTTPException(404) from None
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {reason(error)}") from None


def _ask(visit: Visit, form: Form, desk: CoordinatorDesk) -> Response:
    """A question and its answer, with intervals; costs no privacy."""
    name, question = form.text("name"), form.text("question")
    if not question:
        raise UsageError("there is no question; write one SELECT about the table release")
    try:
        with desk.turn:
            answer = desk.release(name).answer(question, cache=cache_of("ask"))
    except HeterofedsynError as error:
        visit.session.kept[f"{_ASKED} {name}"] = Asked(question, problem=str(error))
        return visit.go(f"releases/{name}")
    words = len(answer.shown_head) - 4
    table = Table(answer.title, tuple(answer.shown_head), tuple(map(tuple, answer.shown())), words)
    notes = Points(tuple((f"{place}", note) for place, note in enumerate(answer.notes, start=1)))
    found = Section("answer", "Answer", (table, notes) if answer.cells else (notes,))
    visit.session.kept[f"{_ASKED} {name}"] = Asked(question, found)
    return visit.go(f"releases/{name}")
