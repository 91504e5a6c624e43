"""Package boundaries hold, and the checks that guard them would notice if they did not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[1]
LINT = Path(sys.executable).with_name("lint-imports")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package and its contracts, free to be broken."""
    shutil.copytree(
        ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    # PYTHONPATH comes before the editable install, so the folder's own package is analysed.
    environment = os.environ | {"PYTHONPATH": str(folder / "src"), "COLUMNS": "200"}
    return subprocess.run(
        [LINT, "--no-cache", "--config", str(folder / "pyproject.toml")],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_package_keeps_its_contracts() -> None:
    run = lint(ROOT)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize(
    ("importer", "line", "contract"),
    [
        (
            "hub",
            "from heterofedsyn.privacy import noise",
            "Noise and ledger are closed to hub and synthesis",
        ),
        (
            "hub",
            "from heterofedsyn.privacy import ledger",
            "Noise and ledger are closed to hub and synthesis",
        ),
        (
            "synthesis",
            "import heterofedsyn.privacy.noise",
            "Noise and ledger are closed to hub and synthesis",
        ),
        (
            "synthesis",
            "import heterofedsyn.privacy.ledger",
            "Noise and ledger are closed to hub and synthesis",
        ),
        ("site", "import heterofedsyn.synthesis", "Synthesis is closed to sites"),
        ("site", "import heterofedsyn.hub", "Site and hub do not know each other"),
        ("hub", "import heterofedsyn.site", "Site and hub do not know each other"),
        (
            "hub",
            "import heterofedsyn.sources",
            "Only sites and what stands above them read sources",
        ),
        (
            "privacy",
            "import heterofedsyn.sources",
            "Only sites and what stands above them read sources",
        ),
        ("site", "import pyspark", "Only sources.spark and site.spark know pyspark"),
        ("audit", "from unittest import mock", "What is installed needs no library for tests"),
        ("audit", "import hypothesis", "What is installed needs no library for tests"),
        ("schema", "import heterofedsyn.protocol", "Imports go downwards only"),
        ("evaluation", "import heterofedsyn.drawing", "Imports go downwards only"),
        ("hub", "import heterofedsyn.evaluation", "Imports go downwards only"),
        ("report", "import heterofedsyn.bench", "Imports go downwards only"),
        *(
            (
                package,
                f"import {library}",
                "Scoring and plotting libraries stay where results are scored or shown",
            )
            for package, library in (
                ("protocol", "pandas"),
                ("hub", "matplotlib"),
                ("simulate", "sklearn"),
                ("cli", "xgboost"),
            )
        ),
    ],
)
def test_a_forbidden_import_is_caught_by_name(
    copy: Path, importer: str, line: str, contract: str
) -> None:
    package = copy / "src" / "heterofedsyn"
    (package / importer / "planted.py").write_text(line + "\n")
    run = lint(copy)
    assert run.returncode == 1, run.stdout + run.stderr
    assert f"{contract} BROKEN" in run.stdout, run.stdout
    assert f"heterofedsyn.{importer}.planted" in run.stdout


def test_a_new_module_must_be_given_a_layer(copy: Path) -> None:
    (copy / "src" / "heterofedsyn" / "planted.py").touch()
    run = lint(copy)
    assert run.returncode == 1
    assert "planted" in run.stdout


def test_a_copy_without_a_planted_import_passes(copy: Path) -> None:
    run = lint(copy)
    assert run.returncode == 0, run.stdout + run.stderr
