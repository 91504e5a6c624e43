"""Nothing is written where a link is, whatever it leads to."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from heterofedsyn import FederatedSynthesizer, Schema, load
from heterofedsyn._files import file_written_whole, written_whole
from heterofedsyn.errors import UsageError
from invented import SCHEMA, Desk, patients

pytestmark = pytest.mark.sweep

STUDY = ("--schema", "s.toml", "--epsilon", "1", "--delta", "1e-9")
FOLDERS = {
    "simulate": ("simulate", *STUDY, "--data", "d.csv", "--method", "independent", "--out"),
    "simulate again": (
        *("simulate", *STUDY, "--data", "d.csv", "--method", "independent"),
        *("--overwrite", "--out"),
    ),
    "demo": ("demo", "--patients", "1000", "--method", "independent", "--overwrite", "--out"),
    "study package": ("study", "package", "study.toml", "--out"),
    "study run": ("study", "run", "study.toml", "--kit", "kit", "--overwrite", "--out"),
    "bench paper": ("bench", "paper", "overall", "--quick", "--out"),
    "bench paper again": ("bench", "paper", "--render-only", "--out"),
    "bench data": ("bench", "data", "--out"),
    "site init": (
        *("site", "init", "--schema", "s.toml", "--data", "d.csv", "--name", "a"),
        *("--epsilon", "1", "--delta", "1e-9", "--study-epsilon", "1", "--anchor", "anchor"),
        *("--socket", "sock", "--engine", "root", "--folder"),
    ),
}
FILES = {
    "sample": ("sample", "real", "--rows", "5", "--overwrite", "--out"),
    "report": ("report", "real", "--overwrite", "--out"),
    "export": ("export", "real", "--to", "dictionary", "--overwrite", "--out"),
    "internal report": ("report", "real", "--real", "d.csv", "--overwrite", "--out"),
    "schema draft": ("schema", "draft", "--data", "d.csv", "--public", "--overwrite", "--out"),
    "schema new": ("schema", "new", "--columns", "a,b", "--overwrite", "--out"),
    "schema export": ("schema", "export", "s.toml", "--format", "sdv", "--overwrite", "--out"),
    "study new": ("study", "new", *STUDY, "--site", "a", "--site", "b", "--overwrite", "--out"),
    "bench scale": ("bench", "scale", "--rows", "10000", "--overwrite", "--table"),
    "audit": ("audit", "--overwrite", "--html"),
}
ENDINGS = {
    "sample": ".csv",
    "export": ".md",
    "bench scale": ".csv",
    "schema draft": ".toml",
    "schema new": ".toml",
    "study new": ".toml",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release."""
    terms: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-9, "method": "independent"}
    synthesizer = FederatedSynthesizer(Schema.from_toml(SCHEMA), **terms)
    return synthesizer.fit([patients()]).save(tmp_path_factory.mktemp("made") / "real")


@pytest.fixture
def desk(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Desk:
    monkeypatch.chdir(tmp_path)
    found = Desk(tmp_path, capsys)
    shutil.copytree(made, "real")
    assert found.run("study", "new", *STUDY, "--site", "a", "--out", "study.toml") == 0
    return found


def contents(folder: Path) -> dict[str, str]:
    """All that is below a folder: files by a digest, links by where they lead."""
    return {
        str(path.relative_to(folder)): (
            str(path.readlink())
            if path.is_symlink()
            else "folder"
            if path.is_dir()
            else hashlib.sha256(path.read_bytes()).hexdigest()
        )
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize("target", ["nowhere", "real", "empty"])
@pytest.mark.parametrize("command", FOLDERS)
def test_no_folder_is_written_through_a_link(desk: Desk, command: str, target: str) -> None:
    (desk.folder / "empty").mkdir()
    (desk.folder / "out").symlink_to(target)
    before = contents(desk.folder)
    desk.run(*FOLDERS[command], "out")
    desk.refused(2, "out", "link")
    assert contents(desk.folder) == before


@pytest.mark.parametrize("target", ["nowhere", "d.csv"])
@pytest.mark.parametrize("command", FILES)
def test_no_file_is_written_through_a_link(desk: Desk, command: str, target: str) -> None:
    name = f"out{ENDINGS.get(command, '.html')}"
    (desk.folder / name).symlink_to(target)
    before = contents(desk.folder)
    desk.run(*FILES[command], name)
    desk.refused(2, name, "is a link")
    assert contents(desk.folder) == before


@pytest.mark.parametrize("target", ["nowhere", "there"])
def test_the_writers_themselves_follow_no_link(tmp_path: Path, target: str) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(UsageError, match="is a link"), written_whole(tmp_path / "link"):
        pass
    with pytest.raises(UsageError, match="is a link"), file_written_whole(tmp_path / "link"):
        pass
    assert contents(tmp_path) == {"link": target, "there": "folder"}


def test_a_link_that_comes_meanwhile_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("theirs")
    with file_written_whole(tmp_path / "out") as partial:
        partial.write_text("ours")
        (tmp_path / "out").symlink_to("file")
    assert (tmp_path / "file").read_text() == "theirs"
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("theirs")
    with written_whole(tmp_path / "new") as partial:
        (partial / "file").write_text("ours")
        (tmp_path / "new").symlink_to("folder")
    assert (tmp_path / "folder" / "file").read_text() == "theirs"


@pytest.mark.thorough
def test_a_demo_replaces_unasked_what_a_demo_made_and_nothing_else(desk: Desk) -> None:
    demo = ("demo", "--patients", "1000", "--method", "independent")
    place = desk.folder / "heterofedsyn-demo"
    place.symlink_to("real")
    before = contents(desk.folder)
    desk.run(*demo)
    desk.refused(2, "heterofedsyn-demo", "link")
    assert contents(desk.folder) == before
    place.unlink()
    shutil.copytree("real", place)
    before = contents(desk.folder)
    desk.run(*demo)
    desk.refused(2, "heterofedsyn-demo holds a release already", "--overwrite")
    assert contents(desk.folder) == before
    assert desk.run(*demo, "--overwrite") == 0
    first = load(place).run.study
    assert desk.run(*demo) == 0
    assert load(place).run.study != first
    (place / "privacy.json").write_text("{}")
    desk.run(*demo)
    desk.refused(2, "holds a release already")
