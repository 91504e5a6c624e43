"""`heterofedsyn study new` and `study package`: what a coordinator writes before anything runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from heterofedsyn.cli.app import run
from heterofedsyn.engines.nvflare.job import read_progress
from heterofedsyn.engines.nvflare.task import unpack
from heterofedsyn.errors import EngineError
from heterofedsyn.hub import make_method
from heterofedsyn.protocol import Study
from heterofedsyn.simulate.hospitals import hospital_schema

pytestmark = pytest.mark.sweep


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    hospital_schema().save(tmp_path / "schema.toml")
    monkeypatch.chdir(tmp_path)
    return tmp_path


NEW = [
    *("study", "new", "--schema", "schema.toml", "--site", "elmwood", "--site", "lakeside"),
    *("--epsilon", "1", "--delta", "1e-9", "--out", "study.toml"),
]


def test_a_study_holds_what_was_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = [
        "--quorum",
        "1",
        "--patience",
        "5",
        "--most-rows",
        "9000",
        "--method",
        "fedprivsyn",
        "--set",
        "q=0.2",
    ]
    assert run([*NEW, *more]) == 0
    study = Study.load(folder / "study.toml")
    assert capsys.readouterr().out.strip() == study.fingerprint
    assert (study.quorum, study.patience, study.most_rows) == (1, 5.0, 9_000)
    assert study.public == hospital_schema()
    assert study.plan.sites == ("elmwood", "lakeside")
    assert (study.plan.epsilon, study.plan.delta, study.plan.trust) == (1.0, 1e-9, "local")
    assert make_method(study.plan.method, study.plan.settings) == make_method(
        "fedprivsyn", {"q": 0.2}
    )


def test_everyone_must_answer_unless_a_quorum_is_given(folder: Path) -> None:
    assert run(NEW) == 0
    assert Study.load(folder / "study.toml").quorum == 2


def test_two_studies_of_the_same_terms_have_public_randomness_of_their_own(folder: Path) -> None:
    assert run(NEW) == 0
    first = Study.load(folder / "study.toml")
    assert run([*NEW, "--overwrite"]) == 0
    assert Study.load(folder / "study.toml").fingerprint != first.fingerprint


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--quorum", "3"], "quorum (3) must be in 1..2"),
        (["--quorum", "0"], "quorum (0) must be in 1..2"),
        (["--patience", "0"], "patience (0.0) must be in 1..86400"),
        (["--most-rows", "0"], "most_rows (0) must be in 1..1000000000"),
        (["--site", "server"], "no site may be named 'server'"),
        (["--method", "privsyn"], "can only be simulated"),
        (["--site", "elmwood"], "each with a name of its own"),
        (["--site", "../x"], "site name"),
        (["--max-rows-per-unit", "2"], "needs --unit"),
        (["--set", "nonsense=1"], "has a setting 'nonsense'"),
    ],
)
def test_a_study_that_cannot_be_is_refused_and_not_written(
    folder: Path, capsys: pytest.CaptureFixture[str], more: list[str], said: str
) -> None:
    assert run([*NEW, *more]) == 2
    assert said in capsys.readouterr().err
    assert not (folder / "study.toml").exists()


def test_a_study_is_not_replaced_by_accident(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(NEW) == 0
    before = (folder / "study.toml").read_bytes()
    assert run(NEW) == 2
    assert "exists already" in capsys.readouterr().err
    assert (folder / "study.toml").read_bytes() == before


def test_a_job_carries_the_study_and_no_code(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*NEW, "--quorum", "1"]) == 0
    assert run(["study", "package", "study.toml", "--out", "job"]) == 0
    files = sorted(str(p.relative_to(folder / "job")) for p in (folder / "job").rglob("*.*"))
    assert files == [
        "meta.json",
        "server/config/config_fed_server.json",
        "site/config/config_fed_client.json",
    ]
    meta = json.loads((folder / "job" / "meta.json").read_text())
    assert meta["deploy_map"] == {"server": ["server"], "site": ["elmwood", "lakeside"]}
    assert meta["min_clients"] == 1
    server = json.loads((folder / "job" / files[1]).read_text())
    (folder / "again.toml").write_text(unpack(server["workflows"][0]["args"]["study"]))
    assert Study.load(folder / "again.toml") == Study.load(folder / "study.toml")
    assert "study" not in (folder / "job" / files[2]).read_text()
    assert '"byoc": "none"' in capsys.readouterr().out


@pytest.mark.parametrize("rows", ["0", "100000001"])
def test_rows_of_a_release_are_bounded_before_anything_runs(
    folder: Path, capsys: pytest.CaptureFixture[str], rows: str
) -> None:
    assert run(NEW) == 0
    asked = ["study", "run", "study.toml", "--kit", ".", "--out", "release", "--rows", rows]
    assert run(asked) == 2
    assert f"rows ({rows}) must be in 1..100000000" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "{", '{"study": 3}', "\xff", "[" * 100_000, "9" * 6_000])
def test_a_damaged_record_of_progress_is_one_clear_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "progress.json").write_text(text, "latin-1")
    with pytest.raises(EngineError, match=r"^progress\.json of the job is damaged"):
        read_progress(tmp_path / "progress.json")


def test_a_folder_that_is_no_kit_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("nvflare")
    assert run(NEW) == 0
    for command in (["run", "study.toml", "--out", "release"], ["status", "study.toml"]):
        assert run(["study", *command, "--kit", "."]) == 2
        assert "no administrator's kit" in capsys.readouterr().err
