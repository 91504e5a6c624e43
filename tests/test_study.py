"""A study file says what was agreed on, and nothing else passes for one."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from heterofedsyn.errors import UsageError
from heterofedsyn.protocol import Plan, Study
from heterofedsyn.protocol.about import About
from heterofedsyn.schema import with_atoms
from heterofedsyn.simulate import FederatedSynthesizer
from heterofedsyn.simulate.hospitals import hospital_schema, hospitals
from support import make_plan


def a_study(**terms: object) -> Study:
    schema = hospital_schema()
    plan = make_plan(with_atoms(schema), ("north", "south"), settings={"q": 0.25}, epsilon=1)
    return Study(**{"plan": plan, "schema": schema.settings, "quorum": 2, **terms})  # type: ignore[arg-type]


def test_a_study_comes_back_from_its_file_with_its_fingerprint(tmp_path: Path) -> None:
    study = a_study()
    study.save(tmp_path / "study.toml")
    again = Study.load(tmp_path / "study.toml")
    assert again == study
    assert again.fingerprint == study.fingerprint
    assert again.public == hospital_schema()
    assert again.encoding == with_atoms(hospital_schema())


def test_what_a_study_says_is_worked_out_once() -> None:
    study = a_study()
    assert study.public is study.public
    assert study.encoding is study.encoding
    assert study.plan.budget is study.plan.budget
    assert study.fingerprint is study.fingerprint


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"quorum": 0}, "quorum"),
        ({"quorum": 3}, "quorum"),
        ({"patience": 0}, "patience"),
        ({"patience": float("nan")}, "patience"),
        ({"most_rows": 0}, "most_rows"),
        ({"most_rows": 2**40}, "most_rows"),
        ({"version": 2}, "version 2"),
        ({"schema": {"columns": [{"name": "x", "type": "boolean"}]}}, "another schema"),
    ],
)
def test_terms_that_contradict_each_other_are_refused(terms: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        a_study(**terms)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "quorum = 2",
        "\0",
        "quorum = ",
        "[plan]\nepsilon = 'x'",
        "surprise = 1",
        "quorum = " + "[" * 100_000,
        "quorum = " + "9" * 6_000,
        "quorum = 0x" + "f" * 6_000,
    ],
    ids=lambda text: text[:12],
)
def test_anything_else_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "study.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as refused:
        Study.load(path)
    assert "\n" not in str(refused.value)
    assert "this is no study" in str(refused.value)
    assert len(str(refused.value)) < 500
    with pytest.raises(UsageError, match="cannot read study"):
        Study.load(tmp_path / "nowhere.toml")


def test_a_study_without_a_limit_of_rows_has_the_usual_one(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    text = a_study().to_toml()
    assert "most_rows = 10000000\n" in text
    path.write_text(text.replace("most_rows = 10000000\n", ""))
    assert Study.load(path).most_rows == 10_000_000


def test_an_unknown_field_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text("surprise = 1\n" + a_study().to_toml())
    with pytest.raises(UsageError, match="surprise"):
        Study.load(path)


def test_what_a_study_is_for_is_part_of_its_fingerprint_and_of_the_release() -> None:
    texts = About("Stays", "planning of beds", "a@b.example")
    plan = partial(make_plan, hospital_schema())
    plain, named, other = plan(), plan(about=texts), plan(about=About("Other"))
    assert len({each.fingerprint for each in (plain, named, other)}) == 3
    assert plan(about=About()).fingerprint == plain.fingerprint
    fitted = FederatedSynthesizer(
        hospital_schema(), epsilon=1, delta=1e-9, method="independent", about=dict(texts.said)
    ).fit(hospitals(patients=1_000))
    assert fitted.release.run.about == texts
    assert msgspec.json.decode(msgspec.json.encode(named), type=Plan) == named


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"title": "a\nb"}, "title must be one line"),
        ({"purpose": "x" * 501}, "purpose must be one line"),
        ({"title": "\u3164\u2800"}, "title looks empty"),
        ({"contact": " \u115f\uffa0-"}, "contact looks empty"),
        ({"aim": "x"}, "title, purpose, contact"),
        ({"title": 3}, "title, purpose, contact"),
    ],
)
def test_what_is_said_about_a_study_is_a_few_lines_of_text(about: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        About.of(about)
