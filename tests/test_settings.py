"""Settings of a site are what the steward wrote, to the letter, or are refused in one line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from heterofedsyn.errors import UsageError
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.site.create import create_site
from heterofedsyn.site.settings import SETTINGS, SiteSettings, group_of
from site_support import SCHEMA, make_settings, make_site


def test_settings_come_back_from_their_file(tmp_path: Path) -> None:
    settings = make_site(tmp_path, unit="person")
    assert SiteSettings.load(settings.folder) == settings
    assert settings.load_schema() == SCHEMA


def test_caps_are_amounts_of_rho(tmp_path: Path) -> None:
    settings = make_settings(tmp_path)
    assert settings.cap == Budget.of(epsilon=3.0, delta=1e-9)
    assert settings.study_cap == Budget.of(epsilon=1.0, delta=1e-9)


def test_users_and_groups_may_be_names_or_numbers(tmp_path: Path) -> None:
    named = make_settings(tmp_path, engine="daemon", group="daemon")
    numbered = make_settings(tmp_path, engine="1", group="1")
    assert named.askers() == numbered.askers() == {1, os.geteuid()}
    assert named.group_id() == numbered.group_id() == 1
    assert group_of("daemon") == group_of("1") == "daemon"
    for wrong in (
        make_settings(tmp_path, engine="nobody-at-all").askers,
        make_settings(tmp_path, group="nobody-at-all").group_id,
        lambda: group_of("nobody-at-all"),
    ):
        with pytest.raises(UsageError, match=r"there is no (user|group) 'nobody-at-all'"):
            wrong()


def test_an_engine_of_the_agents_own_user_and_an_open_anchor_are_remarked(tmp_path: Path) -> None:
    other = str(os.geteuid() + 1)
    apart = make_settings(tmp_path, engine=other)
    folder = apart.anchor.parent
    folder.chmod(0o755)
    assert list(apart.remarks()) == []
    (same,) = make_settings(tmp_path, engine=str(os.geteuid())).remarks()
    assert "the agent's own user" in same
    for mode in (0o775, 0o757, 0o1777):
        folder.chmod(mode)
        (remark,) = apart.remarks()
        assert f"others can write in {folder}" in remark


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"name": "two words"}, "site name"),
        ({"name": "sum"}, "no site may be named 'sum'"),
        ({"name": "server"}, "no site may be named 'server'"),
        ({"source": "rows.csv"}, "from the root"),
        ({"source": "lake.duckdb#icu"}, "from the root"),
        ({"source": "postgresql://me:secret@db/icu#stays"}, "holds no password"),
        ({"source": "postgresql://db/icu"}, "say which rows"),
        ({"socket": Path("/" + "x" * 120)}, "longer than 107 bytes"),
        ({"study_epsilon": 4.0}, "must be at most epsilon"),
        ({"epsilon": 0.0}, "epsilon must be above 0"),
        ({"epsilon": float("nan")}, "epsilon must be above 0"),
        ({"delta": 1.0}, "delta must be above 0 and below 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    tmp_path: Path, other: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        make_settings(tmp_path, **other)


@pytest.mark.parametrize("place", ["anchor", "socket"])
def test_anchor_and_socket_lie_outside_of_the_folder(tmp_path: Path, place: str) -> None:
    inside: dict[str, Any] = {place: tmp_path / "site" / "deep" / "file"}
    with pytest.raises(UsageError, match=rf"{place} .* must lie outside"):
        make_settings(tmp_path, **inside)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("epsilon = 3.0", 'epsilon = "3"', "Expected `float`"),
        ("epsilon = 3.0", "epsilon = 3.0\nnoise_seed = 1", "unknown field `noise_seed`"),
        ("epsilon = 3.0", "", "missing required field `epsilon`"),
        ("epsilon = 3.0", "epsilon = ", "no settings of a site"),
        ("epsilon = 3.0", 'epsilon = 3.0\nfolder = "/"', "unknown field `folder`"),
        ("epsilon = 3.0", "epsilon = -3.0", "epsilon must be above 0"),
        ("epsilon = 3.0", "\x00", "no settings of a site"),
        ("epsilon = 3.0", "epsilon = " + "[" * 100_000, "no settings of a site: it is nested too"),
        (
            "epsilon = 3.0",
            "epsilon = " + "9" * 6_000,
            "no settings of a site: a number in it is too",
        ),
    ],
)
def test_a_file_with_anything_else_in_it_is_refused_by_name(
    tmp_path: Path, before: str, after: str, words: str
) -> None:
    settings = make_site(tmp_path)
    path = settings.folder / SETTINGS
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))
    with pytest.raises(UsageError, match=words) as refused:
        SiteSettings.load(settings.folder)
    assert str(path) in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_a_folder_without_a_site_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="site init"):
        SiteSettings.load(tmp_path)
    (tmp_path / SETTINGS).mkdir()
    with pytest.raises(UsageError, match="cannot read"):
        SiteSettings.load(tmp_path)


def test_a_site_that_cannot_be_founded_leaves_nothing_behind(tmp_path: Path) -> None:
    settings = make_settings(tmp_path)
    settings.folder.parent.joinpath("site").write_text("in the way")
    with pytest.raises(UsageError, match="never replaced"):
        create_site(settings)
    assert not settings.anchor.exists()
    settings.folder.unlink()
    settings.anchor.write_text("of another site")
    with pytest.raises(UsageError, match="never replaced"):
        create_site(settings)
    assert settings.anchor.read_text() == "of another site"
    assert not settings.folder.exists()
    settings.anchor.unlink()
    settings.anchor.parent.rmdir()
    with pytest.raises(UsageError, match="make it first"):
        create_site(settings)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.csv", "schema.toml"]


def test_a_new_site_can_be_read_by_its_owner_alone(tmp_path: Path) -> None:
    former = os.umask(0)
    try:
        settings = make_site(tmp_path)
    finally:
        os.umask(former)
    for path in (settings.folder, settings.anchor, *settings.folder.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path
