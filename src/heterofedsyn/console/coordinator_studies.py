"""The coordinator's studies: worded in a form, read out to stewards, sent as a file."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TypeVar

from starlette.responses import Response

from heterofedsyn._defaults import MOST_ROWS, PATIENCE
from heterofedsyn._words import STUDY_TEXTS, aloud, sentence
from heterofedsyn.console.coordinator_desk import CoordinatorDesk
from heterofedsyn.console.coordinator_plan import TRUSTS, methods
from heterofedsyn.console.coordinator_standing import standing
from heterofedsyn.console.follower import Followed
from heterofedsyn.console.pages import NEW_LINE, Do, Form, Show, Visit, download
from heterofedsyn.console.study_words import words_of
from heterofedsyn.engines.study_run import StudyStatus
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
from heterofedsyn.report.blocks import Folded, Section, Table, Text
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
    now, released = datetime.now(UTC), desk.released()
    found = []
    for name, study in desk.studies():
        status = None if desk.follower is None else desk.follower.known(study).status
        where = standing(study, status, released.get(study.fingerprint, ()), now)
        found.append((name, study.plan.said_about.shown_title, _words(study), where))
    return visit.page("coordinator_studies.html", "Studies", studies=found, folder=desk.folder)


def _words(study: Study) -> str:
    plan = study.plan
    return f"epsilon {plan.epsilon:g}, {plan.trust} trust, asks {', '.join(plan.sites)}"


def _study(visit: Visit, desk: CoordinatorDesk) -> Response:
    """One study: where it stands, what it says and promises, and what it asks of a site."""
    name = visit.part("name")
    study = desk.study(name)
    releases = desk.released().get(study.fingerprint, [])
    followed = Followed() if desk.follower is None else desk.follower.look(study)
    status = followed.status
    return visit.page(
        "coordinator_study.html",
        study.plan.said_about.shown_title,
        name=name,
        sections=_sections(study),
        groups=list(enumerate(aloud(study.fingerprint).split(), start=1)),
        kit=desk.kit,
        folder=desk.folder,
        standing=standing(study, status, releases, datetime.now(UTC)),
        problem=followed.problem,
        asking=desk.follower is not None and status is None and not followed.problem,
        status=status,
        sites=None if status is None else _sites(status),
        releases=releases,
    )


def _sites(status: StudyStatus) -> Table:
    """Sites and rounds as the federation says."""
    head = tuple(status.head)
    return Table("As the federation says", head, tuple(map(tuple, status.lines)), len(head))


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
            "About each column, at most",
            tuple(COLUMN_HEAD),
            tuple(map(tuple, column_lines(shown))),
            words=4,
            longest=200,
        ),
        Folded(
            Table(
                "all rounds, of one site",
                tuple(ROUND_HEAD),
                tuple(map(tuple, round_lines(shown))),
                words=2,
            )
        ),
    )
    return [
        asks,
        Section(
            "promise",
            "What a steward is promised",
            tuple(Text(sentence(line)) for line in promise(plan, rho=False)),
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
