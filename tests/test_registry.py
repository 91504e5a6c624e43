"""A plug-in is found by its name, or refused in one line that says what it lacks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from heterofedsyn._registry import Registry
from heterofedsyn.errors import UsageError
from heterofedsyn.hub import METHODS, make_method
from heterofedsyn.synthesis import REBUILDS, SYNTHESIZERS

REGISTRIES: dict[str, Registry] = {  # type: ignore[type-arg]
    "method": METHODS,
    "synthesizer": SYNTHESIZERS,
    "rebuild": REBUILDS,
}

HEAD = """\
from dataclasses import dataclass

from heterofedsyn.hub.methods.base import Method
"""

GOOD = {
    "method": """
class thing(Method):
    name = "thing"
    share: float = 0.5

    def conduct(self, setting):
        yield
""",
    "synthesizer": """
class thing:
    name = "thing"
    share: float = 0.5

    def synthesize(self, targets, rows, rng):
        raise AssertionError
""",
    "rebuild": """
class thing:
    name = "thing"
    share: float = 0.5

    def check(self, targets):
        raise AssertionError

    def estimate(self, targets):
        raise AssertionError
""",
}
LAST = {"method": "conduct", "synthesizer": "synthesize", "rebuild": "estimate"}


def install(folder: Path, what: str, code: str) -> None:
    """A package with one plug-in."""
    (folder / f"plug_{what}.py").write_text(HEAD + code)
    information = folder / "plug-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: plug\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(
        f"[heterofedsyn.{what}s]\nthing = plug_{what}:thing\n"
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    for what in REGISTRIES:
        monkeypatch.delitem(sys.modules, f"plug_{what}", raising=False)
    return tmp_path


@pytest.mark.parametrize("what", sorted(REGISTRIES))
def test_a_plug_in_is_found_by_its_name_and_made_with_its_settings(what: str, folder: Path) -> None:
    install(folder, what, "\n@dataclass(frozen=True)" + GOOD[what])
    assert REGISTRIES[what].find("thing").name == "thing"
    if what == "method":
        made: object = make_method("thing", {"share": "0.25"})
    else:
        made = REGISTRIES[what].make("thing", {"share": "0.25"})
    assert getattr(made, "share") == 0.25  # noqa: B009 (no type knows the setting)


FAULTS = {
    "no such class": ("class thing", "class other", "cannot be loaded: AttributeError"),
    "no such module": ("", "import nothing_like_this\n", "cannot be loaded: ModuleNotFoundError"),
    "a module that fails": ("", "raise OSError('two\\nlines')\n", r"OSError: two\\nlines"),
    "no class": (
        "@dataclass(frozen=True)\nclass thing",
        "thing = 3\nclass other",
        "not a dataclass",
    ),
    "no dataclass": ("class thing", "class other: pass\nclass thing", "not a dataclass"),
    "no such method": ("def {last}", "def other", "{last}"),
    "no name": ('name = "thing"', "", "it lacks name"),
    "another name": ('"thing"', '"thong"', "it calls itself 'thong'"),
}


@pytest.mark.parametrize("what", sorted(REGISTRIES))
@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_what_is_no_plug_in_is_refused_in_one_line(what: str, fault: str, folder: Path) -> None:
    old, new, said = (text.format(last=LAST[what]) for text in FAULTS[fault])
    code = ("\n@dataclass(frozen=True)" + GOOD[what]).replace(old, new, 1)
    if "not a dataclass" in said:
        code = code.replace("(Method)", "")  # of which every subclass is a dataclass
    install(folder, what, code)
    with pytest.raises(UsageError, match=said) as refused:
        REGISTRIES[what].find("thing")
    assert str(refused.value).startswith(f"the plug-in 'thing' (plug_{what}:thing)")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("what", ["synthesizer", "rebuild"])
def test_a_plug_in_whose_setting_has_no_default_is_refused(what: str, folder: Path) -> None:
    code = GOOD[what].replace("share: float = 0.5", "share: float")
    install(folder, what, "\n@dataclass(frozen=True)" + code)
    with pytest.raises(UsageError, match="its setting share has no default"):
        REGISTRIES[what].find("thing")


@pytest.mark.parametrize("what", sorted(REGISTRIES))
def test_an_unknown_name_is_refused_with_what_is_known(what: str) -> None:
    known = sorted(REGISTRIES[what])[0]
    with pytest.raises(UsageError, match=f"there is no {what} '{known}x'; did you mean '{known}'"):
        REGISTRIES[what].find(f"{known}x")
