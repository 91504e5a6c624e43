"""README and docs run as they stand: a command, snippet or output that stops being true fails."""

from __future__ import annotations

import ast
import math
import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from docs_support import Block, blocks
from heterofedsyn import Budget, methods
from heterofedsyn.hub import METHODS, make_method
from heterofedsyn.hub.methods.base import settings_of
from heterofedsyn.hub.questions import within_bins, within_groups, worlds
from heterofedsyn.report import sites, verdicts
from heterofedsyn.schema import Schema
from heterofedsyn.simulate.hospitals import hospital_schema, hospitals
from raw_export import write_raw
from spark_support import needs_java

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
QUICK = {"CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"}
SLOW = {
    *(
        "README.md",
        "answers.md",
        "audit.md",
        "evaluation.md",
        "exports.md",
        "methods.md",
        "plan.md",
        "report.md",
        "schema.md",
        "site.md",
        "sources.md",
        "spark.md",
    ),
}
PREPARED = {"schema.md": lambda folder: write_raw(folder / "raw.csv")}
"""What lies in the folder of a page before it is run."""

METHODS_PAGE = ROOT / "docs" / "methods.md"

# `make demo` and `make try` are what they run; other targets would run this very test, or fetch
# packages.
PRELUDE = """\
set -eu
make() { case "$1" in demo) heterofedsyn demo;; try) heterofedsyn federation try;; esac; }
"""


def run(command: list[str], folder: Path, text: str | None = None) -> str:
    """What a command says on both channels; it must succeed."""
    kept = {name: value for name, value in os.environ.items() if name != "HETEROFEDSYN_DATA"}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        command,
        cwd=folder,
        env={
            **kept,
            **{"PATH": path, "COLUMNS": "100", "PYTHONPATH": str(folder)},
            "XDG_CACHE_HOME": str(folder / ".cache"),
        },
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def plain(line: str, *, sample: bool) -> str:
    """A line without its layout and, in a sample, without its figures."""
    words = " ".join(line.split())
    if not sample:
        return words
    return " ".join(re.sub(r"\d[\d.,]*(e-\d+)?", "#", words).replace("kB", "B").split())


def check_output(block: Block, output: str) -> None:
    sample = "sample" in block.words
    said = {plain(line, sample=sample) for line in output.splitlines()}
    for line in block.text.splitlines():
        if line.strip() not in ("", "..."):
            assert plain(line, sample=sample) in said, f"not said any more: {line}\n{output}"


def marks(page: Path) -> list[pytest.MarkDecorator]:
    if page.name in SLOW:
        return [pytest.mark.slow, *([needs_java] if page.name == "spark.md" else [])]
    return [] if page.name in QUICK else [pytest.mark.thorough]


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=marks(page), id=page.name) for page in PAGES],
)
def test_a_page_runs_from_top_to_bottom_in_an_empty_folder(page: Path, tmp_path: Path) -> None:
    output = ""
    if page.name in PREPARED:
        PREPARED[page.name](tmp_path)
    for block in blocks(page):
        if block.language == "text":
            check_output(block, output)
        elif block.words:
            (tmp_path / block.words[0]).write_text(block.text, "utf-8")
        elif block.language == "python":
            output = run(
                [sys.executable, "-W", "error", "-W", "ignore:simulated noise", "-"],
                tmp_path,
                block.text,
            )
        elif block.language == "sh":
            output = run(["bash", "-c", PRELUDE + block.text], tmp_path)
        else:
            assert block.language == "toml", f"{page.name}:{block.line}: nothing runs this block"


def test_a_raw_export_becomes_a_release_in_five_commands() -> None:
    page = (ROOT / "docs" / "schema.md").read_text("utf-8")
    section = page.partition("## From a file to a release\n")[2].partition("\n## ")[0]
    shell = "".join(re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL))
    commands = shell.splitlines()
    assert len(commands) <= 5
    assert not any("raw.csv" in line for line in commands if not line.startswith("heterofedsyn "))
    assert any(line.startswith("heterofedsyn simulate ") for line in commands)


def test_every_make_target_named_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    there = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))
    named = {
        target
        for page in PAGES
        for target in re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text("utf-8"), re.MULTILINE)
    }
    assert {"demo", "check"} <= named <= there
    for target, command in (("demo", "demo"), ("try", "federation try")):
        runs = rf"^{target}:.*\n\t\$\(BIN\)/heterofedsyn {command}$"
        assert re.search(runs, makefile, re.MULTILINE)


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    """As the site is built, and on pages too that it leaves out."""
    tool = runpy.run_path(str(ROOT / "tools" / "site" / "build.py"))
    reader = tool["reader_of_pages"]()
    paths = [str(page.relative_to(ROOT)) for page in PAGES]
    documents = {path: tool["read"](reader, ROOT, path) for path in paths}
    broken = [line for path in paths for line in tool["check"](documents[path], documents, ROOT)]
    assert not broken


def test_constants_of_the_mathematics_are_those_of_the_code() -> None:
    text = (ROOT / "docs" / "math.md").read_text("utf-8")
    said = re.findall(r"^\| `([A-Z_]+)` \| ([^|]+) \|", text, re.MULTILINE)
    assert said
    for name, values in said:
        (value,) = {
            getattr(module, name)
            for module in (worlds, within_bins, within_groups, verdicts, sites)
            if hasattr(module, name)
        }
        assert [float(part) for part in values.split(",")] == [*np.atleast_1d(value)], name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_schema_shown_can_be_loaded(page: Path) -> None:
    for block in blocks(page):
        if block.language == "toml" and "[[columns]]" in block.text:
            Schema.from_toml(block.text)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_and_setting_is_described_with_its_default(name: str) -> None:
    text = METHODS_PAGE.read_text("utf-8")
    assert f"\n| `{name}` |" in text
    unused = {"fedprivsyn-noprojection": {"k", "sketch"}}.get(name, set())
    for setting, value in settings_of(make_method(name)).items():
        rows = re.findall(rf"^\| `{setting}` \| ([^|]+) \|[^|]*\| ([^|]+) \|", text, re.MULTILINE)
        own = [default for default, who in rows if f"`{name}`" in who or who.startswith("all")]
        if setting not in unused:
            shown = "1/3" if value == 1 / 3 else str(value)
            assert [default.strip("`") for default in own] == [shown], (setting, rows)


