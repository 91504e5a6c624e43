"""`heterofedsyn study new` and `study package`: what a coordinator writes before anything runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from heterofedsyn.cli.app import run
from heterofedsyn.cli.study.run import Shown, _line
from heterofedsyn.engines.progress import Progress, RoundProgress
from heterofedsyn.engines.session import read_progress
from heterofedsyn.engines.study_run import Course, Stage
from heterofedsyn.engines.task import unpack
from heterofedsyn.errors import EngineError
from heterofedsyn.hub import Absence, make_method
from heterofedsyn.protocol import Study
from heterofedsyn.protocol.plan import Aggregation
from heterofedsyn.simulate.hospitals import hospital_schema
from heterofedsyn.site.signing import Identity

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


@pytest.fixture
def keys(folder: Path) -> dict[str, str]:
    """Public keys of four sites, each in a file beside the schema."""
    names = ("elmwood", "kingsbridge", "lakeside", "northgate")
    found = {name: Identity.fresh().public for name in names}
    for name, key in found.items():
        (folder / f"{name}.pub").write_text(f"{key}\n")
    return found


SUMS = [
    *("study", "new", "--schema", "schema.toml", "--trust", "secure-aggregation"),
    *("--epsilon", "1", "--delta", "1e-9", "--out", "study.toml"),
]


def sites_of(keys: dict[str, str], *, files: bool = True) -> list[str]:
    """The options that name sites with their keys."""
    return [
        word
        for name, key in keys.items()
        for word in ("--site", f"{name}={f'{name}.pub' if files else key}")
    ]


@pytest.mark.parametrize("files", [True, False])
def test_a_study_of_sums_holds_every_sites_key_and_who_may_collude(
    folder: Path, keys: dict[str, str], capsys: pytest.CaptureFixture[str], files: bool
) -> None:
    assert run([*SUMS, *sites_of(keys, files=files)]) == 0
    said = capsys.readouterr().err
    study = Study.load(folder / "study.toml")
    assert study.plan.sites == tuple(keys)
    assert study.plan.aggregation == Aggregation(colluding=1, quorum=4, keys=keys)
    assert study.quorum == 4
    assert "4 of 4 sites must be in every sum" in said
    assert "though 1 site may collude with the hub" in said
    trust = study.plan.trust_model
    alone = study.plan.budget.times(trust.alone_factor).epsilon(study.plan.delta)
    assert f"{alone:.3g} if more do" in said


def test_colluding_sites_and_quorum_of_sums_are_what_was_asked_for(
    folder: Path, keys: dict[str, str]
) -> None:
    assert run([*SUMS, *sites_of(keys), "--colluding", "1", "--quorum", "3"]) == 0
    study = Study.load(folder / "study.toml")
    assert study.plan.aggregation == Aggregation(colluding=1, quorum=3, keys=keys)
    assert study.quorum == 3


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--site", "oak"], "site oak needs its public key"),
        (["--site", "oak="], "site oak needs its public key"),
        (["--site", "oak=nowhere.pub"], "is no public key"),
        (["--site", "oak=schema.toml"], "schema.toml holds no public key"),
        (["--site", "oak=elmwood.pub"], "two sites have the same public key"),
        (["--site", "elmwood=elmwood.pub"], "each with a name of its own"),
        (["--site", "Elmwood=lakeside.pub"], "differ in more than capital letters"),
        (["--colluding", "3"], "colluding (3) must be in 1..2"),
        (["--colluding", "0"], "colluding (0) must be in 1..2"),
        (["--quorum", "2"], "quorum (2) must be in 3..4"),
        (["--quorum", "5"], "quorum (5) must be in 3..4"),
        (["--method", "local-merge"], "needs every site's own answers"),
        (["--trust", "local"], "site elmwood=KEY: under trust 'local' nobody needs a key"),
        (["--trust", "secure"], "there is no trust model 'secure'"),
    ],
)
def test_a_study_of_sums_that_cannot_be_is_refused_in_one_line(
    folder: Path,
    keys: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    said: str,
) -> None:
    assert run([*SUMS, *sites_of(keys), *more]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.strip().splitlines()) == 1
    assert not (folder / "study.toml").exists()


def test_colluding_sites_mean_nothing_where_everyone_sees_every_answer(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*NEW, "--colluding", "1"]) == 2
    assert "colluding means nothing under trust 'local'" in capsys.readouterr().err


def test_progress_has_one_line_for_every_step() -> None:
    usual: dict[str, Any] = {"asked": ("a", "b"), "finished": True, "seconds": 10.0}
    shown = [
        RoundProgress(round=0, label="keys", parts=0, step="keys", answered=("a", "b"), **usual),
        RoundProgress(
            round=1,
            label="total",
            parts=1,
            step="masked",
            answered=("a",),
            received={"a": 900},
            absent=(Absence("b", "gave no answer"),),
            **usual,
        ),
        RoundProgress(round=2, label="pairs", parts=3, step="open", resumed=True, **usual),
        RoundProgress(round=2, label="pairs", parts=3, answered=("a", "b"), **usual),
    ]
    assert [_line(each) for each in shown] == [
        "  keys of all sites, 2 of 2 sites answered, 0 B, within 10 s",
        "  round 1: total, masked, 1 of 2 sites answered, 900 B, within 10 s; b gave no answer",
        "  round 2: pairs, open, from the journal",
        "  round 2: pairs, 3 releases, 2 of 2 sites answered, 0 B, within 10 s",
    ]


def test_a_site_that_is_waited_for_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    step = RoundProgress(
        round=1,
        label="total",
        parts=1,
        step="masked",
        again=True,
        asked=("a", "b", "c"),
        answered=("a",),
        absent=(Absence("b", "refused (unavailable)"),),
        seconds=10.0,
    )
    shown = Shown("s")
    progress = Progress(study="s", rounds=(step,))
    course = Course(stage=Stage.ASKING, seconds=1.0, server="hub", quorum=3, progress=progress)
    for _ in range(2):
        shown.show(course)
    assert capsys.readouterr().err.splitlines() == [
        "  round 1: total, masked: b refused (unavailable), and is asked again"
    ]
    assert "waiting for b, c" in _line(step)


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
