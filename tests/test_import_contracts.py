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


FORBIDDEN = {
    "Noise and ledger are closed to hub and synthesis": (
        ("hub", "from heterofedsyn.privacy import noise"),
        ("hub", "from heterofedsyn.privacy import ledger"),
        ("synthesis", "import heterofedsyn.privacy.noise"),
        ("synthesis", "import heterofedsyn.privacy.ledger"),
    ),
    "Synthesis is closed to sites": (("site", "import heterofedsyn.synthesis"),),
    "Site and hub do not know each other": (
        ("site", "import heterofedsyn.hub"),
        ("hub", "import heterofedsyn.site"),
    ),
    "Engines carry messages and know no site": (("engines", "import heterofedsyn.site"),),
    "What needs a site's private key is closed to the hub": (
        ("hub", "import heterofedsyn.masking.sealing"),
        ("engines", "import heterofedsyn.masking.sealing"),
    ),
    "Only sites and what stands above them read sources": (
        ("hub", "import heterofedsyn.sources"),
        ("privacy", "import heterofedsyn.sources"),
    ),
    "Only sources.spark_table and site.spark_counting know pyspark": (("site", "import pyspark"),),
    "Only engines.flower knows Flower": (
        ("federation", "import flwr"),
        ("engines", "import flwr"),
        ("cli", "import httpx"),
    ),
    "Engines do not know each other": (
        ("engines/nvflare", "import heterofedsyn.engines.flower.bundle"),
        ("engines/flower", "import heterofedsyn.engines.nvflare.job"),
    ),
    "Imports go downwards only": (
        ("schema", "import heterofedsyn.protocol"),
        ("evaluation", "import heterofedsyn.drawing"),
        ("hub", "import heterofedsyn.evaluation"),
        ("report", "import heterofedsyn.bench"),
    ),
    "What is installed needs no library for tests": (
        ("audit", "from unittest import mock"),
        ("bench", "import hypothesis"),
    ),
    "Scoring and plotting libraries stay where results are scored or shown": (
        ("protocol", "import pandas"),
        ("hub", "import matplotlib"),
        ("simulate", "import sklearn"),
        ("cli", "import xgboost"),
    ),
}


def test_every_forbidden_import_is_caught_by_name(copy: Path) -> None:
    plants = [(contract, *plant) for contract, some in FORBIDDEN.items() for plant in some]
    for number, (_, package, line) in enumerate(plants):
        (copy / "src" / "heterofedsyn" / package / f"planted_{number}.py").write_text(f"{line}\n")
    run = lint(copy)
    assert run.returncode == 1, run.stdout + run.stderr
    for number, (contract, package, _) in enumerate(plants):
        assert f"{contract} BROKEN" in run.stdout, run.stdout
        told = run.stdout.partition(f"\n{contract}\n---")[2].partition("\n---")[0]
        place = package.replace("/", ".")
        assert f"heterofedsyn.{place}.planted_{number} " in told, told


def test_a_new_module_must_be_given_a_layer(copy: Path) -> None:
    (copy / "src" / "heterofedsyn" / "planted.py").touch()
    run = lint(copy)
    assert run.returncode == 1
    assert "planted" in run.stdout


def test_a_copy_without_a_planted_import_passes(copy: Path) -> None:
    run = lint(copy)
    assert run.returncode == 0, run.stdout + run.stderr
