"""What is installed is what was declared, from locks that name no place to fetch it from."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.resources
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

import heterofedsyn

ROOT = Path(__file__).parents[1]
LOCKS = [ROOT / "locks" / "core.txt", ROOT / "locks" / "dev.txt"]
READERS = ROOT / "locks" / "readers.txt"
FEDERATION = ROOT / "locks" / "federation.txt"
FLOWER = ROOT / "locks" / "flower.txt"


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def locked(lock: Path) -> dict[str, tuple[str, list[str]]]:
    """Version and hashes by name; a line that is neither is an error."""
    text = re.sub(r"^ *#.*\n", "", lock.read_text("utf-8"), flags=re.MULTILINE)
    found: dict[str, tuple[str, list[str]]] = {}
    for line in text.replace("\\\n", " ").splitlines():
        entry = re.fullmatch(r"([a-z0-9-]+)==([^ ;]+)( ; [^-]+?)?((?: +--hash=\S+)*) *", line)
        assert entry, f"{lock.name} holds a line that is no pinned requirement: {line[:80]!r}"
        assert entry[1] not in found, f"{lock.name} pins {entry[1]} twice"
        found[entry[1]] = entry[2], re.findall(r"--hash=(\S+)", entry[4])
    return found


def name_of(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[^A-Za-z0-9_.-]", requirement)[0]).lower()


@pytest.mark.parametrize("lock", [*LOCKS, READERS, FEDERATION, FLOWER], ids=lambda lock: lock.name)
def test_a_lock_names_no_address(lock: Path) -> None:
    text = lock.read_text("utf-8")
    for word in ("://", "--index", "--extra-index", "index-url", "--find-links", "--trusted-host"):
        assert word not in text
    assert not re.search(r"(^|[\s@])[/~]", text, flags=re.MULTILINE), "a path of some machine"


@pytest.mark.parametrize("lock", [*LOCKS, READERS, FEDERATION, FLOWER], ids=lambda lock: lock.name)
def test_every_locked_requirement_has_the_hashes_of_all_its_files(lock: Path) -> None:
    pins = locked(lock)
    for name, (_, hashes) in pins.items():
        assert hashes, f"{name} has no hash"
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", value) for value in hashes), name
    # One platform and Python alone would give one or two.
    assert len(pins["numpy"][1]) > 24
    assert len(pins["pyarrow"][1]) > 24


def test_the_dev_lock_repeats_the_core_lock() -> None:
    core, dev = (locked(lock) for lock in LOCKS)
    assert core.items() <= dev.items()


def test_the_lock_of_a_federation_is_of_the_dev_lock_and_has_all_that_its_extra_names() -> None:
    needed, dev = locked(FEDERATION), locked(LOCKS[1])
    assert needed.items() <= dev.items()
    extras = project()["project"]["optional-dependencies"]
    (gathered,) = extras["federation"]
    for extra in re.findall(r"[a-z]+", gathered.partition("[")[2]):
        assert {name_of(entry) for entry in extras[extra]} <= needed.keys(), extra
    assert {name_of(entry) for entry in project()["project"]["dependencies"]} <= needed.keys()


@pytest.mark.parametrize("lock", [*LOCKS, FEDERATION], ids=lambda lock: lock.name)
def test_a_lock_holds_all_that_is_needed_by_what_it_holds(lock: Path) -> None:
    """It is installed as it is, so that nothing else is looked for."""
    pins = locked(lock)
    declared = [*project()["project"]["dependencies"]]
    for more in project()["project"]["optional-dependencies"].values():
        declared += more
    wanted = {
        (name_of(own.name), extra) for own in map(Requirement, declared) for extra in own.extras
    }
    wanted = {(name, extra) for name, extra in wanted if name in pins} | {
        (name, "") for name in pins
    }
    done: set[tuple[str, str]] = set()
    while wanted:
        name, extra = one = wanted.pop()
        done.add(one)
        with contextlib.suppress(PackageNotFoundError):  # what another platform needs
            for needed in map(Requirement, requires(name) or ()):
                if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                    own = name_of(needed.name)
                    assert needed.specifier.contains(pins[own][0], prereleases=True), (name, own)
                    wanted |= {(own, more) for more in needed.extras} - done


def test_every_declared_dependency_is_locked() -> None:
    declared, groups = project()["project"], project()["dependency-groups"]
    core, dev = (locked(lock) for lock in LOCKS)
    assert {name_of(entry) for entry in declared["dependencies"]} <= core.keys()
    assert {name_of(entry) for entry in project()["build-system"]["requires"]} <= core.keys()
    assert {name_of(entry) for entry in groups["dev"] if isinstance(entry, str)} <= dev.keys()
    flower = locked(FLOWER)
    assert {name_of(entry) for entry in declared["dependencies"]} <= flower.keys()
    for name, extra in declared.get("optional-dependencies", {}).items():
        own = {"heterofedsyn"}  # an extra may gather others
        there = flower if name == "flower" else dev  # where alone its versions fit
        assert {name_of(entry) for entry in extra} - own <= there.keys()


def test_the_core_lock_holds_what_makes_a_report_and_no_scoring_library() -> None:
    """`make demo` ends with a report; large learning libraries are not for everyone."""
    extras, core = project()["project"]["optional-dependencies"], locked(LOCKS[0])
    assert {name_of(entry) for entry in extras["report"]} <= core.keys()
    assert not {name_of(entry) for entry in extras["eval"]} & core.keys()


@pytest.mark.thorough
def test_the_package_works_without_its_extras(tmp_path: Path) -> None:
    """Every module can be read, and the command line says what it can do."""
    extras = {
        *("jinja2", "matplotlib", "ot", "pandas", "sklearn", "xgboost", "mbi", "jax", "duckdb"),
        *("adbc_driver_manager", "adbc_driver_postgresql", "pyspark"),
        *("starlette", "uvicorn", "python_multipart", "flwr"),
    }
    script = f"""
