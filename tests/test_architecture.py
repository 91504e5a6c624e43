"""The tree is as its map says, and small enough to be read."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

from heterofedsyn import errors

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "heterofedsyn"
MODULES = sorted(PACKAGE.rglob("*.py"))
MIRRORS = {"audit", "cli", "report"}
"""Packages whose modules are called as what they look at, run or show."""

ALIKE = {"columns", "counting", "terms"}
"""Names of a type's module, and of the module a layer or two above that works it out."""

MOST_LINES = 400


def defined(module: Path) -> set[str]:
    """Functions and classes of a module, and of its classes."""
    tree = ast.parse(module.read_text("utf-8"))
    names = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
            inner = node.body if isinstance(node, ast.ClassDef) else []
            names |= {f"{node.name}.{n.name}" for n in inner if isinstance(n, ast.FunctionDef)}
    return names


def test_every_place_on_the_map_exists() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    places = [
        (file, name)
        for file, name in re.findall(r"`([\w/]+\.py)(?:::([\w.]+))?`", page)
        if file != "package/module.py"
    ]
    assert len(places) > 30
    for file, name in places:
        assert (PACKAGE / file).is_file(), file
        assert not name or name in defined(PACKAGE / file), f"{file}::{name}"


def test_no_module_is_too_long_to_be_read_at_once() -> None:
    lines = {str(path): path.read_text("utf-8").count("\n") for path in MODULES}
    assert {path: many for path, many in lines.items() if many > MOST_LINES} == {}


def test_one_module_name_means_one_thing() -> None:
    names = Counter(
        path.stem for path in MODULES if path.relative_to(PACKAGE).parts[0] not in MIRRORS
    )
    assert {name for name, times in names.items() if times > 1} <= {"__init__", *ALIKE}


def test_every_error_that_users_meet_is_in_one_module() -> None:
    """All but a refusal, which is a word of the protocol too."""
    known = "|".join(
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    )
    line = re.compile(rf"^class ([A-Z]\w*)\(.*\b(?:{known})\b.*\):$", re.MULTILINE)
    elsewhere = {
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in MODULES
        if path != PACKAGE / "errors.py"
        for name in line.findall(path.read_text("utf-8"))
    }
    assert elsewhere == {"protocol/refusal.py: Refused"}
