"""`make advisories` never calls a dependency sound that nobody could tell anything about."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "advisories.py"


@pytest.fixture(scope="module")
def tool() -> Any:
    spec = importlib.util.spec_from_file_location("advisories", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sound(name: str) -> dict[str, Any]:
    return {"name": name, "version": "1.0", "vulns": []}


def said(*dependencies: dict[str, Any]) -> str:
    return json.dumps({"dependencies": dependencies, "fixes": []})


def test_nothing_known_against_any_is_a_pass(tool: Any) -> None:
    assert tool.verdict(said(sound("a"), sound("b")))[0] == 0


@pytest.mark.parametrize(
    "output",
    [
        "",
        "Traceback (most recent call last)",
        "[]",
        said(),
        said(sound("a"), {"name": "b", "skip_reason": "Dependency not found"}),
    ],
)
def test_what_was_not_checked_is_no_pass(tool: Any, output: str) -> None:
    code, (line,) = tool.verdict(output)
    assert code == 2
    assert "\n" not in line


def test_an_advisory_is_named_with_what_mends_it(tool: Any) -> None:
    flaw = {"id": "PYSEC-1", "fix_versions": ["1.1"], "aliases": [], "description": "long\ntext"}
    open_flaw = {**flaw, "id": "PYSEC-2", "fix_versions": []}
    code, lines = tool.verdict(said({**sound("a"), "vulns": [flaw, open_flaw]}, sound("b")))
    assert code == 1
    assert lines[1:] == ["a 1.0: PYSEC-1, mended in 1.1", "a 1.0: PYSEC-2, not mended"]


def test_without_a_source_there_is_one_line(
    tool: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tool.sys, "executable", "/bin/false")
    assert tool.main(["locks/core.txt"]) == 2
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("advisories: no source could tell (pypi: no answer; osv: no answer)")