def imported(code: str) -> set[tuple[str, str]]:
    """Module and name of all that code imports from this package."""
    return {
        (node.module, alias.name)
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        if node.module.partition(".")[0] == "heterofedsyn"
    }


def test_what_method_authors_import_is_what_the_page_of_methods_tells_of() -> None:
    table = METHODS_PAGE.read_text("utf-8").partition("What `heterofedsyn.methods` holds:")[2]
    rows = re.findall(r"^\| (`[^|]+`) \|", table.partition("\n## ")[0], re.MULTILINE)
    told = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(told) == sorted(methods.__all__)
    used = {
        pair for b in blocks(METHODS_PAGE) if b.language == "python" for pair in imported(b.text)
    }
    assert {name for module, name in used if module == "heterofedsyn.methods"} <= {*told}
    elsewhere = {"heterofedsyn", "heterofedsyn.methods", "heterofedsyn.simulate.hospitals"}
    assert {module for module, _ in used} == elsewhere


def test_the_example_of_a_method_is_short() -> None:
    (code,) = (block for block in blocks(METHODS_PAGE) if block.words == ("chain.py",))
    assert len(code.text.splitlines()) <= 60


@pytest.mark.thorough
def test_a_method_of_another_package_is_found_by_its_entry_point(tmp_path: Path) -> None:
    (code,) = (block for block in blocks(METHODS_PAGE) if block.words == ("chain.py",))
    (entry,) = (block for block in blocks(METHODS_PAGE) if "entry-points" in block.text)
    (tmp_path / "chain.py").write_text(code.text, "utf-8")
    installed = tmp_path / "chain-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: chain\nVersion: 1.0\n")
    ((group, names),) = tomllib.loads(entry.text)["project"]["entry-points"].items()
    lines = [f"[{group}]", *(f"{name} = {place}" for name, place in names.items())]
    (installed / "entry_points.txt").write_text("\n".join(lines))
    hospital_schema().save(tmp_path / "schema.toml")
    pyarrow.parquet.write_table(hospitals(patients=1_000)["elmwood"], tmp_path / "elmwood.parquet")
    command = ["heterofedsyn", "simulate", "--site", "elmwood.parquet", "--schema", "schema.toml"]
    command += ["--epsilon", "1", "--delta", "1e-9", "--method", "chain", "--out", "release"]
    assert "study over 1 site with chain" in run(command, tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_named_is_there(page: Path) -> None:
    for name, test in re.findall(r"`(tests/[^:`]+)(?:::([^`]+))?`", page.read_text("utf-8")):
        assert (ROOT / name).exists(), name
        if test:
            found = ast.parse((ROOT / name).read_text("utf-8"))
            names = {node.name for node in ast.walk(found) if isinstance(node, ast.FunctionDef)}
            assert test in names, f"{name}::{test}"


def test_every_claim_about_privacy_has_a_number_and_every_number_a_test() -> None:
    text, _, table = (ROOT / "docs" / "privacy-claims.md").read_text("utf-8").partition("## Tests")
    rows = re.findall(r"^\| (\d+) \| [^|]+ \| `tests/[^`|]+` \|$", table, re.MULTILINE)
    assert rows == [str(number) for number in range(1, len(rows) + 1)]
    assert len(rows) >= 100
    named = re.findall(r"\[(\d+(?:,\s+\d+)*)\]", text)
    assert {number for group in named for number in re.findall(r"\d+", group)} == {*rows}
    held = text.partition("\nHeld by:\n")[2].partition("\n\n**")[0]
    for claim in re.split(r"\n- ", held.strip().removeprefix("- ")):
        assert re.search(r"\[\d+", claim) or "*not tested*" in claim, claim


def test_the_page_for_people_who_decide_names_no_test_and_its_figures_are_right() -> None:
    text = (ROOT / "docs" / "privacy.md").read_text("utf-8")
    assert "tests/" not in text
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+) % \| ([\d.,]+) \|", text, re.MULTILINE)
    assert len(rows) == 6
    for epsilon, chance, factor in rows:
        rho = Budget.of(epsilon=float(epsilon), delta=1e-9).rho
        assert float(chance) == math.ceil(1_000 * (0.5 + math.sqrt(rho / 2) / 2)) / 10
        stated, exact = float(factor.replace(",", "")), math.exp(float(epsilon))
        assert exact <= stated <= 1.05 * exact
    rho = Budget.of(epsilon=1, delta=1e-9).rho
    four, ten, two, five = (Budget(rho * times).epsilon(1e-9) for times in (4, 10, 4, 25))
    assert f"epsilon {four:.1f}, ten\nof them one of {ten:.1f}" in text
    assert f"two records by {two:.1f}, five by {five:.1f}" in text


def test_no_page_names_a_place_of_some_machine() -> None:
    for page in PAGES:
        assert not re.search(r"(?<![\w.])/(home|work|root|tmp|Users|opt|usr)\b", page.read_text())