import importlib, pkgutil, sys
for name in {sorted(extras)}:
    sys.modules[name] = None  # importing it fails from now on
import heterofedsyn
for module in pkgutil.walk_packages(heterofedsyn.__path__, "heterofedsyn."):
    own_extra = module.name.startswith(  # all of it, as its commands say
        ("heterofedsyn.console.", "heterofedsyn.engines.flower.")
    )
    if module.name != "heterofedsyn.__main__" and not own_extra:
        importlib.import_module(module.name)
from heterofedsyn.cli.app import run
assert run(["console"]) == 2
assert run(["site", "relay"]) == 2
sys.exit(run(["--help"]))
"""
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "simulate" in done.stdout
    assert "pip install 'heterofedsyn[console]'" in done.stderr
    assert "pip install 'heterofedsyn[flower]'" in done.stderr


@pytest.mark.thorough
def test_help_reads_no_heavy_library(tmp_path: Path) -> None:
    heavy = [
        "matplotlib",
        "pandas",
        "sklearn",
        "xgboost",
        "ot",
        "jinja2",
        "numba",
        "pyarrow",
        "scipy",
        "jax",
        "duckdb",
        "adbc_driver_manager",
        "pyspark",
    ]
    script = f"""
import sys
from heterofedsyn.cli.app import run
code = run(["--help"])
print([name for name in {heavy} if name in sys.modules], file=sys.stderr)
sys.exit(code)
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"


def test_what_builds_the_package_is_declared_once() -> None:
    assert project()["build-system"]["requires"] == project()["dependency-groups"]["build"]


def test_the_version_is_one() -> None:
    version = project()["project"]["version"]
    assert importlib.metadata.version("heterofedsyn") == version
    assert heterofedsyn.__version__ == version


def test_types_ship_with_the_package() -> None:
    assert importlib.resources.files("heterofedsyn").joinpath("py.typed").is_file()


def test_the_wheel_holds_the_package_and_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    shutil.unpack_archive(wheel, tmp_path / "unpacked", "zip")
    files = {path.relative_to(tmp_path / "unpacked") for path in tmp_path.glob("unpacked/**/*.*")}
    assert Path("heterofedsyn/py.typed") in files
    assert Path("heterofedsyn/console/templates/layout.html") in files
    assert Path("heterofedsyn/console/static/console.js") in files
    (information,) = (tmp_path / "unpacked").glob("*.dist-info")
    assert (information / "licenses" / "LICENSE").is_file()
    assert {path.parts[0] for path in files} == {"heterofedsyn", information.name}


@pytest.mark.slow
def test_the_wheel_installs_without_an_index_as_the_readme_says(tmp_path: Path) -> None:
    blocks = dict(
        re.findall(r"^```sh (\w+)\.sh\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    )
    programs = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}

    def run_block(name: str, offline: bool) -> None:
        text = blocks[name].replace("/srv/heterofedsyn", str(tmp_path))
        text = text.replace("make wheel", f"make -C {ROOT} wheel DIST={tmp_path / 'dist'}")
        nowhere = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": "http://127.0.0.1:9"}
        more = nowhere if offline else {}
        kept = {k: v for k, v in environment.items() if not (offline and k.startswith("PIP_"))}
        command = ["bash", "-euc", text]
        done = subprocess.run(
            command, cwd=tmp_path, env=kept | more, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    run_block("carry", offline=False)
    run_block("offline", offline=True)
    for_flower = tmp_path / "dist" / "requirements-flower.txt"
    assert for_flower.read_bytes() == (ROOT / "locks" / "flower.txt").read_bytes()
    said = subprocess.run(
        [tmp_path / "venv" / "bin" / "heterofedsyn", "federation", "try", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "three invented hospitals" in said.stdout


@pytest.mark.thorough
@pytest.mark.parametrize(("ci", "code"), [("true", 1), ("", 0)])
def test_a_skipped_test_fails_in_ci_only(tmp_path: Path, ci: str, code: int) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "def test_runs(): pass\n"
        "def test_skips(): pytest.skip('no table')\n"
        "@pytest.mark.xfail\n"
        "def test_is_known_to_fail(): assert False\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rs", "test_it.py"]
    environment = os.environ | {"CI": ci}
    run = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == code, run.stdout + run.stderr
    assert "no table" in run.stdout
    assert ("1 failed" if ci else "1 skipped") in run.stdout
    assert "1 passed" in run.stdout
    assert "1 xfailed" in run.stdout
