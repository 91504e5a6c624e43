"""The coordinator's studies: worded in a form, read out to stewards, sent as a file."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from starlette.responses import Response

from heterofedsyn._defaults import MOST_ROWS, PATIENCE
from heterofedsyn._words import STUDY_TEXTS, aloud, sentence
from heterofedsyn.console.coordinator_desk import CoordinatorDesk
from heterofedsyn.console.coordinator_plan import TRUSTS, methods
from heterofedsyn.console.pages import NEW_LINE, Do, Form, Show, Visit, download
from heterofedsyn.console.study_words import words_of
from heterofedsyn.errors import HeterofedsynError, UsageError
from heterofedsyn.hub.planning.new_study import new_study, read_roster
from heterofedsyn.hub.planning.preview import (
    COLUMN_HEAD,
    ROUND_HEAD,
    column_lines,
    most_words,
    preview,
    round_lines,
)
from heterofedsyn.masking.identity import key_fingerprint, raw_key
from heterofedsyn.privacy.budget import Conversion
from heterofedsyn.privacy.trust import Local
from heterofedsyn.protocol.about import About
from heterofedsyn.protocol.plan import protected
from heterofedsyn.protocol.promised import promise
from heterofedsyn.protocol.study import Study
from heterofedsyn.report.blocks import Section, Table, Text
from heterofedsyn.schema import Schema

_WRITTEN = "what was written of a new study"
Kind = TypeVar("Kind", int, float)

TEXTS = About.__struct_fields__
MORE = {
    "patience": f"{PATIENCE:g}",
    "most_rows": f"{MOST_ROWS}",
    "conversion": Conversion.TIGHT.value,
}
"""What is seldom changed."""

FIELDS = {
    "name": "study",
    "schema": "",
    "sites": "",
    "epsilon": "1",
    "delta": "1e-9",
    "trust": Local.name,
    "colluding": "",
    "quorum": "",
    "method": "wavetree",
    "unit": "",
    "rows_per_unit": "",
    **MORE,
    **dict.fromkeys(TEXTS, ""),
}


def views(desk: CoordinatorDesk) -> Mapping[str, Show]:
    """The pages about studies."""
    return {
        "": lambda visit: _studies(visit, desk),
        "new": lambda visit: _worded(visit, desk),
        "studies/{name}": lambda visit: _study(visit, desk),
        "studies/{name}/file": lambda visit: download(
            desk.bytes_of(visit.part("name")), f"{visit.part('name')}.toml", "application/toml"
        ),
    }


def actions(desk: CoordinatorDesk) -> Mapping[str, Do]:
    """Making one."""
    return {"new/make": lambda visit, form: _make(visit, form, desk)}


def _studies(visit: Visit, desk: CoordinatorDesk) -> Response:
    """Every study of the folder."""
    now = datetime.now(UTC)
    return visit.page(
        "coordinator_studies.html",
        "Studies",
        studies=[
            (name, study.plan.said_about.shown_title, *_words(study, now))
            for name, study in desk.studies()
        ],
        folder=desk.folder,
    )


def _words(study: Study, now: datetime) -> tuple[str, str]:
    """What a study is, and why it can be asked no longer, if it cannot."""
    plan = study.plan
    words = f"epsilon {plan.epsilon:g}, {plan.trust} trust, {', '.join(plan.sites)}"
    try:
        plan.said_about.check_open(now)
    except HeterofedsynError as error:
        return words, str(error)
    return words, ""


def _study(visit: Visit, desk: CoordinatorDesk) -> Response:
    """One study: what it says, what it promises, and what it asks of a site."""
    name = visit.part("name")
    study = desk.study(name)
    return visit.page(
        "coordinator_study.html",
        study.plan.said_about.shown_title,
        name=name,
        sections=_sections(study),
        groups=list(enumerate(aloud(study.fingerprint).split(), start=1)),
        kit=desk.kit,
        folder=desk.folder,
        **_running(study, desk),
        over=_words(study, datetime.now(UTC))[1],
        releases=desk.releases_of(study),
    )


def _running(study: Study, desk: CoordinatorDesk) -> dict[str, Any]:
    """Sites and rounds as the federation says, where there is a kit to ask it with."""
    if desk.follower is None:
        return {"sites": None, "running": "", "problem": ""}
    found = desk.follower.look(study)
    if found.status is None:
        waiting = "" if found.problem else "The federation is being asked; reload to see more."
        return {"sites": None, "running": waiting, "problem": found.problem}
    status = found.status
    words = [f"Job {status.job}: {status.status}." if status.job else "It was not run yet."]
    if status.progress is not None:
        words.append(
            sentence(": ".join(filter(None, (status.progress.state, status.progress.message))))
        )
    table = Table(
        "As the federation says",
        tuple(status.head),
        tuple(map(tuple, status.lines)),
        len(status.head),
    )
    return {"sites": table, "running": " ".join(words), "problem": ""}


def _sections(study: Study) -> list[Section]:
    plan = study.plan
    shown = preview(study, plan.sites[0])
    asks = words_of(
        plan.said_about,
        ("Epsilon", f"{plan.epsilon:g}"),
        ("Delta", f"{plan.delta:g}"),
        ("Protects every", protected(plan.unit)),
        ("Trust", plan.trust),
        ("Sites", ", ".join(plan.sites)),
        ("Sites that must answer", f"{study.quorum} of {len(plan.sites)}"),
        ("Method", plan.method),
    )
    leaves = (
        Text(sentence(most_words(shown))),
        Table(
            "About each column, at most", tuple(COLUMN_HEAD), tuple(map(tuple, column_lines(shown)))
        ),
        Table(
            "All rounds, of one site",
            tuple(ROUND_HEAD),
            tuple(map(tuple, round_lines(shown))),
            words=2,
        ),
    )
    return [
        asks,
        Section(
            "promise",
            "What a steward is promised",
            tuple(Text(sentence(line)) for line in promise(plan)),
        ),
        Section("leaves", "What it asks of a site", leaves),
        *_roster(study),
    ]


def _roster(study: Study) -> list[Section]:
    """Whose keys hide the answers, where there are any."""
    keys = sorted(study.plan.roster.items())
    if not keys:
        return []
    rows = tuple((name, aloud(key_fingerprint(key))) for name, key in keys)
    words = "Every steward confirms the keys of all other sites, by telephone with each of them."
    head = ("site", "fingerprint of its key")
    return [Section("roster", "Whose keys", (Table("Roster", head, rows, 2, 100), Text(words)))]


def _worded(visit: Visit, desk: CoordinatorDesk) -> Response:
    """The form of a study, with what a plan says or what was written in it before."""
    given = {name: visit.query(name, usual) for name, usual in FIELDS.items()}
    kept, problem = visit.session.kept.get(_WRITTEN), ""
    if visit.query("again") and isinstance(kept, tuple):
        given, problem = kept
    return visit.page(
        "coordinator_new.html",
        "New study",
        schemas=list(desk.schemas()),
        given=given,
        texts=STUDY_TEXTS,
        trusts=TRUSTS,
        methods=methods(),
        conversions=[each.value for each in Conversion],
        more=any(given[name] != usual for name, usual in MORE.items()),
        today=f"{datetime.now(UTC):%Y-%m-%d}",
        problem=problem,
        newline=NEW_LINE,
        folder=desk.folder,
    )


def _make(visit: Visit, form: Form, desk: CoordinatorDesk) -> Response:
    """The study becomes a file, by the function of `study new`."""
    given = {name: form.text(name) or MORE.get(name, "") for name in FIELDS}
    try:
        schemas = desk.schemas()
        if given["schema"] not in schemas:
            raise UsageError("choose a schema; put one in the folder if there is none")
        study = _made(given, schemas[given["schema"]])
        with desk.turn:
            study.save(desk.new_place(given["name"]))
    except HeterofedsynError as error:
        visit.session.kept[_WRITTEN] = given, str(error)
        return visit.go("new?again=1")
    visit.say(f"The study is in {given['name']}.toml; send the file to every steward.")
    return visit.go(f"studies/{given['name']}")


def _made(given: Mapping[str, str], schema: Schema) -> Study:
    rows = _number(given, "rows_per_unit", int)
    if rows is not None and not given["unit"]:
        raise UsageError("rows of one person need the column that identifies a person")
    return new_study(
        schema,
        read_roster(given["sites"].split(), given["trust"], _key),
        epsilon=_number(given, "epsilon", float) or 0.0,
        delta=_number(given, "delta", float) or 0.0,
        now=datetime.now(UTC),
        trust=given["trust"],
        colluding=_number(given, "colluding", int),
        quorum=_number(given, "quorum", int),
        method=given["method"],
        unit=given["unit"] or None,
        rows_per_unit=1 if rows is None else rows,
        conversion=given["conversion"],
        patience=_number(given, "patience", float) or 0.0,
        most_rows=_number(given, "most_rows", int) or 0,
        about=About(*(given[name] for name in TEXTS)),
    )


def _key(text: str) -> str:
    """A public key as it was pasted; no file of this machine is read for a page."""
    raw_key(text)
    return text


def _number(given: Mapping[str, str], name: str, kind: type[Kind]) -> Kind | None:
    try:
        return kind(given[name]) if given[name] else None
    except ValueError:
        raise UsageError(f"{name.replace('_', ' ')} ({given[name]!r}) must be a number") from None
