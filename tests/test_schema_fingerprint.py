"""A schema has one fingerprint, wherever it is told, and however it is written."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from heterofedsyn.cli.app import app
from heterofedsyn.errors import UsageError
from heterofedsyn.hub import Request, drive
from heterofedsyn.hub.conversation import of_study
from heterofedsyn.hub.release import load
from heterofedsyn.protocol import Answer, Plan, Study, decode, encode
from heterofedsyn.report.manifest import manifest_section
from heterofedsyn.schema import Schema, with_atoms
from heterofedsyn.schema.atoms import comes_from
from heterofedsyn.simulate.synthesizer import FederatedSynthesizer
from heterofedsyn.site.agent import Agent
from heterofedsyn.site.consent import approve
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.settings import SiteSettings
from site_support import NOW, WHO, make_site

pytestmark = pytest.mark.thorough

SCHEMA = Schema.of(
    {
        "columns": [
            {"name": "age", "type": "integer", "min": 0, "max": 99, "bins": 4},
            {"name": "weight", "type": "number", "min": 0.0, "max": 200.0, "bins": 3},
            {"name": "ward", "type": "categorical", "values": ["a", "b"]},
        ]
    }
)
LESS_TIDY = """
columns = [{type = "integer", name = "age", bins = 4, max = 99, min = 0},
           {max = 2e2, min = 0, name = "weight", type = "number", bins = 3}, # weighed
           {values = ["a", "b"], nullable = false, name = "ward", type = "categorical"}]
"""


def run(*words: str | Path) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def answered(settings: SiteSettings, study: Study, out: Path) -> None:
    """A release of a study over one site, made through its agent."""
    with Books.open(settings.folder, settings.anchor) as books:
        agent = Agent(settings, books, log=lambda line: None)

        def ask(request: Request) -> list[Answer]:
            return [decode(agent.answer(encode(request.query)), Answer)]

        drive(of_study(study), ask).save(out)


def test_study_ledger_receipt_release_and_report_state_the_fingerprint_of_the_file(
    tmp_path: Path,
) -> None:
    settings = make_site(tmp_path, SCHEMA)
    file, release = settings.schema, tmp_path / "release"
    told = run("schema", "fingerprint", file).strip()
    terms = ("--site", settings.name, "--epsilon", "1", "--delta", "1e-9")
    run("study", "new", "--schema", file, *terms, "--out", tmp_path / "study.toml")
    study = Study.load(tmp_path / "study.toml")
    assert study.encoding == with_atoms(SCHEMA) != SCHEMA
    consent = approve(settings, study, who=WHO, now=NOW)
    answered(settings, study, release)
    run(
        "site",
        "receipt",
        tmp_path / "study.toml",
        "--folder",
        settings.folder,
        "--out",
        tmp_path / "receipt.json",
    )
    receipt = json.loads((tmp_path / "receipt.json").read_bytes())["receipt"]
    ledger = json.loads(run("site", "ledger", "--folder", settings.folder, "--json"))
    manifest = str(manifest_section(load(release), release))
    assert study.plan.schema == told == SCHEMA.fingerprint
    assert consent.schema == receipt["schema"] == told
    assert ledger["schemas"] == {study.fingerprint: told}
    assert f": {told}\n" in run("site", "ledger", "--folder", settings.folder)
    assert json.loads((release / "run.json").read_bytes())["schema"] == told
    assert told in manifest
    assert study.encoding.fingerprint not in manifest


def test_a_simulation_states_the_fingerprint_of_the_public_schema() -> None:
    synthesizer = FederatedSynthesizer(SCHEMA, epsilon=1.0, delta=1e-9, noise_seed=1)
    rows = {"age": [1, 30, 80] * 9, "weight": [0.0, 60.0, 70.0] * 9, "ward": ["a", "b", "b"] * 9}
    synthesizer.fit([pd.DataFrame(rows)])
    assert synthesizer.release.run.schema == SCHEMA.fingerprint


def test_how_a_schema_is_written_does_not_change_its_fingerprint(tmp_path: Path) -> None:
    SCHEMA.save(tmp_path / "tidy.toml")
    (tmp_path / "less.toml").write_text(LESS_TIDY)
    told = {run("schema", "fingerprint", tmp_path / name) for name in ("tidy.toml", "less.toml")}
    assert told == {f"{SCHEMA.fingerprint}\n"}


def study_of(schema: str, **encoding: str) -> Study:
    plan = {"epsilon": 1.0, "delta": 1e-9, "sites": ("one",), "method": "wavetree", "seed": 1}
    return Study(
        plan=Plan(schema=schema, **plan, **encoding),  # type: ignore[arg-type]
        schema=SCHEMA.settings,
        quorum=1,
    )


def test_a_study_encodes_by_the_schema_that_its_plan_names_and_by_no_other() -> None:
    public, atoms = SCHEMA.fingerprint, with_atoms(SCHEMA).fingerprint
    assert study_of(public).encoding == SCHEMA
    assert study_of(public, encoding=public) == study_of(public)
    assert study_of(public, encoding=public).fingerprint == study_of(public).fingerprint
    assert study_of(public, encoding=atoms).encoding == with_atoms(SCHEMA)
    assert study_of(atoms).encoding == with_atoms(SCHEMA)  # as earlier versions wrote it
    for schema, encoding in ((atoms, public), (public, "0" * 64), ("0" * 64, atoms)):
        with pytest.raises(UsageError, match="made for another schema"):
            study_of(schema, encoding=encoding)


@pytest.mark.parametrize("named", [(), ("a",), ("a", "b"), ("a", "b", "c")])
def test_what_atoms_make_of_a_schema_comes_from_it_whichever_it_names(
    named: tuple[str, ...],
) -> None:
    columns = [
        {"name": name, "type": "number", "min": 0.0, "max": 9.0, "bins": 3}
        | ({"atoms": [0.0]} if name in named else {})
        for name in "abc"
    ]
    public = Schema.of({"columns": columns})
    made = with_atoms(public)
    assert comes_from(made, public.fingerprint)
    assert comes_from(public, public.fingerprint)
    assert not comes_from(made, "0" * 64)
    assert comes_from(public, made.fingerprint) == (public == made)
